"""Scores of label-distribution prediction: how far a predicted distribution is from the true one.

Each takes `predicted` and `targets`, non-negative matrices of shape (n, q) with one distribution per row, and
returns the mean over the rows. Chebyshev, Clark, Canberra and KL are distances (lower is better); cosine and
intersection are similarities (higher is better). A label that has probability zero in both contributes nothing:
0/0 := 0. Rows need not sum to one, but the bounds below hold for distributions only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearer._checks import check_number
from nearer._plain import Array
from nearer._validation import as_matrix
from nearer.exceptions import LabelError, NotFiniteError, ShapeError


def chebyshev(predicted: Any, targets: Any) -> float:
    """The largest difference of a label, max_l |d_l − d̂_l|, in [0, 1]; lower is better.

    >>> chebyshev([[0.5, 0.5, 0.0]], [[0.25, 0.5, 0.25]])
    0.25
    """
    d, p = _checked(predicted, targets)
    return float(np.abs(d - p).max(axis=1).mean())


def clark(predicted: Any, targets: Any) -> float:
    """√(Σ_l (d_l − d̂_l)² / (d_l + d̂_l)²), at most √q; lower is better. A term 0/0 is 0.

    >>> clark([[1.0, 0.0, 0.0]], [[0.0, 0.0, 1.0]]) ** 2
    2.0000000000000004
    """
    d, p = _checked(predicted, targets)
    return float(np.sqrt((_relative(d, p) ** 2).sum(axis=1)).mean())


def canberra(predicted: Any, targets: Any) -> float:
    """Σ_l |d_l − d̂_l| / (d_l + d̂_l), at most q; lower is better. A term 0/0 is 0.

    >>> canberra([[1.0, 0.0, 0.0]], [[0.0, 0.0, 1.0]])
    2.0
    """
    d, p = _checked(predicted, targets)
    return float(_relative(d, p).sum(axis=1).mean())


def kullback_leibler(predicted: Any, targets: Any, *, smoothing: float = 1e-6) -> float:
    """Σ_l d_l · log(d_l / d̂_l) in nats; lower is better.

    Infinite when a prediction is zero where the truth is not, as predictions by neighbours often are. So
    `smoothing` is added to every entry of both sides, and both are scaled to sum to one: equal rows give 0 and no
    row gives a negative value. 0 leaves the numbers alone (rows are still scaled), and is refused where that is
    infinite.

    >>> round(kullback_leibler([[0.5, 0.5]], [[1.0, 0.0]], smoothing=0), 4)  # log 2
    0.6931
    """
    d, p = _checked(predicted, targets)
    smoothing = check_number(smoothing, "smoothing", minimum=0)
    d, p = d + smoothing, p + smoothing
    if smoothing == 0 and (np.any((p == 0) & (d > 0)) or np.any(d.sum(axis=1) == 0)):
        raise NotFiniteError(
            "`predicted` must be positive wherever `targets` is, or the divergence is infinite. Pass a `smoothing` "
            "above 0."
        )
    d /= d.sum(axis=1, keepdims=True)
    p /= p.sum(axis=1, keepdims=True)
    ratio = np.divide(d, p, out=np.ones_like(d), where=d > 0)
    # Rounding may leave −1e-17 where the rows are equal.
    return float(np.maximum((d * np.log(ratio)).sum(axis=1), 0).mean())


def cosine(predicted: Any, targets: Any) -> float:
    """Σ_l d_l·d̂_l / (‖d‖·‖d̂‖), in [0, 1]; higher is better. The cosine of a zero row is 0.

    >>> cosine([[1.0, 0.0]], [[2.0, 0.0]])
    1.0
    """
    d, p = _checked(predicted, targets)
    # Scaled by its largest entry no row is so small or so large that its squares leave the range of a float.
    d, p = (row / np.where(row.max(axis=1) > 0, row.max(axis=1), 1)[:, None] for row in (d, p))
    length = np.sqrt((d * d).sum(axis=1) * (p * p).sum(axis=1))
    return float(((d * p).sum(axis=1) / np.where(length > 0, length, 1)).mean())


def intersection(predicted: Any, targets: Any) -> float:
    """Σ_l min(d_l, d̂_l), for distributions 1 − ½ Σ_l |d_l − d̂_l|; higher is better.

    >>> intersection([[0.5, 0.5, 0.0]], [[0.25, 0.5, 0.25]])
    0.75
    """
    d, p = _checked(predicted, targets)
    return float(np.minimum(d, p).sum(axis=1).mean())


def _relative(d: Array, p: Array) -> Array:
    total = d + p
    return np.asarray(np.divide(np.abs(d - p), total, out=np.zeros_like(total), where=total > 0))


def _checked(predicted: Any, targets: Any) -> tuple[Array, Array]:
    p = as_matrix(predicted, "predicted").detach().cpu().numpy().astype(np.float64)
    d = as_matrix(targets, "targets").detach().cpu().numpy().astype(np.float64)
    if p.shape != d.shape:
        raise ShapeError(f"`predicted` must have the shape of `targets`, {d.shape}, got {p.shape}.")
    for name, matrix in (("predicted", p), ("targets", d)):
        if matrix.min() < 0:
            raise LabelError(
                f"`{name}` must not be negative, got {matrix.min():.3g}. Turn scores into a distribution "
                f"first, for example with a softmax."
            )
    return d, p
