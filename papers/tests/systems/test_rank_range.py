"""Negatives by rank against a full sort, indexes that find little, and the controller of hardness."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nearer.exceptions import ParameterError, ShapeError
from nearer.index import HNSW, Index
from nearer_papers.systems import HardnessController, RankRange
from nearer_papers.systems._rank_range import Search, mine_rank_range


def exact(embeddings: Tensor) -> Search:
    return lambda queries, k: torch.cdist(queries, embeddings).argsort(dim=1, stable=True)[:, :k]


def by_index(kind: object = None) -> Callable[[Tensor], Search]:
    def build(embeddings: Tensor) -> Search:
        index = Index(embeddings.shape[1], similarity="euclidean", kind=kind)  # type: ignore[arg-type]
        index.add(embeddings)
        return lambda queries, k: index.search(queries, k).ids

    return build


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1000), st.integers(2, 90), st.integers(1, 4), st.integers(0, 20), st.integers(1, 20))
def test_against_a_full_sort(seed: int, n: int, classes: int, low: int, width: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 3, generator=generator)
    y = torch.randint(-1, classes, (n,), generator=generator)
    found = mine_rank_range(exact(x), x, y, low=low, high=low + width)
    orders, of = exact(x)(x, n).tolist(), y.tolist()
    for i, order in enumerate(orders):
        others = [j for j in order if of[j] >= 0 and of[j] != of[i]] if of[i] >= 0 else []
        wanted = others[low : low + width]
        assert found[i].tolist() == wanted + [-1] * (width - len(wanted))


def test_any_index_serves_and_anchors_can_be_named() -> None:
    x = torch.randn(300, 8, generator=torch.Generator().manual_seed(0))
    y = torch.arange(300) % 3
    expected = mine_rank_range(exact(x), x, y, low=2, high=9)
    assert torch.equal(mine_rank_range(by_index()(x), x, y, low=2, high=9), expected)
    some = torch.tensor([7, 0, 7])
    assert torch.equal(mine_rank_range(exact(x), x, y, some, low=2, high=9), expected[some])
    near = mine_rank_range(by_index(HNSW())(x), x, y, low=2, high=9)
    assert (y[near] != y[:, None]).all()
    assert (near == expected).float().mean() > 0.8


def test_what_an_index_does_not_find_is_left_out() -> None:
    x, y = torch.arange(4.0)[:, None], torch.tensor([0, 0, 1, 1])
    lists = torch.tensor([[0, -1, 2, -1], [1, 2, 3, -1], [-1] * 4, [3, 2, -1, 0]])
    found = mine_rank_range(lambda queries, k: lists[queries[:, 0].long()], x, y, low=0, high=2)
    assert found.tolist() == [[2, -1], [2, 3], [-1, -1], [0, -1]]


def test_the_table_follows_the_level_and_is_in_the_state() -> None:
    x = torch.randn(80, 4, generator=torch.Generator().manual_seed(0))
    y = torch.arange(80) % 4
    controller = HardnessController(target=0.1, momentum=0.0)
    miner = RankRange(exact, low=8, high=32, controller=controller)
    assert not miner.ready
    miner.update(x, y)
    assert torch.equal(miner.table, mine_rank_range(exact(x), x, y, low=8, high=32))
    controller.observe(0.05)
    miner.update(x, y)
    assert torch.equal(miner.table, mine_rank_range(exact(x), x, y, low=4, high=16))
    other = RankRange(exact, low=8, high=32, controller=HardnessController(target=0.1))
    other.load_state_dict(miner.state_dict())
    assert torch.equal(other.table, miner.table)
    assert other.ranks == (4, 16)


def test_draws_are_distinct_and_from_the_table() -> None:
    x = torch.randn(40, 4, generator=torch.Generator().manual_seed(0))
    miner = RankRange(exact, low=3, high=8)
    miner.update(x, torch.arange(40) % 2)
    anchors = torch.tensor([3, 9, 9])
    drawn = miner.negatives(anchors, 4, np.random.default_rng(0))
    for row, anchor in zip(drawn.tolist(), anchors.tolist(), strict=True):
        assert len(set(row)) == 4
        assert set(row) <= set(miner.table[anchor].tolist())
    assert torch.equal(drawn, miner.negatives(anchors, 4, np.random.default_rng(0)))
    assert miner.negatives(anchors, 7, np.random.default_rng(0))[:, 5:].tolist() == [[-1, -1]] * 3


class TestController:
    def test_rises_after_a_small_running_mean_once_per_table(self) -> None:
        controller = HardnessController(target=0.1, momentum=0.9)
        assert [controller.observe(0.05) for _ in range(30)] == [0] * 9 + [1] * 21
        controller.applied()
        assert [controller.observe(0.05) for _ in range(11)] == [1] * 9 + [2] * 2

    def test_eases_only_when_asked(self) -> None:
        stays, eases = HardnessController(target=0.1), HardnessController(target=0.1, ease_above=1.0, momentum=0.0)
        assert [stays.observe(5.0) for _ in range(30)][-1] == 0
        levels = []
        for loss in (5.0, 0.01, 0.5, 5.0, 5.0):
            levels.append(eases.observe(loss))
            eases.applied()
        assert levels == [0, 1, 1, 0, 0]

    def test_ranges_never_are_empty(self) -> None:
        controller = HardnessController(target=0.1, momentum=0.0)
        ranges = []
        for _ in range(6):
            controller.observe(0.0)
            controller.applied()
            ranges.append(controller.ranks(16, 32))
        assert ranges == [(8, 16), (4, 8), (2, 4), (1, 2), (0, 1), (0, 1)]


def test_bad_input() -> None:
    x, y = torch.eye(4), torch.tensor([0, 0, 1, 1])
    with pytest.raises(ParameterError, match="`high` must be at least 5, got 4"):
        mine_rank_range(exact(x), x, y, low=4, high=4)
    with pytest.raises(ShapeError, match="`anchors` must be row numbers between 0 and 3"):
        mine_rank_range(exact(x), x, y, [4])
    with pytest.raises(ShapeError, match=r"`search` must return row numbers \(4, k\), got \(1, 4\)"):
        mine_rank_range(lambda queries, k: torch.zeros(1, 4), x, y)
    with pytest.raises(ParameterError, match="`build` must be a function from embeddings"):
        RankRange(None)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="must be filled first"):
        RankRange(exact).negatives(torch.tensor([0]), 1, np.random.default_rng(0))
    with pytest.raises(ParameterError, match=r"`ease_above` must be greater than 0\.1"):
        HardnessController(target=0.1, ease_above=0.05)
    with pytest.raises(ParameterError, match="`momentum` must be less than 1"):
        HardnessController(target=0.1, momentum=1.0)
