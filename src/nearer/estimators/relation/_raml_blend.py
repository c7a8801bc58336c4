"""How far to trust a matrix learned from graded labels: the mixture whose neighbours predict the labels best."""

from __future__ import annotations

import numpy as np

from nearer.estimators._blending import AMOUNTS, mixture_neighbors
from nearer.estimators._matrices import Array
from nearer.relations._shared import TableRelation

__all__ = ["choose_graded_blend", "label_table"]

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
    numbers = np.arange(n) if n <= _DATABASE else rng.permutation(n)[:_DATABASE]
    asked = min(_QUERIES, len(numbers))
    near = mixture_neighbors(X[numbers], matrix, AMOUNTS, k=min(k, len(numbers) - 1), queries=asked)
    if near is None:
        return 0.0
    labels = table[numbers]
    errors = [np.square(labels[each].mean(axis=1) - labels[:asked]).sum(axis=1) for each in near]
    best = int(np.argmin([error.mean() for error in errors]))
    for place in range(len(AMOUNTS) - 1, best, -1):
        gap = errors[place] - errors[best]
        if gap.mean() <= 0.5 * gap.std() / np.sqrt(asked):
            return AMOUNTS[place]
    return AMOUNTS[best]
