"""Multi-label scores: hand-made cases with ties, all orders of tied labels, scikit-learn."""

from __future__ import annotations

from itertools import pairwise, permutations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from nearer.evaluation._multilabel import (
    average_precision,
    coverage,
    hamming_loss,
    one_error,
    ranked,
    ranking_loss,
)
from nearer.exceptions import LabelError, NotFiniteError, ParameterError, ShapeError

SCORES = [ranking_loss, one_error, coverage, average_precision]
# One instance of up to five labels with up to three different scores, so that ties are frequent.
INSTANCE = st.integers(2, 5).flatmap(
    lambda q: st.tuples(
        st.lists(st.integers(0, 2), min_size=q, max_size=q), st.lists(st.integers(0, 1), min_size=q, max_size=q)
    )
)


def of_an_order(order: tuple[int, ...], relevant: list[int]) -> dict[str, float]:
    """The scores of one strict order of the labels, best first."""
    place = {label: rank for rank, label in enumerate(order, start=1)}
    mine = [label for label, r in enumerate(relevant) if r]
    others = [label for label, r in enumerate(relevant) if not r]
    wrong = sum(place[r] > place[u] for r in mine for u in others)
    precision = [sum(place[m] <= place[label] for m in mine) / place[label] for label in mine]
    return {
        "ranking_loss": wrong / (len(mine) * len(others)) if mine and others else 0.0,
        "one_error": float(order[0] not in mine),
        "coverage": max((place[label] for label in mine), default=0) - 1,
        "average_precision": float(np.mean(precision)) if mine else 0.0,
    }


def orders(scores: list[int]) -> list[tuple[int, ...]]:
    """All strict orders that a list of scores allows."""
    return [
        order
        for order in permutations(range(len(scores)))
        if all(scores[a] >= scores[b] for a, b in pairwise(order))
    ]


@given(INSTANCE)
@settings(max_examples=80, deadline=None)
def test_average_is_the_mean_over_all_orders_of_the_ties(instance: tuple[list[int], list[int]]) -> None:
    scores, relevant = instance
    every = [of_an_order(order, relevant) for order in orders(scores)]
    assert coverage([scores], [relevant], ties="average") == pytest.approx(np.mean([e["coverage"] for e in every]))
    if 0 < sum(relevant) < len(relevant):
        for score in (ranking_loss, one_error, average_precision):
            expected = np.mean([each[score.__name__] for each in every])
            assert score([scores], [relevant], ties="average") == pytest.approx(expected)


@given(INSTANCE)
@settings(max_examples=80, deadline=None)
def test_worst_and_index_are_among_the_orders_of_the_ties(instance: tuple[list[int], list[int]]) -> None:
    scores, relevant = instance
    every = [of_an_order(order, relevant) for order in orders(scores)]
    by_index = of_an_order(tuple(sorted(range(len(scores)), key=lambda l: (-scores[l], -l))), relevant)
    assert coverage([scores], [relevant], ties="worst") == max(each["coverage"] for each in every)
    assert coverage([scores], [relevant]) == by_index["coverage"]
    if 0 < sum(relevant) < len(relevant):
        worst = max(each["ranking_loss"] for each in every)
        assert ranking_loss([scores], [relevant], ties="worst") == pytest.approx(worst)
        assert ranking_loss([scores], [relevant], ties="index") == pytest.approx(worst)
        assert one_error([scores], [relevant], ties="worst") == max(each["one_error"] for each in every)
        assert one_error([scores], [relevant], ties="index") == min(each["one_error"] for each in every)
        assert average_precision([scores], [relevant]) == pytest.approx(by_index["average_precision"])
        # Tied labels share the last place of their group and count each other: scikit-learn's rule, close to but
        # not always one of the orders.
        expected = metrics.label_ranking_average_precision_score([relevant], [scores])
        assert average_precision([scores], [relevant], ties="worst") == pytest.approx(expected)


def random_case(levels: int | None) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    targets = (rng.random((200, 12)) < 0.3).astype(int)
    targets[0], targets[1] = 0, 1
    scores = (
        targets + rng.normal(size=targets.shape) if levels is None else rng.integers(levels, size=targets.shape)
    )
    return scores, targets


@pytest.mark.parametrize("ties", ["index", "worst", "average"])
def test_scikit_learn_agrees_where_nothing_ties(ties: Any) -> None:
    scores, targets = random_case(None)
    keep = ranked(targets)
    assert np.count_nonzero(~keep) >= 2
    kept = targets[keep], scores[keep]
    assert ranking_loss(scores, targets, ties=ties) == pytest.approx(metrics.label_ranking_loss(*kept))
    assert coverage(scores, targets, ties=ties) == pytest.approx(metrics.coverage_error(targets, scores) - 1)
    expected = metrics.label_ranking_average_precision_score(*kept)
    assert average_precision(scores, targets, ties=ties) == pytest.approx(expected)
    best = targets[keep][np.arange(keep.sum()), scores[keep].argmax(axis=1)]
    assert one_error(scores, targets, ties=ties) == pytest.approx(np.mean(best == 0))


def test_scikit_learn_agrees_on_ties_resolved_for_the_worst() -> None:
    scores, targets = random_case(5)
    keep = ranked(targets)
    kept = targets[keep], scores[keep]
    assert ranking_loss(scores, targets, ties="worst") == pytest.approx(metrics.label_ranking_loss(*kept))
    assert coverage(scores, targets, ties="worst") == pytest.approx(metrics.coverage_error(targets, scores) - 1)
    expected = metrics.label_ranking_average_precision_score(*kept)
    assert average_precision(scores, targets, ties="worst") == pytest.approx(expected)
    # The rule of the published tables is kinder, and the mean lies between.
    assert coverage(scores, targets) < coverage(scores, targets, ties="worst")
    assert average_precision(scores, targets) > average_precision(scores, targets, ties="worst")


def test_hand_made_ties() -> None:
    scores, targets = [[0.5, 0.5, 0.2]], [[1, 0, 0]]
    assert ranking_loss(scores, targets) == 0.5
    assert ranking_loss(scores, targets, ties="average") == 0.25
    assert one_error(scores, targets) == 0.0
    assert one_error(scores, targets, ties="worst") == 1.0
    assert one_error(scores, targets, ties="average") == 0.5
    # Of the two labels with the score 0.5 the one with the higher index stands first.
    assert coverage(scores, targets) == 1.0
    assert coverage(scores, [[0, 1, 0]]) == 0.0
    assert average_precision(scores, targets) == 0.5
    assert average_precision(scores, [[0, 1, 0]]) == 1.0


def test_empty_and_full_label_sets() -> None:
    scores, targets = [[0.9, 0.1], [0.9, 0.1], [0.9, 0.1]], [[0, 1], [0, 0], [1, 1]]
    assert ranked(targets).tolist() == [True, False, False]
    assert ranking_loss(scores, targets) == 1.0
    assert one_error(scores, targets) == 1.0
    assert average_precision(scores, targets) == 0.5
    assert coverage(scores, targets) == pytest.approx((1 - 1 + 1) / 3)
    assert hamming_loss([[1, 0]] * 3, targets) == pytest.approx(4 / 6)
    for score in (ranking_loss, one_error, average_precision):
        with pytest.raises(LabelError, match="both relevant and irrelevant"):
            score([[0.1, 0.2]], [[0, 0]])
    for ties in ("index", "worst", "average"):
        assert coverage([[0.1, 0.2]], [[0, 0]], ties=ties) == -1.0


@pytest.mark.parametrize("ties", ["index", "worst", "average"])
def test_increasing_maps_of_the_scores_change_nothing(ties: Any) -> None:
    for levels in (None, 4):
        scores, targets = random_case(levels)
        for score in SCORES:
            plain = score(scores, targets, ties=ties)
            assert score(np.exp(scores.astype(float)), targets, ties=ties) == pytest.approx(plain)
            assert score(scores - 7.0, targets, ties=ties) == pytest.approx(plain)


def test_input_of_any_kind_stays_as_it_was() -> None:
    scores, targets = random_case(5)
    locked = targets.astype(np.uint8)
    locked.flags.writeable = False
    for score in SCORES:
        plain = score(scores, targets)
        assert score(torch.tensor(scores), torch.tensor(targets) == 1) == plain
        assert score(scores.tolist(), locked) == plain
        assert score(scores.astype(np.float16)[:, ::-1][:, ::-1], targets.astype(float)) == plain


@pytest.mark.parametrize("score", [*SCORES, hamming_loss])
def test_bad_input_is_refused(score: Any) -> None:
    with pytest.raises(ShapeError, match=r"must have the shape of `targets`, \(2, 2\), got \(1, 2\)"):
        score([[1, 0]], [[1, 0], [0, 1]])
    with pytest.raises(LabelError, match="`targets` must hold 0 and 1 only, got 2"):
        score([[1, 0]], [[2, 0]])
    with pytest.raises(ShapeError, match="must be a 0/1 matrix"):
        score([[1, 0]], [1, 0])
    with pytest.raises(ShapeError, match="at least 1"):
        score(np.empty((0, 2)), np.empty((0, 2)))
    if score is not hamming_loss:
        with pytest.raises(NotFiniteError, match="must be finite"):
            score([[np.nan, 0.0]], [[1, 0]])
        with pytest.raises(ParameterError, match="`ties` must be one of"):
            score([[0.1, 0.0]], [[1, 0]], ties="best")
    else:
        with pytest.raises(LabelError, match="`predictions` must hold 0 and 1 only"):
            score([[0.3, 0.0]], [[1, 0]])
