"""Agreement of classes and clusters against scikit-learn and against counts of pairs."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score, normalized_mutual_info_score

from nearer.evaluation import ami, ari, nmi, pairwise_f1, purity
from nearer.exceptions import LabelError, ShapeError

SCORES = [nmi, ami, ari, purity, pairwise_f1]
GROUPS = st.integers(1, 30).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(0, 5), min_size=n, max_size=n) for _ in range(2)])
)


@given(GROUPS)
@settings(max_examples=80, deadline=None)
def test_scikit_learn_agrees(groups: tuple[list[int], list[int]]) -> None:
    labels, clusters = groups
    assert nmi(labels, clusters) == pytest.approx(normalized_mutual_info_score(labels, clusters), abs=1e-9)
    assert ari(labels, clusters) == pytest.approx(adjusted_rand_score(labels, clusters), abs=1e-9)
    theirs = adjusted_mutual_info_score(labels, clusters)
    # Both divide rounding by rounding when all groups are singletons or all are one.
    if abs(theirs) < 1e6:
        assert ami(labels, clusters) == pytest.approx(theirs, abs=1e-6)


@given(GROUPS)
@settings(max_examples=60, deadline=None)
def test_counts_by_hand(groups: tuple[list[int], list[int]]) -> None:
    labels, clusters = np.array(groups[0]), np.array(groups[1])
    majority = sum(np.bincount(labels[clusters == c]).max() for c in np.unique(clusters))
    assert purity(labels, clusters) == pytest.approx(majority / len(labels))
    pairs = list(combinations(range(len(labels)), 2))
    mine = {p for p in pairs if labels[p[0]] == labels[p[1]]}
    theirs = {p for p in pairs if clusters[p[0]] == clusters[p[1]]}
    expected = 2 * len(mine & theirs) / (len(mine) + len(theirs)) if mine or theirs else 1.0
    assert pairwise_f1(labels, clusters) == pytest.approx(expected)


@given(GROUPS, st.permutations(range(6)))
@settings(max_examples=50, deadline=None)
def test_names_do_not_matter_and_equal_groupings_score_one(groups: Any, names: list[int]) -> None:
    labels, clusters = groups
    renamed = [f"cluster {names[c]}" for c in clusters]
    for score in SCORES:
        assert score(labels, clusters) == pytest.approx(score(labels, renamed), abs=1e-12)
        assert score(labels, [names[label] for label in labels]) == pytest.approx(1.0)


def test_large_sets_agree_with_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(40, size=3000)
    clusters = np.where(rng.random(3000) < 0.6, labels, rng.integers(55, size=3000))
    assert nmi(labels, clusters) == pytest.approx(normalized_mutual_info_score(labels, clusters), abs=1e-12)
    assert ami(labels, clusters) == pytest.approx(adjusted_mutual_info_score(labels, clusters), abs=1e-10)


def test_chance_scores_zero_when_adjusted() -> None:
    rng = np.random.default_rng(1)
    labels, clusters = rng.integers(30, size=600), rng.integers(30, size=600)
    assert nmi(labels, clusters) > 0.2
    assert abs(ami(labels, clusters)) < 0.03
    assert abs(ari(labels, clusters)) < 0.03


def test_trivial_groupings() -> None:
    assert nmi([1, 1, 1], [2, 2, 2]) == 1.0
    assert nmi([1, 1, 2], [2, 2, 2]) == 0.0
    assert ami([1], [1]) == 1.0
    assert pairwise_f1([1, 2, 3], [3, 1, 2]) == 1.0
    assert purity([1, 1, 2, 2], [0, 1, 2, 3]) == 1.0


def test_labels_of_any_kind() -> None:
    for score in SCORES:
        assert score(torch.tensor([0, 0, -1]), np.array(["a", "a", "b"])) == 1.0
        assert score([2**24, 2**24 + 1], [0, 1]) == 1.0
        assert score(np.array([2.0, 2.0]), [True, True]) == 1.0


@pytest.mark.parametrize("score", SCORES)
def test_bad_input_is_refused(score: Any) -> None:
    with pytest.raises(ShapeError, match="at least one entry"):
        score([], [])
    with pytest.raises(ShapeError, match="each of the 3 rows, got 2"):
        score([0, 0, 1], [0, 1])
    with pytest.raises(ShapeError, match=r"shape \(n,\)"):
        score([[0, 1], [1, 0]], [0, 1])
    with pytest.raises(ShapeError, match=r"shape \(n,\)"):
        score(3, [0])
    with pytest.raises(LabelError, match="whole numbers"):
        score([0.5, 1.0], [0, 1])
