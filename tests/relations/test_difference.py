"""Relation functions against their printed formulas, and the table of what unit vectors can meet."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attainable import smallest_eigenvalue
from nearer.exceptions import LabelError, ParameterError, ShapeError
from nearer.losses import BinomialDevianceLoss, ContrastiveLoss, RAWLoss
from nearer.mining import VTHM
from nearer.pairwise._panels import tile_size
from nearer.relations import ClassLabels, LabelDistributions, MultiLabels, Numbers, Soft, kind_of
from nearer.relations._difference import find_difference
from nearer.relations._kinds import relation_of
from nearer.relations._relation import GradedRelation


def distributions(n: int, q: int, seed: int = 0) -> Tensor:
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(q, 0.3), size=n)
    rows[0] = np.eye(q)[0]
    return torch.from_numpy(rows)


def by_hand(name: str, p: np.ndarray, q: np.ndarray) -> float:
    """The formulas as one would write them for two rows."""
    if name == "l1":
        return float(np.abs(p - q).sum())
    if name == "chebyshev":
        return float(np.abs(p - q).max())
    if name == "hellinger":
        return float(((np.sqrt(p) - np.sqrt(q)) ** 2).sum())
    if name == "cosine":
        return float(1 - p @ q / np.sqrt((p @ p) * (q @ q)))
    if name == "jensen_shannon":
        m = (p + q) / 2
        return 0.5 * sum(float(a * math.log(a / c)) for x in (p, q) for a, c in zip(x, m, strict=True) if a > 0)
    a, b = ((x + 1e-6) / (x + 1e-6).sum() for x in (p, q))
    divergence = float(((a - b) * np.log(a / b)).sum())
    return 2 * (1 - math.exp(-divergence / 2))


@pytest.mark.parametrize("name", ["l1", "chebyshev", "hellinger", "cosine", "jensen_shannon", "kullback_leibler"])
def test_functions_of_distributions_by_hand(name: str) -> None:
    table = distributions(7, 4)
    difference = find_difference(name, "distributions", table)
    tile = difference.between(table[:3], table)
    for i, j in itertools.product(range(3), range(7)):
        expected = by_hand(name, table[i].numpy(), table[j].numpy())
        assert tile[i, j].item() == pytest.approx(expected, abs=1e-9)
        assert -1e-12 <= expected <= difference.largest + 1e-12
    left, right = torch.tensor([0, 3, 5]), torch.tensor([2, 2, 5])
    torch.testing.assert_close(
        difference.paired(table[left], table[right]),
        difference.between(table, table)[left, right],
        rtol=1e-9,
        atol=1e-9,
    )


@pytest.mark.parametrize("name", ["l1", "hellinger", "jensen_shannon", "cosine"])
@pytest.mark.parametrize("q", [2, 3, 6])
def test_what_the_table_calls_attainable_is(name: str, q: int) -> None:
    relation = LabelDistributions(distributions(120, q, seed=q), function=name)
    assert relation.attainable
    target = relation.farthest * (1 - relation.degrees()[0])
    assert smallest_eigenvalue(target) > -1e-8


def test_what_the_table_calls_out_of_reach_is() -> None:
    table = distributions(120, 6)
    for name in ("chebyshev", "kullback_leibler"):
        relation = LabelDistributions(table, function=name)
        assert not relation.attainable
        target = relation.farthest * (1 - relation.degrees()[0])
        assert float(target.max()) <= 2 + 1e-9
        assert smallest_eigenvalue(target) < -1e-4


@pytest.mark.parametrize("q", range(1, 9))
def test_label_sets_on_the_sphere(q: int) -> None:
    """All 2^q label sets: (4/q)·L1 is met by (2y − 1)/√q; plain L1 fails from q = 5 on, by 2^q(1 − q/4)."""
    table = torch.tensor(list(itertools.product([0.0, 1.0], repeat=q)), dtype=torch.float64)
    relation = MultiLabels(table, function="l1")
    f = (2 * table - 1) / math.sqrt(q)
    target = relation.farthest * (1 - relation.degrees()[0].double())
    torch.testing.assert_close(torch.cdist(f, f).square(), target, rtol=1e-5, atol=1e-5)
    plain = relation.largest * (1 - relation.degrees()[0].double())
    if q >= 5:
        assert smallest_eigenvalue(plain) == pytest.approx(2**q * (1 - q / 4), abs=1e-3)
    else:
        assert smallest_eigenvalue(plain) > -1e-3
    for name in ("jaccard", "cosine"):
        other = MultiLabels(table, function=name)
        assert smallest_eigenvalue(other.farthest * (1 - other.degrees()[0])) > -1e-4


def test_numbers_and_classes_are_attainable() -> None:
    numbers = Numbers(np.random.default_rng(0).normal(size=60))
    assert smallest_eigenvalue(numbers.farthest * (1 - numbers.degrees()[0])) > -1e-9
    # 4/range: f(u) = sign(y − u) over all thresholds; no larger factor is possible.
    assert numbers.farthest == 4.0
    assert smallest_eigenvalue(4.1 * (1 - numbers.degrees()[0])) < -0.01
    classes = ClassLabels(torch.arange(12) % 5)
    assert smallest_eigenvalue(classes.farthest * (1 - classes.degrees()[0])) > -1e-6
    # c = C/(C − 1) is the simplex, the largest that is possible.
    apart = 2 * (1 - ClassLabels(torch.arange(5)).degrees()[0])
    assert smallest_eigenvalue(apart * 5 / 4) == pytest.approx(0, abs=1e-6)
    assert smallest_eigenvalue(apart * 1.3) < -1e-2


def test_a_function_of_ones_own() -> None:
    table = torch.tensor([[1, 0, 1], [0, 0, 0], [1, 1, 1]])
    own = MultiLabels(table, function=lambda a, b: (a - b).abs().sum(-1))
    plain = MultiLabels(table, function="l1")
    assert own.largest == 3.0
    torch.testing.assert_close(own.degrees()[0], plain.degrees()[0])
    part = own.between(own.queries[:1], own.queries[1:])
    assert part.largest == 3.0, "a part of the items keeps the unit of the whole"
    with pytest.raises(ShapeError, match="must reduce the last axis"):
        MultiLabels(table, function=lambda a, b: a - b)
    with pytest.raises(LabelError, match="finite numbers that are not negative"):
        MultiLabels(table, function=lambda a, b: (a - b).sum(-1))
    with pytest.raises(ParameterError, match="Did you mean 'cosine'"):
        MultiLabels(table, function="cosin")


def test_empty_sets() -> None:
    table = [[0, 0], [0, 0], [1, 0]]
    for name in ("jaccard", "l1", "cosine"):
        degree = MultiLabels(table, function=name).degrees()[0]
        assert degree[0, 1] == 1
        assert degree[0, 2] < 1


def test_kinds_are_told_apart() -> None:
    assert kind_of(np.array([1.0, 2.0])) == "classes"
    assert kind_of(torch.tensor([[1], [0]])) == "classes"
    assert isinstance(relation_of([0.5, 0.25, 3.0]), Numbers)
    assert isinstance(relation_of(["a", "b", "a"]), ClassLabels)
    assert isinstance(relation_of([[0.2, 0.8]], function="hellinger"), LabelDistributions)
    assert relation_of([[1, 0], [0, 1]], kind="distributions").farthest == 2


BAD: list[tuple[Any, str]] = [
    (lambda: kind_of([[0.5, 0.2], [1.0, 0.0]]), r"row 0 has the sum 0.7"),
    (lambda: kind_of([[1.5, -0.5], [1.0, 0.0]]), "smallest entry -0.5"),
    (lambda: kind_of([[1.0, 1.0], [0.3, 0.7]]), "Do not mix the two kinds"),
    (lambda: kind_of([["a", "b"]]), "must hold numbers"),
    (lambda: kind_of([0.5, math.nan]), "NaN or infinity"),
    (lambda: kind_of(np.zeros((2, 2, 2))), r"shape \(n,\) or \(n, q\)"),
    (lambda: relation_of([0, 1], function="l1"), "compares rows of labels"),
    (lambda: relation_of([0, 1], kind="sets"), r"shape \(n, q\) for sets"),
    (lambda: relation_of([[0, 1], [1, 0]], kind="classes"), r"shape \(n,\) for classes"),
    (lambda: relation_of([0, 1], kind="clases"), "Did you mean 'classes'"),
    (lambda: Numbers([[0.0, 1.0]]), r"numbers of shape \(n,\)"),
    (lambda: Soft(ClassLabels([0, 1])), "knows only yes and no"),
]


@pytest.mark.parametrize(("make", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_input(make: Any, message: str) -> None:
    with pytest.raises((LabelError, ParameterError, ShapeError), match=message):
        make()


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(-5, 5, allow_nan=False), min_size=1, max_size=8))
def test_numbers_are_as_near_as_their_difference(values: list[float]) -> None:
    degree = Numbers(values).degrees()[0].numpy()
    span = max(values) - min(values)
    apart = np.abs(np.subtract.outer(values, values)) / (span if span > 0 else 1.0)
    np.testing.assert_allclose(degree, 1 - apart, atol=1e-9)


# Degrees as soft weights.


def soft_batch() -> tuple[Tensor, MultiLabels]:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(30, 6, generator=generator, dtype=torch.float64)
    sets = (torch.rand(30, 4, generator=generator) > 0.5).int()
    return x, MultiLabels(sets, function="l1")


def test_soft_degrees_are_the_weights_of_an_additive_loss() -> None:
    """Σ degree·(1 − s) + (1 − degree)·[s − λ]₊: with 4 labels the degrees are quarters, and 4 levels are exact."""
    x, relation = soft_batch()
    z = torch.nn.functional.normalize(x, dim=1)
    s = z @ z.T
    degree = relation.degrees()[0].double()
    terms = degree * (1 - s) + (1 - degree) * (s - 0.5).clamp(min=0)
    expected = terms.sum() - terms.diagonal().sum()
    found = ContrastiveLoss(reduction="sum")(x, Soft(relation, levels=4))
    assert found.item() == pytest.approx(expected.item(), rel=1e-9)


@pytest.mark.parametrize("loss", [RAWLoss(), RAWLoss(miner=VTHM()), BinomialDevianceLoss()], ids=str)
def test_soft_relations_in_tiles_dense_and_as_weights(loss: Any) -> None:
    x, relation = soft_batch()
    soft = Soft(relation, levels=3)
    leaf = x.clone().requires_grad_()
    (expected,) = torch.autograd.grad(loss.dense(leaf, soft), leaf)
    with tile_size(7):
        value = loss(leaf, soft)
    (found,) = torch.autograd.grad(value, leaf)
    torch.testing.assert_close(value, loss.dense(x, soft), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-11)
    z = torch.nn.functional.normalize(leaf, dim=1)
    s = z @ z.T
    (theorem,) = torch.autograd.grad((loss.weights(s.detach(), soft) * s).sum(), leaf)
    torch.testing.assert_close(theorem, expected, rtol=1e-7, atol=1e-9)
    mean = torch.stack([loss(x, layer) for _, layer in soft.layers()]).mean()
    torch.testing.assert_close(value.detach(), mean)


def test_soft_relations_against_a_database() -> None:
    x, relation = soft_batch()
    table = relation.queries
    soft = Soft(relation.between(table[:10], table[10:]), levels=2)
    loss = RAWLoss()
    torch.testing.assert_close(loss(x[:10], soft, database=x[10:]), loss.dense(x[:10], soft, database=x[10:]))
    graded = soft.between(table[:4], table[:4])
    assert isinstance(graded.relation, GradedRelation)
    assert graded.degrees()[0].shape == graded.masks()[0].shape == (4, 4)
