"""R-MAC: an image descriptor from the maxima of a feature map over square windows of several sizes.

Tolias, Sicre and Jégou, "Particular object retrieval with integral max-pooling of CNN activations" (2016).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nearer._checks import check_int
from nearer._validation import as_tensor, check_finite
from nearer.exceptions import ShapeError
from nearer.geometry._similarity import normalize

__all__ = ["rmac", "rmac_windows"]


def rmac_windows(height: int, width: int, *, levels: int = 3) -> list[tuple[int, int, int]]:
    """The windows (top, left, side) of a map of some height and width, level by level.

    At level l = 1, 2, … the side is `⌊2w/(l + 1)⌋`, w = min(height, width), with l windows along the short side and
    l + m along the long one; m in 1..6 is chosen so that the windows of level 1 overlap by about 40 %, and is 0 for
    a square. Windows of side 0 are left out.

    >>> rmac_windows(2, 2, levels=2)
    [(0, 0, 2), (0, 0, 1), (0, 1, 1), (1, 0, 1), (1, 1, 1)]
    """
    check_int(height, "height")
    check_int(width, "width")
    check_int(levels, "levels")
    short, long = min(height, width), max(height, width)
    more = 0
    if short != long:
        more = min(range(1, 7), key=lambda m: abs(1 - (long - short) / m / short - 0.4))
    windows = []
    for level in range(1, levels + 1):
        side = 2 * short // (level + 1)
        if side == 0:
            continue
        rows = _starts(height, side, level + (more if height > width else 0))
        columns = _starts(width, side, level + (more if width > height else 0))
        windows += [(top, left, side) for top in rows for left in columns]
    return windows


def rmac(maps: Any, *, levels: int = 3, whole: bool = False) -> Tensor:
    """The descriptor `z = normalize(Σ_R normalize(max over R))` of feature maps: (n, c, h, w) -> (n, c).

    The sum runs over `rmac_windows`; `whole` adds the maximum over the whole map, as some implementations do. For
    several image sizes add the descriptors of each and normalise again. No maps give no rows.

    >>> rmac([[[[3, 0], [0, 0]], [[0, 0], [0, 4]]]], levels=1)
    tensor([[0.6000, 0.8000]])

    Args:
        maps: feature maps, (n, c, h, w).
        levels: sizes of windows.
        whole: whether the whole map is a window too.
    """
    features = as_tensor(maps, "maps")
    if features.ndim != 4 or 0 in features.shape[1:]:
        raise ShapeError(
            f"`maps` must have shape (n, c, h, w) with c, h and w of at least 1, got {tuple(features.shape)}. "
            f"Take the output of a convolution before it is pooled."
        )
    if features.dtype not in (torch.float32, torch.float64):
        features = features.to(torch.float32)
    check_finite(features, "maps")
    total = features.new_zeros(features.shape[:2])
    for top, left, side in rmac_windows(features.shape[2], features.shape[3], levels=levels):
        total = total + normalize(features[:, :, top : top + side, left : left + side].amax(dim=(2, 3)))
    if whole:
        total = total + normalize(features.amax(dim=(2, 3)))
    return normalize(total)


def _starts(length: int, side: int, count: int) -> list[int]:
    """Where `count` windows begin so that the first touches one end and the last the other."""
    if count == 1:
        return [0]
    return [i * (length - side) // (count - 1) for i in range(count)]
