"""The walk at its own tile size: classes that cross tiles, two sets and mining, against the dense formula."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from every_loss import CASES, batch, value_and_gradient
from nearer.losses import (
    BinomialDevianceLoss,
    CircleLoss,
    ContrastiveLoss,
    GeneralizedLiftedLoss,
    HistogramLoss,
    MarginLoss,
    NTXentLoss,
    PairLoss,
    RAWLoss,
    SupConLoss,
    TripletLoss,
)
from nearer.mining import VTHM
from nearer.pairwise._rule import Pairing
from nearer.pairwise._walk import Walk, sortable
from nearer.relations import ClassLabels

WALKED = [
    "RAWLoss()",
    "SupConLoss()",
    "NTXentLoss()",
    "InfoNCELoss()",
    "NCALoss()",
    "GeneralizedLiftedLoss()",
    "BinomialDevianceLoss()",
    "CircleLoss()",
    "ContrastiveLoss()",
    "DistanceContrastiveLoss()",
    "SquaredContrastiveLoss()",
    "MarginLoss(over=triplets, nu=0.1)",
    "HistogramLoss()",
]


def sized(sizes: list[int], seed: int = 0) -> tuple[Tensor, Tensor]:
    """Items of classes of given sizes, in random order."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    labels = labels[torch.randperm(len(labels), generator=generator)]
    centers = torch.randn(len(sizes), 6, generator=generator, dtype=torch.float64)
    return centers[labels] + torch.randn(len(labels), 6, generator=generator, dtype=torch.float64), labels


SHAPES = {
    "ragged": [1, 2, 3, 5, 8, 13, 21, 34] * 8 + [55, 9],
    "a class across tiles": [100] * 7,
    "one large class": [400, *([3] * 100)],
    "singletons": [1] * 700,
}


@pytest.mark.parametrize("name", WALKED)
@pytest.mark.parametrize("sizes", SHAPES.values(), ids=SHAPES.keys())
def test_a_batch_against_itself(name: str, sizes: list[int]) -> None:
    x, y = sized(sizes)
    assert sortable(Pairing(x, x, ClassLabels(y), 0))
    expected = value_and_gradient(CASES[name]().double().dense, x, y)
    found = value_and_gradient(CASES[name]().double(), x, y)
    torch.testing.assert_close(found[0], expected[0], rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(found[1], expected[1], rtol=1e-7, atol=1e-11)


@pytest.mark.parametrize("name", WALKED)
def test_queries_against_a_database(name: str) -> None:
    x, y = batch(150, 12, 6)
    d, k = sized([100, 1, 200, 0, 64, 65, 300, 2, 30, 31, 90, 400], seed=1)
    leaves = [tensor.clone().requires_grad_() for tensor in (x, d, x, d)]
    dense = CASES[name]().double().dense(leaves[0], y, database=leaves[1], database_labels=k)
    stream = CASES[name]().double()(leaves[2], y, database=leaves[3], database_labels=k)
    torch.testing.assert_close(stream, dense, rtol=1e-9, atol=1e-12)
    for a, b in zip(torch.autograd.grad(stream, leaves[2:]), torch.autograd.grad(dense, leaves[:2]), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-11)


@pytest.mark.parametrize(
    "kind",
    [RAWLoss, SupConLoss, NTXentLoss, GeneralizedLiftedLoss, BinomialDevianceLoss, CircleLoss, ContrastiveLoss],
    ids=lambda kind: kind.__name__,
)
@pytest.mark.parametrize("spread", [0.2, 1.0], ids=["few mined", "many mined"])
def test_a_threshold_miner_with_any_statistic(kind: type[PairLoss], spread: float) -> None:
    x, y = batch(640, 90, spread=spread)
    loss = kind(miner=VTHM(margin=0.1))  # type: ignore[call-arg]
    expected = value_and_gradient(loss.dense, x, y)
    found = value_and_gradient(loss, x, y)
    torch.testing.assert_close(found[0], expected[0], rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(found[1], expected[1], rtol=1e-7, atol=1e-11)


def test_every_same_class_pair_is_cleared_and_no_other() -> None:
    for sizes in SHAPES.values():
        x, y = sized(sizes)
        for pairing in (
            Pairing(x, x, ClassLabels(y), 0),
            Pairing(x[:300], x, ClassLabels(y[:300], y), 0),
            Pairing(x[:300], x[200:], ClassLabels(y[:300], y[200:]), None),
        ):
            walk = Walk(pairing)
            for tile in walk.tiles():
                values = torch.ones(tile.shape, dtype=x.dtype)
                walk.clear(tile, values)
                same = walk.codes[tile.rows, None] == walk.other_codes[None, tile.columns]
                assert torch.equal(values == 0, same)


def test_other_clients_of_the_walk() -> None:
    x, y = sized([1, 2, 3, 5, 8, 13, 21] * 12)
    for loss in (TripletLoss(), HistogramLoss(), MarginLoss()):
        expected = loss.double().weights(
            torch.nn.functional.normalize(x, dim=1) @ torch.nn.functional.normalize(x, dim=1).T, y
        )
        z = torch.nn.functional.normalize(x, dim=1).requires_grad_()
        (by_weights,) = torch.autograd.grad((expected * (z @ z.T)).sum(), z)
        found = value_and_gradient(loss, z.detach(), y)[1]
        along = by_weights - z.detach() * (by_weights * z.detach()).sum(1, keepdim=True)
        torch.testing.assert_close(found, along, rtol=1e-6, atol=1e-10)
