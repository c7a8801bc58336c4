"""R-MAC windows cover the map as printed, and the descriptor is the loop over them."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nearer.exceptions import NotFiniteError, ParameterError, ShapeError
from nearer_papers.systems import rmac
from nearer_papers.systems._rmac import rmac_windows


def test_a_square_map_has_one_four_and_nine_windows() -> None:
    windows = rmac_windows(12, 12)
    assert [sum(1 for *_, side in windows if side == s) for s in (12, 8, 6)] == [1, 4, 9]
    assert {(top, left) for top, left, side in windows if side == 8} == {(0, 0), (0, 4), (4, 0), (4, 4)}


def test_a_long_map_overlaps_by_about_two_fifths() -> None:
    """7 × 10: two windows of side 7 overlap by 57 %, three by 79 %; two are nearer to 40 %."""
    windows = rmac_windows(7, 10)
    assert [(top, left) for top, left, side in windows if side == 7] == [(0, 0), (0, 3)]
    assert len([1 for *_, side in windows if side == 4]) == 2 * 3
    assert len([1 for *_, side in windows if side == 3]) == 3 * 4
    turned = rmac_windows(10, 7)
    assert sorted(windows) == sorted((left, top, side) for top, left, side in turned)


@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 4))
@settings(max_examples=80, deadline=None)
def test_windows_stay_inside_and_touch_both_ends(height: int, width: int, levels: int) -> None:
    windows = rmac_windows(height, width, levels=levels)
    assert windows
    for top, left, side in windows:
        assert side >= 1
        assert 0 <= top <= height - side
        assert 0 <= left <= width - side
    assert max(top + side for top, _, side in windows) == height
    assert max(left + side for _, left, side in windows) == width


@pytest.mark.parametrize("whole", [False, True])
def test_the_descriptor_is_the_printed_loop(whole: bool) -> None:
    maps = torch.rand(2, 5, 6, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    got = rmac(maps, whole=whole)
    for item, row in zip(maps, got, strict=True):
        total = torch.zeros(5, dtype=torch.float64)
        windows = rmac_windows(6, 9) + ([(0, 0, 9)] if whole else [])
        for top, left, side in windows:
            best = torch.tensor([float(c[top : top + side, left : left + side].max()) for c in item])
            total += best.double() / best.double().norm()
        torch.testing.assert_close(row, total / total.norm(), rtol=1e-6, atol=1e-7)


def test_gradients_flow_and_dead_maps_are_zero() -> None:
    maps = torch.rand(1, 3, 4, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(rmac, (maps,))
    dead = torch.zeros(2, 3, 4, 4, requires_grad=True)
    z = rmac(dead)
    assert not z.detach().any()
    z.sum().backward()
    assert bool(torch.isfinite(dead.grad).all())
    assert rmac(torch.rand(0, 3, 4, 4)).shape == (0, 3)
    assert rmac(torch.ones(1, 2, 3, 3, dtype=torch.int64)).dtype == torch.float32


@pytest.mark.parametrize(
    ("act", "error", "message"),
    [
        (lambda: rmac(torch.ones(3, 4, 4)), ShapeError, r"shape \(n, c, h, w\).*before it is pooled"),
        (lambda: rmac(torch.ones(3, 4, 0, 4)), ShapeError, "at least 1"),
        (lambda: rmac(torch.full((1, 1, 2, 2), math.inf)), NotFiniteError, "`maps` must be finite"),
        (lambda: rmac(torch.ones(1, 1, 2, 2), levels=0), ParameterError, "`levels` must be at least 1"),
        (lambda: rmac_windows(0, 2), ParameterError, "`height` must be at least 1"),
    ],
)
def test_bad_input_is_named(act: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        act()
