"""What must hold for the neighbourhood loss, its own contract: it is not a weight on every pair."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from every_loss import batch, value_and_gradient
from nearer.exceptions import LabelError, NotFiniteError, ParameterError, ShapeError
from nearer.geometry import MLP, AsymmetricMap
from nearer.geometry._similarity import squared_euclidean_distance
from nearer.index import Index
from nearer.losses import DatabaseMemory, NeighborhoodLoss
from nearer.losses.pairs._neighborhood import set_weights
from nearer.losses.pairs._neighborhood_inference import NeighborSets


def printed(
    D: np.ndarray, y: np.ndarray, items: np.ndarray, k: int, task: np.ndarray, own: np.ndarray
) -> list[float]:
    """Eq 7 for every query, by looking at every set of k; NaN where no set is without task loss."""
    values = []
    for i, row in enumerate(D):
        allowed = [j for j in range(len(row)) if j != own[i]]
        augmented, targeted = -math.inf, -math.inf
        for h in itertools.combinations(allowed, k):
            counts = np.bincount(items[list(h)], minlength=len(task))
            delta = max(task[y[i], r] for r in np.flatnonzero(counts == counts.max()))
            score = -row[list(h)].sum()
            augmented = max(augmented, score + delta)
            targeted = max(targeted, score) if delta == 0 else targeted
        values.append(augmented - targeted if math.isfinite(targeted) else math.nan)
    return values


@given(st.integers(2, 9), st.integers(1, 4), st.integers(1, 4), st.booleans(), st.integers(0, 10**6))
@settings(max_examples=80, deadline=None)
def test_it_is_equation_7(n: int, c: int, k: int, matrix: bool, seed: int) -> None:
    rng = np.random.RandomState(seed)
    k = min(k, n - 1)
    x, y = rng.randn(n, 2), rng.randint(0, c, n)
    task = rng.rand(c, c) * 2 if matrix else np.ones((c, c))
    if matrix:
        task[rng.rand(c, c) < 0.2] = 0
    np.fill_diagonal(task, 0)
    D = ((x[:, None] - x[None]) ** 2).sum(2)
    expected = printed(D, y, y, k, task, np.arange(n))
    loss = NeighborhoodLoss(k=k, task_loss=torch.tensor(task) if matrix else 1.0, reduction="sum")
    found = float(loss(torch.tensor(x), y))
    assert found == pytest.approx(np.nansum(expected), abs=1e-9)
    assert loss.skipped == np.isnan(expected).sum()
    assert float(loss.from_distances(D, y)) == pytest.approx(found, abs=1e-9)


def vote_loss(D: np.ndarray, y: np.ndarray, k: int) -> np.ndarray:
    """0/1 loss of the k-NN vote in which ties are lost."""
    wrong = []
    for i, row in enumerate(D):
        near = [j for j in np.argsort(row) if j != i][:k]
        counts = np.bincount(y[near], minlength=y.max() + 1)
        wrong.append(not (counts.argmax() == y[i] and (counts == counts.max()).sum() == 1))
    return np.array(wrong)


@given(st.integers(6, 25), st.integers(2, 4), st.integers(1, 4), st.integers(0, 10**6))
@settings(max_examples=50, deadline=None)
def test_it_bounds_the_error_of_the_vote(n: int, c: int, k: int, seed: int) -> None:
    rng = np.random.RandomState(seed)
    x, y = rng.randn(n, 3), rng.randint(0, c, n)
    D = ((x[:, None] - x[None]) ** 2).sum(2)
    wrong = vote_loss(D, y, k)
    for i in range(n):
        loss = NeighborhoodLoss(k=k)
        value = float(loss.from_distances(D[i : i + 1], y[i : i + 1], y, own=[i]))
        assert value >= 0
        assert loss.skipped or value >= wrong[i] - 1e-9


@pytest.mark.parametrize(
    ("k", "inference", "reduction"), [(1, "exact", "mean"), (4, "exact", "active"), (3, "greedy", "sum")]
)
def test_gradcheck(k: int, inference: str, reduction: str) -> None:
    x, y = batch(11, 3, dimension=3, seed=1)
    d, e = batch(13, 3, dimension=3, seed=2)
    loss = NeighborhoodLoss(k=k, inference=inference, reduction=reduction)
    assert torch.autograd.gradcheck(lambda q: loss(q, y), x.clone().requires_grad_(), eps=1e-7, atol=1e-5)
    pair = (x.clone().requires_grad_(), d.clone().requires_grad_())
    assert torch.autograd.gradcheck(
        lambda q, r: loss(q, y, database=r, database_labels=e), pair, eps=1e-7, atol=1e-5
    )
    assert loss(x, y) > 0


def test_gradients_of_the_two_maps_are_the_printed_ones() -> None:
    """Eqs 9, 10: dU = −2 V(Σ a_j x_j) xᵀ, dV = 2[V Σ a_j x_j x_jᵀ − (Ux)(Σ a_j x_j)ᵀ], as the paper writes it."""
    x, y = batch(20, 3, dimension=4, seed=3)
    g = torch.Generator().manual_seed(0)
    U, V = (torch.randn(4, 3, generator=g, dtype=torch.float64) for _ in range(2))
    maps = AsymmetricMap.from_factors(U, V)
    loss = NeighborhoodLoss(k=3, reduction="sum")
    D = maps(x, x)
    loss.from_distances(D, y).backward()
    codes = y
    sets = loss._choose(D.detach().fill_diagonal_(torch.inf), codes, codes, 3)
    i, j, w = set_weights(sets)
    A = torch.zeros(20, 20, dtype=torch.float64).index_put((i, j), w.double())
    assert torch.equal(A.sum(dim=1), torch.zeros(20, dtype=torch.float64))
    dU, dV = torch.zeros(3, 4, dtype=torch.float64), torch.zeros(3, 4, dtype=torch.float64)
    for q in range(20):
        weighted = A[q] @ x
        dU -= 2 * torch.outer(V.T @ weighted, x[q])
        dV += 2 * (V.T @ (x.T * A[q]) @ x - torch.outer(U.T @ x[q], weighted))
    torch.testing.assert_close(maps.query_factor.grad, dU.T)
    torch.testing.assert_close(maps.database_factor.grad, dV.T)


def test_tiles_and_distances_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = batch(60, 5, seed=4)
    loss = NeighborhoodLoss(k=4)
    whole = value_and_gradient(loss, x, y)
    dense = value_and_gradient(lambda e: loss.from_distances(squared_euclidean_distance(e), y), x)
    # The package has a function of that name.
    monkeypatch.setattr(sys.modules["nearer.losses.pairs._neighborhood"], "_TILE", 200)
    monkeypatch.setattr("nearer.losses.pairs._distances._CHUNK", 24)
    tiles = value_and_gradient(loss, x, y)
    for other in (dense, tiles):
        torch.testing.assert_close(other[0], whole[0])
        torch.testing.assert_close(other[1], whole[1])


def test_k_of_one_is_the_hinge_of_the_nearest_triplet() -> None:
    x, y = batch(30, 4, seed=5)
    D = torch.cdist(x, x).square()
    same = y[:, None] == y
    positive = D.masked_fill(~same | torch.eye(30, dtype=torch.bool), math.inf).amin(1)
    negative = D.masked_fill(same, math.inf).amin(1)
    expected = (positive - negative + 1).clamp(min=0)
    torch.testing.assert_close(NeighborhoodLoss(k=1, reduction="sum")(x, y), expected[positive.isfinite()].sum())


def test_two_classes_and_odd_k_have_no_ties() -> None:
    x, y = batch(30, 2, seed=6)
    torch.testing.assert_close(NeighborhoodLoss(k=3)(x, y), NeighborhoodLoss(k=3, inference="greedy")(x, y))


def test_one_class_and_singletons() -> None:
    x, _ = batch(8, 2)
    for labels, skipped in (([0] * 8, 0), (list(range(8)), 8)):
        loss = NeighborhoodLoss(k=3)
        value, gradient = value_and_gradient(loss, x, torch.tensor(labels))
        assert value == 0
        assert gradient.abs().max() == 0
        assert loss.skipped == skipped
    loss = NeighborhoodLoss(k=3)
    _, gradient = value_and_gradient(loss, x, torch.tensor([0, 0, 0, 0, 1, 1, 1, 2]))
    assert loss.skipped == 1
    assert torch.isfinite(gradient).all()


def test_duplicates_are_neighbors_and_everything_equal_is_finite() -> None:
    x = torch.ones(6, 2, dtype=torch.float64)
    value, gradient = value_and_gradient(NeighborhoodLoss(k=2), x, torch.tensor([0, 0, 0, 1, 1, 1]))
    assert value == 1
    assert gradient.abs().max() == 0
    apart = torch.tensor([[0.0], [0.0], [5.0], [5.0]], dtype=torch.float64)
    assert NeighborhoodLoss(k=1)(apart, [0, 0, 1, 1]) == 0


def test_order_dtype_determinism_and_the_input() -> None:
    x, y = batch(40, 4, seed=8)
    before = x.clone()
    value, gradient = value_and_gradient(NeighborhoodLoss(), x, y)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(1))
    shuffled, moved = value_and_gradient(NeighborhoodLoss(), x[order], y[order])
    torch.testing.assert_close(shuffled, value)
    torch.testing.assert_close(moved, gradient[order])
    again = value_and_gradient(NeighborhoodLoss(), x, y)
    assert torch.equal(again[0], value)
    assert torch.equal(again[1], gradient)
    assert torch.equal(x, before)
    half = x.to(torch.bfloat16).requires_grad_()
    result = NeighborhoodLoss()(half, y)
    result.backward()
    assert result.dtype == torch.float32
    assert half.grad is not None
    assert half.grad.dtype == torch.bfloat16
    torch.testing.assert_close(result.detach(), NeighborhoodLoss()(half.detach().float(), y))
    torch.testing.assert_close(NeighborhoodLoss()(x.numpy(), y.tolist()), value)
    # Names of classes do not matter.
    torch.testing.assert_close(NeighborhoodLoss()(x, 100 - 7 * y), value)


def test_items_with_equal_ids_are_never_neighbors() -> None:
    x, y = batch(30, 3, seed=9)
    rows = torch.arange(30)
    order = torch.randperm(30, generator=torch.Generator().manual_seed(0))
    loss = NeighborhoodLoss(k=3)
    expected = loss(x, y)
    found = loss(x, y, database=x[order], database_labels=y[order], ids=rows, database_ids=order)
    torch.testing.assert_close(found, expected)
    twice = loss(x, y, database=x.repeat(2, 1), database_labels=y.repeat(2), ids=rows, database_ids=rows.repeat(2))
    one_by_one = [
        float(
            loss(
                x[i : i + 1],
                y[i : i + 1],
                database=x[rows != i].repeat(2, 1),
                database_labels=y[rows != i].repeat(2),
            )
        )
        for i in range(30)
    ]
    assert float(twice) == pytest.approx(np.mean(one_by_one))


def test_a_memory_is_a_larger_database() -> None:
    x, y = batch(24, 3, seed=10)
    d = x + 0.3 * batch(24, 3, seed=11)[0]
    loss = NeighborhoodLoss(k=2)
    memory = DatabaseMemory(loss, size=16, embedding_dim=8).double()
    first = memory(x[:12], d[:12], y[:12], ids=torch.arange(12))
    torch.testing.assert_close(
        first, loss(x[:12], y[:12], database=d[:12], database_labels=y[:12], ids=range(12), database_ids=range(12))
    )
    names = torch.arange(8, 20)  # items 8..11 come again
    second = memory(x[8:20], d[8:20], y[8:20], ids=names)
    expected = loss(
        x[8:20],
        y[8:20],
        database=torch.cat([d[8:20], d[:12]]),
        database_labels=torch.cat([y[8:20], y[:12]]),
        ids=names,
        database_ids=torch.cat([names, torch.arange(12)]),
    )
    torch.testing.assert_close(second, expected)
    assert int(memory.filled) == 16
    assert sorted(memory.ids.tolist()) == sorted([*range(8, 12), *range(8, 20)])
    fresh = DatabaseMemory(loss, size=16, embedding_dim=8).double()
    fresh.load_state_dict(memory.state_dict())
    torch.testing.assert_close(fresh(x, d, y, ids=range(24)), memory(x, d, y, ids=range(24)))


def test_two_encoders_learn_through_a_memory_and_an_index_searches_them() -> None:
    """Queries see half of the features that the database sees, and the classes are parted by a product."""
    g = torch.Generator().manual_seed(0)
    y = torch.arange(240) % 3
    centers = torch.randn(3, 6, generator=g)
    database = centers[y] + 0.7 * torch.randn(240, 6, generator=g)
    queries = database[:, :3] * 2 + 1
    left, right = (
        MLP(3, 2, hidden=(16,), generator=g, normalized=False),
        MLP(6, 2, hidden=(16,), generator=g, normalized=False),
    )
    memory = DatabaseMemory(NeighborhoodLoss(k=3), size=120, embedding_dim=2)
    optimizer = torch.optim.Adam([*left.parameters(), *right.parameters()], lr=1e-2)

    def right_answers() -> float:
        index = Index(2, similarity="euclidean")
        index.add(right(database[180:]).detach(), metadata={"label": y[180:].tolist()})
        first = index.search(left(queries[:180]).detach(), k=1).metadata
        return float(
            np.mean([hit[0]["label"] == label for hit, label in zip(first, y[:180].tolist(), strict=True)])
        )

    before = right_answers()
    for _ in range(60):
        rows = torch.randperm(180, generator=g)[:60]
        value = memory(left(queries[rows]), right(database[rows]), y[rows], ids=rows)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    assert right_answers() > max(0.75, before + 0.1)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (
            lambda x, y: NeighborhoodLoss(k=8)(x, y),
            ParameterError,
            "at most the 7 items that can be neighbours, got 8",
        ),
        (lambda x, y: NeighborhoodLoss(k=0), ParameterError, "`k` must be at least 1"),
        (lambda x, y: NeighborhoodLoss(task_loss=0.0), ParameterError, "`task_loss` must be greater than 0"),
        (
            lambda x, y: NeighborhoodLoss(task_loss=[[0, 1]]),
            ShapeError,
            "`task_loss` must be a number or a square",
        ),
        (lambda x, y: NeighborhoodLoss(task_loss=[[1.0]]), ParameterError, "must be 0 on the diagonal"),
        (
            lambda x, y: NeighborhoodLoss(task_loss=np.ones((2, 2)) - np.eye(2))(x, y),
            LabelError,
            "must lie in 0..1",
        ),
        (lambda x, y: NeighborhoodLoss(inference="greeedy"), ParameterError, "Did you mean 'greedy'"),
        (lambda x, y: NeighborhoodLoss(reduction="median"), ParameterError, "`reduction` must be one of"),
        (
            lambda x, y: NeighborhoodLoss()(x[:, 0], y),
            ShapeError,
            r"`embeddings` must have shape \(n, d\), got \(8,\)",
        ),
        (lambda x, y: NeighborhoodLoss()(x, y[:7]), ShapeError, "one entry for each of the 8 rows, got 7"),
        (lambda x, y: NeighborhoodLoss()(x * math.nan, y), NotFiniteError, "`embeddings` must be finite"),
        (lambda x, y: NeighborhoodLoss()(x, y, database=x), ParameterError, "must be given together"),
        (
            lambda x, y: NeighborhoodLoss()(x, y, database=x[:, :2], database_labels=y),
            ShapeError,
            "must have 8 columns",
        ),
        (
            lambda x, y: NeighborhoodLoss()(x, y, ids=y, database_ids=y),
            ParameterError,
            "must come with a `database`",
        ),
        (
            lambda x, y: NeighborhoodLoss().from_distances(x[:, 0], y),
            ShapeError,
            r"`distances` must have shape \(q, n\)",
        ),
        (
            lambda x, y: NeighborhoodLoss().from_distances(x[:, :5], y),
            ParameterError,
            "`database_labels` must be given",
        ),
        (
            lambda x, y: NeighborhoodLoss().from_distances(x, y, y, own=[9] * 8),
            ShapeError,
            "`own` must point into the 8",
        ),
        (
            lambda x, y: NeighborhoodLoss().from_distances(x * math.inf, y),
            NotFiniteError,
            "`distances` must be finite",
        ),
        (
            lambda x, y: DatabaseMemory(torch.nn.L1Loss(), size=1, embedding_dim=1),
            ParameterError,
            "a NeighborhoodLoss",
        ),
        (lambda x, y: memory()(x, x[:5], y), ShapeError, "the 8 rows of `queries`, got 5"),
        (lambda x, y: memory()(x[:, :3], x, y), ShapeError, "`queries` must have 8 columns, got 3"),
        (lambda x, y: memory()(x, x, y, ids=-y - 1), ParameterError, "`ids` must not be negative"),
    ],
)
def test_bad_input(build: Callable[[Tensor, Tensor], object], error: type[Exception], message: str) -> None:
    x, y = batch(8, 3)
    with pytest.raises(error, match=message):
        build(x, y)


def memory() -> DatabaseMemory:
    return DatabaseMemory(NeighborhoodLoss(k=2), size=4, embedding_dim=8)


def test_it_says_what_it_is() -> None:
    assert str(NeighborhoodLoss(k=2)) == ("NeighborhoodLoss(k=2, task_loss=1, inference='exact', reduction='mean')")
    assert "matrix (2, 2)" in str(NeighborhoodLoss(task_loss=1 - torch.eye(2)))


def test_infeasible_queries_have_no_weight() -> None:
    one = torch.tensor([[4, 7]])
    sets = NeighborSets(one, one + 1, torch.ones(1), torch.tensor([False]))
    assert all(len(part) == 0 for part in set_weights(sets))
