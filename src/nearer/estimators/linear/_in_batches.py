"""Learners for k-NN in mini-batches: the cost of a step does not grow with the rows.

With classes the start is the within-class covariance, shrunk and inverted, of at most 20,000 rows, scaled so that
nearest neighbors are at a squared distance of about 1; then Adam, its rate in proportion to the map, falling to 0.
Batches are random rows, not so many of each class: that is how neighbors come in the data. Only where a batch would
hold fewer than four rows of a class, some classes are drawn and four rows of each. A batch sees farther neighbors
than all rows do, so its objective is a smoother one, and its value is not that of all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from nearer.estimators._matrices import Array
from nearer.estimators._optimize import report
from nearer.estimators._scatter import class_scatter
from nearer.exceptions import ParameterError
from nearer.neighbors import search

LOOKED_AT, NEAREST_OF = 20_000, 1_500
SHRINK, RATE = 0.3, 0.02
EPOCHS, FEWEST, MOST = 15, 300, 1_000
# Four of a class: on held-out drawers of Omniglot (964 classes) two and eight were a little worse.
FEW_OF_A_CLASS, OF_A_CLASS = 4, 4

Loss = Callable[[Array, Array, Array], tuple[float, Array]]
"""`loss(A, rows, codes or numbers)`: the value per row, and the gradient by A (d, p)."""


def steps_for(n: int, batch_size: int) -> int:
    """Fifteen passes, between 300 and 1,000 steps: a million rows need no more than some hundred thousand do.

    >>> steps_for(20_000, 1024), steps_for(10**6, 1024)
    (300, 1000)
    """
    return int(np.clip(EPOCHS * n / batch_size, FEWEST, MOST))


def whitened_start(X: Array, codes: Array, d: int, rng: np.random.RandomState) -> Array:
    """`A = s·C^{−½}` (d, p) with the shrunk within-class covariance C, cut to the d directions that spread most."""
    rows = np.sort(rng.permutation(len(X))[:LOOKED_AT])
    x, y = X[rows].astype(np.float64), codes[rows]
    within = class_scatter(x, np.unique(y, return_inverse=True)[1]) / len(x)
    typical = np.trace(within) / len(within)
    if typical <= 0:
        within, typical = np.eye(len(within)), 1.0
    values, vectors = np.linalg.eigh((1 - SHRINK) * within + SHRINK * typical * np.eye(len(within)))
    A = (vectors / np.sqrt(values)).T
    if d < len(A):
        z = (x - x.mean(axis=0)) @ A.T
        _, axes = np.linalg.eigh(z.T @ z)
        A = axes[:, ::-1][:, :d].T @ A
    return with_near_rows_at_one(A, x, rng)


def with_near_rows_at_one(A: Array, X: Array, rng: np.random.RandomState) -> Array:
    """A scaled so that the median squared distance of nearest rows, among 1,500 of X, is 1."""
    few = X[rng.permutation(len(X))[:NEAREST_OF]] @ A.T
    nearest = np.square(search(few, k=1).distances.numpy()[:, 0])
    near = float(np.median(nearest[nearest > 0])) if (nearest > 0).any() else 1.0
    return A / np.sqrt(near)


def descend_in_batches(
    learner: Any, loss: Loss, A: Array, X: Array, y: Array, draws: Iterator[Array], *, rate: float
) -> tuple[Array, float]:
    """Adam on batches of the rows, its rate (in units of the map) falling to 0 by a cosine: map and mean last loss.

    Sets `n_iter_` and `converged_` of the learner: with a fixed number of steps and a rate that falls to nothing
    there is no criterion to miss.
    """
    steps, name = steps_for(len(X), int(learner.batch_size)), type(learner).__name__
    learner.n_iter_, learner.converged_ = steps, True
    rate *= float(np.sqrt(np.square(A).mean()))
    first, second = np.zeros_like(A), np.zeros_like(A)
    seen = []
    for step in range(1, steps + 1):
        rows = next(draws)
        value, gradient = loss(A, X[rows], y[rows])
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * np.square(gradient)
        now = rate * 0.5 * (1 + np.cos(np.pi * (step - 1) / steps))
        A = A - now * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-12)
        seen.append(value)
        if step % 20 == 0 or step == steps:
            report(learner.verbose, name, step, float(np.mean(seen[-20:])), most=steps)
    return A, float(np.mean(seen[-20:]))


def dense_rows(X: Any) -> Array:
    """Rows around their mean in float32; sparse ones are refused."""
    if hasattr(X, "toarray"):
        raise ParameterError("`batch_size` must be None for sparse rows: batches are dense.")
    return (X - X.mean(axis=0, dtype=np.float64)).astype(np.float32)


def fit_in_batches(
    learner: Any, loss: Loss, X: Any, codes: Array, d: int, rng: np.random.RandomState
) -> tuple[Array, float]:
    """The map (d, p) of a learner from classes, and the mean loss of the last batches."""
    rows = dense_rows(X)
    start = whitened_start(rows, codes, d, rng)
    draws = _batches(codes, int(learner.batch_size), rng)
    # Fewer steps are longer ones: with 300 of the length of 1,000 a thousand classes were still far from apart.
    rate = RATE * MOST / steps_for(len(rows), int(learner.batch_size))
    return descend_in_batches(learner, loss, start, rows, codes, draws, rate=rate)


def random_batches(n: int, size: int, rng: np.random.RandomState) -> Iterator[Array]:
    """Row numbers without end, every row once before any twice."""
    order: Array = np.empty(0, dtype=np.int64)
    while True:
        if len(order) < size:
            order = rng.permutation(n)
        yield np.sort(order[:size])
        order = order[size:]


def _batches(codes: Array, size: int, rng: np.random.RandomState) -> Iterator[Array]:
    """Row numbers without end, every row once before any twice; classes first where there are many."""
    counts = np.bincount(codes)
    if size >= FEW_OF_A_CLASS * len(counts):
        yield from random_batches(len(codes), size, rng)
    by_class = np.argsort(codes, kind="stable")
    starts = np.concatenate([[0], np.cumsum(counts)])
    able, many = np.flatnonzero(counts >= 2), max(2, size // OF_A_CLASS)
    queue: Array = np.empty(0, dtype=np.int64)
    while True:
        if len(queue) < many:
            queue = rng.permutation(able)
        chosen, queue = queue[:many], queue[many:]
        rows = [by_class[starts[code] + rng.permutation(counts[code])[:OF_A_CLASS]] for code in chosen.tolist()]
        yield np.sort(np.concatenate(rows))
