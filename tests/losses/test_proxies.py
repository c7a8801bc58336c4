"""Losses with class vectors: the printed formula, tiles, autograd, two real processes, peers, bad labels."""

from __future__ import annotations

import math
import traceback
import warnings
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import multiprocessing

from nearer.exceptions import LabelError, ParameterError, ShapeError
from nearer.losses import (
    AMSoftmaxLoss,
    ArcFaceLoss,
    NormalizedSoftmaxLoss,
    P2SGradLoss,
    ProxyAnchorLoss,
    ProxyNCALoss,
    SoftTripleLoss,
    SubCenterArcFaceLoss,
)
from nearer.pairwise import _classes as classes

C, D, N = 7, 5, 11


def random(seed=0):
    return torch.Generator().manual_seed(seed)


CASES = {
    "am-softmax": lambda c=C: AMSoftmaxLoss(c, D, generator=random()),
    "arcface": lambda c=C: ArcFaceLoss(c, D, scale=10.0, generator=random()),
    "normalized softmax": lambda c=C: NormalizedSoftmaxLoss(c, D, generator=random()),
    "proxy-nca": lambda c=C: ProxyNCALoss(c, D, generator=random()),
    "proxy-nca, own in": lambda c=C: ProxyNCALoss(c, D, own_in_denominator=True, generator=random()),
    "proxy-anchor": lambda c=C: ProxyAnchorLoss(c, D, generator=random()),
    "sub-center arcface": lambda c=C: SubCenterArcFaceLoss(c, D, centers=3, scale=10.0, generator=random()),
    "p2s-grad": lambda c=C: P2SGradLoss(c, D, generator=random()),
    "soft-triple": lambda c=C: SoftTripleLoss(c, D, centers=3, generator=random()),
}


def batch(n=N, c=C, seed=1):
    x = torch.randn(n, D, generator=random(seed), dtype=torch.float64)
    return x, torch.randint(c, (n,), generator=random(seed + 1))


def printed(name, loss, x, y):
    """The formulas of the papers, dense."""
    x = torch.nn.functional.normalize(x, dim=1)
    w = torch.nn.functional.normalize(loss.proxies, dim=1)
    cosine = x @ w.t()
    if name == "sub-center arcface":
        cosine = cosine.reshape(len(x), loss.n_classes, loss.width).amax(2)
    one_hot = torch.nn.functional.one_hot(y, loss.n_classes).to(x.dtype)
    entropy = torch.nn.functional.cross_entropy
    if name == "am-softmax":
        return entropy(loss.scale * (cosine - loss.margin * one_hot), y)
    if name == "normalized softmax":
        return entropy(cosine / 0.05, y)
    if name == "p2s-grad":
        return (cosine - one_hot).square().mean()
    if name in ("arcface", "sub-center arcface"):
        m = math.radians(loss.margin)
        turned = torch.cos(torch.arccos(cosine) + m)
        turned = torch.where(torch.arccos(cosine) > math.pi - m, cosine - m * math.sin(m), turned)
        return entropy(loss.scale * torch.where(one_hot > 0, turned, cosine), y)
    if name.startswith("proxy-nca"):
        d = loss.scale * torch.cdist(x, w).square()
        if loss.own_in_denominator:
            return entropy(-d, y)
        others = torch.where(one_hot > 0, -torch.inf, -d)
        return (d.gather(1, y[:, None]).squeeze(1) + others.logsumexp(1)).mean()
    if name == "proxy-anchor":
        pull = (torch.exp(-loss.alpha * (cosine - loss.delta)) * one_hot).sum(0)
        push = (torch.exp(loss.alpha * (cosine + loss.delta)) * (1 - one_hot)).sum(0)
        return pull.log1p().sum() / (one_hot.sum(0) > 0).sum() + push.log1p().sum() / loss.n_classes
    s = cosine.reshape(len(x), loss.n_classes, loss.width)
    soft = (torch.softmax(s / loss.temperature, 2) * s).sum(2)
    total = entropy(loss.scale * (soft - loss.margin * one_hot), y)
    for c in range(loss.n_classes):
        for t in range(loss.width):
            for u in range(t + 1, loss.width):
                product = w[c * loss.width + t] @ w[c * loss.width + u]
                total = total + loss.merging * torch.sqrt(2 + 1e-5 - 2 * product) / (
                    loss.n_classes * loss.width * (loss.width - 1)
                )
    return total


def value_and_gradients(call, loss, x):
    x = x.clone().requires_grad_()
    loss.zero_grad()
    value = call(x)
    value.backward()
    return value.detach(), x.grad, loss.proxies.grad.clone()


@pytest.mark.parametrize("name", list(CASES))
@pytest.mark.parametrize("tile", [1, 30, 1 << 20])
def test_tiles_are_the_printed_formula(name, tile, monkeypatch):
    monkeypatch.setattr(classes, "TILE", tile)
    loss = CASES[name]().double()
    x, y = batch()
    expected = value_and_gradients(lambda z: printed(name, loss, z, y), loss, x)
    found = value_and_gradients(lambda z: loss(z, y), loss, x)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", list(CASES))
class TestContract:
    def test_gradcheck(self, name):
        loss = CASES[name]().double()
        x, y = batch(4)
        torch.autograd.gradcheck(lambda z: loss(z, y), (x.requires_grad_(),), atol=1e-6)

    def test_half_precision_and_no_gradient(self, name):
        loss = CASES[name]()
        x, y = batch()
        with torch.no_grad():
            plain = loss(x.float(), y)
            half = loss(x.bfloat16(), y)
        assert half == pytest.approx(plain.item(), rel=0.05)

    def test_order_does_not_matter(self, name):
        loss = CASES[name]().double()
        x, y = batch()
        order = torch.randperm(N, generator=random(3))
        torch.testing.assert_close(loss(x[order], y[order]), loss(x, y))

    def test_one_class(self, name):
        loss = CASES[name](1)
        x = torch.randn(3, D, generator=random(), requires_grad=True)
        value = loss(x, torch.zeros(3, dtype=torch.int64))
        value.backward()
        assert value.isfinite()
        assert x.grad.isfinite().all()
        if name in ("am-softmax", "arcface", "normalized softmax") or name.startswith("proxy-nca"):
            assert value.item() == pytest.approx(0.0, abs=1e-6)

    def test_one_item_and_none(self, name):
        loss = CASES[name]()
        assert loss(torch.ones(1, D), torch.tensor([2])).isfinite()
        empty = loss(torch.ones(0, D, requires_grad=True), torch.zeros(0, dtype=torch.int64))
        empty.backward()
        assert empty.isfinite()

    def test_large_similarities_do_not_overflow(self, name):
        loss = CASES[name]()
        if hasattr(loss, "scale"):
            loss.scale = 1e4
        x, y = batch()
        z = x.float().requires_grad_()
        value = loss(z, y)
        value.backward()
        assert value.isfinite()
        assert z.grad.isfinite().all()

    def test_bad_labels(self, name):
        loss = CASES[name]()
        with pytest.raises(LabelError, match=r"must lie in 0\.\.6.*got 0 to 7"):
            loss(torch.ones(2, D), torch.tensor([0, 7]))
        with pytest.raises(LabelError, match="got -1 to 0"):
            loss(torch.ones(2, D), torch.tensor([0, -1]))
        with pytest.raises(ShapeError, match="must have 5 columns like the proxies, got 4"):
            loss(torch.ones(2, 4), torch.tensor([0, 1]))


def test_related_losses():
    x, y = batch()
    one = SoftTripleLoss(C, D, centers=1, margin=0.1, merging=0.0, generator=random()).double()
    am = AMSoftmaxLoss(C, D, generator=random()).double()
    torch.testing.assert_close(one(x, y), am(x, y))
    arc, sub = ArcFaceLoss(C, D, generator=random()), SubCenterArcFaceLoss(C, D, centers=1, generator=random())
    torch.testing.assert_close(sub.double()(x, y), arc.double()(x, y))
    plain = AMSoftmaxLoss(C, D, scale=20.0, margin=0.0, generator=random()).double()
    torch.testing.assert_close(plain(x, y), NormalizedSoftmaxLoss(C, D, generator=random()).double()(x, y))


def test_against_pytorch_metric_learning():
    peers = pytest.importorskip("pytorch_metric_learning.losses")
    x, y = batch()
    x = x.float()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pairs = [
            (AMSoftmaxLoss(C, D, scale=30.0, margin=0.35), peers.CosFaceLoss(C, D, margin=0.35, scale=30)),
            (ArcFaceLoss(C, D, scale=30.0, margin=20.0), peers.ArcFaceLoss(C, D, margin=20.0, scale=30)),
            (ProxyAnchorLoss(C, D), peers.ProxyAnchorLoss(C, D, margin=0.1, alpha=32)),
            (SubCenterArcFaceLoss(C, D), peers.SubCenterArcFaceLoss(num_classes=C, embedding_size=D)),
            (P2SGradLoss(C, D), peers.P2SGradLoss(D, C)),
        ]
        for ours, theirs in pairs:
            names = ("W", "proxies", "weight")
            weight = next(getattr(theirs, one) for one in names if hasattr(theirs, one))
            weight = weight if weight.shape == ours.proxies.shape else weight.t()
            ours.proxies.data.copy_(weight)
            assert ours(x, y).item() == pytest.approx(theirs(x, y).item(), rel=2e-4), type(ours).__name__


def test_settings_are_checked():
    with pytest.raises(ParameterError, match="`n_classes`"):
        AMSoftmaxLoss(0, 4)
    with pytest.raises(ParameterError, match="`margin`"):
        ArcFaceLoss(3, 4, margin=200.0)
    with pytest.raises(ParameterError, match="`temperature`"):
        NormalizedSoftmaxLoss(3, 4, temperature=0.0)


def _work(rank, meeting, errors):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    x, y = batch(24)
    own = slice(0, 14) if rank == 0 else slice(14, 24)
    failures = []
    for name, make in CASES.items():
        try:
            whole, shard = make().double(), make().double()
            expected = value_and_gradients(lambda z, loss=whole: loss(z, y), whole, x)
            sharded = shard.sharded()
            found = value_and_gradients(lambda z, loss=sharded: loss(z, y[own]), shard, x[own])
            torch.testing.assert_close(found[0], expected[0], rtol=1e-9, atol=1e-11)
            # Averaged over the processes afterwards, as the training loop does.
            torch.testing.assert_close(found[1] / 2, expected[1][own], rtol=1e-7, atol=1e-10)
            joint = found[2].clone()
            dist.all_reduce(joint)
            torch.testing.assert_close(joint / 2, expected[2], rtol=1e-7, atol=1e-10)
        except Exception:
            failures.append(f"{name}:\n{traceback.format_exc()}")
    if failures:
        Path(f"{errors}-{rank}").write_text("\n".join(failures))
    dist.barrier()
    dist.destroy_process_group()


def test_two_processes_with_their_own_classes(tmp_path):
    multiprocessing.spawn(_work, args=(str(tmp_path / "meeting"), str(tmp_path / "errors")), nprocs=2)
    failures = [file.read_text() for file in tmp_path.glob("errors-*")]
    assert not failures, "\n".join(failures)
