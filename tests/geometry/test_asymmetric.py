"""The asymmetric distance is the printed form, in all three of its shapes."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nearer.exceptions import NotFiniteError, ParameterError, ShapeError
from nearer.geometry import (
    AsymmetricMap,
    Mahalanobis,
    inner_product_database,
    inner_product_queries,
)


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
    turned = AsymmetricMap.from_factors(U @ Q, V @ Q)
    torch.testing.assert_close(turned(x, x), AsymmetricMap.from_factors(U, V)(x, x))


def test_it_starts_as_the_squared_euclidean_distance_and_has_gradients() -> None:
    maps = AsymmetricMap(3)
    x = random(2, 3, seed=0).float()
    torch.testing.assert_close(maps(x, x + 1), torch.cdist(x, x + 1).square(), rtol=1e-4, atol=1e-4)
    maps(x, x + 1).sum().backward()
    assert float(maps.query_factor.grad.abs().sum()) > 0
    assert float(maps.database_factor.grad.abs().sum()) > 0
    assert str(AsymmetricMap(4, 2)) == "AsymmetricMap(4 -> 2)"


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
        (lambda: AsymmetricMap.from_factors([[1]], [[1, 2]]), ShapeError, r"shape \(1, 1\) of `query_factor`"),
        (lambda: AsymmetricMap(2)([[1, 2, 3]], [[1, 2]]), ShapeError, "`queries` must have 2 columns, got 3"),
        (lambda: AsymmetricMap(2)([[1, 2]], [[1, 2, 3]]), ShapeError, "`database` must have 2 columns, got 3"),
        (lambda: inner_product_database([[math.nan]]), NotFiniteError, "`database` must be finite"),
        (lambda: inner_product_queries([1, 2]), ShapeError, "`queries` must have shape"),
    ],
)
def test_bad_input_is_named(build: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build()
