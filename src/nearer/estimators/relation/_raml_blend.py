"""How far to trust a matrix learned from graded labels: the mixture whose neighbours predict the labels best."""

from __future__ import annotations

import numpy as np

from nearer.estimators._blending import mix_with_identity
from nearer.estimators._matrices import Array, factor_psd
from nearer.estimators._scatter import total_scatter
from nearer.estimators.neighbors._near import nearest_rows
from nearer.relations._relation import TableRelation

__all__ = ["choose_graded_blend", "label_table", "leave_one_out_error"]

_CANDIDATES = (0.0, 0.25, 0.5, 0.75, 1.0)
_QUERIES, _DATABASE = 1000, 4000


def label_table(relation: TableRelation) -> Array:
    """The labels of a relation as rows of numbers (n, q); classes become one-hot rows.

    >>> from nearer.relations import ClassLabels
    >>> label_table(ClassLabels([2, 5]))
    array([[1., 0.],
           [0., 1.]])
    """
    table = relation.queries.numpy()
    if table.ndim == 1:
        one_hot: Array = (table[:, None] == np.unique(table)).astype(np.float64)
        return one_hot
    return np.asarray(table, dtype=np.float64)


def leave_one_out_error(Z: Array, table: Array, *, k: int, queries: int) -> Array:
    """Squared error of the mean label row of the k nearest others, for the first `queries` rows, (queries,).

    >>> leave_one_out_error(np.array([[0.0], [0.1], [9.0]]), np.array([[1.0], [1.0], [0.0]]), k=1, queries=2)
    array([0., 0.])
    """
    near = nearest_rows(Z[:queries], Z, min(k, len(Z) - 1), own=np.arange(queries))
    guess = table[near].mean(axis=1)
    result: Array = np.square(guess - table[:queries]).sum(axis=1)
    return result


def choose_graded_blend(X: Array, table: Array, matrix: Array, rng: np.random.RandomState, *, k: int = 8) -> float:
    """The amount of identity, one of 0, ¼, ½, ¾, 1, whose k nearest neighbours predict the label rows best.

    At most 1,000 rows ask among at most 4,000; each is left out of its own prediction. A lead of the learned matrix
    below half a standard error does not count: it has seen these rows.

    >>> X = np.array([[0, 0], [0, 9], [0, -7], [1, 1], [1, 8], [1, -8.0]])
    >>> Y = np.array([[1.0, 0], [1, 0], [1, 0], [0, 1], [0, 1], [0, 1]])
    >>> choose_graded_blend(X, Y, np.diag([1.0, 0.0]), np.random.RandomState(0), k=2) < 0.5
    True
    """
    n = len(X)
    rows = np.arange(n) if n <= _DATABASE else rng.permutation(n)[:_DATABASE]
    sample, labels = X[rows].astype(np.float64), table[rows]
    sample = sample - sample.mean(axis=0)
    covariance = total_scatter(sample) / len(sample)
    if not np.trace(covariance) > 0:
        return 0.0
    asked = min(_QUERIES, len(rows))
    errors = []
    for amount in _CANDIDATES:
        mapped = sample @ factor_psd(mix_with_identity(matrix, covariance, amount)).T
        errors.append(leave_one_out_error(mapped, labels, k=k, queries=asked))
    best = int(np.argmin([error.mean() for error in errors]))
    for place in range(len(_CANDIDATES) - 1, best, -1):
        gap = errors[place] - errors[best]
        if gap.mean() <= 0.5 * gap.std() / np.sqrt(asked):
            return _CANDIDATES[place]
    return _CANDIDATES[best]
