"""Large margin nearest neighbours: pull k target neighbours near, push rows of other classes a margin away.

`(1 − μ) Σ_{j⇝i} δ²_ij + μ Σ_{j⇝i, l} [1 + δ²_ij − δ²_il]₊` over rows l of other classes. Only rows inside the
margin matter, so they are searched for (blocks, float32), L-BFGS runs on that list, and the list is renewed until
the exact objective settles. Distances and gradient cost O(pairs · d); no n×n matrix and no d×d outer product is
formed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from scipy import sparse
from sklearn.utils import check_random_state
from torch import Tensor

from nearer._checks import check_int, check_number
from nearer.estimators._learner import MetricLearner
from nearer.estimators._matrices import Array
from nearer.estimators._optimize import follow_iterations, minimize, report, warn_if_stopped_early
from nearer.estimators._starts import Init, centered, start_components, working_unit
from nearer.estimators.linear._in_batches import fit_in_batches
from nearer.estimators.neighbors._near import nearest_hits
from nearer.exceptions import LabelError

_START = 2.0
# Rows of a chunk of pairs: both sides of it stay in cache.
_CHUNK = 4096
_BLOCK_ENTRIES = 4_000_000
# Columns that are first looked at together when the nearest are sought.
_GROUP = 16


class Margins(NamedTuple):
    """Targets (n, k), −1 where a class is too small, and impostor pairs: anchors, in order, and rows of others."""

    targets: Array
    anchors: Array
    impostors: Array


def _pair_squares(Z: Array, left: Array, right: Array) -> Array:
    """`‖z_left − z_right‖²`, a chunk of pairs at a time so that the gathered rows stay small."""
    result = np.empty(len(left), dtype=Z.dtype)
    buffers = np.empty((2, min(_CHUNK, len(left)), Z.shape[1]), dtype=Z.dtype)
    for start in range(0, len(left), _CHUNK):
        part = slice(start, min(start + _CHUNK, len(left)))
        # mode="clip" writes straight into the buffer; every number is a row already.
        delta, other = (
            np.take(Z, side[part], axis=0, out=buffer[: part.stop - start], mode="clip")
            for side, buffer in zip((left, right), buffers, strict=True)
        )
        delta -= other
        np.einsum("ij,ij->i", delta, delta, out=result[part])
    return result


def _target_squares(Z: Array, targets: Array) -> Array:
    """`δ²_ij` of each row to its targets, (n, k), −inf where there is none."""
    n, k = targets.shape
    squares = _pair_squares(Z, np.repeat(np.arange(n), k), targets.clip(min=0).ravel()).reshape(n, k)
    squares[targets < 0] = -np.inf
    return squares


def find_impostors(Z: Array, starts: Array, radii: Array, most: int | None) -> tuple[Array, Array]:
    """Pairs (i, l) of different classes with `‖z_i − z_l‖² < radii_i`, for rows sorted by class.

    `starts` (c + 1,) are the first rows of the classes and n. At most `most` nearest ones per row are kept.

    >>> find_impostors(np.array([[0.0], [1.0], [5.0]]), np.array([0, 1, 3]), np.array([2.0, 0.0, 0.0]), None)
    (array([0]), array([1]))
    """
    left, right = zip(*_impostor_blocks(Z, starts, radii, most), strict=True)
    return np.concatenate(left), np.concatenate(right)


def _impostor_blocks(Z: Array, starts: Array, radii: Array, most: int | None) -> Iterator[tuple[Array, Array]]:
    n = len(Z)
    small = Z.astype(np.float32)
    # |z_l|² − 2 z_i·z_l < radius_i − |z_i|²: the terms of row i stay on the right, so one product does it.
    # Rows that are nowhere near fill the columns up to whole groups.
    width = -(-n // _GROUP) * _GROUP
    keys = np.zeros((width, small.shape[1] + 1), dtype=np.float32)
    keys[n:, -1] = np.inf
    keys[:n, :-1], keys[:n, -1] = -2 * small, np.square(small).sum(axis=1)
    queries = np.concatenate([small, np.ones((n, 1), dtype=np.float32)], axis=1)
    bar = (radii - np.square(small).sum(axis=1)).astype(np.float32)
    step = max(1, _BLOCK_ENTRIES // n)
    buffer = np.empty((step, width), dtype=np.float32)
    for first, last in pairwise(starts.tolist()):
        for begin in range(first, last, step):
            end = min(begin + step, last)
            distance = np.matmul(queries[begin:end], keys.T, out=buffer[: end - begin])
            distance[:, first:last] = np.inf
            if most is None or most >= n:
                i, l = np.nonzero(distance < bar[begin:end, None])
            else:
                # In many dimensions nearly all rows lie inside the margin at first: take the nearest, then look.
                values, near = _smallest(torch.from_numpy(distance), most)
                i, columns_near = np.nonzero(values.numpy() < bar[begin:end, None])
                l = near.numpy()[i, columns_near]
            yield i + begin, l


def _smallest(table: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` smallest entries of each row and their columns, in any order; columns are whole groups."""
    groups = table.shape[1] // _GROUP
    if groups <= 2 * count:
        return torch.topk(table, count, dim=1, largest=False, sorted=False)
    # They lie in the groups with the smallest minima, which are sooner found than they are.
    minima = table.view(len(table), _GROUP, groups).amin(1)
    chosen = torch.topk(minima, count, dim=1, largest=False, sorted=False).indices
    columns = (chosen[:, None, :] + groups * torch.arange(_GROUP)[:, None]).flatten(1)
    values, columns_taken = torch.topk(table.gather(1, columns), count, dim=1, largest=False, sorted=False)
    return values, columns.gather(1, columns_taken)


def lmnn_objective(components: Array, X: Any, targets: Array, starts: Array, *, push: float = 0.5) -> float:
    """The objective over all impostors, not only the listed ones, in float64, for rows X (n, p) sorted by class.

    >>> X = np.array([[0.0], [1.0], [1.5]])
    >>> lmnn_objective(np.eye(1), X, np.array([[1], [0], [-1]]), np.array([0, 2, 3]))
    1.875
    """
    Z = np.asarray(X @ components.T, dtype=np.float64)
    near = _target_squares(Z, targets)
    total = (1 - push) * float(near[targets >= 0].sum())
    # The search is in float32: a little more than the margin, and the hinge decides.
    radii = (1 + near.max(axis=1)) * (1 + 1e-4) + 1e-5 * np.square(Z).sum(axis=1)
    for anchors, impostors in _impostor_blocks(Z, starts, radii, None):
        far = _pair_squares(Z, anchors, impostors)
        for neighbor in range(targets.shape[1]):
            total += push * float(np.maximum(near[anchors, neighbor] + 1 - far, 0).sum())
    return total


def lmnn_loss_and_gradient(
    components: Array, X: Any, margins: Margins, *, push: float = 0.5
) -> tuple[float, Array]:
    """The objective over the listed impostors and its gradient with respect to A (d, p), for rows X (n, p).

    >>> X = np.array([[0.0], [1.0], [1.5]])
    >>> lmnn_loss_and_gradient(np.eye(1), X, Margins(np.array([[1], [0], [-1]]), np.array([1]), np.array([2])))
    (1.875, array([[2.75]]))
    """
    targets, anchors, impostors = margins
    n, k = targets.shape
    Z = X @ components.T
    near = _target_squares(Z, targets)
    far = _pair_squares(Z, anchors, impostors)
    loss = (1 - push) * float(near[targets >= 0].sum(dtype=np.float64))
    # Anchors come in order: what belongs to one is a stretch.
    counts = np.bincount(anchors, minlength=n)
    ends = np.concatenate([[0], np.cumsum(counts)])
    some = np.flatnonzero(counts)
    pull = np.full((n, k), 1 - push, dtype=Z.dtype)
    pull[targets < 0] = 0
    degree = pull.sum(axis=1)
    hits = np.zeros(len(far), dtype=np.int32)
    for neighbor in range(k):
        gap = np.take(near[:, neighbor] + 1, anchors)
        gap -= far
        active = gap > 0
        loss += push * float(np.maximum(gap, 0, out=gap).sum(dtype=np.float64))
        hits += active
        if len(some):
            pull[some, neighbor] += push * np.add.reduceat(active, ends[some], dtype=np.int32)
    # Most of the listed are outside the margin at most times.
    struck = np.flatnonzero(hits)
    impostors, weights = impostors[struck], hits[struck] * -Z.dtype.type(push)
    ends = np.concatenate([[0], np.cumsum(np.bincount(anchors[struck], minlength=n))])
    columns = targets.clip(min=0).ravel()
    # A hit pulls the target as much as it pushes the impostor: in the sum over an anchor they cancel.
    degree += np.bincount(columns, pull.ravel(), minlength=n) + np.bincount(impostors, weights, minlength=n)
    # Σ w (z_i − z_j)(x_i − x_j)ᵀ as one Laplacian product.
    spread = degree[:, None].astype(Z.dtype) * Z
    for values, places, starts in ((pull.ravel(), columns, np.arange(0, n * k + 1, k)), (weights, impostors, ends)):
        W = sparse.csr_array((values, places, starts), shape=(n, n))
        spread -= W @ Z
        spread -= W.T @ Z
    gradient = 2 * (spread.T @ X)
    return loss, gradient.astype(np.float64)


@dataclass(eq=False, repr=False)
class LMNN(MetricLearner):
    """Large margin nearest neighbours: the metric for k-NN classification.

    X (n, p) -> (n, d). `n_neighbors` targets per row are fixed in the input space (fewer in a class with fewer
    rows); `push` is μ, the share of the margin term. μ = 0 would collapse all rows to a point and is refused. At
    most `max_impostors` nearest rows per row enter the margin term at a time. `objective_` is the exact final
    value.

    Reference: Weinberger, Saul (2009).

    >>> X = np.array([[0.0, 0], [0, 9], [1, 1], [1, 8]])
    >>> M = LMNN(n_neighbors=1).fit(X, [0, 0, 1, 1]).mahalanobis_matrix()
    >>> bool(M[0, 0] > 10 * M[1, 1])
    True

    Args:
        n_components: dimensions to keep; None keeps all columns.
        n_neighbors: target neighbors of each row, fixed in the input space.
        push: share of the term that pushes impostors away, 0..1.
        init: where to start: "auto", "identity", "pca", "lda" or a matrix.
        max_impostors: impostors of each row that are kept active.
        max_iter: the most iterations; a warning says when they did not suffice.
        tol: stop when an iteration improves the objective by less, relatively.
        batch_size: learn from random batches of so many rows, whose targets and impostors are sought inside them; a
            step then costs the same however many rows there are. None takes all rows.
        random_state: seed or generator for everything that is drawn; None takes numpy's own.
        verbose: 1 prints the iterations.

    Attributes:
        components_: A (d, p), the learned map: distances are those of `XAᵀ`.
        objective_: the exact loss at the end; the mean over the last batches with `batch_size`.
        n_iter_: iterations that were made.
        converged_: whether its rule to stop was met within `max_iter`.
        classes_: the classes of y, (c,), sorted.
        n_features_in_: columns of the X it was fitted on.
    """

    _takes_sparse = True

    n_components: int | None = None
    _: KW_ONLY
    n_neighbors: int = 3
    push: float = 0.5
    init: Init = "auto"
    max_impostors: int | None = 20
    max_iter: int = 200
    tol: float = 1e-2
    batch_size: int | None = None
    random_state: Any = None
    verbose: int = 0

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from rows X (n, p) and their classes y (n,), of any type."""
        X, codes = self._check_labeled(X, y)
        d = self._check_targets(X.shape[1])
        k = check_int(self.n_neighbors, "n_neighbors")
        push = check_number(self.push, "push", above=0, maximum=1)
        max_iter, tol = check_int(self.max_iter, "max_iter"), check_number(self.tol, "tol", above=0)
        most = None if self.max_impostors is None else check_int(self.max_impostors, "max_impostors")
        if len(self.classes_) < 2:
            raise LabelError("`y` must hold at least two classes, got one. LMNN pushes rows of other classes away.")
        if self.batch_size is not None and X.shape[0] > check_int(self.batch_size, "batch_size", minimum=32):
            return self._fit_in_batches(X, codes, d, k, push, most)
        order = np.argsort(codes, kind="stable")
        rows = centered(X)[order]
        starts = np.concatenate([[0], np.cumsum(np.bincount(codes))])
        targets = nearest_hits(rows, codes[order], min(k, int(np.bincount(codes).max())))
        targets = targets[:, (targets >= 0).any(axis=0)]
        if not targets.size:
            raise LabelError(
                "`y` must hold a class with at least two rows, got only classes of one row. Targets are rows of "
                "the same class."
            )
        start = start_components(self.init, rows, codes[order], d, check_random_state(self.random_state))
        unit = working_unit(rows)
        A = self._solve(start * unit, rows / unit, targets, starts, push, most, max_iter, tol) / unit
        self.components_ = A.astype(X.dtype, copy=False)
        return self

    def _fit_in_batches(self, X: Any, codes: Array, d: int, k: int, push: float, most: int | None) -> Self:
        def loss(A: Array, batch: Array, y: Array) -> tuple[float, Array]:
            order = np.argsort(y, kind="stable")
            _, kept = np.unique(y[order], return_inverse=True)
            counts = np.bincount(kept)
            x, starts = batch[order], np.concatenate([[0], np.cumsum(counts)])
            targets = nearest_hits(x, kept, min(k, int(counts.max())))
            targets = targets[:, (targets >= 0).any(axis=0)]
            compact = A.astype(np.float32)
            if not targets.size:
                return 0.0, np.zeros_like(A)
            z = x @ compact.T
            radii = 1 + _target_squares(z, targets).max(axis=1)
            margins = Margins(targets, *find_impostors(z, starts, radii, most))
            value, gradient = lmnn_loss_and_gradient(compact, x, margins, push=push)
            return value / len(y), gradient / len(y)

        rng = check_random_state(self.random_state)
        A, self.objective_ = fit_in_batches(self, loss, X, codes, d, rng)
        self.components_ = A.astype(X.dtype, copy=False)
        return self

    def _solve(
        self,
        A: Array,
        X: Any,
        targets: Array,
        starts: Array,
        push: float,
        most: int | None,
        max_iter: int,
        tol: float,
    ) -> Array:
        """Search impostors, descend on them, and repeat until the objective with fresh impostors settles."""
        self.n_iter_ = 0
        # Data of a large scale starts where the margin of 1 means something, else thousands of steps only rescale.
        typical = float(np.median(_target_squares(X @ A.T, targets)[targets >= 0]))
        A = A * np.sqrt(_START / typical) if typical > 0 else A
        compact = X.astype(np.float32)
        best, best_A, self.converged_ = np.inf, A, False
        listed: Margins | None = None
        while True:
            Z = compact @ A.astype(np.float32).T
            # One more margin than needed: rows that come nearer during the descent are already listed.
            radii = 2 + _target_squares(Z, targets).max(axis=1)
            fresh = Margins(targets, *find_impostors(Z, starts, radii, most))
            exact, _ = lmnn_loss_and_gradient(A.astype(np.float32), compact, fresh, push=push)
            report(self.verbose, "LMNN", self.n_iter_, exact, most=max_iter)
            improved = best - exact
            if improved > 0:
                best, best_A = exact, A
            elif listed is not None:
                # Rows that were not listed came inside the margin: keep both lists from the best point.
                merged = np.unique(np.concatenate([_keys(listed, X.shape[0]), _keys(fresh, X.shape[0])]))
                fresh = Margins(targets, merged // X.shape[0], merged % X.shape[0])
                A = best_A
            if self.n_iter_ and abs(improved) <= tol * max(best, 1e-30):
                self.converged_ = True
            if self.converged_ or self.n_iter_ >= max_iter:
                break
            listed = fresh

            def loss(components: Array, active: Margins = fresh) -> tuple[float, Array]:
                return lmnn_loss_and_gradient(components.astype(np.float32), compact, active, push=push)

            steps = min(20, max_iter - self.n_iter_)
            # Who follows hears of the rounds, not of the descent inside each.
            with follow_iterations(None):
                A, _, done, _ = minimize(loss, A, max_iter=steps, tol=tol / 10)
            self.n_iter_ += done
        self.objective_ = lmnn_objective(best_A, X, targets, starts, push=push)
        warn_if_stopped_early(self)
        return best_A


def _keys(margins: Margins, n: int) -> Array:
    return margins.anchors.astype(np.int64) * n + margins.impostors
