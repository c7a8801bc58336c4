"""Scores of multi-label prediction: Hamming loss, ranking loss, one-error, coverage, average precision.

An instance has a set Y of relevant labels among q, and a predictor gives every label a score f. Labels are ranked
by their score, largest first, rank 1 the best. What happens to equal scores is the choice of `ties`:

    "index"    the convention of the published tables: a tie between a relevant and an irrelevant label is an error
               of the ranking loss; the one-error forgives it; for coverage and average precision the higher label
               index ranks better
    "worst"    every tie is resolved against the predictor (scikit-learn does this)
    "average"  the mean over all orders of the tied labels

Ranking loss, one-error and average precision are not defined for an instance whose labels are all relevant or all
irrelevant: such instances are left out. Hamming loss and coverage use every instance.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np

from nearer._checks import check_choice
from nearer._plain import Array
from nearer._validation import as_matrix, as_tensor
from nearer.exceptions import LabelError, ShapeError

TieRule = Literal["index", "worst", "average"]


def hamming_loss(predictions: Any, targets: Any) -> float:
    """The share of labels that are predicted wrongly, mismatches / (n·q); lower is better.

    `predictions` and `targets` are 0/1 matrices of shape (n, q).

    >>> hamming_loss([[1, 0, 0, 1]], [[1, 0, 1, 1]])
    0.25
    """
    known = _targets(targets, "targets")
    predicted = _targets(predictions, "predictions")
    _same_shape(predicted, known, "predictions")
    return float(np.mean(predicted != known))


def ranking_loss(scores: Any, targets: Any, *, ties: TieRule = "index") -> float:
    """The share of (relevant, irrelevant) pairs in the wrong order, #{f_r ≤ f_u} / (|Y|·(q − |Y|)).

    Lower is better. Ties count as errors, with `ties="average"` as half an error. Instances without such a pair are
    left out.

    >>> ranking_loss([[0.9, 0.5, 0.7]], [[1, 1, 0]])  # the pair (second, third) is wrong
    0.5
    """
    values, known = _ranked(scores, targets, ties)
    wrong = np.zeros(len(values))
    for i, (f, y) in enumerate(zip(values, known, strict=True)):
        below = np.sort(f[~y])
        # For each relevant label the irrelevant ones that reach it.
        reach = len(below) - np.searchsorted(below, f[y], side="left")
        if ties == "average":
            beyond = len(below) - np.searchsorted(below, f[y], side="right")
            reach = (reach + beyond) / 2
        wrong[i] = reach.sum() / (np.count_nonzero(y) * len(below))
    return float(wrong.mean())


def one_error(scores: Any, targets: Any, *, ties: TieRule = "index") -> float:
    """The share of instances whose best label is not relevant; lower is better.

    Among several best labels a relevant one is enough ("index"), an irrelevant one is an error ("worst"), or the
    share of irrelevant ones counts ("average").

    >>> one_error([[0.9, 0.5], [0.1, 0.2]], [[1, 0], [1, 0]])
    0.5
    """
    values, known = _ranked(scores, targets, ties)
    best = values == values.max(axis=1, keepdims=True)
    wrong = (best & ~known).sum(axis=1) / best.sum(axis=1)
    if ties == "index":
        wrong = wrong == 1
    elif ties == "worst":
        wrong = wrong > 0
    return float(np.mean(wrong))


def coverage(scores: Any, targets: Any, *, ties: TieRule = "index") -> float:
    """How far down the list one has to go to meet every relevant label, mean(largest rank) − 1; lower is better.

    Every instance counts; one without relevant labels contributes −1. scikit-learn's `coverage_error` is the value
    for `ties="worst"` plus 1.

    >>> coverage([[0.9, 0.5, 0.7]], [[1, 1, 0]])
    2.0
    """
    values, known = _checked(scores, targets, ties)
    relevant = known.any(axis=1)
    depth = np.zeros(len(values))
    values, known = values[relevant], known[relevant]
    if ties == "index":
        depth[relevant] = np.where(known, _ranks(values), 0).max(axis=1, initial=0)
    elif len(values):
        lowest = np.where(known, values, np.inf).min(axis=1, keepdims=True)
        above, tied = (values > lowest).sum(axis=1), (values == lowest).sum(axis=1)
        if ties == "average":
            # The largest of m places drawn from t without replacement is m(t+1)/(m+1) on average.
            mine = ((values == lowest) & known).sum(axis=1)
            depth[relevant] = above + mine * (tied + 1) / (mine + 1)
        else:
            depth[relevant] = above + tied
    return float(depth.mean() - 1)


def average_precision(scores: Any, targets: Any, *, ties: TieRule = "index") -> float:
    """The mean over relevant labels l of #{relevant labels ranked at or above l} / rank(l); higher is better.

    scikit-learn's `label_ranking_average_precision_score` is the value for `ties="worst"`, except that it counts
    the instances that are left out here as 1.

    >>> round(average_precision([[0.9, 0.5, 0.7]], [[1, 1, 0]]), 4)  # (1/1 + 2/3) / 2
    0.8333
    """
    values, known = _ranked(scores, targets, ties)
    if ties == "index":
        order = np.argsort(_ranks(values), axis=1)
        right = np.take_along_axis(known, order, axis=1)
        precision = np.cumsum(right, axis=1) / np.arange(1, right.shape[1] + 1)
        return float(np.mean((precision * right).sum(axis=1) / right.sum(axis=1)))
    each = [_tied_precision(f, y, ties) for f, y in zip(values, known, strict=True)]
    return float(np.mean(each))


def _tied_precision(f: Array, y: Array, ties: TieRule) -> float:
    """Average precision of one instance; labels of equal score form a group."""
    _, group, size = np.unique(-f, return_inverse=True, return_counts=True)
    mine = np.bincount(group[y], minlength=len(size))
    above, right_above = np.cumsum(size) - size, np.cumsum(mine) - mine
    if ties == "worst":
        total = float((mine * (right_above + mine) / (above + size)).sum())
    else:
        total = 0.0
        for g in np.flatnonzero(mine).tolist():
            # A relevant label stands at each of the places of its group with equal probability; of the others
            # before it in the group, the share (mine − 1)/(size − 1) is relevant on average.
            rank = np.arange(1, size[g] + 1)
            others = (rank - 1) * (mine[g] - 1) / max(size[g] - 1, 1)
            total += float(mine[g] * ((right_above[g] + 1 + others) / (above[g] + rank)).mean())
    return total / float(mine.sum())


def ranked(targets: Any) -> Array:
    """Which instances have both relevant and irrelevant labels, (n,) bool: the others are left out.

    >>> ranked([[1, 0], [1, 1], [0, 0]])
    array([ True, False, False])
    """
    known = _targets(targets, "targets")
    return np.asarray(known.any(axis=1) & ~known.all(axis=1))


def _ranks(values: Array) -> Array:
    """Rank 1 for the largest; of equal scores the higher index has the better rank."""
    order = np.argsort(values, axis=1, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(values.shape[1], 0, -1)[None], axis=1)
    return ranks


def _ranked(scores: Any, targets: Any, ties: TieRule) -> tuple[Array, Array]:
    values, known = _checked(scores, targets, ties)
    keep = ranked(known)
    if not keep.any():
        raise LabelError(
            f"`targets` must hold an instance with both relevant and irrelevant labels, got none among "
            f"{len(known)}. This score compares the two."
        )
    return values[keep], known[keep]


def _checked(scores: Any, targets: Any, ties: str) -> tuple[Array, Array]:
    check_choice(ties, "ties", get_args(TieRule))
    values = as_matrix(scores, "scores").detach().cpu().numpy()
    known = _targets(targets, "targets")
    _same_shape(values, known, "scores")
    return values, known


def _targets(value: Any, name: str) -> Array:
    tensor = as_tensor(value, name).detach().cpu()
    if tensor.ndim != 2 or 0 in tensor.shape:
        raise ShapeError(
            f"`{name}` must be a 0/1 matrix of shape (n, q), both at least 1, got shape {tuple(tensor.shape)}."
        )
    matrix = tensor.numpy()
    if not np.isin(matrix, (0, 1)).all():
        wrong = matrix[~np.isin(matrix, (0, 1))][0]
        raise LabelError(f"`{name}` must hold 0 and 1 only, got {wrong}. For scores, set a threshold first.")
    return matrix.astype(bool)


def _same_shape(first: Array, targets: Array, name: str) -> None:
    if first.shape != targets.shape:
        raise ShapeError(f"`{name}` must have the shape of `targets`, {targets.shape}, got {first.shape}.")
