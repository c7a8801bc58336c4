"""How the learning rate moves: functions from the number of the step to a factor on every rate.

A schedule has no state: the step it is asked about is all it knows, so a resumed run needs nothing but its place.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from nearer._checks import check_int, check_number
from nearer.exceptions import ParameterError

Schedule = Callable[[int], float]


def constant(*, warm_up: int = 0) -> Schedule:
    """Factor 1, after `warm_up` steps that rise to it in equal parts.

    >>> [constant(warm_up=4)(step) for step in (0, 1, 3, 100)]
    [0.25, 0.5, 1.0, 1.0]
    """
    check_int(warm_up, "warm_up", minimum=0)
    return lambda step: min(1.0, (step + 1) / warm_up) if warm_up else 1.0


def cosine(steps: int, *, warm_up: int = 0, floor: float = 0.0) -> Schedule:
    """From 1 down to `floor` along half a cosine over `steps` steps: floor + (1 − floor)(1 + cos πt)/2.

    >>> [round(cosine(4)(step), 3) for step in range(5)]
    [1.0, 0.854, 0.5, 0.146, 0.0]

    Args:
        steps: steps of the whole schedule.
        warm_up: steps from 0 up to 1 before it.
        floor: the last factor.
    """
    return _falling(steps, warm_up, floor, lambda share: (1 + math.cos(math.pi * share)) / 2)


def linear(steps: int, *, warm_up: int = 0, floor: float = 0.0) -> Schedule:
    """From 1 down to `floor` in equal parts over `steps` steps.

    >>> [linear(4)(step) for step in range(5)]
    [1.0, 0.75, 0.5, 0.25, 0.0]

    Args:
        steps: steps of the whole schedule.
        warm_up: steps from 0 up to 1 before it.
        floor: the last factor.
    """
    return _falling(steps, warm_up, floor, lambda share: 1 - share)


def _falling(steps: int, warm_up: int, floor: float, shape: Callable[[float], float]) -> Schedule:
    check_int(steps, "steps")
    check_int(warm_up, "warm_up", minimum=0)
    if warm_up >= steps:
        raise ParameterError(f"`warm_up` must be less than the {steps} steps, got {warm_up}.")
    check_number(floor, "floor", minimum=0.0, maximum=1.0)

    def factor(step: int) -> float:
        if step < warm_up:
            return (step + 1) / warm_up
        share = min(1.0, (step - warm_up) / (steps - warm_up))
        return floor + (1 - floor) * shape(share)

    return factor
