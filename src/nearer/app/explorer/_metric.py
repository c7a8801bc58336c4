"""What a refit learns: the closed form of `WithinClass` from labels and pairs, fast enough to wait for.

Where fewer than half of the items have a label, labels that the graph of neighbors leads to clearly are learned
from too, if that finds labelled items better that were left out for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nearer._plain import Array
from nearer.estimators import WithinClass
from nearer.evaluation._paired import per_query_scores
from nearer.exceptions import LabelError
from nearer.geometry import normalize
from nearer.graph import class_shares, nearest_neighbors

# Labelled items that are needed to choose a map by, that are left out to choose, and that a map is learned from.
LEAST_KNOWN, MOST_ASKED, MOST_LEARNED = 80, 800, 20_000
# Labels are spread over so many items, and taken from a lead on.
MOST_SPREAD, LEAST_LEAD = 8_000, 0.3
Progress = Callable[[str, float], None]


@dataclass(frozen=True, eq=False)
class Metric:
    """A linear map (p, d) of centered features, rows of length one behind it or not, and how it was chosen."""

    matrix: Array
    mean: Array
    unit: bool
    about: str = ""

    def __call__(self, features: Array) -> Array:
        rows = (features - self.mean) @ self.matrix
        return np.asarray(normalize(rows).numpy() if self.unit else rows)


def fit_metric(
    rows: Array, labels: Array, together: Array, apart: Array, *, progress: Progress = lambda text, share: None
) -> Metric:
    """The metric for rows (n, p) from codes (n,), −1 for unknown, and pairs (m, 2) of rows.

    >>> rows = np.array([[0.0, 0], [9, 0.1], [0, 1], [9, 1.1]], dtype=np.float32)
    >>> none = np.zeros((0, 2), dtype=np.int64)
    >>> z = fit_metric(rows, np.array([0, 0, 1, 1]), none, none)(rows)
    >>> bool(np.linalg.norm(z[0] - z[1]) < np.linalg.norm(z[0] - z[2]) * 9)
    True
    """
    known = np.flatnonzero(labels >= 0)
    if len(np.unique(labels[known])) < 2 and not len(together) and not len(apart):
        raise LabelError(
            "There is nothing to learn from yet: label items of two classes, or say what belongs together."
        )
    rng = np.random.default_rng(0)
    if len(known) < LEAST_KNOWN or len(np.unique(labels[known])) < 2:
        progress("learning", 0.5)
        learner = _learned(rows, labels, together, apart, rng, power=0.3)
        return _metric(learner, "Too few labels to choose by: a careful step from the features.")
    spread = ""
    if 2 * len(known) < len(rows):
        progress("spreading the labels", 0.1)
        asked = rng.permutation(known)[: min(len(known) // 4, MOST_ASKED)]
        taught = labels.copy()
        taught[asked] = -1
        scores = []
        for codes in (taught, _with_pseudo_labels(rows, taught, rng)):
            mapped = _learned(rows, codes, together, apart, rng).transform(rows[asked])
            each = per_query_scores(mapped, labels[asked])
            scores.append((each["recall@1"].mean(), each["map@r"].mean()))
        if scores[1] > scores[0]:
            spread, labels = ", with labels spread to neighbors", _with_pseudo_labels(rows, labels, rng)
    progress("choosing", 0.4)
    learner = _learned(rows, labels, together, apart, rng)
    chosen, scores_of = learner.form_, learner.scores_
    about = f"{str(chosen).capitalize()}{spread}: the best of {len(scores_of)} maps by Recall@1 and MAP@R on"
    raw = max(score for form, score in scores_of.items() if form.is_raw)
    tried = f"labelled items, {scores_of[chosen]:.3f}; the features as they are {raw:.3f}."
    return _metric(learner, f"{about} {tried}")


def _learned(
    rows: Array, labels: Array, together: Array, apart: Array, rng: np.random.Generator, power: float | None = None
) -> WithinClass:
    """The estimator on labelled items, at most 20,000 of them, and on items of pairs."""
    known = rng.permutation(np.flatnonzero(labels >= 0))[:MOST_LEARNED]
    chosen, places = np.unique(np.concatenate([known, together.ravel(), apart.ravel()]), return_inverse=True)
    codes = np.where(np.isin(chosen, known), labels[chosen], -1)
    pairs = places[len(known) :].reshape(-1, 2)
    learner = WithinClass(power=power, unit=None if power is None else False, max_rows=2_000, random_state=0)
    return learner.fit(rows[chosen], codes, together=pairs[: len(together)], apart=pairs[len(together) :])


def _metric(learner: WithinClass, about: str) -> Metric:
    matrix = np.ascontiguousarray(learner.components_.T, dtype=np.float32)
    return Metric(matrix, learner.mean_.astype(np.float32), learner.form_.unit, about)


def _with_pseudo_labels(rows: Array, labels: Array, rng: np.random.Generator) -> Array:
    """The labels, and those that the graph leads to where the lead is clear; of a random part of the items."""
    known, others = np.flatnonzero(labels >= 0), np.flatnonzero(labels < 0)
    known = rng.permutation(known)[: MOST_SPREAD // 2]
    chosen = np.concatenate([known, rng.permutation(others)[: MOST_SPREAD - len(known)]])
    shares = class_shares(nearest_neighbors(rows[chosen], k=15, normalized=False), labels[chosen], gamma=0.95)
    sure = (shares.lead > LEAST_LEAD).numpy()
    codes = labels.copy()
    codes[chosen[sure]] = shares.pseudo_labels.numpy()[sure]
    return np.where(labels >= 0, labels, codes)
