"""The distance below which a pair counts as similar, chosen from pairs whose answer is known."""

from __future__ import annotations

from typing import Literal

import numpy as np

from nearer._checks import check_choice
from nearer.estimators._matrices import Array
from nearer.exceptions import LabelError

__all__ = ["Strategy", "best_threshold"]

Strategy = Literal["accuracy", "balanced", "f1"]


def best_threshold(distances: Array, similar: Array, *, strategy: Strategy = "accuracy") -> float:
    """The threshold t for which "similar if distance ≤ t" scores highest on known pairs, in O(m log m).

    `strategy` is the share of right answers, the mean of the two rates of right answers, or F1 of "similar".
    t lies half way between two distances; with nothing worth calling similar it lies below all of them.

    >>> best_threshold(np.array([1.0, 2.0, 5.0]), np.array([True, True, False]))
    3.5
    """
    check_choice(strategy, "strategy", ["accuracy", "balanced", "f1"])
    positives, negatives = int(similar.sum()), int((~similar).sum())
    if not positives or not negatives:
        raise LabelError(
            f"`similar` must hold both kinds of pairs, got {positives} similar and {negatives} dissimilar. "
            f"A threshold needs both."
        )
    order = np.argsort(distances, kind="stable")
    values = distances[order]
    # Cut c calls the c nearest pairs similar; equal distances cannot be cut apart.
    hits = np.concatenate([[0], np.cumsum(similar[order])])
    false = np.arange(len(values) + 1) - hits
    if strategy == "accuracy":
        score = hits + (negatives - false)
    elif strategy == "balanced":
        score = hits / positives + (negatives - false) / negatives
    else:
        score = 2 * hits / (hits + false + positives)
    allowed = np.concatenate([[True], values[1:] > values[:-1], [True]])
    cut = int(np.where(allowed, score, -np.inf).argmax())
    if cut == 0:
        return float(values[0]) - max(abs(float(values[0])), 1.0) * 1e-6
    if cut == len(values):
        return float(values[-1])
    return float((values[cut - 1] + values[cut]) / 2)
