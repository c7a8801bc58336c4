"""Mixed precision: every loss and miner under autocast, and on embeddings that are half precision themselves.

Losses compute in single precision whatever is around them (exponents of 25 overflow in half precision), so under
autocast they must give the float32 numbers; embeddings of half precision get gradients of half precision, and may
differ by its rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from every_loss import CASES, MINERS, OTHERS, batch, plain
from nearer.losses import ContrastiveLoss, RAWLoss

HALVES = [torch.bfloat16, torch.float16]
X, Y = batch(48, 8, even=True)
# These hold a layer of a network, which autocast runs in half precision: that is what it is for.
WITH_LAYERS = {"ABIERLoss", "EnergyConfusionLoss", "HDMLLoss"}
ALL: dict[str, tuple[Callable[[], Any], Callable[..., Any]]] = {
    **{name: (make, plain) for name, make in CASES.items()},
    **OTHERS,
    **{f"RAWLoss with {name}": (lambda make=make: RAWLoss(miner=make()), plain) for name, make in MINERS.items()},
}


def computed(name: str, x: Tensor, autocast: torch.dtype | None = None) -> tuple[Tensor, list[Tensor]]:
    """The value of a fresh loss, and its gradients by the embeddings and by parameters.

    The backward pass runs outside of autocast, as torch asks for.
    """
    make, call = ALL[name]
    torch.manual_seed(0)
    loss = make()
    if isinstance(loss, nn.Module):
        loss = loss.float()
    leaf = x.detach().clone().requires_grad_()
    with torch.autocast("cpu", dtype=autocast) if autocast else nullcontext():
        value = call(loss, leaf, Y)
    leaves = [leaf, *(loss.parameters() if isinstance(loss, nn.Module) else [])]
    found = torch.autograd.grad(value, leaves, allow_unused=True)
    return value.detach(), [one for one in found if one is not None]


@cache
def exact(name: str, half: torch.dtype) -> tuple[Tensor, list[Tensor]]:
    """In single precision, on rows that half precision can hold."""
    return computed(name, X.to(half).float())


def assert_near(found: tuple[Tensor, list[Tensor]], expected: tuple[Tensor, list[Tensor]], eps: float) -> None:
    """Within `eps` of the number, and for gradients of their largest entry: the bias of a layer may have none."""
    torch.testing.assert_close(found[0].float(), expected[0], rtol=eps, atol=eps)
    assert len(found[1]) == len(expected[1])
    largest = max(float(one.abs().max()) for one in expected[1])
    for one, other in zip(found[1], expected[1], strict=True):
        torch.testing.assert_close(one.float(), other.float(), rtol=eps, atol=eps * largest)


@pytest.mark.parametrize("half", HALVES, ids=str)
@pytest.mark.parametrize("name", ALL)
def test_autocast_does_not_reach_a_loss(name: str, half: torch.dtype) -> None:
    found = computed(name, X.to(half).float(), half)
    assert found[0].dtype == torch.float32
    assert_near(found, exact(name, half), 8 * torch.finfo(half).eps if name in WITH_LAYERS else 1e-5)


@pytest.mark.parametrize("half", HALVES, ids=str)
@pytest.mark.parametrize("name", ALL)
def test_embeddings_of_half_precision(name: str, half: torch.dtype) -> None:
    # Only the gradient is rounded, once for each time that the loss was given the rows.
    eps = torch.finfo(half).eps * (8 if name in WITH_LAYERS else 2)
    x = X.to(half)
    # A layer of float32 takes rows of half precision under autocast only.
    for autocast in (half,) if name in WITH_LAYERS else (half, None):
        found = computed(name, x, autocast)
        assert found[0].dtype == torch.float32
        assert found[1][0].dtype == half
        assert_near(found, exact(name, half), eps)


@pytest.mark.parametrize("half", HALVES, ids=str)
@pytest.mark.parametrize("name", MINERS)
def test_a_miner_picks_the_same_pairs(name: str, half: torch.dtype) -> None:
    x = X.to(half)
    expected = MINERS[name]()(x.float(), Y)
    with torch.autocast("cpu", dtype=half):
        found = MINERS[name]()(x, Y)
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)


def test_rows_that_half_precision_cannot_square() -> None:
    """300² does not fit into float16."""
    x = (X * 300).to(torch.float16).requires_grad_()
    value = ContrastiveLoss()(x, Y)
    value.backward()
    torch.testing.assert_close(value, ContrastiveLoss()(x.detach().float(), Y))
    assert x.grad is not None
    assert bool(x.grad.isfinite().all())
