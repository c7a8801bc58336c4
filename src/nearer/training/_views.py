"""Random views of images: moved, turned, scaled. Images are (n, channels, h, w) with values in 0..1."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from nearer.exceptions import ShapeError


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
