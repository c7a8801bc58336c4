"""Neighbourhood components analysis: the expected number of right answers of a soft 1-NN vote, maximised.

Rows are sorted by class, so "the same class" is a slice and no mask is needed; a block of rows at a time meets all
rows in float32, so memory is O(n·d) plus one block. The gradient needs three matrix products with the block and no
further pass over it, because the rows of `p_ij ([y_i = y_j] − p_i)` sum to zero.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state

from nearer._checks import check_int, check_number
from nearer.estimators._learner import MetricLearner
from nearer.estimators._matrices import Array
from nearer.estimators._optimize import minimize, warn_stopped_early
from nearer.estimators._starts import Init, bring_neighbors_near, centered, start_components, working_unit
from nearer.estimators.linear._in_batches import fit_in_batches
from nearer.exceptions import LabelError

__all__ = ["NCA", "nca_loss_and_gradient"]

_BLOCK_ENTRIES = 250_000
_WARM_UP_ABOVE = 5000


def nca_loss_and_gradient(
    components: Array, X: Any, starts: Array, *, dtype: Any = np.float64
) -> tuple[float, Array]:
    """`−Σ_i p_i` and its gradient with respect to A (d, p), for rows X (n, p) sorted by class.

    `p_i = Σ_{j≠i, y_j=y_i} p_ij`, `p_ij ∝ exp(−‖A(x_i − x_j)‖²)`. `starts` (c + 1,) are the first rows of the
    classes and n. A row of a class of its own has p_i = 0 and still repels the others.

    >>> value, _ = nca_loss_and_gradient(np.eye(1), np.array([[0.0], [0.0], [50.0]]), np.array([0, 2, 3]))
    >>> value
    -2.0
    """
    n, d = X.shape[0], components.shape[0]
    Z = (X @ components.T).astype(dtype, copy=False)
    with_one = np.concatenate([Z, np.ones((n, 1), dtype=dtype)], axis=1)
    # One product gives 2 z_i·z_j − |z_j|², which is −‖z_i − z_j‖² up to a constant of the row.
    keys = np.concatenate([2 * Z, -np.square(Z).sum(axis=1, keepdims=True)], axis=1)
    right = np.zeros(n)
    pulled = np.zeros((n, d), dtype=dtype)
    pushed = np.zeros((d + 1, n), dtype=dtype)
    # Few rows at a time starve the matrix product, whatever n is.
    step = max(64, _BLOCK_ENTRIES // n)
    buffer = np.empty((step, n), dtype=dtype)
    for first, last in pairwise(starts.tolist()):
        same = slice(first, last)
        for begin in range(first, last, step):
            rows = slice(begin, min(begin + step, last))
            size = rows.stop - begin
            weights = np.matmul(with_one[rows], keys.T, out=buffer[:size])
            own = np.arange(size)
            weights[own, own + begin] = -np.inf
            weights -= weights.max(axis=1, keepdims=True)
            # Below e⁻⁸⁰ lie the denormal numbers, which slow the products down and change nothing.
            np.maximum(weights, -80, out=weights)
            np.exp(weights, out=weights)
            weights[own, own + begin] = 0
            everyone = weights @ with_one
            friends = weights[:, same] @ with_one[same]
            scale = 1 / everyone[:, -1:]
            p = friends[:, -1:] * scale
            right[rows] = p[:, 0]
            pulled[rows] = scale * (friends[:, :-1] - p * everyone[:, :-1])
            mine = with_one[rows] * scale
            pushed -= (mine * p).T @ weights
            pushed[:, same] += mine.T @ weights[:, same]
    # Σ_ij W_ij (z_i − z_j)(x_i − x_j)ᵀ with zero row sums: the column sums are the last row of `pushed`.
    column = pushed[-1].astype(np.float64)
    inner = column[:, None] * Z - pulled - pushed[:-1].T
    gradient = 2 * (inner.T.astype(np.float64, copy=False) @ X)
    return -float(right.sum()), gradient


def _sorted_by_class(codes: Array) -> tuple[Array, Array]:
    order = np.argsort(codes, kind="stable")
    return order, np.concatenate([[0], np.cumsum(np.bincount(codes))])


def batch_loss(A: Array, X: Array, y: Array) -> tuple[float, Array]:
    """The same for a batch (b, p) with classes y (b,), per row: a dense b × b matrix is quickest while b is small.

    >>> value, _ = batch_loss(np.eye(1), np.array([[0.0], [0.0], [50.0]]), np.array([0, 0, 1]))
    >>> round(value, 4)
    -0.6667
    """
    x = X.astype(np.float32, copy=False)
    z = x @ A.T.astype(np.float32)
    squares = np.einsum("ij,ij->i", z, z)
    P = z @ (2 * z.T)
    P -= squares[None, :]
    np.fill_diagonal(P, -np.inf)
    P -= P.max(axis=1, keepdims=True)
    np.exp(P, out=P)
    P /= P.sum(axis=1, keepdims=True)
    same = y[:, None] == y[None, :]
    right = np.where(same, P, 0).sum(axis=1)
    W = P * (same - right[:, None])
    # The rows of W sum to zero, so only its columns have a degree.
    spread = W.sum(axis=0)[:, None] * z - W @ z - W.T @ z
    gradient = (2 / len(y)) * (spread.T @ x)
    return -float(right.mean(dtype=np.float64)), gradient.astype(np.float64)


class NCA(MetricLearner):
    """Neighbourhood components analysis: maximise the expected leave-one-out accuracy of a soft nearest neighbour.

    X (n, p) -> (n, d). Time O(n² d) per step, memory O(n·d). With more than 5,000 rows a quarter of them is
    fitted first, which is sixteen times cheaper per step, and all rows continue from there. `max_iter`
    counts the steps on all rows. `objective_` is the mean of p_i at the end.

    Reference: Goldberger, Roweis, Hinton, Salakhutdinov (2004).

    >>> X = np.array([[0.0, 0], [0, 2], [1, 0], [1, 2]])
    >>> M = NCA(max_iter=100).fit(X, [0, 0, 1, 1]).mahalanobis_matrix()
    >>> bool(M[0, 0] > 10 * M[1, 1])
    True

    Args:
        n_components: dimensions to keep; None keeps all columns.
        init: where to start: "auto", "identity", "pca", "lda" or a matrix.
        max_iter: the most iterations; a warning says when they did not suffice.
        tol: stop when an iteration improves the objective by less, relatively.
        batch_size: learn from random batches of so many rows, 1,024 for example: a step then costs the same however
            many rows there are, and `objective_` is the mean of p_i inside the last batches. None takes all rows.
        random_state: seed or generator for everything that is drawn; None takes numpy's own.
        verbose: 1 prints the iterations.
    """

    _takes_sparse = True

    def __init__(
        self,
        n_components: int | None = None,
        *,
        init: Init = "auto",
        max_iter: int = 50,
        tol: float = 1e-5,
        batch_size: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.batch_size = batch_size
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from rows X (n, p) and their classes y (n,), of any type."""
        X, codes = self._check_labeled(X, y)
        d = self._check_targets(X.shape[1])
        max_iter, tol = check_int(self.max_iter, "max_iter"), check_number(self.tol, "tol", above=0)
        if len(self.classes_) < 2:
            raise LabelError("`y` must hold at least two classes, got one. NCA tells classes apart.")
        rng = check_random_state(self.random_state)
        if self.batch_size is not None and X.shape[0] > check_int(self.batch_size, "batch_size", minimum=32):
            A, value = fit_in_batches(self, batch_loss, X, codes, d, rng)
            self.objective_ = -value
            self.components_ = A.astype(X.dtype, copy=False)
            return self
        order, starts = _sorted_by_class(codes)
        rows = centered(X)[order].astype(np.float64, copy=False)
        A = start_components(self.init, rows, codes[order], d, rng)
        A = bring_neighbors_near(A, rows, rng)
        unit = working_unit(rows)
        A, rows = A * unit, rows / unit
        if rows.shape[0] > _WARM_UP_ABOVE:
            A = self._warm_up(A, rows, codes[order], rng, max_iter, tol)
        A, value, self.n_iter_, self.converged_ = self._descend(A, rows, starts, max_iter, tol)
        self.objective_ = -value / rows.shape[0]
        if not self.converged_:
            warn_stopped_early("NCA", self.n_iter_)
        self.components_ = (A / unit).astype(X.dtype, copy=False)
        return self

    def _warm_up(
        self, A: Array, X: Any, codes: Array, rng: np.random.RandomState, max_iter: int, tol: float
    ) -> Array:
        """Fit a quarter of the rows, of those of this quarter a quarter first, and so on."""
        chosen = np.sort(rng.permutation(X.shape[0])[: X.shape[0] // 4])
        _, kept = np.unique(codes[chosen], return_inverse=True)
        if kept.max() == 0:
            return A
        if len(chosen) > _WARM_UP_ABOVE:
            A = self._warm_up(A, X[chosen], kept, rng, max_iter, tol)
        return self._descend(A, X[chosen], _sorted_by_class(kept)[1], max_iter, tol)[0]

    def _descend(
        self, A: Array, X: Any, starts: Array, max_iter: int, tol: float
    ) -> tuple[Array, float, int, bool]:
        compact = X.astype(np.float32)

        def loss(components: Array) -> tuple[float, Array]:
            return nca_loss_and_gradient(components.astype(np.float32), compact, starts, dtype=np.float32)

        return minimize(loss, A, max_iter=max_iter, tol=tol, verbose=self.verbose, name="NCA")
