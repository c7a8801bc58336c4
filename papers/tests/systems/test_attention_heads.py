"""DeML's encoder: the gates by loops, lengths, scales and their cuts, bad input."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from nearer.exceptions import ParameterError, ShapeError
from nearer_papers.systems import AttentionHeads, DecoupledEncoder
from nearer_papers.systems._object_crop import crop, object_boxes


def test_the_gates_by_hand():
    heads = AttentionHeads(4, (2, 3), hidden=5, generator=torch.Generator().manual_seed(0)).double()
    maps = torch.randn(3, 4, 2, 6, dtype=torch.float64)
    found = heads(maps)
    for row, one in zip(found, maps, strict=True):
        parts = []
        for gate, head in zip(heads.gates, heads.heads, strict=True):
            g = torch.sigmoid(gate[2].weight @ torch.relu(gate[0].weight @ one.mean((1, 2))) + gate[2].bias)
            gated = g[:, None, None] * one
            parts.append(head.weight @ gated.mean((1, 2)) + head.bias)
        torch.testing.assert_close(row, torch.cat(parts))
    unit = heads.eval()(maps)
    for part, raw in zip(unit.split((2, 3), 1), found.split((2, 3), 1), strict=True):
        torch.testing.assert_close(part, raw / raw.norm(dim=1, keepdim=True))


def test_scales_see_the_cut_image():
    torch.manual_seed(0)
    trunk = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU())
    encoder = DecoupledEncoder(trunk, 6, embedding_dim=10, scales=2, branches=2).eval()
    images = torch.rand(3, 1, 9, 9)
    z = encoder(images)
    assert encoder.widths == (3, 3, 2, 2)
    maps = trunk(images)
    torch.testing.assert_close(z[:, :6], encoder.heads[0](maps))
    torch.testing.assert_close(z[:, 6:], encoder.heads[1](trunk(crop(images, object_boxes(maps)))))


def test_bad_input():
    with pytest.raises(ShapeError, match=r"`maps` must have shape \(n, 4, h, w\), got \(2, 3, 5, 5\)"):
        AttentionHeads(4, (2,))(torch.zeros(2, 3, 5, 5))
    with pytest.raises(ParameterError, match="`widths` must have one number for each branch, got none"):
        AttentionHeads(4, ())
    with pytest.raises(ParameterError, match="at least one for each of the 9 parts, got 8"):
        DecoupledEncoder(nn.Identity(), 4, embedding_dim=8)
