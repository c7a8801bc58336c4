"""The pictures of weights show the weights."""

from __future__ import annotations

import pytest
import torch

from nearer.exceptions import ParameterError
from nearer.losses import BinomialDevianceLoss, ContrastiveLoss, GeneralizedLiftedLoss, RAWLoss, TripletLoss
from nearer.mining import VTHM
from nearer.reports import weight_curves, weight_matrix
from nearer.reports._style import as_png
from nearer.reports._weights import pair_weights


def test_curves_of_the_paper() -> None:
    s = torch.linspace(-1, 1, 41, dtype=torch.float64)
    step = pair_weights(ContrastiveLoss(threshold=0.5, reduction="sum"), s)
    assert step.tolist() == [float(value > 0.5) for value in s]
    binomial = pair_weights(BinomialDevianceLoss(reduction="sum"), s, negatives=(0.1, 0.3, 0.5))
    torch.testing.assert_close(binomial, 50 / 4 * torch.sigmoid(50 * (s - 0.5)))
    lifted = pair_weights(GeneralizedLiftedLoss(margin=1.0, reduction="sum"), s, negatives=(0.2,))
    torch.testing.assert_close(lifted, torch.sigmoid(s - 0.2))
    triplet = pair_weights(TripletLoss(margin=0.1, reduction="sum"), s, positives=(0.5, 0.7))
    torch.testing.assert_close(triplet, (s > 0.4).double() + (s > 0.6).double())
    raw = pair_weights(RAWLoss(reduction="sum"), s, positives=(0.5,), side="positive")
    e = torch.exp(-2 * (s - 0.5))
    torch.testing.assert_close(raw, e / (1 + e + 1))


def test_weights_of_a_positive_fall_and_of_a_negative_rise() -> None:
    s = torch.linspace(-1, 1, 101, dtype=torch.float64)
    for loss in (RAWLoss(reduction="sum"), BinomialDevianceLoss(reduction="sum")):
        assert (pair_weights(loss, s, side="positive").diff() <= 0).all()
        assert (pair_weights(loss, s, side="negative").diff() >= 0).all()


def test_figures_are_drawn() -> None:
    figure = weight_curves()
    lines = {line.get_label() for line in figure.axes[0].lines}
    assert {"contrastive", "triplet, margin 0.1", "generalised lifted", "binomial deviance", "RAW"} <= lines
    assert as_png(figure).startswith(b"\x89PNG")
    generator = torch.Generator().manual_seed(0)
    picture = weight_matrix(RAWLoss(miner=VTHM()), torch.randn(24, 5, generator=generator), torch.arange(24) % 6)
    assert "% of the pairs have a weight" in picture.axes[0].get_title(loc="left")


def test_bad_settings() -> None:
    with pytest.raises(ParameterError, match="`side` must be"):
        pair_weights(RAWLoss(), torch.zeros(2), side="both")
    with pytest.raises(ParameterError, match="at least one loss"):
        weight_curves({})
    with pytest.raises(ParameterError, match="at most 1000 rows"):
        weight_matrix(RAWLoss(), torch.ones(1001, 2), torch.arange(1001))
