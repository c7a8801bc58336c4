"""Schedules: end points, monotony, warm-up."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearer.exceptions import ParameterError
from nearer.training import cosine, linear
from nearer.training._schedules import constant


@given(steps=st.integers(2, 500), share=st.floats(0, 0.9), floor=st.floats(0, 1))
@pytest.mark.parametrize("make", [cosine, linear])
def test_rises_to_one_then_falls_to_the_floor(make, steps, share, floor):
    warm_up = min(int(steps * share), steps - 1)
    schedule = make(steps, warm_up=warm_up, floor=floor)
    factors = [schedule(step) for step in range(steps + 3)]
    assert max(factors) == pytest.approx(1.0)
    assert factors[steps] == pytest.approx(floor)
    assert factors[-1] == factors[steps]
    assert all(a <= b for a, b in pairwise(factors[:warm_up]))
    falling = factors[warm_up:]
    assert all(a >= b - 1e-12 for a, b in pairwise(falling))


def test_bad_input():
    with pytest.raises(ParameterError, match="less than the 5 steps"):
        cosine(5, warm_up=5)
    with pytest.raises(ParameterError, match="`floor`"):
        linear(5, floor=2.0)
    with pytest.raises(ParameterError, match="`warm_up`"):
        constant(warm_up=-1)
