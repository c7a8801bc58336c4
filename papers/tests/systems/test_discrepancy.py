"""λ^NN and d̂: planted answers and refusals."""

from __future__ import annotations

import numpy as np
import pytest

from nearer.exceptions import LabelError, ShapeError
from nearer_papers.systems._discrepancy import nn_discrepancy, nn_lambda


def test_apart_and_mixed():
    random = np.random.default_rng(0)
    cloud = random.normal(size=(400, 4))
    assert nn_discrepancy(cloud[:200], cloud[200:] + 50) == 1.0
    assert abs(nn_discrepancy(cloud[:200], cloud[200:])) < 0.2


def test_balanced_and_leave_one_out():
    # Every unseen row has a seen one next to it; the seen ones have each other.
    seen = [[0.0], [0.1], [10.0], [10.1]]
    assert nn_discrepancy(seen, [[0.05], [10.05]]) == pytest.approx(1 - 2 * np.mean([1.0, 1.0]))


def test_lambda_is_the_mean_of_two_errors():
    seen, unseen = [[0.0], [0.1], [0.2], [5.0]], [[0.0], [1.0], [0.1], [1.1]]
    # Seen: the row of class 1 finds class 0 but is alone in its class and left out. Unseen: all wrong.
    assert nn_lambda(seen, [0, 0, 0, 1], unseen, [0, 0, 1, 1]) == pytest.approx(0.5)


def test_bad_input():
    with pytest.raises(LabelError, match="a class with two rows"):
        nn_lambda([[0.0], [1.0]], [0, 1], [[0.0], [1.0]], [0, 0])
    with pytest.raises(ShapeError, match="must have 1 columns"):
        nn_discrepancy([[0.0], [1.0]], [[0.0, 1.0], [1.0, 1.0]])
