"""Norms of the maps against the formulas, the printed equations against the truth."""

from __future__ import annotations

import itertools

import pytest
import torch

from nearer.exceptions import ParameterError, ShapeError
from nearer.geometry import AsymmetricMap
from nearer.losses.pairs._asymmetric_regularizers import RegularizerName, asymmetric_regularizer

g = torch.Generator().manual_seed(0)
# In the layout of the paper, d×p.
U, V = (torch.randn(3, 5, generator=g, dtype=torch.float64) for _ in range(2))


def gradients(**settings: str) -> tuple[torch.Tensor, torch.Tensor]:
    a, b = U.T.clone().requires_grad_(), V.T.clone().requires_grad_()
    left, right = torch.autograd.grad(asymmetric_regularizer(a, b, **settings), (a, b), materialize_grads=True)
    return left.T, right.T


def test_values() -> None:
    W = AsymmetricMap.from_factors(U.T, V.T).matrix().detach()
    norm = torch.linalg.matrix_norm
    expected = {
        "squared_w": norm(W) ** 2,
        "w": norm(W),
        "query_gram": norm(U.T @ U),
        "database_gram": norm(V.T @ V),
        "query": norm(U),
        "database": norm(V),
    }
    for name, value in expected.items():
        torch.testing.assert_close(asymmetric_regularizer(U.T, V.T, norm=name), value)


def test_gradients_are_the_derived_ones() -> None:
    both = U @ U.T + V @ V.T
    size = torch.linalg.matrix_norm(both)
    expected = {
        "squared_w": (4 * both @ U, 4 * both @ V),
        "w": (2 * both @ U / size, 2 * both @ V / size),
        "query_gram": (2 * U @ U.T @ U / torch.linalg.matrix_norm(U.T @ U), 0 * V),
        "database_gram": (0 * U, 2 * V @ V.T @ V / torch.linalg.matrix_norm(V.T @ V)),
        "query": (U / torch.linalg.matrix_norm(U), 0 * V),
        "database": (0 * U, V / torch.linalg.matrix_norm(V)),
    }
    for name, pair in expected.items():
        for found, wanted in zip(gradients(norm=name), pair, strict=True):
            torch.testing.assert_close(found, wanted)


def test_the_printed_equations_are_another_function() -> None:
    """Eqs 11 and 12 are proportional neither to the gradient of ‖W‖² nor to that of ‖W‖."""
    printed = gradients(variant="as_printed")
    torch.testing.assert_close(printed[0], 2 * U @ U.T @ U + 4 * V @ V.T @ U)
    torch.testing.assert_close(printed[1], 2 * V @ V.T @ V + 4 * U @ U.T @ V)
    for name in ("squared_w", "w"):
        ratio = printed[0] / gradients(norm=name)[0]
        assert float(ratio.max() - ratio.min()) > 0.01


@pytest.mark.parametrize("name", RegularizerName.__args__)
def test_zero_maps_have_zero_gradients_and_gradcheck(name: str) -> None:
    zero = torch.zeros(4, 2, dtype=torch.float64)
    a, b = zero.clone().requires_grad_(), zero.clone().requires_grad_()
    for one in torch.autograd.grad(asymmetric_regularizer(a, b, norm=name), (a, b), materialize_grads=True):
        assert torch.equal(one, zero)
    leaves = (U.T.clone().requires_grad_(), V.T.clone().requires_grad_())
    assert torch.autograd.gradcheck(lambda x, y: asymmetric_regularizer(x, y, norm=name), leaves)


def test_views_of_different_width_and_joint_rotations() -> None:
    Q, _ = torch.linalg.qr(torch.randn(3, 3, generator=g, dtype=torch.float64))
    narrow = V.T[:2]
    for name, variant in itertools.product(RegularizerName.__args__, ["correct", "as_printed"]):
        if variant == "as_printed" and name != "squared_w":
            continue
        value = asymmetric_regularizer(U.T, narrow, norm=name, variant=variant)
        torch.testing.assert_close(asymmetric_regularizer(U.T @ Q, narrow @ Q, norm=name, variant=variant), value)


def test_bad_input() -> None:
    with pytest.raises(ShapeError, match="the 3 columns of `query_factor`, got 5"):
        asymmetric_regularizer(U.T, V)
    with pytest.raises(ParameterError, match="`norm` must be one of"):
        asymmetric_regularizer(U, V, norm="nuclear")
    with pytest.raises(ParameterError, match="`norm` must be 'squared_w' for the printed equations, got 'w'"):
        asymmetric_regularizer(U, V, norm="w", variant="as_printed")
    with pytest.raises(ParameterError, match="`variant` must be one of"):
        asymmetric_regularizer(U, V, variant="printed")
