"""The object by a random walk: the chain by loops, regions, boxes, the cut."""

from __future__ import annotations

import math

import pytest
import torch

from nearer.exceptions import NotFiniteError, ParameterError, ShapeError
from nearer_papers.systems._object_crop import _largest, crop, object_boxes, random_walk_saliency


def by_loops(features, steps, width):
    _, h, w = features.shape
    places = [(i, j) for i in range(h) for j in range(w)]
    go = []
    for a in places:
        row = [
            math.dist(features[:, a[0], a[1]].tolist(), features[:, b[0], b[1]].tolist())
            * math.exp(-(math.dist(a, b) ** 2) / (2 * (width * max(h, w)) ** 2))
            for b in places
        ]
        go.append([one / sum(row) for one in row])
    chance = before = [1 / len(places)] * len(places)
    for _ in range(steps):
        before, chance = chance, [sum(chance[u] * go[u][v] for u in range(len(go))) for v in range(len(go))]
    return torch.tensor([(a + b) / 2 for a, b in zip(before, chance, strict=True)], dtype=torch.float64).view(h, w)


def test_the_walk_by_loops():
    maps = torch.randn(2, 3, 4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = random_walk_saliency(maps, steps=4, width=0.3)
    for one, saliency in zip(maps, found, strict=True):
        torch.testing.assert_close(saliency, by_loops(one, 4, 0.3), rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(found.sum(dim=(1, 2)), torch.ones(2, dtype=torch.float64))


def test_the_box_holds_a_planted_object_and_little_more():
    g = torch.Generator().manual_seed(1)
    maps = 0.02 * torch.rand(8, 6, 16, 20, generator=g)
    truth = []
    for one in maps:
        top, left = int(torch.randint(12, (1,), generator=g)), int(torch.randint(16, (1,), generator=g))
        one[:, top : top + 4, left : left + 4] += torch.rand(6, 4, 4, generator=g) + 0.5
        truth.append([top, left, top + 4, left + 4])
    sides = torch.tensor([16, 20, 16, 20])
    found, wanted = (object_boxes(maps) * sides).round(), torch.tensor(truth)
    assert (found[:, :2] <= wanted[:, :2]).all()
    assert (found[:, 2:] >= wanted[:, 2:]).all()
    assert (found - wanted).abs().max() <= 4


def test_a_flat_map_is_all_object():
    assert object_boxes(torch.ones(2, 3, 4, 5)).tolist() == [[0, 0, 1, 1]] * 2
    assert object_boxes(torch.ones(0, 3, 4, 5)).shape == (0, 4)
    assert object_boxes(torch.ones(1, 3, 1, 1)).tolist() == [[0, 0, 1, 1]]


def test_the_largest_region():
    mask = torch.tensor([[1, 1, 0, 0, 0], [0, 0, 1, 0, 1], [0, 0, 0, 0, 1], [1, 0, 0, 0, 0]]).bool()
    three = torch.tensor([[1, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]]).bool()
    tie = mask.clone()
    tie[0, 0] = False
    found = _largest(torch.stack([mask, tie, torch.zeros_like(mask)]))
    assert torch.equal(found[0], three)  # two places that touch at a corner are one region
    assert torch.equal(found[1], mask & (torch.arange(5) == 4))  # of two equally large ones the last
    assert not found[2].any()


def test_crop_stretches_and_keeps_the_whole():
    images = torch.rand(3, 2, 6, 8, generator=torch.Generator().manual_seed(2))
    whole = torch.tensor([[0.0, 0.0, 1.0, 1.0]]).repeat(3, 1)
    torch.testing.assert_close(crop(images, whole), images)
    half = crop(images, whole * torch.tensor([1.0, 1.0, 0.5, 0.5]), size=(3, 4))
    torch.testing.assert_close(half, images[:, :, :3, :4])


def test_bad_input():
    with pytest.raises(ShapeError, match=r"`maps` must have shape \(n, c, h, w\), got \(2, 3\)"):
        random_walk_saliency(torch.zeros(2, 3))
    with pytest.raises(NotFiniteError, match="`maps` must be finite"):
        object_boxes(torch.full((1, 1, 2, 2), torch.nan))
    with pytest.raises(ParameterError, match="`steps` must be at least 1"):
        object_boxes(torch.zeros(1, 1, 2, 2), steps=0)
    with pytest.raises(ShapeError, match=r"`boxes` must have shape \(1, 4\), got \(2, 4\)"):
        crop(torch.zeros(1, 1, 2, 2), torch.zeros(2, 4))
    with pytest.raises(ShapeError, match="bottom > top and right > left"):
        crop(torch.zeros(1, 1, 2, 2), torch.zeros(1, 4))
