"""Where the object is, by a random walk over a feature map, and the image cut to it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample, max_pool2d

from nearer._checks import check_int, check_number
from nearer._validation import as_tensor, check_finite
from nearer.exceptions import ShapeError

__all__ = ["crop", "object_boxes", "random_walk_saliency"]

# Entries of transition matrices that are held at once: 16 MB in single precision.
_CHUNK = 1 << 22


def random_walk_saliency(maps: Any, *, steps: int = 10, width: float = 0.15) -> Tensor:
    """Where a walk that likes to go to what looks different ends up: (n, c, h, w) -> (n, h, w), each sums to 1.

    From place u to place v it goes in proportion to ‖f_u − f_v‖·e^{−dist(u,v)²/(2(`width`·N)²)}, N the larger side
    of the map; it starts anywhere and makes `steps` steps, of which the last two are averaged: with a plain object
    on a plain ground it would go to and fro for ever. Where nothing looks different it stays. No gradient.

    >>> one = torch.zeros(1, 1, 5, 5)
    >>> one[0, 0, 2, 3] = 1.0
    >>> int(random_walk_saliency(one).argmax()) == 2 * 5 + 3
    True

    Reference: Chen and Deng 2019 (DeML).
    """
    features = _maps(maps).detach()
    check_int(steps, "steps")
    check_number(width, "width", above=0.0)
    n, _, h, w = features.shape
    flat = features.flatten(2).transpose(1, 2)
    place = (
        torch.cartesian_prod(*(torch.arange(side, device=flat.device) for side in (h, w)))
        .reshape(h * w, 2)
        .to(flat)
    )
    reach = 2 * (width * max(h, w)) ** 2
    near = torch.exp(-torch.cdist(place, place).square() / reach)
    found = [flat.new_zeros(0, h * w)]
    for part in torch.split(flat, max(1, _CHUNK // (h * w) ** 2)):
        go = torch.cdist(part, part) * near
        total = go.sum(2, keepdim=True)
        stuck = total <= 0
        go = go / torch.where(stuck, 1.0, total) + torch.diag_embed(stuck[..., 0].to(go))
        chance = before = torch.full((len(part), 1, h * w), 1 / (h * w), dtype=go.dtype, device=go.device)
        for _ in range(steps):
            before, chance = chance, chance @ go
        found.append((before + chance)[:, 0] / 2)
    return torch.cat(found).view(n, h, w)


def object_boxes(maps: Any, *, steps: int = 10, width: float = 0.15) -> Tensor:
    """The box round the largest region whose saliency is at least the mean: (n, c, h, w) -> (n, 4) in 0 to 1.

    A box is (top, left, bottom, right) as shares of height and width. Places that touch, also at a corner, are one
    region; the last of several equally large ones wins. The ring round an object is salient too, so boxes come out
    a little larger than objects. A map that looks the same everywhere gives the whole.

    >>> one = torch.zeros(1, 1, 9, 9)
    >>> one[0, 0, 3, 6] = 1.0
    >>> (9 * object_boxes(one)[0]).round().tolist()  # two places more on each side
    [1.0, 4.0, 6.0, 9.0]
    """
    saliency = random_walk_saliency(maps, steps=steps, width=width)
    _, h, w = saliency.shape
    mean = saliency.mean(dim=(1, 2), keepdim=True)
    regions = _largest(saliency >= mean * (1 - 1e-5))
    rows, columns = regions.any(2), regions.any(1)
    boxes = []
    for line, size in ((rows, h), (columns, w)):
        number = torch.arange(size, device=line.device)
        first = torch.where(line, number, size).amin(1)
        last = torch.where(line, number, -1).amax(1) + 1
        boxes.append((first / size, last / size))
    (top, bottom), (left, right) = boxes
    return torch.stack([top, left, bottom, right], dim=1).to(saliency.dtype)


def crop(images: Any, boxes: Any, *, size: tuple[int, int] | None = None) -> Tensor:
    """Images (n, c, h, w) cut to boxes (n, 4) and stretched back to their own size, or to `size`, bilinearly.

    >>> image = torch.arange(16.0).view(1, 1, 4, 4)
    >>> crop(image, [[0.0, 0.0, 0.5, 0.5]], size=(2, 2))[0, 0].tolist()
    [[0.0, 1.0], [4.0, 5.0]]
    """
    pictures = _maps(images, "images")
    corners = as_tensor(boxes, "boxes")
    if corners.shape != (len(pictures), 4):
        raise ShapeError(f"`boxes` must have shape ({len(pictures)}, 4), got {tuple(corners.shape)}.")
    corners = corners.to(pictures)
    check_finite(corners, "boxes")
    if bool((corners[:, 2:] <= corners[:, :2]).any()):
        raise ShapeError("`boxes` must have bottom > top and right > left, got an empty one.")
    height, width = pictures.shape[2:] if size is None else size
    scale = corners[:, 2:] - corners[:, :2]
    middle = corners[:, 2:] + corners[:, :2] - 1  # in −1 to 1
    turn = pictures.new_zeros(len(pictures), 2, 3)
    turn[:, 0, 0], turn[:, 0, 2] = scale[:, 1], middle[:, 1]
    turn[:, 1, 1], turn[:, 1, 2] = scale[:, 0], middle[:, 0]
    grid = affine_grid(turn, [len(pictures), pictures.shape[1], height, width], align_corners=False)
    return grid_sample(pictures, grid, mode="bilinear", padding_mode="border", align_corners=False)


def _largest(mask: Tensor) -> Tensor:
    """The largest connected region of each mask (n, h, w)."""
    n, h, w = mask.shape
    number = torch.arange(1, h * w + 1, device=mask.device, dtype=torch.float64).view(1, h, w) * mask
    while n:
        # The largest number spreads over its region.
        spread = max_pool2d(number[:, None], 3, stride=1, padding=1)[:, 0] * mask
        if torch.equal(spread, number):
            break
        number = spread
    codes = number.to(torch.int64).flatten(1)
    sizes = torch.zeros(n, h * w + 1, dtype=torch.int64, device=mask.device)
    sizes.scatter_add_(1, codes, torch.ones_like(codes))
    sizes[:, 0] = 0
    return (codes == sizes.shape[1] - 1 - sizes.flip(1).argmax(1, keepdim=True)).view(n, h, w) & mask


def _maps(value: Any, name: str = "maps") -> Tensor:
    maps = as_tensor(value, name)
    if maps.ndim != 4 or 0 in maps.shape[1:]:
        raise ShapeError(f"`{name}` must have shape (n, c, h, w), got {tuple(maps.shape)}.")
    maps = maps if maps.dtype in (torch.float32, torch.float64) else maps.to(torch.float32)
    check_finite(maps, name)
    return maps
