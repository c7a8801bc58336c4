"""Dynamic soft margin loss: loops, the peer, a histogram that moves, bad calls."""

from __future__ import annotations

import warnings

import pytest
import torch

from every_loss import batch
from nearer.exceptions import ParameterError, ShapeError
from nearer.losses import DynamicSoftMarginLoss


def printed(gaps, histogram, momentum, bins):
    """The histogram after these gaps, and the loss."""
    fresh = [0.0] * bins
    for g in gaps:
        place = (g + 2) * bins / 4
        low = min(int(place), bins - 1)
        fresh[low] += 1 - (place - low)
        fresh[min(low + 1, bins - 1)] += place - low
    share = momentum if any(histogram) else 1.0
    moved = [(1 - share) * old + share * new for old, new in zip(histogram, fresh, strict=True)]
    moved = [value / sum(moved) for value in moved]
    weights = [sum(moved[: min(int((g + 2) * bins / 4), bins - 1) + 1]) for g in gaps]
    return sum(w * g for w, g in zip(weights, gaps, strict=True)) / len(gaps), moved


def gaps_of(x, y):
    z = torch.nn.functional.normalize(x, dim=1)
    d = (z[:, None] - z[None]).square().sum(2).sqrt()
    n = len(x)
    return [
        float(d[a, p] - d[a, k])
        for a in range(n)
        for p in range(n)
        for k in range(n)
        if p != a and y[p] == y[a] and y[k] != y[a]
    ]


def test_the_printed_formula_over_three_batches():
    loss = DynamicSoftMarginLoss(bins=12, momentum=0.2)
    histogram = [0.0] * 12
    for seed in range(3):
        x, y = batch(12, 4, seed=seed)
        expected, histogram = printed(gaps_of(x, y), histogram, 0.2, 12)
        assert loss(x, y).item() == pytest.approx(expected, rel=1e-9)
        assert loss.histogram.tolist() == pytest.approx(histogram, rel=1e-9)
    kept = loss.histogram.clone()
    loss.eval()(x, y)
    assert torch.equal(loss.histogram, kept)
    again = DynamicSoftMarginLoss(bins=12, momentum=0.2)
    again.load_state_dict(loss.state_dict())
    assert torch.equal(again.eval()(x, y), loss(x, y))


def test_the_gradient_with_the_weights_held():
    x, y = batch(10, 3)
    loss = DynamicSoftMarginLoss(bins=50)
    loss(x, y)
    loss.eval()
    leaf = x.clone().requires_grad_()
    # Steps that small stay in their bins, so the weights are constant and differences see the gradient.
    assert torch.autograd.gradcheck(lambda e: loss(e, y), leaf, eps=1e-9, atol=1e-4)


def test_tuples_and_views():
    x, y = batch(12, 4)
    positive = (y[:, None] == y[None]) & ~torch.eye(12, dtype=torch.bool)
    pairs = (*positive.nonzero(as_tuple=True), *(y[:, None] != y[None]).nonzero(as_tuple=True))
    torch.testing.assert_close(DynamicSoftMarginLoss()(x, y, pairs), DynamicSoftMarginLoss()(x, y))
    triplets = ([0, 1], [2, 3], [4, 5])
    z = torch.nn.functional.normalize(x, dim=1)
    gaps = [float((z[a] - z[p]).norm() - (z[a] - z[n]).norm()) for a, p, n in zip(*triplets, strict=True)]
    expected, _ = printed(gaps, [0.0] * 10, 1.0, 10)
    assert DynamicSoftMarginLoss()(x, y, triplets).item() == pytest.approx(expected)
    d = torch.cdist(z[:6], z[6:])
    hardest = [min(float(d[i, j]) for i in range(6) for j in range(6) if (i == k) != (j == k)) for k in range(6)]
    expected, _ = printed([float(d[k, k]) - hardest[k] for k in range(6)], [0.0] * 10, 1.0, 10)
    assert DynamicSoftMarginLoss()(x[:6], ref_emb=x[6:]).item() == pytest.approx(expected)


def test_the_peer():
    peers = pytest.importorskip("pytorch_metric_learning.losses")
    warnings.simplefilter("ignore")
    theirs, ours = peers.DynamicSoftMarginLoss(), DynamicSoftMarginLoss()
    for seed in range(2):
        x, y = batch(16, 4, spread=0.4, seed=seed)
        torch.testing.assert_close(ours(x, y), theirs(x, y).double(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(ours(x[:8], ref_emb=x[8:]), theirs(x[:8], ref_emb=x[8:]), rtol=1e-5, atol=1e-6)


def test_nothing_and_bad_calls():
    x, y = batch(6, 3)
    loss = DynamicSoftMarginLoss()
    for rows, labels in (
        (x[:0], y[:0]),
        (x[:1], y[:1]),
        (x, torch.arange(6)),
        (x, torch.zeros(6, dtype=torch.int64)),
    ):
        leaf = rows.clone().requires_grad_()
        value = loss(leaf, labels)
        value.backward()
        assert value == 0
    assert not loss.histogram.any()
    with pytest.raises(ParameterError, match="`labels` must be given, or `ref_emb` alone"):
        loss(x)
    with pytest.raises(ParameterError, match="`ref_emb` must be left out"):
        loss(x, y, ref_emb=x)
    with pytest.raises(ShapeError, match=r"`ref_emb` must have the shape \(6, 8\)"):
        loss(x, ref_emb=x[:5])
    with pytest.raises(ParameterError, match="`bins`"):
        DynamicSoftMarginLoss(bins=1)
