"""Samplers: what a batch holds, that nobody is forgotten, and that an epoch is a pure function of its number."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nearer.exceptions import LabelError, ParameterError
from nearer.training import ClassSampler, HierarchicalSampler, UniformSampler
from nearer_papers.systems import NPairSampler

LABELS = np.repeat(np.arange(6), [2, 3, 5, 8, 13, 1])
GROUPS = np.array([0, 0, 1, 1, 2, 2])[LABELS]


def every_sampler(seed: int) -> dict[str, object]:
    return {
        "uniform": UniformSampler(len(LABELS), batch_size=7, seed=seed),
        "classes": ClassSampler(LABELS, n_classes=3, per_class=4, seed=seed),
        "n-pairs": NPairSampler(LABELS, pairs=4, seed=seed),
        "hierarchical": HierarchicalSampler(
            LABELS, GROUPS, groups_per_batch=2, n_classes=2, per_class=2, seed=seed
        ),
    }


@pytest.mark.parametrize("name", list(every_sampler(0)))
class TestContract:
    def test_an_epoch_is_the_same_each_time_it_is_asked(self, name):
        one, two = every_sampler(3)[name], every_sampler(3)[name]
        two.epoch(0)
        for a, b in zip(one.epoch(5), two.epoch(5), strict=True):
            assert torch.equal(a, b)

    def test_epochs_and_seeds_differ(self, name):
        sampler, other = every_sampler(3)[name], every_sampler(4)[name]
        first = torch.cat(list(sampler.epoch(0)))
        assert not torch.equal(first, torch.cat(list(sampler.epoch(1))))
        assert not torch.equal(first, torch.cat(list(other.epoch(0))))

    def test_length_and_rows(self, name):
        sampler = every_sampler(0)[name]
        batches = sampler.epoch(0)
        assert len(batches) == len(sampler)
        for rows in batches:
            assert rows.dtype == torch.int64
            assert rows.min() >= 0
            assert rows.max() < len(LABELS)

    def test_the_number_of_an_epoch_is_checked(self, name):
        with pytest.raises(ParameterError, match="`number` must be"):
            every_sampler(0)[name].epoch(-1)


@given(n=st.integers(1, 50), size=st.integers(1, 60), epoch=st.integers(0, 5))
def test_uniform_takes_every_item_once(n, size, epoch):
    batches = UniformSampler(n, batch_size=size).epoch(epoch)
    assert sorted(torch.cat(list(batches)).tolist()) == list(range(n))
    assert all(len(rows) == size for rows in batches[:-1])


def test_uniform_drops_the_rest_on_request():
    sampler = UniformSampler(10, batch_size=4, drop_last=True)
    assert [len(rows) for rows in sampler.epoch(0)] == [4, 4]
    with pytest.raises(ParameterError, match="at most the 3 items"):
        UniformSampler(3, batch_size=4, drop_last=True)


@settings(max_examples=60)
@given(
    sizes=st.lists(st.integers(1, 9), min_size=2, max_size=7),
    classes=st.integers(1, 7),
    per_class=st.integers(1, 6),
    seed=st.integers(0, 99),
)
def test_classes_times_k(sizes, classes, per_class, seed):
    classes = min(classes, len(sizes))
    labels = np.repeat(np.arange(len(sizes)) * 3 - 0, sizes)
    labels = np.concatenate([labels, [-1, -1]])
    for rows in ClassSampler(labels, n_classes=classes, per_class=per_class, seed=seed).epoch(0):
        of = labels[rows.numpy()].reshape(classes, per_class)
        assert (of == of[:, :1]).all(), "the items of a class stand side by side"
        assert len(set(of[:, 0].tolist())) == classes, "no class twice"
        assert (of >= 0).all(), "no item without a label"
        for block, label in zip(rows.reshape(classes, per_class), of[:, 0], strict=True):
            repeats = max(Counter(block.tolist()).values())
            assert repeats == -(-per_class // sizes[int(label) // 3]) or repeats == 1, "repeated only when needed"


def test_classes_and_their_items_take_turns():
    labels = np.repeat(np.arange(8), 6)
    rows = torch.cat(list(ClassSampler(labels, n_classes=4, per_class=3, seed=1).epoch(0))).numpy()
    assert set(Counter(labels[rows].tolist()).values()) == {6}
    assert set(Counter(rows.tolist()).values()) == {1}, "an epoch of full rounds sees every item once"


def test_n_pairs_leave_out_single_items_and_pair_in_order():
    for rows in NPairSampler(LABELS, pairs=5).epoch(0):
        anchors, positives = rows.reshape(2, -1)
        assert (LABELS[anchors] == LABELS[positives]).all()
        assert (anchors != positives).all()
        assert 5 not in LABELS[anchors]
    with pytest.raises(ParameterError, match="at most the 5 classes"):
        NPairSampler(LABELS, pairs=6)


def test_hierarchical_batches_stay_in_their_groups():
    sampler = HierarchicalSampler(LABELS, GROUPS, groups_per_batch=1, n_classes=5, per_class=2, batches=6)
    seen = Counter()
    for rows in sampler.epoch(0):
        groups = set(GROUPS[rows.numpy()].tolist())
        assert len(groups) == 1
        assert len(set(LABELS[rows.numpy()].tolist())) == 2, "a group with fewer classes gives those it has"
        seen.update(groups)
    assert set(seen.values()) == {2}, "groups take turns"


def test_bad_input():
    with pytest.raises(LabelError, match="got only -1"):
        ClassSampler([-1, -1], n_classes=1, per_class=1)
    with pytest.raises(ParameterError, match="at most the 2 classes"):
        ClassSampler([0, 1], n_classes=3, per_class=1)
    with pytest.raises(LabelError, match="class 0 is in 1 and 0"):
        HierarchicalSampler([0, 0], [0, 1], groups_per_batch=1, n_classes=1, per_class=1)
    with pytest.raises(LabelError, match="group for every labelled item"):
        HierarchicalSampler([0, 1], [0, -1], groups_per_batch=1, n_classes=1, per_class=1)
    with pytest.raises(ParameterError, match="at most the 1 groups"):
        HierarchicalSampler([0, 1], [0, 0], groups_per_batch=2, n_classes=1, per_class=1)
