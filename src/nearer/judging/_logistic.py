"""Out-of-sample class probabilities by logistic regression, as strongly regularised as the data ask for.

    min_W  mean_i −log softmax(xᵢW)_{yᵢ} + λ/2 ‖W‖²

Rows are centred and brought to a mean square length of one, so that one grid of λ serves all data; λ is the one
with the best likelihood of the labels as they are on one fold that it was not fitted on.
"""

from __future__ import annotations

import numpy as np

from nearer._plain import Array
from nearer.estimators._shared import minimize

__all__ = ["cross_fitted"]

STRENGTHS = (1e-3, 3e-4, 1e-4, 3e-5, 1e-5)
FOLDS = 5
# More rows make the classifier hardly better and the wait longer.
MOST_LEARNED = 20_000


def cross_fitted(x: Array, codes: Array, n_classes: int, *, seed: int = 0) -> Array:
    """The probability of each class for each row, from fits that did not see the row: (n, p), (n,) -> (n, c).

    `codes` are 0..c−1; rows with −1 teach nothing and get their probabilities from the first fit.

    >>> x = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]] * 5)
    >>> p = cross_fitted(x, np.array([0, 0, 0, 1, 1, 1] * 5), 2)
    >>> p.argmax(axis=1)[:6].tolist()
    [0, 0, 0, 1, 1, 1]
    """
    rows = _scaled(x)
    rng = np.random.default_rng(seed)
    fold = _folds(codes, rng)
    known = np.flatnonzero(codes >= 0)
    strength, start = _strength(rows, codes, n_classes, fold, rng)
    found = np.empty((len(rows), n_classes), dtype=np.float32)
    for number in range(FOLDS):
        inside = _some(known[fold[known] != number], rng)
        start = fit_logistic(rows[inside], codes[inside], n_classes, strength, start=start)
        asked = fold == number
        found[asked] = probabilities(rows[asked], start)
    return found


def fit_logistic(rows: Array, codes: Array, n_classes: int, strength: float, *, start: Array | None) -> Array:
    """The weights (p + 1, c), the last row the offsets; from those of an easier problem it takes fewer steps."""
    n, p = rows.shape
    wide = np.concatenate([rows, np.ones((n, 1), dtype=np.float32)], axis=1)
    place = np.arange(n)

    def loss_and_gradient(weights: Array) -> tuple[float, Array]:
        w = weights.astype(np.float32)
        scores = wide @ w
        scores -= scores.max(axis=1, keepdims=True)
        shares = np.exp(scores)
        total = shares.sum(axis=1, keepdims=True)
        loss = float((np.log(total[:, 0]) - scores[place, codes]).mean(dtype=np.float64))
        shares /= total
        shares[place, codes] -= 1
        gradient = wide.T @ (shares / n)
        gradient[:-1] += strength * w[:-1]
        return loss + 0.5 * strength * float(np.square(w[:-1]).sum(dtype=np.float64)), gradient

    begin = np.zeros((p + 1, n_classes)) if start is None else start
    return minimize(loss_and_gradient, begin, max_iter=100, tol=1e-7)[0]


def probabilities(rows: Array, weights: Array) -> Array:
    """softmax(xW + b), (n, c)."""
    scores = rows @ weights[:-1].astype(np.float32) + weights[-1].astype(np.float32)
    scores -= scores.max(axis=1, keepdims=True)
    shares = np.exp(scores)
    result: Array = shares / shares.sum(axis=1, keepdims=True)
    return result


def _strength(
    rows: Array, codes: Array, n_classes: int, fold: Array, rng: np.random.Generator
) -> tuple[float, Array]:
    known = np.flatnonzero(codes >= 0)
    inside, outside = _some(known[fold[known] != 0], rng), known[fold[known] == 0]
    weights: Array | None = None
    best: tuple[float, float, Array] | None = None
    for strength in STRENGTHS:
        weights = fit_logistic(rows[inside], codes[inside], n_classes, strength, start=weights)
        given = probabilities(rows[outside], weights)[np.arange(len(outside)), codes[outside]]
        likelihood = float(np.log(np.maximum(given, 1e-12)).mean()) if len(outside) else -strength
        if best is not None and likelihood < best[0]:
            break
        best = (likelihood, strength, weights)
    assert best is not None
    return best[1], best[2]


def _scaled(x: Array) -> Array:
    rows = np.asarray(x, dtype=np.float64)
    rows = rows - rows.mean(axis=0)
    length = np.sqrt(np.square(rows).sum(axis=1).mean())
    scaled: Array = (rows / max(float(length), 1e-300)).astype(np.float32)
    return scaled


def _folds(codes: Array, rng: np.random.Generator) -> Array:
    """Rows of every class spread evenly over the folds; rows without a label are asked of the first."""
    fold = np.zeros(len(codes), dtype=np.int64)
    order = rng.permutation(len(codes))
    order = order[np.argsort(codes[order], kind="stable")]
    order = order[codes[order] >= 0]
    fold[order] = np.arange(len(order)) % FOLDS
    return fold


def _some(rows: Array, rng: np.random.Generator) -> Array:
    return rows if len(rows) <= MOST_LEARNED else rng.choice(rows, MOST_LEARNED, replace=False)
