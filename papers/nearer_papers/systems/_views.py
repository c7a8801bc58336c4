"""Views of images for learning without labels: quarter turns, and those of Exemplar-CNN. Values are in 0..1."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from nearer.exceptions import ShapeError

__all__ = ["exemplar_views", "hsv_to_rgb", "rgb_to_hsv", "rotations"]


def rotations(images: Tensor) -> Tensor:
    """Every image turned by 0, 90, 180 and 270 degrees, exactly: (n, c, s, s) -> (4n, c, s, s), turn by turn.

    >>> rotations(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]))[1].tolist()
    [[[2.0, 4.0], [1.0, 3.0]]]
    """
    if images.ndim != 4 or images.shape[2] != images.shape[3]:
        raise ShapeError(
            f"`images` must be square, (n, channels, s, s), got {tuple(images.shape)}. Crop them first."
        )
    return torch.cat([torch.rot90(images, turn, (2, 3)) for turn in range(4)])


def exemplar_views(images: Tensor, *, generator: torch.Generator | None = None) -> Tensor:
    """One random view of every image as Exemplar-CNN makes them: (n, c, h, w) in 0..1 -> the same.

    Moved by up to 0.2 of the size, scaled by 0.7..1.4, turned by up to 20°; contrast along the principal axes of
    its pixels × 0.5..2; with three channels also, in HSV, saturation and value to the power 0.25..4, × 0.7..1.4,
    + −0.1..0.1, and hue + −0.1..0.1. Everything is clipped to 0..1.

    >>> exemplar_views(torch.rand(2, 3, 8, 8)).shape
    torch.Size([2, 3, 8, 8])

    Reference: Dosovitskiy, Fischer, Springenberg, Riedmiller, Brox (2016).
    """
    n, channels = images.shape[:2]

    def between(low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(*shape, generator=generator).to(images.device)

    # A window of s times the size shows things 1/s as large.
    window = 1 / torch.exp(between(-0.3567, 0.3365, n))
    angle = between(-0.349, 0.349, n)
    right, down = between(-0.4, 0.4, n), between(-0.4, 0.4, n)
    rows = [window * angle.cos(), -window * angle.sin(), right, window * angle.sin(), window * angle.cos(), down]
    grid = functional.affine_grid(
        torch.stack(rows, dim=1).reshape(n, 2, 3), list(images.shape), align_corners=False
    )
    moved = functional.grid_sample(images, grid, align_corners=False, padding_mode="border")
    pixels = moved.flatten(2)
    mean = pixels.mean(dim=2, keepdim=True)
    centered = pixels - mean
    _, axes = torch.linalg.eigh(centered @ centered.transpose(1, 2))
    strength = torch.exp(between(-0.6931, 0.6931, n, channels, 1))
    moved = (mean + axes @ (strength * (axes.transpose(1, 2) @ centered))).reshape(moved.shape).clamp(0, 1)
    if channels == 3:
        hue, saturation, value = rgb_to_hsv(moved).unbind(dim=1)
        parts = [(hue + between(-0.1, 0.1, n, 1, 1)) % 1]
        for part in (saturation, value):
            power = torch.exp(between(-1.3863, 1.3863, n, 1, 1))
            parts.append((part**power * between(0.7, 1.4, n, 1, 1) + between(-0.1, 0.1, n, 1, 1)).clamp(0, 1))
        moved = hsv_to_rgb(torch.stack(parts, dim=1))
    return moved.clamp(0, 1)


def rgb_to_hsv(images: Tensor) -> Tensor:
    """Hue, saturation and value, all in 0..1: (n, 3, h, w) -> (n, 3, h, w). Grey has hue 0.

    >>> rgb_to_hsv(torch.tensor([0.0, 1.0, 0.0]).reshape(1, 3, 1, 1)).ravel().tolist()
    [0.3333333432674408, 1.0, 1.0]
    """
    value, place = images.max(dim=1)
    spread = value - images.amin(dim=1)
    safe = torch.where(spread > 0, spread, 1.0)
    red, green, blue = images.unbind(dim=1)
    sides = torch.stack([(green - blue) / safe % 6, (blue - red) / safe + 2, (red - green) / safe + 4])
    hue = sides.gather(0, place[None])[0] / 6
    saturation = torch.where(value > 0, spread / torch.where(value > 0, value, 1.0), 0.0)
    return torch.stack([torch.where(spread > 0, hue, 0.0), saturation, value], dim=1)


def hsv_to_rgb(images: Tensor) -> Tensor:
    """Red, green and blue of hue, saturation and value in 0..1: (n, 3, h, w) -> (n, 3, h, w).

    >>> hsv_to_rgb(torch.tensor([0.0, 1.0, 1.0]).reshape(1, 3, 1, 1)).ravel().tolist()
    [1.0, 0.0, 0.0]
    """
    hue, saturation, value = images.unbind(dim=1)

    def channel(shift: int) -> Tensor:
        k = (shift + hue * 6) % 6
        return value - value * saturation * torch.minimum(k, 4 - k).clamp(0, 1)

    return torch.stack([channel(5), channel(3), channel(1)], dim=1)
