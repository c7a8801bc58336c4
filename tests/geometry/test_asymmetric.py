"""The asymmetric distance is the printed form, in all three of its shapes."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from nearer.exceptions import NotFiniteError, ParameterError, ShapeError
from nearer.geometry import MLP, AsymmetricMap, Mahalanobis, TwoEncoders
from nearer.geometry._asymmetric import inner_product_database, inner_product_queries
from nearer.geometry._loading import load
from nearer.index import Index


def random(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_three_forms_of_one_distance(p: int, d: int, seed: int) -> None:
    U, V = random(p, d, seed=seed), random(p, d, seed=seed + 1)
    maps = AsymmetricMap.from_factors(U, V)
    x, y = random(3, p, seed=seed + 2), random(4, p, seed=seed + 3)
    got = maps(x, y).detach()
    W = maps.matrix().detach()
    for i in range(3):
        for j in range(4):
            printed = float(((U.T @ x[i] - V.T @ y[j]) ** 2).sum())
            both = torch.cat([x[i], y[j]])
            assert math.isclose(float(got[i, j]), printed, rel_tol=1e-9, abs_tol=1e-12)
            assert math.isclose(float(both @ W @ both), printed, rel_tol=1e-9, abs_tol=1e-9)
    queries, database = maps.transform_queries(x).detach(), maps.transform_database(y).detach()
    scores = inner_product_queries(queries) @ inner_product_database(database).T
    torch.testing.assert_close(queries.square().sum(1, keepdim=True) - scores, got)
    assert torch.equal(scores.argsort(dim=1, descending=True), got.argsort(dim=1))
    assert float(torch.linalg.eigvalsh(W)[0]) > -1e-9


def test_equal_maps_are_a_mahalanobis_distance() -> None:
    L, x = random(4, 2, seed=0), random(5, 4, seed=1)
    maps = AsymmetricMap.from_factors(L, L)
    torch.testing.assert_close(maps(x, x), Mahalanobis.from_factor(L).distance(x).square())


def test_a_joint_rotation_changes_nothing() -> None:
    U, V, x = random(4, 3, seed=0), random(4, 3, seed=1), random(5, 4, seed=2)
    Q, _ = torch.linalg.qr(random(3, 3, seed=3))
    maps = AsymmetricMap.from_factors(U, V)
    turned = maps.rotated(Q)
    assert torch.equal(turned.query_factor, U @ Q)
    torch.testing.assert_close(turned(x, x), maps(x, x))
    aligned = maps.aligned(x)
    torch.testing.assert_close(aligned(x, x), maps(x, x))
    spread = torch.cov(aligned.transform_database(x).detach().T)
    torch.testing.assert_close(spread, torch.diag(spread.diagonal()), atol=1e-9, rtol=0)
    assert (spread.diagonal().diff() <= 0).all()


def test_it_starts_as_the_squared_euclidean_distance_and_has_gradients() -> None:
    maps = AsymmetricMap(3)
    x = random(2, 3, seed=0).float()
    torch.testing.assert_close(maps(x, x + 1), torch.cdist(x, x + 1).square(), rtol=1e-4, atol=1e-4)
    maps(x, x + 1).sum().backward()
    assert float(maps.query_factor.grad.abs().sum()) > 0
    assert float(maps.database_factor.grad.abs().sum()) > 0
    assert str(AsymmetricMap(4, 2)) == "AsymmetricMap(4 -> 2)"


def test_two_sides_with_different_features(tmp_path: Path) -> None:
    U, V, x, y = random(4, 2, seed=0), random(3, 2, seed=1), random(5, 4, seed=2), random(6, 3, seed=3)
    maps = AsymmetricMap.from_factors(U, V)
    torch.testing.assert_close(maps(x, y), torch.cdist(x @ U, y @ V).square())
    assert maps.matrix().shape == (7, 7)
    assert str(maps) == "AsymmetricMap(4 and 3 -> 2)"
    assert AsymmetricMap(4, database_features=3)(x, y).shape == (5, 6)
    again = load(maps.save(tmp_path / "maps"))
    assert torch.equal(again(x, y), maps(x, y))


def test_two_encoders_are_two_transforms(tmp_path: Path) -> None:
    both = TwoEncoders(MLP(4, 2, normalized=False), MLP(3, 2, hidden=(), normalized=False))
    x, y = random(5, 4, seed=0).float(), random(6, 3, seed=1).float()
    expected = torch.cdist(both.query_encoder(x), both.database_encoder(y)).square()
    torch.testing.assert_close(both(x, y), expected, rtol=1e-4, atol=1e-4)
    again = load(both.save(tmp_path / "both"))
    assert torch.equal(again(x, y), both.eval()(x, y))
    both(x, y).sum().backward()
    assert all(parameter.grad is not None for parameter in both.parameters())


def test_an_index_of_the_database_side_is_searched_with_the_query_side() -> None:
    """In a Euclidean index as it is, and in one of inner products after the reduction."""
    maps = AsymmetricMap.from_factors(random(5, 3, seed=0), random(5, 3, seed=1))
    x, y = random(7, 5, seed=2), random(40, 5, seed=3)
    queries, database = maps.transform_queries(x).detach(), maps.transform_database(y).detach()
    expected = maps(x, y).detach().argsort(dim=1)[:, :4]
    euclidean = Index(3, similarity="euclidean")
    euclidean.add(database)
    assert torch.equal(torch.tensor(euclidean.search(queries, k=4).ids), expected)
    inner = Index(4, similarity="dot")
    inner.add(inner_product_database(database))
    found = inner.search(inner_product_queries(queries), k=4)
    assert torch.equal(torch.tensor(found.ids), expected)
    distances = queries.square().sum(1, keepdim=True) - torch.tensor(found.similarities)
    torch.testing.assert_close(distances, maps(x, y).detach().gather(1, expected), rtol=1e-3, atol=1e-3)


def test_given_factors_are_copied_and_the_wider_precision_wins() -> None:
    U, V = torch.ones(3, 2), torch.ones(3, 2, dtype=torch.float64)
    maps = AsymmetricMap.from_factors(U, V)
    with torch.no_grad():
        maps.query_factor.zero_()
        maps.database_factor.zero_()
    assert maps.query_factor.dtype == maps.database_factor.dtype == torch.float64
    assert torch.equal(U, torch.ones(3, 2))
    assert torch.equal(V, torch.ones(3, 2, dtype=torch.float64))


def test_no_rows_are_no_rows() -> None:
    assert AsymmetricMap(3, 2)(torch.empty(0, 3), torch.ones(4, 3)).shape == (0, 4)
    assert inner_product_queries(torch.empty(0, 3)).shape == (0, 4)
    assert inner_product_database(torch.empty(0, 3)).shape == (0, 4)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: AsymmetricMap(0), ParameterError, "`in_features` must be at least 1"),
        (lambda: AsymmetricMap.from_factors([[1]], [[1, 2]]), ShapeError, "the 1 columns of `query_factor`, got 2"),
        (lambda: AsymmetricMap(2, database_features=0), ParameterError, "`database_features` must be at least 1"),
        (lambda: AsymmetricMap(2).rotated([[1, 1], [0, 1]]), ParameterError, "must be an orthogonal matrix"),
        (lambda: AsymmetricMap(2).rotated([[1, 0]]), ParameterError, "must be an orthogonal matrix"),
        (
            lambda: TwoEncoders(MLP(2, 3), MLP(2, 4))([[1, 2]], [[1, 2]]),
            ShapeError,
            "3 columns of `query_encoder`",
        ),
        (lambda: TwoEncoders(nn.Flatten(0), nn.Identity())(torch.ones(1, 2), None), ShapeError, "one row per item"),
        (
            lambda: TwoEncoders(MLP(2, 3), nn.Linear(2, 3)).save("x"),
            ParameterError,
            "`database_encoder` must be",
        ),
        (lambda: AsymmetricMap(2)([[1, 2, 3]], [[1, 2]]), ShapeError, "`queries` must have 2 columns, got 3"),
        (lambda: AsymmetricMap(2)([[1, 2]], [[1, 2, 3]]), ShapeError, "`database` must have 2 columns, got 3"),
        (lambda: inner_product_database([[math.nan]]), NotFiniteError, "`database` must be finite"),
        (lambda: inner_product_queries([1, 2]), ShapeError, "`queries` must have shape"),
    ],
)
def test_bad_input_is_named(build: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build()
