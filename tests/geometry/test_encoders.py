"""The encoders have the layers, sizes and first weights that the paper and its code state."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from nearer.exceptions import NotFiniteError, ParameterError, ShapeError
from nearer.geometry import MLP, Chain, Mahalanobis, OrthogonalMap, embed
from nearer.geometry._encoders import ColorCNN, DigitsCNN


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def weights(module: nn.Module) -> list[nn.Conv2d | nn.Linear]:
    return [layer for layer in module.modules() if isinstance(layer, nn.Conv2d | nn.Linear)]


def sides(layers: nn.Sequential, image: torch.Tensor) -> list[int]:
    """The side of the image after each layer that changes it."""
    found = [image.shape[-1]]
    for layer in layers:
        image = layer(image)
        if image.ndim == 4 and image.shape[-1] != found[-1]:
            found.append(image.shape[-1])
    return found


def test_the_network_for_gray_images_has_the_printed_layers() -> None:
    net = DigitsCNN(generator=generator())
    assert [tuple(layer.weight.shape) for layer in weights(net)] == [
        (20, 1, 5, 5),
        (50, 20, 5, 5),
        (500, 50, 4, 4),
        (128, 500),
    ]
    assert sides(net.layers, torch.rand(2, 1, 28, 28)) == [28, 24, 12, 8, 4, 1]
    assert sum(p.numel() for p in net.parameters()) == 520 + 25_050 + 400_500 + 64_128
    for layer in weights(net):
        assert math.isclose(float(layer.weight.detach().std()), 0.01, rel_tol=0.1)
        assert not layer.bias.detach().any()


def test_the_network_for_color_images_has_the_printed_layers() -> None:
    net = ColorCNN(generator=generator())
    assert [tuple(layer.weight.shape) for layer in weights(net)] == [
        (32, 3, 5, 5),
        (32, 32, 5, 5),
        (64, 32, 5, 5),
        (64, 64, 4, 4),
    ]
    assert sides(net.layers, torch.rand(2, 3, 32, 32)) == [32, 16, 8, 4, 1]
    kinds = [type(layer).__name__ for layer in net.layers]
    assert kinds == [
        *("Conv2d", "MaxPool2d", "ReLU", "Conv2d", "ReLU", "AvgPool2d"),
        *("Conv2d", "ReLU", "AvgPool2d", "Conv2d", "ReLU", "Flatten"),
    ]
    for layer, deviation in zip(weights(net), (0.01, 0.05, 0.05, 0.05), strict=True):
        assert math.isclose(float(layer.weight.detach().std()), deviation, rel_tol=0.1)


def test_a_mean_at_the_border_is_over_the_pixels_that_are_there() -> None:
    pool = next(layer for layer in ColorCNN().layers if isinstance(layer, nn.AvgPool2d))
    assert torch.equal(pool(torch.ones(1, 1, 16, 16)), torch.ones(1, 1, 8, 8))


def test_batch_norm_follows_each_convolution() -> None:
    for net in (DigitsCNN(batch_norm=True), ColorCNN(batch_norm=True)):
        layers = list(net.layers)
        convolutions = [i for i, layer in enumerate(layers) if isinstance(layer, nn.Conv2d)]
        assert all(isinstance(layers[i + 1], nn.BatchNorm2d) for i in convolutions)


@pytest.mark.parametrize(
    ("build", "shape", "width"),
    [
        (lambda **options: MLP(6, 4, hidden=(9, 5), **options), (7, 6), 4),
        (lambda **options: MLP(6, 4, hidden=(), activation="tanh", **options), (7, 6), 4),
        (lambda **options: DigitsCNN(16, **options), (7, 1, 28, 28), 16),
        (lambda **options: ColorCNN(batch_norm=True, **options), (7, 3, 32, 32), 64),
    ],
)
def test_rows_of_length_one_repeatable_and_trainable(
    build: Callable[..., nn.Module], shape: tuple[int, ...], width: int
) -> None:
    x = torch.randn(shape, generator=generator(1))
    net = build(generator=generator()).eval()
    z = net(x)
    assert z.shape == (7, width)
    torch.testing.assert_close(z.norm(dim=1), torch.ones(7))
    twin = build(generator=generator()).eval()
    assert all(torch.equal(a, b) for a, b in zip(twin.parameters(), net.parameters(), strict=True))
    torch.testing.assert_close(twin(x), z)
    free = build(generator=generator(), normalized=False).eval()(x)
    torch.testing.assert_close(free / free.norm(dim=1, keepdim=True), z)
    (z @ torch.randn(width, generator=generator(2))).sum().backward()
    assert all(p.grad is not None and bool(torch.isfinite(p.grad).all()) for p in net.parameters())
    assert net(x[:0]).shape == (0, width)
    assert net.double()(x).dtype == torch.float64


def test_images_without_a_channel_and_of_any_number_type_are_taken() -> None:
    net = DigitsCNN(8, generator=generator())
    images = np.random.default_rng(0).integers(0, 2, (3, 28, 28))
    expected = net(torch.from_numpy(images)[:, None].float())
    for dtype in (np.uint8, np.float16, np.float64, np.int64):
        torch.testing.assert_close(net(images.astype(dtype)), expected)


def test_a_dead_last_layer_gives_zero_rows_and_finite_gradients() -> None:
    net = ColorCNN()
    with torch.no_grad():
        weights(net)[-1].bias.fill_(-1e6)
    z = net(torch.rand(2, 3, 32, 32))
    assert not z.detach().any()
    z.sum().backward()
    assert all(bool(torch.isfinite(p.grad).all()) for p in net.parameters())


def test_a_chain_applies_its_parts_in_order() -> None:
    encoder, metric = MLP(5, 4, generator=generator()), OrthogonalMap(4, 2, generator=generator())
    x = torch.rand(3, 5)
    torch.testing.assert_close(Chain(encoder, metric)(x), metric(encoder(x)))


def test_embedding_a_data_set_is_the_same_in_batches_and_restores_the_mode() -> None:
    net = DigitsCNN(8, batch_norm=True, generator=generator())
    images = torch.rand(10, 28, 28, generator=generator(1))
    z = embed(net, images, batch_size=3)
    assert net.training
    assert not z.requires_grad
    torch.testing.assert_close(z, net.eval()(images).detach())
    embed(net, images)
    assert not net.training
    assert embed(MLP(4, 2), np.empty((0, 4), dtype=np.float32)).shape == (0, 2)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: MLP(0, 2), ParameterError, "`in_features` must be at least 1"),
        (lambda: MLP(2, 2, hidden=(0,)), ParameterError, "`hidden` must be at least 1"),
        (lambda: MLP(2, 2, activation="rely"), ParameterError, "Did you mean 'relu'"),  # type: ignore[arg-type]
        (lambda: MLP(2, 2)(torch.ones(3, 3)), ShapeError, "`x` must have 2 columns, got 3"),
        (lambda: DigitsCNN()(torch.ones(3, 784)), ShapeError, r"shape \(n, 1, 28, 28\), got \(3, 784\)"),
        (lambda: ColorCNN()(torch.ones(3, 32, 32, 3)), ShapeError, "colours come before rows"),
        (lambda: DigitsCNN()(torch.full((1, 28, 28), math.nan)), NotFiniteError, "`images` must be finite"),
        (lambda: Chain(), ParameterError, "one module or more, got none"),
        (lambda: Chain(nn.Linear(2, 2)), ParameterError, r"got Linear\. Use torch\.nn\.Sequential"),  # type: ignore[arg-type]
        (lambda: embed(MLP(2, 2), torch.ones(3)), ShapeError, "one row per item"),
        (
            lambda: embed(MLP(2, 2), torch.ones(3, 2), batch_size=0),
            ParameterError,
            "`batch_size` must be at least 1",
        ),
        (lambda: Mahalanobis(2)(torch.ones(2)), ShapeError, "`x` must have shape"),
    ],
)
def test_bad_input_is_named(build: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build()
