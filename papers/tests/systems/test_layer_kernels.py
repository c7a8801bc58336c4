"""What joint representation similarity is compared with: other kernels, JMMD, the penalty inside classes."""

from __future__ import annotations

import pytest
import torch

from nearer.exceptions import NotFiniteError
from nearer.losses import Gaussian, JRSLoss, Laplace, MomentGenerating, Polynomial
from nearer_papers.systems import IntraClassPenalty, JMMDLoss

N = 13
LABELS = torch.arange(N) % 4


def random_layers(seed=0):
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(N, d, generator=g, dtype=torch.float64) * s for d, s in ((6, 1.5), (4, 0.5), (3, 0.3))]


def squared(x):
    return (x[:, None] - x[None]).square().sum(2)


def mixture(x, components):
    d = squared(x)
    b = d.sum() / (N * (N - 1))
    rates = [1 / (b.detach() * 2.0 ** (u - components // 2)) for u in range(components)]
    return torch.stack([torch.exp(-d * rate) for rate in rates]).mean(0)


def different(values, labels=LABELS):
    keep = labels[:, None] != labels[None]
    return values[keep].sum() / keep.sum()


KERNELS = {
    "laplace": (lambda: Laplace(bandwidth=3.0), lambda x: torch.exp(-(x[:, None] - x[None]).abs().sum(2) / 3)),
    "polynomial": (lambda: Polynomial(degree=2), lambda x: (x @ x.t() + 1) ** 2),
    "odd polynomial": (lambda: Polynomial(degree=5), lambda x: (x @ x.t() + 1) ** 5),
    "clamped": (lambda: Polynomial(degree=2, clamped=True), lambda x: (x @ x.t() + 1).clamp_min(0) ** 2),
    "moments": (MomentGenerating, lambda x: torch.exp(x @ x.t())),
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernels(name):
    make, formula = KERNELS[name]
    # Wide enough that many products lie below −1, where the clamped kernel is another one.
    x = (random_layers()[1] * (0.5 if name == "moments" else 1.5)).requires_grad_()
    expected = different(formula(x))
    assert name == "moments" or float((x @ x.t() < -1).double().mean()) > 0.05
    (wanted,) = torch.autograd.grad(expected, [x])
    found = JRSLoss(kernels=[make()])([x], LABELS)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(torch.autograd.grad(found, [x])[0], wanted, rtol=1e-8, atol=1e-10)


def test_the_mean_of_the_laplace_bandwidth():
    x = random_layers()[0]
    mean = (x[:, None] - x[None]).abs().sum() / (N * (N - 1))
    assert 1 / Laplace().fitted(x).rate == pytest.approx(mean.item())


def test_jmmd_is_the_mean_discrepancy():
    layers = [layer.requires_grad_() for layer in random_layers()[:2]]
    k = mixture(layers[0], 3) * mixture(layers[1], 3)
    total = 0.0
    for a in range(4):
        for b in range(4):
            if a != b:
                block = lambda p, q: k[p == LABELS][:, q == LABELS].mean()  # noqa: E731
                total = total + block(a, a) + block(b, b) - 2 * block(a, b)
    expected = -total / 12
    found = JMMDLoss()(layers, LABELS)
    torch.testing.assert_close(found, expected)
    wanted = torch.autograd.grad(expected, layers)
    for a, b in zip(torch.autograd.grad(found, layers), wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("combine", ["product", "sum"])
def test_jmmd_with_kernels_below_zero_and_kernels_given_as_logarithms(combine):
    layers = [
        (layer * scale).requires_grad_() for layer, scale in zip(random_layers(), (1.5, 0.5, 1.0), strict=True)
    ]
    tables = [(layers[0] @ layers[0].t() + 1) ** 3, torch.exp(layers[1] @ layers[1].t()), mixture(layers[2], 1)]
    k = tables[0] * tables[1] * tables[2] if combine == "product" else sum(tables)
    expected = 0.0
    for a in range(4):
        for b in range(4):
            if a != b:
                block = lambda p, q: k[p == LABELS][:, q == LABELS].mean()  # noqa: E731
                expected = expected - (block(a, a) + block(b, b) - 2 * block(a, b)) / 12
    kernels = [Polynomial(degree=3), MomentGenerating(), Gaussian(components=1)]
    found = JMMDLoss(kernels=kernels, combine=combine)(layers, LABELS)
    torch.testing.assert_close(found, expected)
    wanted = torch.autograd.grad(expected, layers)
    for a, b in zip(torch.autograd.grad(found, layers), wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-10)


def test_a_polynomial_that_would_overflow_is_refused():
    with pytest.raises(NotFiniteError, match="The polynomial kernel of degree 5 must have rows of squared length"):
        JRSLoss(kernels=[Polynomial(degree=5)])([torch.full((2, 4), 1e4)], torch.tensor([0, 1]))


def test_moments_that_would_overflow_are_refused():
    with pytest.raises(NotFiniteError, match=r"would overflow\. Normalise this layer"):
        JRSLoss(kernels=[MomentGenerating()])([random_layers()[0] * 10], LABELS)


def test_intra_class_penalty():
    x = random_layers()[1].requires_grad_()
    labels = torch.tensor([0, 0, 0, 1, 1, 2, *[3] * 7])
    expected = 0.0
    for label in (0, 1, 3):
        members = x[labels == label]
        k = torch.exp(-squared(members) / 2)
        n = len(members)
        expected = expected - (k.sum() - n) / (n * (n - 1))
    found = IntraClassPenalty()(x, labels)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(*(torch.autograd.grad(v, [x])[0] for v in (found, expected)))
