"""Ranked list loss: the printed formula by loops, the peer, what the weights do."""

from __future__ import annotations

import math
import warnings

import pytest
import torch

from every_loss import batch
from nearer.exceptions import ParameterError
from nearer.losses import RankedListLoss


def printed(x, y, alpha, margin, t_n, t_p, balance):
    z = torch.nn.functional.normalize(x, dim=1)
    total = 0.0
    for i in range(len(x)):
        for same, share, t in ((True, 1 - balance, t_p), (False, balance, t_n)):
            top = bottom = 0.0
            for j in range(len(x)):
                if j == i or bool(y[i] == y[j]) != same:
                    continue
                d = float((z[i] - z[j]).norm())
                hinge = d - (alpha - margin) if same else alpha - d
                if hinge > 0:
                    top += math.exp(t * hinge) * hinge
                    bottom += math.exp(t * hinge)
            total += share * top / bottom if bottom else 0.0
    return total / len(x)


@pytest.mark.parametrize(("t_n", "t_p", "balance"), [(10.0, 0.0, 0.5), (0.0, 3.0, 0.2), (2.0, 2.0, 1.0)])
def test_the_printed_formula(t_n, t_p, balance):
    x, y = batch(15, 4)
    loss = RankedListLoss(margin=0.3, alpha=1.3, sharpness=t_n, positive_sharpness=t_p, balance=balance)
    assert loss(x, y).item() == pytest.approx(printed(x, y, 1.3, 0.3, t_n, t_p, balance), rel=1e-12)


def test_the_peer():
    peers = pytest.importorskip("pytorch_metric_learning.losses")
    warnings.simplefilter("ignore")
    x, y = batch(24, 6, even=True)
    theirs = peers.RankedListLoss(margin=0.4, Tn=3, Tp=1)(x, y)
    # It adds 1e-5 to each of the n weights of a row.
    ours = RankedListLoss(margin=0.4, sharpness=3.0, positive_sharpness=1.0)(x, y)
    assert ours.item() == pytest.approx(theirs.item(), rel=5e-4)


def test_no_exponent_overflows_and_none_violated_is_zero():
    x, y = batch(12, 3)
    assert RankedListLoss(sharpness=1e5)(x.float(), y).isfinite()
    apart = torch.eye(4)[[0, 0, 1, 1]]
    assert RankedListLoss()(apart, torch.tensor([0, 0, 1, 1])) == 0


def test_settings():
    with pytest.raises(ParameterError, match="`balance`"):
        RankedListLoss(balance=1.5)
