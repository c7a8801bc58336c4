"""Exact inference is the best of all sets, found by looking at all of them; the greedy one is not, and where."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch

from nearer.exceptions import ParameterError
from nearer.losses.pairs._neighborhood_inference import (
    Nearest,
    choose_sets,
    choose_sets_greedily,
    greedy_set,
    nearest_by_class,
    plurality_costs,
)

Problem = tuple[np.ndarray, np.ndarray, int, int]


def problems(count: int, seed: int) -> list[Problem]:
    """Small problems with ties, duplicates and missing classes: distances, codes, number of classes, k."""
    rng = np.random.RandomState(seed)
    found = []
    for _ in range(count):
        n, c = rng.randint(1, 11), rng.randint(1, 6)
        k = rng.randint(1, n + 1)
        integers = rng.rand() < 0.5
        distances = rng.randint(0, 6, n).astype(float) if integers else rng.rand(n) * 4
        found.append((distances, rng.randint(0, c, n), c, k))
    return found


def plurality(codes: np.ndarray, c: int) -> set[int]:
    counts = np.bincount(codes, minlength=c)
    return set(np.flatnonzero(counts == counts.max()).tolist())


def brute_cost(problem: Problem, r: int, slack: int) -> float:
    distances, codes, c, k = problem
    best = math.inf
    for h in itertools.combinations(range(len(distances)), k):
        winners = plurality(codes[list(h)], c)
        if winners == {r} if slack else r in winners:
            best = min(best, float(distances[list(h)].sum()))
    return best


def brute_values(problem: Problem, penalties: np.ndarray) -> tuple[float, float]:
    """max_h [S + Δ], and max S over the sets with Δ = 0."""
    distances, codes, c, k = problem
    augmented, targeted = -math.inf, -math.inf
    for h in itertools.combinations(range(len(distances)), k):
        score = -float(distances[list(h)].sum())
        task = max(penalties[r] for r in plurality(codes[list(h)], c))
        augmented = max(augmented, score + task)
        if task == 0:
            targeted = max(targeted, score)
    return augmented, targeted


def near_of(problem: Problem) -> Nearest:
    distances, codes, c, k = problem
    return nearest_by_class(torch.tensor(distances)[None], torch.tensor(codes), c, k)


@pytest.mark.parametrize("slack", [0, 1])
@pytest.mark.parametrize("seed", range(4))
def test_cost_of_every_class_is_that_of_the_best_set(slack: int, seed: int) -> None:
    for problem in problems(180, seed):
        values = near_of(problem).values
        ties = torch.full(values.shape[:2], slack == 0)
        found = plurality_costs(values, ties)[0][0]
        for r in range(problem[2]):
            assert float(found[r]) == pytest.approx(brute_cost(problem, r, slack), abs=1e-9), (problem, r)


@pytest.mark.parametrize("kind", ["zero-one", "any", "free classes"])
@pytest.mark.parametrize("seed", range(4))
def test_both_inferences_are_the_best_of_all_sets(kind: str, seed: int) -> None:
    rng = np.random.RandomState(100 + seed)
    for problem in problems(150, 10 + seed):
        distances, codes, c, k = problem
        y = rng.randint(c)
        penalties = np.ones(c) if kind == "zero-one" else rng.rand(c) * 3 + 0.01
        if kind == "free classes":
            penalties[rng.rand(c) < 0.4] = 0
        penalties[y] = 0
        sets = choose_sets(near_of(problem), torch.tensor(penalties)[None])
        augmented, targeted = brute_values(problem, penalties)
        assert bool(sets.feasible[0]) == math.isfinite(targeted)
        for items, expected, task in (
            (sets.augmented[0].numpy(), augmented, float(sets.task_loss[0])),
            (sets.targeted[0].numpy(), targeted, 0.0),
        ):
            if not math.isfinite(expected):
                continue
            # A set of k different items, whose task loss is the one that is claimed.
            assert len(set(items.tolist())) == k
            assert items.min() >= 0
            assert max(penalties[r] for r in plurality(codes[items], c)) == pytest.approx(task)
            assert -distances[items].sum() + task == pytest.approx(expected, abs=1e-9)


def as_near(classes: Sequence[Sequence[float]], k: int) -> Nearest:
    values = torch.tensor([[*one, *[math.inf] * (k - len(one))] for one in classes], dtype=torch.float64)[None]
    return Nearest(values, torch.arange(values.numel()).view(values.shape))


@pytest.mark.parametrize(
    ("k", "slack", "classes"),
    [
        (5, 1, [[0, 0, 12], [0, 0], [11], [11]]),
        (4, 0, [[0, 12], [0, 0], [11], [11]]),
        (7, 1, [[0, 0, 0, 12], [0, 0, 0], [11, 11]]),
    ],
)
def test_the_greedy_pass_is_not_exact(k: int, slack: int, classes: list[list[float]]) -> None:
    near = as_near(classes, k)
    assert float(greedy_set(near, torch.tensor([0]), slack)[0]) == 22
    assert float(plurality_costs(near.values, torch.full((1, len(classes)), slack == 0))[0][0, 0]) == 12


def test_the_greedy_pass_is_exact_for_two_classes_and_never_better() -> None:
    rng = np.random.RandomState(51)
    wide = [(rng.rand(10) * 4, rng.randint(0, 5, 10), 5, 5) for _ in range(100)]
    worse = 0
    for problem in problems(150, 50) + wide:
        near = near_of(problem)
        for slack in (0, 1):
            exact = plurality_costs(near.values, torch.full(near.values.shape[:2], slack == 0))[0][0]
            for r in range(problem[2]):
                cost, items = greedy_set(near, torch.tensor([r]), slack)
                assert float(cost) >= float(exact[r]) - 1e-9
                if problem[2] <= 2:
                    assert float(cost) == pytest.approx(float(exact[r]), abs=1e-9)
                if torch.isfinite(cost).item():
                    assert problem[0][items[0].numpy()].sum() == pytest.approx(float(cost))
                    winners = plurality(problem[1][items[0].numpy()], problem[2])
                    assert winners == {r} if slack else r in winners
                worse += float(cost) > float(exact[r]) + 1e-9
    assert worse > 0


def test_greedy_sets_are_those_of_the_greedy_pass() -> None:
    near = as_near([[0, 0, 12], [0, 0], [11], [11]], 5)
    penalties = torch.tensor([[0.0, 1.0, 1.0, 1.0]], dtype=torch.float64)
    greedy, exact = choose_sets_greedily(near, penalties), choose_sets(near, penalties)
    assert float(near.values.flatten()[greedy.targeted[0]].sum()) == 22
    assert float(near.values.flatten()[exact.targeted[0]].sum()) == 12
    with pytest.raises(ParameterError, match="must be above 0 off the diagonal for inference='greedy'"):
        choose_sets_greedily(near, torch.zeros(1, 4, dtype=torch.float64))


def test_a_batch_is_its_rows() -> None:
    rng = np.random.RandomState(0)
    D, codes = torch.tensor(rng.rand(40, 25)), torch.tensor(rng.randint(0, 4, 25))
    penalties = torch.ones(40, 4, dtype=torch.float64)
    penalties[torch.arange(40), torch.tensor(rng.randint(0, 4, 40))] = 0
    together = choose_sets(nearest_by_class(D, codes, 4, 5), penalties)
    for i in range(40):
        alone = choose_sets(nearest_by_class(D[i : i + 1], codes, 4, 5), penalties[i : i + 1])
        for whole, part in zip(together, alone, strict=True):
            assert torch.equal(whole[i], part[0])


def test_equal_values_go_to_the_larger_task_loss_then_to_the_smaller_class() -> None:
    near = Nearest(torch.tensor([[[1.0], [2.0], [2.0], [3.0]]]), torch.arange(4).view(1, 4, 1))
    assert choose_sets(near, torch.tensor([[0.0, 1.0, 1.0, 1.0]])).augmented.tolist() == [[1]]
    assert choose_sets(near, torch.tensor([[0.0, 1.0, 1.0, 2.0]])).augmented.tolist() == [[3]]


def test_nearest_of_each_class_whatever_the_order() -> None:
    rng = np.random.RandomState(3)
    D, codes = rng.rand(6, 30), rng.randint(0, 5, 30)
    near = nearest_by_class(torch.tensor(D), torch.tensor(codes), 6, 4)
    for i, c in itertools.product(range(6), range(6)):
        members = np.flatnonzero(codes == c)
        expected = members[np.argsort(D[i, members])][:4]
        assert near.items[i, c, : len(expected)].tolist() == expected.tolist()
        assert near.items[i, c, len(expected) :].tolist() == [-1] * (4 - len(expected))
        assert torch.isinf(near.values[i, c, len(expected) :]).all()
