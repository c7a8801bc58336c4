"""DeML's encoder: an image at several scales, each seen by several branches that attend to different channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nearer._checks import check_int
from nearer._validation import as_tensor
from nearer.exceptions import ParameterError, ShapeError
from nearer.geometry._similarity import normalize
from nearer_papers.systems._layer_input import check_module
from nearer_papers.systems._linear_start import start_linear
from nearer_papers.systems._object_crop import crop, object_boxes

__all__ = ["AttentionHeads", "DecoupledEncoder"]


class AttentionHeads(nn.Module):
    """J branches over a feature map, each with its own gate on the channels: (n, c, h, w) -> (n, Σ widths).

    g_j = σ(B_j relu(A_j mean(f))), c -> `hidden` -> c; z_j = W_j mean(g_j ⊙ f) + b_j, means over all places. The
    branches stand side by side. In evaluation mode each has length one; in training mode its own, which tells the
    loss how strongly it answers (all other terms of the loss bring parts to length one themselves).

    >>> AttentionHeads(8, (4, 4, 4))(torch.rand(2, 8, 5, 5)).shape
    torch.Size([2, 12])

    Reference: Chen and Deng 2019 (DeML); hidden = 64 in the release.

    Args:
        channels: channels c of the feature map.
        widths: columns of each branch.
        hidden: width of the gates.
        generator: draws the first weights; torch's own if None.
    """

    def __init__(
        self,
        channels: int,
        widths: Sequence[int],
        *,
        hidden: int = 64,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.channels = check_int(channels, "channels")
        self.widths = tuple(check_int(width, "widths") for width in widths)
        if not self.widths:
            raise ParameterError("`widths` must have one number for each branch, got none.")
        check_int(hidden, "hidden")
        c = self.channels
        self.gates = nn.ModuleList(
            nn.Sequential(nn.Linear(c, hidden, bias=False), nn.ReLU(), nn.Linear(hidden, c), nn.Sigmoid())
            for _ in self.widths
        )
        self.heads = nn.ModuleList(nn.Linear(c, width) for width in self.widths)
        start_linear(self, generator)

    def forward(self, maps: Any) -> Tensor:
        maps = as_tensor(maps, "maps")
        if maps.ndim != 4 or maps.shape[1] != self.channels:
            raise ShapeError(f"`maps` must have shape (n, {self.channels}, h, w), got {tuple(maps.shape)}.")
        # The gate does not depend on the place, so the mean may be taken before it.
        pooled = maps.mean(dim=(2, 3))
        parts = [head(gate(pooled) * pooled) for gate, head in zip(self.gates, self.heads, strict=True)]
        return torch.cat(parts if self.training else [normalize(part) for part in parts], dim=1)


class DecoupledEncoder(nn.Module):
    """I scales × J attending branches: images (n, c, h, w) -> (n, dimension), the parts side by side.

    Scale 1 is the image; each next scale is the one before cut to the object that a random walk finds in its
    feature map (`object_boxes`), stretched to the size it had. `trunk` (images -> maps of `channels`) is shared by
    the scales; each scale has `AttentionHeads` of its own. The I·J parts share `dimension` as evenly as it goes;
    `widths` has them in order, scale by scale. In evaluation mode each part has length one.

    >>> trunk = nn.Conv2d(1, 8, 3)
    >>> encoder = DecoupledEncoder(trunk, 8, embedding_dim=20, scales=2, branches=3)
    >>> encoder(torch.rand(2, 1, 12, 12)).shape, encoder.widths
    (torch.Size([2, 20]), (4, 4, 3, 3, 3, 3))

    Reference: Chen and Deng 2019 (DeML), figure 3; 3 scales, 3 branches, 512 dimensions.

    Args:
        trunk: the convolutional network.
        channels: channels of its feature map.
        embedding_dim: dimensions of the embedding.
        scales: how often it looks again at the object.
        branches: attention heads at each scale.
        hidden: width of the attention.
        generator: draws the first weights; torch's own if None.
    """

    def __init__(
        self,
        trunk: nn.Module,
        channels: int,
        *,
        embedding_dim: int = 512,
        scales: int = 3,
        branches: int = 3,
        hidden: int = 64,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.trunk = check_module(trunk, "trunk")
        self.scales, self.branches = check_int(scales, "scales"), check_int(branches, "branches")
        parts = self.scales * self.branches
        d = check_int(embedding_dim, "embedding_dim")
        if d < parts:
            raise ParameterError(f"`dimension` must be at least one for each of the {parts} parts, got {d}.")
        self.widths = tuple(d // parts + (place < d % parts) for place in range(parts))
        self.heads = nn.ModuleList(
            AttentionHeads(channels, self.widths[k : k + self.branches], hidden=hidden, generator=generator)
            for k in range(0, parts, self.branches)
        )

    def forward(self, images: Any) -> Tensor:
        view, found = images, []
        for number, heads in enumerate(self.heads, start=1):
            maps = self.trunk(view)
            found.append(heads(maps))
            if number < self.scales:
                view = crop(view, object_boxes(maps))
        return torch.cat(found, dim=1)
