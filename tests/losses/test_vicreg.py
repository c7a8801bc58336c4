"""VICReg: the printed formula by loops, the peer, small batches, bad input."""

from __future__ import annotations

import warnings

import pytest
import torch

from nearer.exceptions import NotFiniteError, ParameterError, ShapeError
from nearer.losses import VICRegLoss

RANDOM = torch.Generator().manual_seed(0)
A, B = (torch.randn(9, 4, generator=RANDOM, dtype=torch.float64) * 0.7 for _ in range(2))


def printed(a, b, invariance, variance, covariance, epsilon):
    n, d = a.shape
    total = invariance * sum(float((a[i, j] - b[i, j]) ** 2) for i in range(n) for j in range(d)) / (n * d)
    for z in (a, b):
        mean = z.sum(0) / n
        cross = sum(torch.outer(row - mean, row - mean) for row in z) / (n - 1)
        spread = [max(0.0, 1 - float(cross[j, j] + epsilon) ** 0.5) for j in range(d)]
        total += variance / 2 * sum(spread) / d
        total += covariance * sum(float(cross[j, k]) ** 2 for j in range(d) for k in range(d) if j != k) / d
    return total


def test_the_printed_formula_and_gradient():
    loss = VICRegLoss(invariance=3.0, variance=2.0, covariance=0.5, epsilon=1e-3)
    assert loss(A, B).item() == pytest.approx(printed(A, B, 3.0, 2.0, 0.5, 1e-3), rel=1e-12)
    views = A.clone().requires_grad_(), B.clone().requires_grad_()
    assert torch.autograd.gradcheck(loss, views)


def test_the_peer():
    peers = pytest.importorskip("pytorch_metric_learning.losses")
    warnings.simplefilter("ignore")
    torch.testing.assert_close(VICRegLoss()(A, ref_emb=B), peers.VICRegLoss()(A, ref_emb=B))


def test_small_batches():
    one = VICRegLoss(invariance=1.0)(A[:1], B[:1])
    torch.testing.assert_close(one, (A[:1] - B[:1]).square().mean())
    leaf = A[:0].clone().requires_grad_()
    nothing = VICRegLoss()(leaf, B[:0])
    nothing.backward()
    assert nothing == 0
    assert VICRegLoss()(A.half(), B.half()).dtype == torch.float32
    same = A.clone().requires_grad_()
    VICRegLoss()(same * 0, same * 0).backward()  # collapsed: the root keeps a finite slope
    assert same.grad.isfinite().all()


def test_bad_input():
    with pytest.raises(ShapeError, match=r"`ref_emb` must be the second view, of shape \(9, 4\).*got \(8, 4\)"):
        VICRegLoss()(A, B[:8])
    with pytest.raises(ShapeError, match=r"`ref_emb` must have shape \(n, d\)"):
        VICRegLoss()(A, torch.arange(9))
    with pytest.raises(NotFiniteError, match="`ref_emb`"):
        VICRegLoss()(A, B / 0)
    with pytest.raises(ParameterError, match="`epsilon`"):
        VICRegLoss(epsilon=0.0)
    assert repr(VICRegLoss()) == "VICRegLoss(invariance=25.0, variance=25.0, covariance=1.0, epsilon=0.0001)"
