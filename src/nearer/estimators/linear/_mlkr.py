"""Metric learning for kernel regression: the map whose neighbours predict a number best.

As in NCA a block of rows meets all rows in float32, and the rows of `p_ij (y_j − ŷ_i)` sum to zero.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from nearer._checks import check_int, check_number, check_rectangle
from nearer.estimators._learner import MetricLearner
from nearer.estimators._matrices import Array
from nearer.estimators._optimize import minimize, warn_if_stopped_early
from nearer.estimators._starts import Init, bring_neighbors_near, centered, start_components, working_unit
from nearer.estimators.linear._in_batches import (
    LOOKED_AT,
    dense_rows,
    descend_in_batches,
    random_batches,
    with_near_rows_at_one,
)
from nearer.exceptions import LabelError

_BLOCK_ENTRIES = 250_000
# The start knows nothing of y, unlike that of classes: the way is longer.
_RATE = 0.1


def mlkr_loss_and_gradient(
    components: Array, X: Array, y: Array, *, dtype: Any = np.float64
) -> tuple[float, Array]:
    """`Σ_i (ŷ_i − y_i)²` with `ŷ_i = Σ_{j≠i} p_ij y_j`, `p_ij ∝ exp(−‖A(x_i − x_j)‖²)`, and its gradient in A.

    >>> value, _ = mlkr_loss_and_gradient(np.eye(1), np.array([[0.0], [0.0], [50.0]]), np.array([1.0, 1.0, 4.0]))
    >>> value
    9.0
    """
    n, d = X.shape[0], components.shape[0]
    Z = (X @ components.T).astype(dtype, copy=False)
    with_one = np.concatenate([Z, np.ones((n, 1), dtype=dtype)], axis=1)
    both = np.concatenate([with_one, with_one * y[:, None].astype(dtype)], axis=1)
    keys = np.concatenate([2 * Z, -np.square(Z).sum(axis=1, keepdims=True)], axis=1)
    errors = np.zeros(n)
    pulled = np.zeros((n, d), dtype=dtype)
    pushed = np.zeros((2 * (d + 1), n), dtype=dtype)
    # Few rows at a time starve the matrix product, whatever n is.
    step = max(64, _BLOCK_ENTRIES // n)
    buffer = np.empty((step, n), dtype=dtype)
    for begin in range(0, n, step):
        rows = slice(begin, min(begin + step, n))
        own = np.arange(rows.stop - begin)
        weights = np.matmul(with_one[rows], keys.T, out=buffer[: len(own)])
        weights[own, own + begin] = -np.inf
        weights -= weights.max(axis=1, keepdims=True)
        # Below e⁻⁸⁰ lie the denormal numbers, which slow the products down and change nothing.
        np.maximum(weights, -80, out=weights)
        np.exp(weights, out=weights)
        weights[own, own + begin] = 0
        sums = weights @ both
        scale = 1 / sums[:, d : d + 1]
        guess = sums[:, -1:] * scale
        error = guess - y[rows, None]
        errors[rows] = error[:, 0]
        slope = (-2 * error * scale).astype(dtype)
        pulled[rows] = slope * (sums[:, d + 1 : -1] - guess * sums[:, :d])
        mine = with_one[rows] * slope
        pushed += np.concatenate([mine, mine * guess.astype(dtype)], axis=1).T @ weights
    # W_ij = slope_i w_ij (y_j − ŷ_i): the first half of `pushed` is multiplied by y_j, the second subtracted.
    columns = pushed[: d + 1] * y.astype(dtype) - pushed[d + 1 :]
    inner = columns[-1][:, None] * Z - pulled - columns[:-1].T
    gradient = 2 * (inner.T.astype(np.float64, copy=False) @ X)
    return float(np.square(errors).sum()), gradient


@dataclass(eq=False, repr=False)
class MLKR(MetricLearner):
    """Metric learning for kernel regression: minimise the leave-one-out squared error of a Gaussian kernel average.

    X (n, p) and numbers y (n,) -> (n, d). Time O(n² d) per step, memory O(n·d); above 5,000 rows a quarter of them
    is fitted first. `ridge` holds the map near its start; 0.0 is the published method. `objective_` is the mean
    squared error of the leave-one-out prediction, in units of the variance of y, plus that penalty.

    Reference: Weinberger, Tesauro (2007).

    >>> X = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1]])
    >>> M = MLKR().fit(X, [0.0, 0, 1, 1, 2, 2]).mahalanobis_matrix()
    >>> bool(M[0, 0] > 10 * M[1, 1])
    True

    Args:
        n_components: dimensions to keep; None keeps all columns.
        init: where to start: "auto", "identity", "pca", "lda" or a matrix.
        ridge: share of the identity added to a scatter before it is inverted.
        max_iter: the most iterations; a warning says when they did not suffice.
        tol: stop when the objective changes by less, relatively.
        batch_size: learn from random batches of so many rows, 1,024 for example: a step then costs the same however
            many rows there are, `ridge` is not used, and `objective_` is the error inside the last batches. None
            takes all rows.
        random_state: seed or generator for everything that is drawn; None takes numpy's own.
        verbose: 1 prints the iterations.

    Attributes:
        components_: A (d, p), the learned map: distances are those of `XAᵀ`.
        objective_: the mean squared error at the end; over the last batches with `batch_size`.
        n_iter_: iterations that were made.
        converged_: whether its rule to stop was met within `max_iter`.
        n_features_in_: columns of the X it was fitted on.
    """

    _takes_sparse = True

    n_components: int | None = None
    _: KW_ONLY
    init: Init = "auto"
    ridge: float = 1e-3
    max_iter: int = 50
    tol: float = 1e-4
    batch_size: int | None = None
    random_state: Any = None
    verbose: int = 0

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from rows X (n, p) and their numbers y (n,)."""
        if check_rectangle(y, "y").dtype.kind in "US":
            raise LabelError(
                f"`y` must hold numbers, got text such as {str(np.ravel(y)[0])!r}. MLKR predicts numbers: convert "
                f"them, or use NCA for classes."
            )
        X, y = validate_data(
            self,
            X,
            y,
            dtype=[np.float64, np.float32],
            y_numeric=True,
            ensure_min_samples=2,
            accept_sparse="csr",
        )
        self._forget_threshold()
        d = self._check_targets(X.shape[1])
        max_iter, tol = check_int(self.max_iter, "max_iter"), check_number(self.tol, "tol", above=0)
        rng = check_random_state(self.random_state)
        spread = float(np.std(y))
        target = (np.asarray(y, dtype=np.float64) - np.mean(y)) / (spread if spread > 0 else 1.0)
        if self.batch_size is not None and X.shape[0] > check_int(self.batch_size, "batch_size", minimum=32):
            self.components_ = self._in_batches(X, target, d, rng).astype(X.dtype, copy=False)
            return self
        rows = centered(X).astype(np.float64, copy=False)
        A = bring_neighbors_near(start_components(self.init, rows, None, d, rng), rows, rng)
        unit = working_unit(rows)
        A, rows = A * unit, rows / unit
        start = A
        n = rows.shape[0]
        if n > 5000:
            chosen = rng.permutation(n)[: n // 4]
            A = self._descend(A, start, rows[chosen], target[chosen], max_iter, tol)[0]
        A, value, self.n_iter_, self.converged_ = self._descend(A, start, rows, target, max_iter, tol)
        self.objective_ = value / n
        warn_if_stopped_early(self)
        self.components_ = (A / unit).astype(X.dtype, copy=False)
        return self

    def _in_batches(self, X: Any, y: Array, d: int, rng: np.random.RandomState) -> Array:
        """A start from some rows, scaled so that a batch has near neighbors, then Adam on batches."""
        rows = dense_rows(X)
        some = rows[np.sort(rng.permutation(len(rows))[:LOOKED_AT])].astype(np.float64)
        start = with_near_rows_at_one(start_components(self.init, some, None, d, rng), some, rng)

        def loss(A: Array, x: Array, numbers: Array) -> tuple[float, Array]:
            value, gradient = mlkr_loss_and_gradient(
                A.astype(np.float32), x, numbers.astype(np.float32), dtype=np.float32
            )
            return value / len(x), gradient / len(x)

        draws = random_batches(len(rows), int(self.batch_size or 0), rng)
        A, self.objective_ = descend_in_batches(self, loss, start, rows, y, draws, rate=_RATE)
        return A

    def _descend(
        self, A: Array, start: Array, X: Any, y: Array, max_iter: int, tol: float
    ) -> tuple[Array, float, int, bool]:
        compact, target = X.astype(np.float32), y.astype(np.float32)
        weight = check_number(self.ridge, "ridge", minimum=0) * len(y) / float(np.square(start).mean() + 1e-300)

        def loss(components: Array) -> tuple[float, Array]:
            value, gradient = mlkr_loss_and_gradient(
                components.astype(np.float32), compact, target, dtype=np.float32
            )
            away = components - start
            return value + weight * float(np.square(away).mean()), gradient + 2 * weight * away / away.size

        return minimize(loss, A, max_iter=max_iter, tol=tol, verbose=self.verbose, name="MLKR")
