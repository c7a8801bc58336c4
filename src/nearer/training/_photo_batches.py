"""Batches of photos for a network: random parts of them to learn from, their middles to be scored on; and random
views of a batch of images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from nearer._checks import check_choice, check_int, check_number
from nearer._validation import as_tensor
from nearer.datasets._image_files import Photo, cut
from nearer.exceptions import ParameterError, ShapeError
from nearer.training._step import row_numbers

TRIES = 10


class PhotoBatches:
    """Photos in memory as batches for `EncoderStep`: a random part of each, stretched to a square, half mirrored.

    A part has a share of the area drawn from `area` and a ratio of width to height drawn from `ratio` (evenly in
    its logarithm), anywhere in the photo; the numbers come from torch's own generator, so that a resumed run
    repeats them. `middles` gives what a model is scored on. Both are (n, 3, size, size) less `mean`, by `std`.

    >>> photos = [np.zeros((20, 30, 3), np.uint8), np.full((20, 20, 3), 255, np.uint8)]
    >>> batches = PhotoBatches(photos, [0, 1], size=8)
    >>> batches.items(torch.tensor([1, 0])).shape, batches.middles([1]).mean().round()
    (torch.Size([2, 3, 8, 8]), tensor(2.))

    Args:
        photos: bytes (h, w, 3) each, red first, as large as you like.
        labels: classes (n,) or rows (n, c).
        size: the side of what the network sees.
        view: the side of the middle that is scored, before it is made `size` long; `size` if None.
        mean: of red, green and blue in 0..1.
        std: their deviations.
        colors: "rgb" or "bgr", the order that the network wants.
        area: least and largest share of the area of a part.
        ratio: least and largest ratio of its width to its height.
        flip: mirror half of them.
    """

    def __init__(
        self,
        photos: Sequence[Photo],
        labels: Any,
        *,
        size: int,
        view: int | None = None,
        mean: Sequence[float] = (0.485, 0.456, 0.406),
        std: Sequence[float] = (0.229, 0.224, 0.225),
        colors: Literal["rgb", "bgr"] = "rgb",
        area: tuple[float, float] = (0.2, 1.0),
        ratio: tuple[float, float] = (3 / 4, 4 / 3),
        flip: bool = True,
    ) -> None:
        self.photos, self._labels = photos, as_tensor(labels, "labels")
        if len(photos) != len(self._labels):
            raise ShapeError(
                f"`labels` must have one entry for each of the {len(photos)} photos, got {len(labels)}."
            )
        for photo in photos:
            if photo.ndim != 3 or photo.shape[2] != 3 or photo.dtype != np.uint8:
                raise ShapeError(f"`photos` must be bytes (h, w, 3), got {photo.dtype} {photo.shape}.")
        self.size = check_int(size, "size")
        self.view = self.size if view is None else check_int(view, "view")
        for name, (low, high) in (("area", area), ("ratio", ratio)):
            check_number(low, name, above=0.0)
            if check_number(high, name, maximum=1.0 if name == "area" else None) < low:
                raise ParameterError(f"`{name}` must rise, got {low} and {high}.")
        self.area, self.ratio, self.flip = area, ratio, flip
        self.mean, self.std = (torch.tensor(channels).reshape(1, 3, 1, 1) for channels in (mean, std))
        self.swapped = check_choice(colors, "colors", ["rgb", "bgr"]) == "bgr"

    def __len__(self) -> int:
        return len(self.photos)

    def items(self, rows: Tensor) -> Tensor:
        """A random part of each of these photos."""
        numbers = row_numbers(rows, len(self)).tolist()
        draws = torch.rand(len(numbers), TRIES, 4)
        mirrored = (torch.rand(len(numbers)) < 0.5).tolist()
        parts = []
        for number, draw, mirror in zip(numbers, draws.tolist(), mirrored, strict=True):
            photo = self.photos[number]
            part = cut(photo, self._part(photo.shape[0], photo.shape[1], draw), self.size)
            parts.append(part[:, ::-1] if mirror and self.flip else part)
        return self._numbers(parts)

    def labels(self, rows: Tensor) -> Tensor:
        """Their labels."""
        return self._labels[row_numbers(rows, len(self))]

    def middles(self, rows: Any) -> Tensor:
        """The middle of each of these photos, what is scored."""
        parts = []
        for number in row_numbers(rows, len(self)).tolist():
            photo = self.photos[number]
            side = min(self.view, *photo.shape[:2])
            top, left = ((length - side) // 2 for length in photo.shape[:2])
            parts.append(cut(photo, (top, left, side, side), self.size))
        return self._numbers(parts)

    def _part(self, height: int, width: int, draws: Sequence[Sequence[float]]) -> tuple[int, int, int, int]:
        """Top, left, height and width: the first draw that fits inside, else the middle."""
        low, high = (math.log(end) for end in self.ratio)
        for share, slant, down, right in draws:
            pixels = height * width * (self.area[0] + share * (self.area[1] - self.area[0]))
            ratio = math.exp(low + slant * (high - low))
            w, h = round(math.sqrt(pixels * ratio)), round(math.sqrt(pixels / ratio))
            if 0 < w <= width and 0 < h <= height:
                return int(down * (height - h + 1)), int(right * (width - w + 1)), h, w
        side = min(height, width)
        return (height - side) // 2, (width - side) // 2, side, side

    def _numbers(self, parts: Sequence[Photo]) -> Tensor:
        bytes_ = np.stack(parts) if parts else np.zeros((0, self.size, self.size, 3), np.uint8)
        # Channels beside each other in memory, as they come: what convolutions on a processor are fastest with.
        images = torch.from_numpy(bytes_).permute(0, 3, 1, 2).float()
        images = (images - 255 * self.mean) / (255 * self.std)
        return images.flip(1) if self.swapped else images


def jiggled(
    images: Tensor,
    *,
    shift: float = 2.0,
    turn: float = 0.15,
    stretch: float = 0.1,
    flip: bool = False,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Images moved by up to `shift` pixels, turned by up to `turn` radians, scaled by up to `stretch`, each its
    own way.

    `flip` also mirrors half of them. Pixels from outside repeat the border. (n, c, h, w) -> (n, c, h, w).

    >>> image = torch.rand(2, 1, 5, 5)
    >>> torch.allclose(jiggled(image, shift=0, turn=0, stretch=0), image, atol=1e-5)
    True
    """
    if images.ndim != 4:
        raise ShapeError(f"`images` must have shape (n, channels, h, w), got {tuple(images.shape)}.")
    n, _, height, width = images.shape
    angle, size, right, down = 2 * torch.rand(4, n, generator=generator).to(images.device) - 1
    angle, size = turn * angle, 1 + stretch * size
    mirror = torch.ones(n, device=images.device)
    if flip:
        mirror = 1 - 2 * (torch.rand(n, generator=generator).to(images.device) < 0.5).float()
    # The image is two units wide and high.
    rows = [
        mirror * size * angle.cos(),
        -angle.sin(),
        2 * shift / width * right,
        mirror * angle.sin(),
        size * angle.cos(),
        2 * shift / height * down,
    ]
    grid = functional.affine_grid(
        torch.stack(rows, dim=1).reshape(n, 2, 3), list(images.shape), align_corners=False
    )
    return functional.grid_sample(images, grid, align_corners=False, padding_mode="border")
