"""Manifold loss: loops and an explicit inverse, the peer, drawn proxies, bad input."""

from __future__ import annotations

import math
import warnings

import pytest
import torch

from every_loss import batch
from nearer.exceptions import LabelError, ParameterError, ShapeError
from nearer.losses import ManifoldLoss

Y = torch.tensor([0, 1, 2, 2, 1, 0, 2, 1])


def make(**settings):
    return ManifoldLoss(8, n_proxies=3, generator=torch.Generator().manual_seed(4), **settings).double()


def printed(x, proxies, y, context, alpha, margin):
    nodes = torch.nn.functional.normalize(torch.cat([x, proxies]), dim=1)
    n, total = len(x), len(nodes)
    s = [
        [0.0 if i == j else math.exp(max(float(nodes[i] @ nodes[j]), 0.0) / 0.5) for j in range(total)]
        for i in range(total)
    ]
    degree = [sum(row) for row in s]
    bar = torch.tensor(
        [[s[i][j] / math.sqrt(degree[i] * degree[j]) for j in range(total)] for i in range(total)],
        dtype=torch.float64,
    )
    f = (1 - alpha) * torch.linalg.inv(torch.eye(total, dtype=torch.float64) - alpha * bar)
    loss = 0.0
    for weight, value in (
        (1.0, lambda i, k: float(f[i, n + k])),
        (context, lambda i, k: float(torch.nn.functional.cosine_similarity(f[i], f[n + k], dim=0))),
    ):
        for i in range(n):
            gaps = [value(i, k) - value(i, int(y[i])) + margin for k in range(len(proxies)) if k != y[i]]
            loss += weight * math.log1p(sum(math.exp(gap) for gap in gaps if gap >= 0)) / n
    return loss


@pytest.mark.parametrize("settings", [{}, {"context": 0.0}, {"context": 2.0, "alpha": 0.5, "margin": 0.01}])
def test_the_printed_formula(settings):
    x, _ = batch(8, 3)
    loss = make(**settings)
    full = {"context": 1.0, "alpha": 0.8, "margin": 5e-4, **settings}
    assert loss(x, Y).item() == pytest.approx(printed(x, loss.proxies.detach(), Y, **full), rel=1e-9)
    assert torch.autograd.gradcheck(lambda e: loss(e, Y), x.clone().requires_grad_())


def test_the_peer():
    peers = pytest.importorskip("pytorch_metric_learning.losses")
    warnings.simplefilter("ignore")
    x, _ = batch(8, 3)
    ours, theirs = make(), peers.ManifoldLoss(8, K=3)
    theirs.proxies.data = ours.proxies.detach().clone()
    # Its inverse is taken in single precision.
    assert ours(x, Y).item() == pytest.approx(theirs(x, indices_tuple=Y).item(), rel=1e-5)


def test_training_moves_items_to_their_proxies():
    x, _ = batch(12, 3, seed=2)
    leaf, loss, y = x.clone().requires_grad_(), make(), torch.arange(12) % 3
    optimizer = torch.optim.Adam([leaf, *loss.parameters()], lr=0.05)
    for _ in range(150):
        optimizer.zero_grad()
        loss(leaf, y).backward()
        optimizer.step()
    z = torch.nn.functional.normalize(leaf.detach(), dim=1) @ torch.nn.functional.normalize(loss.proxies, dim=1).T
    assert torch.equal(z.argmax(1), y)


def test_drawn_proxies_and_nothing():
    loss = make()
    assert sorted(set(loss._drawn(7).tolist())) == [0, 1, 2]
    assert len(set(loss._drawn(2).tolist())) == 2
    x, _ = batch(8, 3)
    assert loss(x).isfinite()
    leaf = x[:0].clone().requires_grad_()
    nothing = loss(leaf, Y[:0])
    nothing.backward()
    assert nothing == 0
    assert loss(x[:1], Y[:1]).isfinite()


def test_bad_input():
    x, _ = batch(8, 3)
    with pytest.raises(ShapeError, match="must have 8 columns, got 7"):
        make()(x[:, :7], Y)
    with pytest.raises(LabelError, match=r"must lie in 0\.\.2, a proxy each, got 0 to 5"):
        make()(x, torch.arange(8) % 6)
    with pytest.raises(ParameterError, match="`alpha`"):
        make(alpha=1.0)
