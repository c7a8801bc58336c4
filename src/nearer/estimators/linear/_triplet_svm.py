"""TripletSVM: a support vector machine without a bias whose examples are triplets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize

from nearer._checks import check_int, check_number
from nearer.estimators._matrices import Array, project_psd
from nearer.estimators._optimize import minimize, warn_if_stopped_early
from nearer.estimators._sampling import near_triplets
from nearer.estimators._scatter import take_differences
from nearer.estimators._supervision import MatrixLearner, TripletSupervision, nonzero_pairs


def triplet_svm(
    near: Array, far: Array, *, C: float = 1.0, max_iter: int = 2000, tol: float = 1e-3, verbose: int = 0
) -> tuple[Array, int, bool]:
    """`min ½‖M‖² + C Σ ξ`, `⟨M, wwᵀ − vvᵀ⟩ ≥ 1 − ξ`, with v rows of `near` and w rows of `far`, both (m, p).

    Solved in the dual, `max Σ α − ½ αᵀKα`, `0 ≤ α ≤ C`, with `K = (w·w')² − (w·v')² − (v·w')² + (v·v')²`, until
    the duality gap is below `tol` of the primal value. Returns the matrix before projection, the iterations, and
    whether it converged.

    >>> M, _, _ = triplet_svm(np.array([[1.0]]), np.array([[2.0]]))
    >>> M.round(3)
    array([[0.333]])
    """
    cross = np.square(far @ near.T)
    kernel = np.square(far @ far.T) - cross - cross.T + np.square(near @ near.T)

    def dual(alpha: Array) -> tuple[float, Array]:
        image = kernel @ alpha
        return float(alpha @ image / 2 - alpha.sum()), image - 1

    def solved(alpha: Array, value: float, slope: Array) -> bool:
        """Whether the primal value of M lies no more above the dual one, which is −`value`, than it may."""
        primal = value + float(alpha.sum()) + C * float(np.maximum(-slope, 0).sum())
        return primal + value <= tol * max(primal, 1e-12)

    alpha, _, n_iter, _ = minimize(
        dual, np.zeros(len(near)), max_iter=max_iter, tol=1e-15, verbose=verbose, name="TripletSVM",
        solved=solved, bounds=optimize.Bounds(0, C),
    )  # fmt: skip
    converged = solved(alpha, *dual(alpha))
    alpha = alpha[:, None]
    return (far * alpha).T @ far - (near * alpha).T @ near, n_iter, converged


@dataclass(kw_only=True, eq=False, repr=False)
class TripletSVM(TripletSupervision, MatrixLearner):
    """TripletSVM: in each triplet the third row farther than the second by a margin, then the nearest PSD matrix.

    X (n, p) -> (n, d). From labels, each of at most `max_anchors` rows makes k·k triplets of its nearest hits and
    misses; the kernel has the square of the number of triplets entries. Differences are brought to unit mean
    length. `blend` mixes M with the identity: "auto" takes the share that votes best on the training rows, 0.0 is
    the published method.

    Reference: Wang, Zuo, Zhang, Meng, Zhang (2015).

    >>> X = np.array([[0.0, 0], [0, 4], [3, 0], [3, 4]])
    >>> M = TripletSVM(blend=0.0).fit_triplets(X, [[0, 1, 2], [2, 3, 0]]).mahalanobis_matrix()
    >>> bool(M[0, 0] > 10 * M[1, 1])
    True

    Args:
        n_components: dimensions to keep; None keeps all columns.
        C: cost of a violated constraint.
        n_neighbors: how many neighbors of a row count.
        max_anchors: rows that constraints are drawn for.
        max_iter: the most iterations; a warning says when they did not suffice.
        tol: stop when an iteration improves the objective by less, relatively.
        blend: share of the identity in the metric; 0 is the published method, "auto" chooses it without test
            labels.
        random_state: seed or generator for everything that is drawn; None takes numpy's own.
        verbose: 1 prints the iterations.

    Attributes:
        components_: A (d, p), the learned map: distances are those of `XAᵀ`.
        blend_: share of the identity in the metric, as given or as chosen.
        n_iter_: iterations that were made.
        converged_: whether its rule to stop was met within `max_iter`.
        classes_: the classes of y, (c,), sorted.
        n_features_in_: columns of the X it was fitted on.
    """

    _takes_sparse = True

    C: float = 1.0
    n_neighbors: int = 1
    max_anchors: int = 2000
    max_iter: int = 2000
    tol: float = 1e-3
    verbose: int = 0

    def _learn_labels(self, X: Any, codes: Array, rng: np.random.RandomState) -> Array:
        dense = X.toarray() if hasattr(X, "toarray") else X
        most = check_int(self.max_anchors, "max_anchors")
        triplets = near_triplets(dense, codes, check_int(self.n_neighbors, "n_neighbors"), rng, most=most)
        return self._learn_triplets(dense, triplets, rng)

    def _learn_triplets(self, X: Any, triplets: Array, rng: np.random.RandomState) -> Array:
        C = check_number(self.C, "C", above=0)
        max_iter, tol = check_int(self.max_iter, "max_iter"), check_number(self.tol, "tol", above=0)
        near = take_differences(X, triplets[:, 0], triplets[:, 1])
        far = take_differences(X, triplets[:, 0], triplets[:, 2])
        kept = nonzero_pairs(np.concatenate([near, far]), "TripletSVM")
        unit = float(np.sqrt(np.square(np.concatenate([near, far])[kept]).sum(axis=1).mean()))
        matrix, self.n_iter_, self.converged_ = triplet_svm(
            near / unit, far / unit, C=C, max_iter=max_iter, tol=tol, verbose=self.verbose
        )
        warn_if_stopped_early(self)
        return project_psd(matrix) / unit**2
