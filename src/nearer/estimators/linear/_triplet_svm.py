"""TripletSVM: a support vector machine without a bias whose examples are triplets."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import optimize

from nearer._validation import check_int, check_number
from nearer.estimators._matrices import Array, project_psd
from nearer.estimators._optimize import report, warn_stopped_early
from nearer.estimators._sampling import near_triplets
from nearer.estimators._scatter import take_differences
from nearer.estimators._supervision import MatrixLearner, TripletSupervision, nonzero_pairs

__all__ = ["TripletSVM", "triplet_svm"]


def triplet_svm(
    near: Array, far: Array, *, C: float = 1.0, max_iter: int = 500, tol: float = 1e-5, verbose: int = 0
) -> tuple[Array, int, bool]:
    """`min ½‖M‖² + C Σ ξ`, `⟨M, wwᵀ − vvᵀ⟩ ≥ 1 − ξ`, with v rows of `near` and w rows of `far`, both (m, p).

    Solved in the dual, `max Σ α − ½ αᵀKα`, `0 ≤ α ≤ C`, with `K = (w·w')² − (w·v')² − (v·w')² + (v·v')²`. Returns
    the matrix before projection, the iterations, and whether it converged.

    >>> M, _, _ = triplet_svm(np.array([[1.0]]), np.array([[2.0]]))
    >>> M.round(3)
    array([[0.333]])
    """
    cross = np.square(far @ near.T)
    kernel = np.square(far @ far.T) - cross - cross.T + np.square(near @ near.T)
    count, latest = [0], [0.0]

    def dual(alpha: Array) -> tuple[float, Array]:
        image = kernel @ alpha
        latest[0] = float(alpha @ image / 2 - alpha.sum())
        return latest[0], image - 1

    def step(_: Array) -> None:
        count[0] += 1
        report(verbose, "TripletSVM", count[0], latest[0], most=max_iter)

    result = optimize.minimize(
        dual,
        np.zeros(len(near)),
        jac=True,
        method="L-BFGS-B",
        bounds=optimize.Bounds(0, C),
        callback=step,
        options={"maxiter": max_iter, "ftol": tol, "gtol": tol, "maxfun": 20 * max_iter},
    )
    alpha = result.x[:, None]
    return (far * alpha).T @ far - (near * alpha).T @ near, max(int(result.nit), 1), result.status in (0, 2)


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
    """

    _takes_sparse = True

    def __init__(
        self,
        n_components: int | None = None,
        *,
        C: float = 1.0,
        n_neighbors: int = 1,
        max_anchors: int = 2000,
        max_iter: int = 500,
        tol: float = 1e-5,
        blend: float | str = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.C = C
        self.n_neighbors = n_neighbors
        self.max_anchors = max_anchors
        self.max_iter = max_iter
        self.tol = tol
        self.blend = blend
        self.random_state = random_state
        self.verbose = verbose

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
        matrix, self.n_iter_, converged = triplet_svm(
            near / unit, far / unit, C=C, max_iter=max_iter, tol=tol, verbose=self.verbose
        )
        if not converged:
            warn_stopped_early("TripletSVM", self.n_iter_)
        return project_psd(matrix) / unit**2
