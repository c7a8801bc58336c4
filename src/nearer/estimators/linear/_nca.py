"""Neighbourhood components analysis: the expected number of right answers of a soft 1-NN vote, maximised.

e^(−D_ij) is symmetric, so only the upper half of it is formed, in tiles and in float32; a tile serves its
rows and, mirrored, its columns. The first pass gathers the sums of the rows, the second the gradient, by a product
with the tile in each role. Rows are sorted by class, so "the same class" is a slice and no mask is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state

from nearer._checks import check_int, check_number
from nearer.estimators._learner import MetricLearner
from nearer.estimators._matrices import Array
from nearer.estimators._optimize import minimize, warn_if_stopped_early
from nearer.estimators._starts import Init, bring_neighbors_near, centered, start_components, working_unit
from nearer.estimators.linear._in_batches import fit_in_batches
from nearer.exceptions import LabelError

# Of tiles that stay in the cache while they are worked on.
_SIDE = 384
# Up to 4,096 rows, 40 MB in float32, the tiles are kept between the passes.
_HELD_ENTRIES = 1 << 24
# A sum of e^(−D) below which the −80 of `_nearness` would be felt.
_ISOLATED = 1e-25
_WARM_UP_ABOVE = 5000


def nca_loss_and_gradient(
    components: Array, X: Any, starts: Array, *, dtype: Any = np.float64, space: Array | None = None
) -> tuple[float, Array]:
    """`−Σ_i p_i` and its gradient with respect to A (d, p), for rows X (n, p) sorted by class.

    `p_i = Σ_{j≠i, y_j=y_i} p_ij`, `p_ij ∝ exp(−‖A(x_i − x_j)‖²)`. `starts` (c + 1,) are the first rows of the
    classes and n. A row of a class of its own has p_i = 0 and still repels the others. `space` is that of `_space`.

    >>> value, _ = nca_loss_and_gradient(np.eye(1), np.array([[0.0], [0.0], [50.0]]), np.array([0, 2, 3]))
    >>> value
    -2.0
    """
    n = X.shape[0]
    Z = (X @ components.T).astype(dtype, copy=False)
    left, keys, with_one = _sides(Z)
    tiles = [(rows, columns) for rows in _stretches(n) for columns in _stretches(n) if rows.start <= columns.start]
    space = _space(n, dtype) if space is None else space
    # With room for them the tiles are kept for the second pass; else they are formed again.
    kept = len(space) > len(tiles)
    row_sums, positives = np.zeros(n, dtype=dtype), np.zeros(n, dtype=dtype)
    for number, (rows, columns) in enumerate(tiles):
        near = _nearness(left, keys, rows, columns, space[number if kept else 0])
        row_sums[rows] += near.sum(axis=1)
        if rows != columns:
            row_sums[columns] += near.sum(axis=0)
        for some, others, block in _same_class(starts, rows, columns):
            positives[some] += near[block].sum(axis=1)
            if rows != columns:
                positives[others] += near[block].sum(axis=0)
    # A row far from all others: what it has near is lost in rounding, and it gets a pass of its own.
    isolated = np.flatnonzero(row_sums < _ISOLATED)
    if 2 * len(isolated) > n:
        isolated, tiles = np.arange(n), []
    row_sums[isolated] = np.inf
    share = 1 / row_sums
    right = positives * share
    row_weights = right * share
    total = np.zeros_like(with_one)
    for number, (rows, columns) in enumerate(tiles):
        if kept:
            near = space[number][: rows.stop - rows.start, : columns.stop - columns.start]
        else:
            near = _nearness(left, keys, rows, columns, space[0])
        # Minus the weights p_ij ([y_i = y_j] − p_i) of a pair in both orders.
        weights = space[-1][: near.shape[0], : near.shape[1]]
        np.add(row_weights[rows, None], row_weights[None, columns], out=weights)
        weights *= near
        for some, others, block in _same_class(starts, rows, columns):
            weights[block] -= near[block] * (share[some, None] + share[None, others])
        total[rows] -= weights @ with_one[columns]
        if rows != columns:
            total[columns] -= weights.T @ with_one[rows]
    if len(isolated):
        codes = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        _add_rows(isolated, left, keys, with_one, codes, right, total)
    gradient = 2 * (_pulled(total, Z).T.astype(np.float64, copy=False) @ X)
    return -float(right.sum(dtype=np.float64)), gradient


def _sides(Z: Array) -> tuple[Array, Array, Array]:
    """Two matrices whose product is 2 z_i·z_j − |z_i|² − |z_j|² = −‖z_i − z_j‖², and the rows with a one behind."""
    ones, squares = np.ones((len(Z), 1), dtype=Z.dtype), np.square(Z).sum(axis=1, keepdims=True)
    left, keys = np.concatenate([Z, squares, ones], axis=1), np.concatenate([2 * Z, -ones, -squares], axis=1)
    return left, keys, np.concatenate([Z, ones], axis=1)


def _pulled(total: Array, Z: Array) -> Array:
    """Σ_j W_ij (z_i − z_j), W in both orders: the row sums of W are the last column of `total`."""
    return np.asarray(total[:, -1:] * Z - total[:, :-1])


def _space(n: int, dtype: Any) -> Array:
    """Room for the tiles of n rows and one more, or for two."""
    count = -(-n // _SIDE)
    return np.empty((count * (count + 1) // 2 + 1 if n * n <= _HELD_ENTRIES else 2, _SIDE, _SIDE), dtype=dtype)


def _stretches(n: int) -> list[slice]:
    return [slice(begin, min(begin + _SIDE, n)) for begin in range(0, n, _SIDE)]


def _nearness(left: Array, keys: Array, rows: slice, columns: slice, out: Array) -> Array:
    """e^(−D_ij) of a tile, 0 for a row and itself."""
    near = out[: rows.stop - rows.start, : columns.stop - columns.start]
    np.matmul(left[rows], keys[columns].T, out=near)
    # Below e⁻⁸⁰ lie the denormal numbers, which slow the products down and change nothing. Of a row and itself,
    # far from the others, rounding can leave a number above 0.
    np.clip(near, -80, 0, out=near)
    np.exp(near, out=near)
    if rows == columns:
        np.fill_diagonal(near, 0)
    return near


def _same_class(starts: Array, rows: slice, columns: slice) -> Iterator[tuple[slice, slice, tuple[slice, slice]]]:
    """For each class that has rows and columns in a tile: which they are, and their block of the tile."""
    last = int(np.searchsorted(starts, rows.stop))
    for code in range(int(np.searchsorted(starts, columns.start, side="right")) - 1, last):
        first, stop = int(starts[code]), int(starts[code + 1])
        some = slice(max(first, rows.start), min(stop, rows.stop))
        others = slice(max(first, columns.start), min(stop, columns.stop))
        if some.start < some.stop and others.start < others.stop:
            block = (
                slice(some.start - rows.start, some.stop - rows.start),
                slice(others.start - columns.start, others.stop - columns.start),
            )
            yield some, others, block


def _add_rows(
    rows: Array, left: Array, keys: Array, with_one: Array, codes: Array, right: Array, total: Array
) -> None:
    """p_i and the weights of some rows (r,), each with all others, with exponents shifted by the nearest."""
    # A few megabytes at a time; fewer rows would starve the products.
    step = max(64, _HELD_ENTRIES // (16 * len(keys)))
    for begin in range(0, len(rows), step):
        some = rows[begin : begin + step]
        own = np.arange(len(some)), some
        near = left[some] @ keys.T
        near[own] = -np.inf
        near -= near.max(axis=1, keepdims=True)
        # Below e⁻⁸⁰ lie the denormal numbers, which slow the products down and change nothing.
        np.maximum(near, -80, out=near)
        np.exp(near, out=near)
        near[own] = 0
        near /= near.sum(axis=1, keepdims=True)
        same = codes[some, None] == codes[None, :]
        right[some] = np.where(same, near, 0).sum(axis=1)
        near *= same - right[some, None]
        total[some] += near @ with_one
        total += near.T @ with_one[some]


def _sorted_by_class(codes: Array) -> tuple[Array, Array]:
    order = np.argsort(codes, kind="stable")
    return order, np.concatenate([[0], np.cumsum(np.bincount(codes))])


def batch_loss(A: Array, X: Array, y: Array) -> tuple[float, Array]:
    """The same for a batch (b, p) with classes y (b,), per row: a dense b × b matrix is quickest while b is small.

    >>> value, _ = batch_loss(np.eye(1), np.array([[0.0], [0.0], [50.0]]), np.array([0, 0, 1]))
    >>> round(value, 4)
    -0.6667
    """
    X = X.astype(np.float32, copy=False)
    Z = X @ A.T.astype(np.float32)
    left, keys, with_one = _sides(Z)
    right, total = np.zeros(len(Z), dtype=np.float32), np.zeros_like(with_one)
    _add_rows(np.arange(len(Z)), left, keys, with_one, y, right, total)
    gradient = (2 / len(y)) * (_pulled(total, Z).T @ X)
    return -float(right.mean(dtype=np.float64)), gradient.astype(np.float64)


@dataclass(eq=False, repr=False)
class NCA(MetricLearner):
    """Neighbourhood components analysis: maximise the expected leave-one-out accuracy of a soft nearest neighbour.

    X (n, p) -> (n, d). Time O(n² d) per step, memory O(n·d) and up to 40 MB. With more than 5,000 rows a quarter of
    them is fitted first, which is sixteen times cheaper per step, and all rows continue from there. `max_iter`
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

    Attributes:
        components_: A (d, p), the learned map: distances are those of `XAᵀ`.
        objective_: the mean of p_i at the end; over the last batches with `batch_size`.
        n_iter_: iterations that were made.
        converged_: whether its rule to stop was met within `max_iter`.
        classes_: the classes of y, (c,), sorted.
        n_features_in_: columns of the X it was fitted on.
    """

    _takes_sparse = True

    n_components: int | None = None
    _: KW_ONLY
    init: Init = "auto"
    max_iter: int = 50
    tol: float = 1e-5
    batch_size: int | None = None
    random_state: Any = None
    verbose: int = 0

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
        warn_if_stopped_early(self)
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
        compact, space = X.astype(np.float32), _space(X.shape[0], np.float32)

        def loss(components: Array) -> tuple[float, Array]:
            small = components.astype(np.float32)
            return nca_loss_and_gradient(small, compact, starts, dtype=np.float32, space=space)

        return minimize(loss, A, max_iter=max_iter, tol=tol, verbose=self.verbose, name="NCA")
