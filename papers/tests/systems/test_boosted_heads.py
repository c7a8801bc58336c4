"""Boosted heads: lengths, shares, start, bad input."""

from __future__ import annotations

import pytest
import torch

from nearer.exceptions import ParameterError, ShapeError
from nearer_papers.systems import BoostedHeads


def test_parts_have_the_length_of_their_share():
    heads = BoostedHeads(10, (2, 3, 5), generator=torch.Generator().manual_seed(0)).double()
    x = torch.randn(7, 10, dtype=torch.float64)
    z = heads(x)
    assert z.shape == (7, 10)
    for part, raw, share in zip(z.split((2, 3, 5), 1), heads.raw(x), (0.2, 0.3, 0.5), strict=True):
        torch.testing.assert_close(part, share * raw / raw.norm(dim=1, keepdim=True))


def test_rows_of_the_weights_start_near_length_one_and_repeat():
    first, second = (BoostedHeads(400, generator=torch.Generator().manual_seed(3)) for _ in range(2))
    for a, b in zip(first.parts, second.parts, strict=True):
        assert torch.equal(a.weight, b.weight)
        assert a.weight.norm(dim=1).sub(1).abs().max() < 0.2
    assert first(torch.rand(0, 400)).shape == (0, 512)


def test_bad_input():
    with pytest.raises(ParameterError, match="`widths` must have one number or more, got none"):
        BoostedHeads(4, ())
    with pytest.raises(ParameterError, match="`widths` must be at least 1, got 0"):
        BoostedHeads(4, (2, 0))
    with pytest.raises(ShapeError, match="`features` must have 4 columns, got 3"):
        BoostedHeads(4, (2,))(torch.zeros(2, 3))
