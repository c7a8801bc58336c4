"""Joint representation similarity: the printed sums and kernels, tiles, autograd, variants, taps, bad input."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from layer_formulas import LABELS, N, different, mixture, random_layers, squared
from nearer.exceptions import NotFiniteError, ParameterError, ShapeError
from nearer.losses import (
    AMSoftmaxLoss,
    Gaussian,
    JRDLoss,
    JRSLoss,
    Laplace,
    MomentGenerating,
    Polynomial,
)
from nearer.losses.layers._jrs import class_layer
from nearer.losses.layers._layer_kernels import mean_of_pairs
from nearer.losses.layers._taps import tapped
from nearer.pairwise import _joint as joint


def test_closed_form_bandwidth():
    for x in random_layers():
        expected = squared(x).sum() / (N * (N - 1))
        for rows in (x, x + 1e6):
            lengths = (rows - rows.mean(0)).square().sum(1)
            assert mean_of_pairs(lengths) == pytest.approx(float(expected), rel=1e-6)
    assert mean_of_pairs(torch.zeros(3)) == pytest.approx(1e-12)


@pytest.mark.parametrize(("side", "small"), [(1, 256), (4, 3), (256, 256), (256, 2)])
@pytest.mark.parametrize("combine", ["product", "sum", "concatenate"])
def test_the_printed_sums(side, small, combine, monkeypatch):
    monkeypatch.setattr(joint, "SIDE", side)
    monkeypatch.setattr(joint, "SMALL", small)  # tiles of the diagonal are cut into three or not
    layers = [layer.requires_grad_() for layer in random_layers()]
    if combine == "product":
        expected = different(mixture(layers[0], 3) * mixture(layers[1], 3) * mixture(layers[2], 1))
    elif combine == "sum":
        expected = different(mixture(layers[0], 3) + mixture(layers[1], 3) + mixture(layers[2], 1))
    else:
        expected = different(mixture(torch.cat(layers, 1), 3))
    wanted = torch.autograd.grad(expected, layers)
    found = JRSLoss(combine=combine)(layers, LABELS)
    torch.testing.assert_close(found, expected)
    for a, b in zip(torch.autograd.grad(found, layers), wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("rank", [1, 4])
def test_class_vectors_of_low_rank_in_single_precision(rank):
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(600, rank, generator=generator) @ torch.randn(rank, 128, generator=generator)
    vectors = torch.nn.functional.normalize(vectors, dim=1).requires_grad_()
    x = torch.nn.functional.normalize(torch.randn(30, 128, generator=generator), dim=1)
    near = class_layer(x, vectors)
    cosines = x @ vectors.t()
    exact = {"compute_mode": "donot_use_mm_for_euclid_dist"}
    torch.testing.assert_close(
        torch.cdist(near, near, **exact), torch.cdist(cosines, cosines, **exact), rtol=1e-3, atol=1e-2
    )
    # A loss of the distances alone has the same slope by the class vectors as through the cosines.
    slopes = [torch.autograd.grad((rows[:15] - rows[15:]).square().sum(), vectors)[0] for rows in (near, cosines)]
    torch.testing.assert_close(*slopes, rtol=1e-2, atol=1e-2)


def test_jrd_is_softmax_plus_alpha_jrs():
    pooled, x, _ = random_layers()
    softmax = AMSoftmaxLoss(4, 4, generator=torch.Generator().manual_seed(1)).double()
    unit = nn.functional.normalize(x)
    cosines = unit @ nn.functional.normalize(softmax.proxies).t()
    expected = softmax(x, LABELS) + 0.7 * JRSLoss()([pooled, unit, cosines], LABELS)
    torch.testing.assert_close(JRDLoss(softmax, alpha=0.7)(x, LABELS, pooled=pooled), expected)


def test_wide_class_layers_through_their_gram():
    x = random_layers()[1]
    wide = torch.randn(50, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    narrow = class_layer(x, wide)
    assert narrow.shape == (N, 4)
    torch.testing.assert_close(squared(narrow), squared(x @ wide.t()), rtol=1e-5, atol=1e-5)


def test_edges():
    layers = random_layers()
    for rows, labels in ((slice(0, 1), LABELS[:1]), (slice(0, 5), torch.zeros(5, dtype=torch.int64))):
        cut = [layer[rows].requires_grad_() for layer in layers]
        value = JRSLoss()(cut, labels)
        value.backward()
        assert value.item() == 0
        assert all(not layer.grad.any() for layer in cut)
    far = [layer * 1e3 for layer in layers]
    fixed = JRSLoss(kernels=[Gaussian(bandwidth=1e-3)] * 3)(far, LABELS)
    assert fixed.item() == 0
    assert fixed.isfinite()


def test_bad_input():
    layers = random_layers()
    with pytest.raises(ShapeError, match=r"same number of rows, got \[5, 13\]"):
        JRSLoss()([layers[0], layers[1][:5]], LABELS)
    with pytest.raises(ParameterError, match="one layer or more"):
        JRSLoss()([], LABELS)
    with pytest.raises(ParameterError, match="one for each of the 3 layers, got 1"):
        JRSLoss(kernels=[Gaussian()])(layers, LABELS)
    with pytest.raises(ParameterError, match="`combine`"):
        JRSLoss(combine="prodct")


def test_taps_see_the_layers_and_go_again():
    network = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 36, 5))
    images = torch.rand(4, 1, 8, 8)
    with tapped(network, ["1", "3"]) as layers:
        out = network(images)
        loss = JRSLoss()(layers, torch.tensor([0, 1, 0, 1]))
    assert torch.equal(layers[1], out)
    assert layers[0].shape == (4, 3)
    loss.backward()
    assert network[0].weight.grad.isfinite().all()
    assert not any(module._forward_hooks for module in network.modules())
    with pytest.raises(ParameterError, match="must be sub-modules"), tapped(network, ["9"]):
        pass
    with pytest.raises(RuntimeError), tapped(network, ["1"]):
        network(torch.rand(4, 2, 8, 8))
    assert not any(module._forward_hooks for module in network.modules())


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


def test_a_polynomial_that_would_overflow_is_refused():
    with pytest.raises(NotFiniteError, match="The polynomial kernel of degree 5 must have rows of squared length"):
        JRSLoss(kernels=[Polynomial(degree=5)])([torch.full((2, 4), 1e4)], torch.tensor([0, 1]))


def test_moments_that_would_overflow_are_refused():
    with pytest.raises(NotFiniteError, match=r"would overflow\. Normalise this layer"):
        JRSLoss(kernels=[MomentGenerating()])([random_layers()[0] * 10], LABELS)
