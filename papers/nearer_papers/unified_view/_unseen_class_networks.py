"""The networks of the class-disjoint experiments: a trunk that gives one row of features per item, and a head.

`Network` is what all rows of a table share. Its trunk is a small CNN for drawings and thumbnails, whitened ready
features, or a backbone of yours: any module from images to feature maps, with weights from a local file.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nearer._checks import check_int
from nearer._validation import as_matrix
from nearer.exceptions import CorruptFileError, MissingDataError, ParameterError, ShapeError
from nearer.geometry import normalize

__all__ = ["Backbone", "FrozenWhitening", "Network", "SmallTrunk", "WithFeatures", "load_weights"]


class Network(nn.Module):
    """Items -> features of the trunk (n, p) -> embeddings of length one (n, d).

    `head` is a linear map unless another module from features to rows is given; `dropout` falls on the features;
    `taps` are names of layers of the trunk, for methods with heads at several depths; with `frozen_norms` batch
    normalisation never leaves evaluation mode.

    >>> network = Network(SmallTrunk(1, widths=(8, 16)), 64, 4)
    >>> network(torch.rand(3, 1, 28, 28)).shape, network.pooled(torch.rand(3, 1, 28, 28)).shape
    (torch.Size([3, 4]), torch.Size([3, 64]))
    """

    def __init__(
        self,
        trunk: nn.Module,
        width: int,
        dimension: int,
        *,
        head: nn.Module | None = None,
        dropout: float = 0.0,
        taps: Sequence[str] = (),
        frozen_norms: bool = False,
    ) -> None:
        super().__init__()
        self.taps = tuple(f"trunk.{name}" for name in taps)
        self.width, self.dimension = check_int(width, "width"), check_int(dimension, "dimension")
        self.trunk = trunk
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(width, dimension) if head is None else head
        self.frozen_norms = frozen_norms

    def train(self, mode: bool = True) -> Network:
        """As usual, but for normalisation that is frozen."""
        super().train(mode)
        for module in self.modules() if self.frozen_norms else ():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.eval()
        return self

    def pooled(self, items: Tensor) -> Tensor:
        """The features before the head, a map averaged over its places: (n, ...) -> (n, p)."""
        features: Tensor = self.trunk(items)
        return features.flatten(2).mean(2) if features.ndim > 2 else features

    def placed(self, pooled: Tensor) -> Tensor:
        """From features (n, p) to unit embeddings (n, d)."""
        return normalize(self.head(self.dropout(pooled)))

    def forward(self, items: Tensor) -> Tensor:
        return self.placed(self.pooled(items))


class WithFeatures(nn.Module):
    """Embedding and features side by side, (n, d + p), for losses that look at both: a step passes one tensor."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, items: Tensor) -> Tensor:
        pooled = self.network.pooled(items)
        return torch.cat([self.network.placed(pooled), pooled], dim=1)


class SmallTrunk(nn.Module):
    """Convolutions 3×3 with batch normalisation and ReLU, each but the last halving the image; 2×2 means.

    (n, channels, h, w) -> (n, 4·widths[-1]). One mean over the whole image would forget where the strokes of a
    character are. `maps` gives what is averaged, (n, widths[-1], h', w').

    >>> trunk = SmallTrunk(1, widths=(8, 16))
    >>> trunk(torch.rand(2, 1, 28, 28)).shape, trunk.maps(torch.rand(2, 1, 28, 28)).shape
    (torch.Size([2, 64]), torch.Size([2, 16, 14, 14]))
    """

    def __init__(self, channels: int, *, widths: Sequence[int] = (32, 64, 128, 128)) -> None:
        super().__init__()
        self.width = 4 * widths[-1]
        blocks = []
        before = check_int(channels, "channels")
        for place, width in enumerate(widths):
            last = place == len(widths) - 1
            convolution = nn.Conv2d(before, width, 3, stride=1 if last else 2, padding=1, bias=False)
            blocks.append(nn.Sequential(convolution, nn.BatchNorm2d(width), nn.ReLU()))
            before = width
        self.blocks = nn.ModuleList(blocks)
        # Channels beside each other in memory: half the time of a step on a CPU.
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def maps(self, images: Tensor) -> Tensor:
        """The map after the last block."""
        h = images.contiguous(memory_format=torch.channels_last)
        for block in self.blocks:
            h = block(h)
        return h

    def forward(self, images: Tensor) -> Tensor:
        return nn.functional.adaptive_avg_pool2d(self.maps(images), 2).flatten(1)


class FrozenWhitening(nn.Module):
    """Ready features, root taken and whitened by the spread inside classes: (n, p) -> (n, p). Nothing is learnt.

    z = (√x − mean) · C^{−1/2} / s, C = (1 − shrink)·within + shrink·(tr within / p)·I, s such that rows have length
    `length` in the mean. Whitening undoes what varies inside classes; shrinking keeps the rest from blowing up.

    >>> rows = torch.tensor([[0.0, 1], [4, 1], [0, 9], [4, 9]])
    >>> FrozenWhitening.from_rows(rows, torch.tensor([0, 0, 1, 1]), shrink=0.5, length=1.0)(rows).round(decimals=2)
    tensor([[-0.5000, -0.8700],
            [ 0.5000, -0.8700],
            [-0.5000,  0.8700],
            [ 0.5000,  0.8700]])
    """

    mean: Tensor
    matrix: Tensor

    def __init__(self, features: int) -> None:
        super().__init__()
        p = check_int(features, "features")
        self.register_buffer("mean", torch.zeros(p))
        self.register_buffer("matrix", torch.eye(p))

    @classmethod
    def from_rows(
        cls, rows: Tensor, labels: Tensor, *, shrink: float = 0.5, length: float = 9.0
    ) -> FrozenWhitening:
        """Learn mean and spread from rows (n, p), none negative, with labels (n,)."""
        x = as_matrix(rows, "rows").double()
        if float(x.min()) < 0:
            raise ShapeError(f"`rows` must not be negative, because their root is taken, got {float(x.min()):.3g}.")
        x = x.sqrt()
        _, codes, counts = torch.unique(labels, return_inverse=True, return_counts=True)
        centers = x.new_zeros(len(counts), x.shape[1]).index_add_(0, codes, x) / counts[:, None]
        rest = x - centers[codes]
        within = rest.t() @ rest / len(x)
        within = (1 - shrink) * within + shrink * within.diagonal().mean() * torch.eye(len(within))
        values, vectors = torch.linalg.eigh(within)
        matrix = (vectors * values.rsqrt()) @ vectors.t()
        part = cls(x.shape[1])
        size = ((x - x.mean(0)) @ matrix).norm(dim=1).mean()
        part.mean, part.matrix = x.mean(0).float(), (length * matrix / size).float()
        return part

    def forward(self, x: Tensor) -> Tensor:
        return (x.sqrt() - self.mean) @ self.matrix


@dataclass(frozen=True)
class Backbone:
    """A network of yours for images from files: a function that makes it, and a local file with its weights.

    `make` returns a module from images (n, 3, size, size) to maps (n, c, h, w) or rows (n, c). Images come in 0..1
    and are brought to `mean` and `spread`; `reversed_colors` puts blue first (the Caffe order of the published
    BN-Inception). Weights are a state dictionary, .pth or .safetensors, read without unpickling code; names that
    begin with one of `heads` are left out. Without a file the module is taken as `make` gives it. Nothing is
    downloaded.

    >>> Backbone(lambda: nn.Conv2d(3, 8, 4, stride=4), size=16).trunk()(torch.rand(2, 3, 16, 16)).shape
    torch.Size([2, 8, 4, 4])
    """

    make: Callable[[], nn.Module]
    weights: str | os.PathLike[str] | None = None
    size: int = 224
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    spread: tuple[float, float, float] = (0.229, 0.224, 0.225)
    reversed_colors: bool = False
    heads: tuple[str, ...] = ("fc.", "classifier.", "last_linear.", "head.", "aux")
    taps: tuple[str, ...] = ()
    """Names of its layers at increasing depth, for methods with several heads; none: all heads at the end."""

    @staticmethod
    def named(target: str, **settings: Any) -> Backbone:
        """A backbone whose function is "package.module:function", such as "mynets:bn_inception".

        >>> Backbone.named("nearer_papers.semi_supervised._googlenet:GoogLeNetTrunk").size
        224
        """
        module, _, function = target.partition(":")
        try:
            make = getattr(importlib.import_module(module), function)
        except (ImportError, AttributeError, ValueError) as error:
            raise ParameterError(
                f"`target` must be 'package.module:function' that can be imported, got {target!r}: {error}."
            ) from error
        return Backbone(make, **settings)

    def trunk(self) -> nn.Module:
        """The module with its weights, behind the scaling of colours."""
        module = self.make()
        if self.weights is not None:
            load_weights(module, self.weights, heads=self.heads)
        return nn.Sequential(_Colors(self.mean, self.spread, self.reversed_colors), module)

    def width(self) -> int:
        """How many features an image gets."""
        with torch.no_grad():
            found = self.trunk().eval()(torch.zeros(1, 3, self.size, self.size))
        if not isinstance(found, Tensor) or found.ndim not in (2, 4):
            came = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise ShapeError(
                f"`make` must give a module that returns maps (n, c, h, w) or rows (n, c), got {came}. Take the "
                f"network without its classifier."
            )
        return int(found.shape[1])


class _Colors(nn.Module):
    def __init__(self, mean: Sequence[float], spread: Sequence[float], swapped: bool) -> None:
        super().__init__()
        self.mean, self.spread = (torch.tensor(one).reshape(1, 3, 1, 1) for one in (mean, spread))
        self.swapped = swapped

    def forward(self, images: Tensor) -> Tensor:
        scaled: Tensor = ((images.flip(1) if self.swapped else images) - self.mean) / self.spread
        return scaled


def load_weights(module: nn.Module, path: str | os.PathLike[str], *, heads: Sequence[str] = ()) -> None:
    """Put the state dictionary of a local file into a module; entries of its `heads` are left out."""
    place = Path(path)
    if not place.is_file():
        raise MissingDataError(
            f"`weights` must be a file with a state dictionary, and `{place}` is none. Save one there; nothing is "
            f"downloaded."
        )
    try:
        if place.suffix == ".safetensors":
            from safetensors.torch import load_file

            state: dict[str, Any] = load_file(place)
        else:
            state = torch.load(place, map_location="cpu", weights_only=True)
        own = module.state_dict()
        kept = {
            name: value
            for name, value in state.items()
            if name in own or not name.startswith(tuple(heads) or ("\n",))
        }
        module.load_state_dict(kept)
    except Exception as error:
        reason = " ".join(str(error).split())[:300]
        raise CorruptFileError(
            f"`{place}` must hold the weights of this {type(module).__name__}: {reason}."
        ) from error
