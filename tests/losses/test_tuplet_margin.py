"""Tuplet margin loss: the printed formula by loops, and extreme angles."""

from __future__ import annotations

import math

import pytest
import torch

from every_loss import batch, value_and_gradient
from nearer.exceptions import ParameterError
from nearer.losses import TupletMarginLoss


def test_the_printed_formula():
    x, y = batch(14, 4)
    z = torch.nn.functional.normalize(x, dim=1)
    terms = []
    for a in range(14):
        for p in range(14):
            if p != a and y[p] == y[a]:
                angle = math.acos(float(z[a] @ z[p]))
                inside = [
                    math.exp(20 * (float(z[a] @ z[n]) - math.cos(angle - math.radians(8))))
                    for n in range(14)
                    if y[n] != y[a]
                ]
                terms.append(math.log1p(sum(inside)))
    found = TupletMarginLoss(margin=8.0, scale=20.0)(x, y).item()
    assert found == pytest.approx(sum(terms) / len(terms), rel=1e-10)


def test_equal_and_opposite_items_have_finite_gradients():
    z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
    value, gradient = value_and_gradient(TupletMarginLoss(), z, torch.tensor([0, 0, 0, 1, 1]))
    assert value.isfinite()
    assert gradient.isfinite().all()


def test_settings():
    with pytest.raises(ParameterError, match="`margin`"):
        TupletMarginLoss(margin=-1.0)
