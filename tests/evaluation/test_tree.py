"""Scores that know how bad a mistake is, beside plain loops over all pairs."""

from __future__ import annotations

import numpy as np
import pytest

from nearer.evaluation import evaluate, evaluate_tree
from nearer.exceptions import LabelError, ParameterError, ShapeError

RANDOM = np.random.default_rng(0)
LEAVES = ["a/b/c", "a/b/d", "a/e/f", "g/h/i", "g/h/j", "g/k/l"]
PATHS = [LEAVES[number] for number in RANDOM.integers(0, 6, size=40)]
ROWS = RANDOM.normal(size=(40, 3))


def levels(one: str, other: str) -> int:
    both = list(zip(one.split("/"), other.split("/"), strict=True))
    return next((depth for depth, (a, b) in enumerate(both) if a != b), len(both))


def by_hand(rows: np.ndarray, paths: list[str], items: np.ndarray, others: list[str], k: int, own: bool) -> list:
    right, mistakes, precision = [], [], []
    for number, row in enumerate(rows):
        there = [one for one in range(len(items)) if not (own and one == number)]
        if not any(others[one] == paths[number] for one in there):
            continue
        order = sorted(there, key=lambda one: (np.linalg.norm(row - items[one]), one))
        near = [levels(paths[number], others[one]) for one in order[:k]]
        best = sorted((levels(paths[number], others[one]) for one in there), reverse=True)[:k]
        right.append([near[0] >= level for level in (1, 2, 3)])
        mistakes += [3 - near[0]] if near[0] < 3 else []
        precision.append(sum(near) / sum(best))
    return [*np.mean(right, axis=0), np.mean(mistakes or [0]), np.mean(precision)]


@pytest.mark.parametrize("k", [1, 7])
def test_the_scores_are_those_of_plain_loops(k: int) -> None:
    found = evaluate_tree(ROWS, PATHS, k=k)
    np.testing.assert_allclose(list(found.values()), by_hand(ROWS, PATHS, ROWS, PATHS, k, True), atol=1e-12)
    queries, asked = ROWS[:9] + 0.7, [*PATHS[:8], "g/k/z"]
    found = evaluate_tree(queries, asked, ROWS, PATHS, k=k)
    np.testing.assert_allclose(list(found.values()), by_hand(queries, asked, ROWS, PATHS, k, False), atol=1e-12)
    assert found.counts["excluded"] == 1


def test_the_last_level_is_plain_recall_and_mistakes_are_better_lower() -> None:
    found = evaluate_tree(ROWS, PATHS)
    assert found["recall@1, level 3"] == pytest.approx(evaluate(ROWS, PATHS, scores=["recall@1"])["recall@1"])
    assert found.lower_is_better == {"mistake"}
    perfect = evaluate_tree([[0.0], [0.0], [9.0], [9.0]], ["a/b", "a/b", "a/c", "a/c"], k=1)
    assert list(perfect.values()) == [1.0, 1.0, 0.0, 1.0]


def test_what_cannot_be_scored_is_said() -> None:
    with pytest.raises(ShapeError, match="`database` must come with `database_paths`"):
        evaluate_tree(ROWS, PATHS, ROWS)
    with pytest.raises(ShapeError, match="`paths` must have one path for each of the 40 rows, got 39"):
        evaluate_tree(ROWS, PATHS[1:])
    with pytest.raises(LabelError, match="a leaf with another item"):
        evaluate_tree(ROWS[:2], ["a/b", "a/c"], k=1)
    with pytest.raises(LabelError, match="one row alone"):
        evaluate_tree(ROWS[:1], ["a/b"], k=1)
    with pytest.raises(ParameterError, match="`k` must be"):
        evaluate_tree(ROWS[:3], PATHS[:3], k=5)
