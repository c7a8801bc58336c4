"""GoogLeNet without its head, and R-MAC descriptors of images from it: the features of the fine-grained
experiments.

The weights are yours to bring: a state dictionary in the names that torchvision uses, read without unpickling code.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from nearer._checks import check_int
from nearer._validation import as_tensor
from nearer.exceptions import ShapeError
from nearer.geometry import normalize
from nearer_papers.systems import rmac
from nearer_papers.unified_view._unseen_class_networks import load_weights

__all__ = ["GoogLeNetTrunk", "load_trunk", "rmac_descriptors"]

# Channels in, 1×1, 3×3 reduced, 3×3, 5×5 reduced, 5×5, pooled; "max" halves the map.
LAYERS: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("3a", (192, 64, 96, 128, 16, 32, 32)),
    ("3b", (256, 128, 128, 192, 32, 96, 64)),
    ("4a", (480, 192, 96, 208, 16, 48, 64)),
    ("4b", (512, 160, 112, 224, 24, 64, 64)),
    ("4c", (512, 128, 128, 256, 24, 64, 64)),
    ("4d", (512, 112, 144, 288, 32, 64, 64)),
    ("4e", (528, 256, 160, 320, 32, 128, 128)),
    ("5a", (832, 256, 160, 320, 32, 128, 128)),
    ("5b", (832, 384, 192, 384, 48, 128, 128)),
)
SIZES = (512, 362, 256)
MEAN, SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class _Convolution(nn.Module):
    """Convolution, batch normalisation, ReLU."""

    def __init__(self, inputs: int, outputs: int, side: int, *, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, side, stride=stride, padding=side // 2, bias=False)
        self.bn = nn.BatchNorm2d(outputs, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.bn(self.conv(x)))


class _Inception(nn.Module):
    """Four branches side by side."""

    def __init__(
        self, inputs: int, one: int, three_in: int, three: int, five_in: int, five: int, pool: int
    ) -> None:
        super().__init__()
        self.branch1 = _Convolution(inputs, one, 1)
        self.branch2 = nn.Sequential(_Convolution(inputs, three_in, 1), _Convolution(three_in, three, 3))
        # The released weights have 3×3 here, although the paper has 5×5.
        self.branch3 = nn.Sequential(_Convolution(inputs, five_in, 1), _Convolution(five_in, five, 3))
        self.branch4 = nn.Sequential(nn.MaxPool2d(3, 1, 1, ceil_mode=True), _Convolution(inputs, pool, 1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)], dim=1)


class GoogLeNetTrunk(nn.Module):
    """GoogLeNet up to its last feature map: (n, 3, h, w) -> (n, 1024, h/32, w/32).

    >>> GoogLeNetTrunk().eval()(torch.rand(1, 3, 64, 64)).shape
    torch.Size([1, 1024, 2, 2])

    Reference: Szegedy et al. (2015), with batch normalisation.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = _Convolution(3, 64, 7, stride=2)
        self.conv2 = _Convolution(64, 64, 1)
        self.conv3 = _Convolution(64, 192, 3)
        for name, sizes in LAYERS:
            self.add_module(f"inception{name}", _Inception(*sizes))

    def forward(self, images: Tensor) -> Tensor:
        halve = nn.functional.max_pool2d
        x = halve(self.conv1(images), 3, 2, ceil_mode=True)
        x = halve(self.conv3(self.conv2(x)), 3, 2, ceil_mode=True)
        for name, _ in LAYERS:
            x = getattr(self, f"inception{name}")(x)
            if name == "3b":
                x = halve(x, 3, 2, ceil_mode=True)
            elif name == "4e":
                x = halve(x, 2, 2, ceil_mode=True)
        return x


def load_trunk(path: str | os.PathLike[str]) -> GoogLeNetTrunk:
    """A trunk with the weights of a state dictionary (.pth or .safetensors); those of the heads are left out."""
    trunk = GoogLeNetTrunk()
    load_weights(trunk, path, heads=("fc.", "aux"))
    return trunk.eval()


@torch.no_grad()
def rmac_descriptors(
    trunk: nn.Module,
    images: Any,
    *,
    sizes: Sequence[int] = SIZES,
    levels: int = 3,
    batch_size: int = 16,
    mean: Sequence[float] = MEAN,
    spread: Sequence[float] = SPREAD,
) -> Tensor:
    """Descriptors of images (n, 3, h, w) in 0..1: R-MAC of the feature maps at several sizes, added, of length one.

    Colours are brought to `mean` and `spread` first.

    >>> rmac_descriptors(nn.Conv2d(3, 4, 8, stride=8), torch.rand(2, 3, 20, 20), sizes=(32, 24)).shape
    torch.Size([2, 4])
    """
    pixels = as_tensor(images, "images").float()
    if pixels.ndim != 4 or pixels.shape[1] != 3:
        raise ShapeError(f"`images` must have shape (n, 3, h, w), got {tuple(pixels.shape)}.")
    check_int(batch_size, "batch_size")
    middle, scale = (torch.tensor(one).reshape(1, 3, 1, 1) for one in (mean, spread))
    found = []
    for batch in torch.split((pixels - middle) / scale, batch_size):
        parts = []
        for size in sizes:
            scaled = interpolate(batch, size=(check_int(size, "sizes"),) * 2, mode="bilinear", antialias=True)
            maps = trunk(scaled)
            if maps.ndim != 4:
                raise ShapeError(
                    f"`trunk` must return feature maps (n, c, h, w), got {tuple(maps.shape)}. Take the network "
                    f"without its pooling."
                )
            parts.append(rmac(maps, levels=levels))
        found.append(normalize(torch.stack(parts).sum(dim=0)))
    return torch.cat(found) if found else pixels.new_zeros((0, 1))
