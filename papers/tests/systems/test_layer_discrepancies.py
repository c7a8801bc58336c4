"""What joint representation similarity is compared with: JMMD and the penalty inside classes."""

from __future__ import annotations

import pytest
import torch

from layer_formulas import LABELS, mixture, random_layers, squared
from nearer.losses import Gaussian, MomentGenerating, Polynomial
from nearer_papers.systems import IntraClassPenalty, JMMDLoss


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
