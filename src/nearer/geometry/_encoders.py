"""Networks that put items into the space where the distance is measured.

Each ends, unless told otherwise, in rows of length one. Random weights come from `generator`, or from the global
generator of torch without it. `Chain` puts a linear geometry behind an encoder, and `embed` runs either over a
whole data set.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from nearer._checks import check_choice, check_int
from nearer._validation import as_matrix, as_tensor, check_finite
from nearer.exceptions import ParameterError, ShapeError
from nearer.geometry._saving import SavedModule, description
from nearer.geometry._similarity import normalize


class MLP(SavedModule):
    """A multi-layer perceptron: (n, p) -> (n, d), `h ← activation(W h + b)` for each hidden layer, then linear.

    No hidden layer gives a plain linear map with a bias.

    >>> MLP(64, 16, hidden=(128,))(torch.rand(5, 64)).shape
    torch.Size([5, 16])

    Args:
        in_features: columns that come in.
        embedding_dim: dimensions of the embedding.
        hidden: widths of the hidden layers.
        activation: "relu" or "tanh".
        bounded: the activation behind the last layer too.
        normalized: end in rows of length one.
        generator: draws the first weights; torch's own if None.
    """

    def __init__(
        self,
        in_features: int,
        embedding_dim: int,
        *,
        hidden: Sequence[int] = (512,),
        activation: Literal["relu", "tanh"] = "relu",
        bounded: bool = False,
        normalized: bool = True,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        widths = [
            check_int(in_features, "in_features"),
            *(check_int(width, "hidden") for width in hidden),
            check_int(embedding_dim, "embedding_dim"),
        ]
        check_choice(activation, "activation", ["relu", "tanh"])
        self.settings: dict[str, Any] = {
            "in_features": widths[0],
            "embedding_dim": widths[-1],
            "hidden": widths[1:-1],
            "activation": activation,
            "bounded": bool(bounded),
            "normalized": bool(normalized),
        }
        layers = [nn.Linear(a, b) for a, b in itertools.pairwise(widths)]
        for layer in layers:
            # The gain keeps the size of the signal from layer to layer.
            nn.init.kaiming_uniform_(layer.weight, nonlinearity=activation, generator=generator)
            nn.init.zeros_(layer.bias)
        self.layers = nn.ModuleList(layers)
        self.activation = nn.ReLU() if activation == "relu" else nn.Tanh()

    def forward(self, x: Any) -> Tensor:
        rows = as_matrix(x, "x", columns=self.settings["in_features"], minimum_rows=0)
        h = rows.to(next(self.parameters()).dtype)
        for layer in self.layers[:-1]:
            h = self.activation(layer(h))
        h = self.layers[-1](h)
        if self.settings["bounded"]:
            h = self.activation(h)
        return normalize(h) if self.settings["normalized"] else h


class DigitsCNN(SavedModule):
    """The small network for grey images of 28×28 (MNIST, Fashion-MNIST): (n, 1, 28, 28) -> (n, d).

    conv 5×5×20, max 2, conv 5×5×50, max 2, conv 4×4×500, ReLU, linear 500×d; 28 → 24 → 12 → 8 → 4 → 1. Weights
    start as 0.01·N(0, 1), biases as 0. `batch_norm` adds one after each convolution. Images of shape
    (n, 28, 28) are taken as they are; scale the pixels to about [0, 1] first.

    >>> DigitsCNN(batch_norm=True)(torch.rand(3, 28, 28)).shape
    torch.Size([3, 128])

    Args:
        embedding_dim: columns d of an embedding.
        batch_norm: one after each convolution.
        normalized: whether rows have length one.
        generator: draws the first weights; torch's own if None.
    """

    def __init__(
        self,
        embedding_dim: int = 128,
        *,
        batch_norm: bool = False,
        normalized: bool = True,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        d = check_int(embedding_dim, "embedding_dim")
        self.settings: dict[str, Any] = {
            "embedding_dim": d,
            "batch_norm": bool(batch_norm),
            "normalized": bool(normalized),
        }
        self.layers = nn.Sequential(
            *_convolution(1, 20, 5, batch_norm=batch_norm),
            nn.MaxPool2d(2, 2),
            *_convolution(20, 50, 5, batch_norm=batch_norm),
            nn.MaxPool2d(2, 2),
            *_convolution(50, 500, 4, batch_norm=batch_norm),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(500, d),
        )
        _gaussian(self.layers, [0.01, 0.01, 0.01, 0.01], generator)
        _channels_last(self.layers)

    def forward(self, images: Any) -> Tensor:
        h = self.layers(_as_images(images, channels=1, side=28).to(next(self.parameters()).dtype))
        return normalize(h) if self.settings["normalized"] else h


class ColorCNN(SavedModule):
    """The small network for colour images of 32×32 (CIFAR-10): (n, 3, 32, 32) -> (n, 64).

    conv 5×5×32, max 3, ReLU, conv 5×5×32, ReLU, mean 3, conv 5×5×64, ReLU, mean 3, conv 4×4×64, ReLU; convolutions
    of 5×5 pad by 2, pools step by 2 and pad right and bottom; 32 → 16 → 8 → 4 → 1. Weights start as 0.01·N(0, 1)
    in the first layer and 0.05·N(0, 1) after it. The last ReLU makes all similarities non-negative.

    >>> ColorCNN()(torch.rand(3, 3, 32, 32)).shape
    torch.Size([3, 64])

    Args:
        batch_norm: one after each convolution.
        normalized: whether rows have length one.
        generator: draws the first weights; torch's own if None.
    """

    def __init__(
        self,
        *,
        batch_norm: bool = False,
        normalized: bool = True,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.settings: dict[str, Any] = {"batch_norm": bool(batch_norm), "normalized": bool(normalized)}
        # ceil_mode is the padding on the right and at the bottom; a mean is over the pixels that are there.
        self.layers = nn.Sequential(
            *_convolution(3, 32, 5, padding=2, batch_norm=batch_norm),
            nn.MaxPool2d(3, 2, ceil_mode=True),
            nn.ReLU(),
            *_convolution(32, 32, 5, padding=2, batch_norm=batch_norm),
            nn.ReLU(),
            nn.AvgPool2d(3, 2, ceil_mode=True),
            *_convolution(32, 64, 5, padding=2, batch_norm=batch_norm),
            nn.ReLU(),
            nn.AvgPool2d(3, 2, ceil_mode=True),
            *_convolution(64, 64, 4, batch_norm=batch_norm),
            nn.ReLU(),
            nn.Flatten(),
        )
        _gaussian(self.layers, [0.01, 0.05, 0.05, 0.05], generator)
        _channels_last(self.layers)

    def forward(self, images: Any) -> Tensor:
        h = self.layers(_as_images(images, channels=3, side=32).to(next(self.parameters()).dtype))
        return normalize(h) if self.settings["normalized"] else h


class Chain(SavedModule):
    """Parts one behind the other, such as an encoder and the linear geometry learnt on top of it.

    >>> from nearer.geometry._mahalanobis import Mahalanobis
    >>> Chain(MLP(8, 4), Mahalanobis(4, 2))(torch.rand(5, 8)).shape
    torch.Size([5, 2])
    """

    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        if not parts:
            raise ParameterError("`parts` must be one module or more, got none.")
        for part in parts:
            if not isinstance(getattr(part, "settings", None), dict):
                raise ParameterError(
                    f"`parts` must be geometries or encoders of nearer, got {type(part).__name__}. "
                    f"Use torch.nn.Sequential for modules of your own."
                )
        self.parts = nn.ModuleList(parts)
        self.settings: dict[str, Any] = {"parts": [description(part) for part in parts]}  # type: ignore[arg-type]

    def forward(self, x: Any) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x


class SideBySide(SavedModule):
    """`x → [φ₁(x), …, φ_m(x)] / √m`: the squared distance is the mean of those of the parts.

    >>> from nearer.geometry import Mahalanobis
    >>> double, half = Mahalanobis.from_factor([[2.0]]), Mahalanobis.from_factor([[0.5]])
    >>> round(SideBySide(double, half)(torch.tensor([[1.0]])).square().sum().item(), 3)
    2.125
    """

    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        if not parts:
            raise ParameterError("`parts` must hold at least one module, got none.")
        self.parts = nn.ModuleList(parts)
        self.settings: dict[str, Any] = {
            "parts": [description(part) for part in parts]  # type: ignore[arg-type]
        }

    def forward(self, x: Any) -> Tensor:
        return torch.cat([part(x) for part in self.parts], dim=1) / len(self.parts) ** 0.5


@torch.no_grad()
def embed(encoder: nn.Module, items: Any, *, batch_size: int = 512) -> Tensor:
    """The embeddings of all items, in batches, in evaluation mode and without gradients: (n, ...) -> (n, d).

    The mode the encoder was in comes back afterwards. No item gives no row.

    >>> embed(MLP(4, 2), torch.rand(1000, 4)).shape
    torch.Size([1000, 2])

    Args:
        encoder: any module from items to rows.
        items: array or tensor, (n, ...).
        batch_size: items at a time.
    """
    rows = as_tensor(items, "items")
    if rows.ndim < 2:
        raise ShapeError(f"`items` must have one row per item, got shape {tuple(rows.shape)}.")
    size = check_int(batch_size, "batch_size")
    where = next((tensor.device for tensor in (*encoder.parameters(), *encoder.buffers())), rows.device)
    training = encoder.training
    encoder.eval()
    try:
        # A batch at a time, so that a table on the host may be larger than the memory of a GPU.
        return torch.cat([encoder(batch.to(where)) for batch in torch.split(rows, size)])
    except (RuntimeError, TypeError, IndexError) as error:
        if isinstance(error, torch.OutOfMemoryError):
            raise
        raise ShapeError(
            f"`items` must be what `encoder` takes, got {rows.dtype} of shape {tuple(rows.shape)}: {error}."
        ) from error
    finally:
        encoder.train(training)


def _convolution(
    inputs: int, outputs: int, side: int, *, padding: int = 0, batch_norm: bool = False
) -> tuple[nn.Module, ...]:
    convolution = nn.Conv2d(inputs, outputs, side, padding=padding)
    return (convolution, nn.BatchNorm2d(outputs)) if batch_norm else (convolution,)


def _gaussian(layers: nn.Sequential, deviations: Sequence[float], generator: torch.Generator | None) -> None:
    weighted = [layer for layer in layers if isinstance(layer, nn.Conv2d | nn.Linear)]
    for layer, deviation in zip(weighted, deviations, strict=True):
        nn.init.normal_(layer.weight, std=deviation, generator=generator)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)


def _channels_last(layers: nn.Module) -> None:
    # Channels beside each other in memory: two thirds of the time of a step on a CPU, half of that of an embedding.
    layers.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def _as_images(value: Any, *, channels: int, side: int) -> Tensor:
    images = as_tensor(value, "images")
    if images.ndim == 3 and channels == 1:
        images = images[:, None]
    if images.ndim != 4 or tuple(images.shape[1:]) != (channels, side, side):
        raise ShapeError(
            f"`images` must have shape (n, {channels}, {side}, {side}), got {tuple(images.shape)}. "
            f"Reshape or resize them; colours come before rows and columns."
        )
    check_finite(images, "images")
    return images.contiguous(memory_format=torch.channels_last)
