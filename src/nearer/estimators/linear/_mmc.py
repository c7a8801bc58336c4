"""Mahalanobis metric for clustering: dissimilar pairs far apart, similar pairs within a fixed total."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearer._checks import check_int, check_number
from nearer.estimators._matrices import Array, ridged, root_and_inverse_root, symmetric
from nearer.estimators._optimize import minimize, warn_if_stopped_early
from nearer.estimators._sampling import default_pairs, random_pairs
from nearer.estimators._scatter import pair_scatters, take_differences
from nearer.estimators._supervision import MatrixLearner, PairSupervision, nonzero_pairs


def mmc_matrix(
    similar_scatter: Array, delta: Array, *, max_iter: int = 200, tol: float = 1e-6, verbose: int = 0
) -> tuple[Array, float, int, bool]:
    """`max_M mean_D √(vᵀMv)` subject to `⟨S, M⟩ = 1`, `M ⪰ 0`, for an invertible scatter S (p, p).

    In the coordinates `S^{−½}` the constraint is `Tr Z = 1`; with `Z = AᵀA/‖A‖²` no constraint is left, and the
    concave objective is maximised by L-BFGS. Returns M, the mean distance, iterations and convergence.

    >>> M, _, _, _ = mmc_matrix(np.eye(2), np.array([[1.0, 0.0], [2.0, 0.0]]))
    >>> M.round(2) + 0.0
    array([[1., 0.],
           [0., 0.]])
    """
    _, inverse_root = root_and_inverse_root(similar_scatter)
    white = delta @ inverse_root
    p = white.shape[1]
    # Distances near 0 have an infinite slope; this much is invisible beside the mean distance.
    tiny = 1e-12 * float(np.square(white).sum(axis=1).mean()) / p
    if tiny == 0:
        return np.zeros((p, p)), 0.0, 1, True

    def loss(A: Array) -> tuple[float, Array]:
        mapped = white @ A.T
        distance = np.sqrt(np.square(mapped).sum(axis=1) + tiny)
        size = float(np.sqrt(np.square(A).sum()))
        value = float(distance.mean()) / size
        gradient = (mapped / distance[:, None]).T @ white / (len(white) * size) - value * A / size**2
        return -value, -gradient

    A, value, n_iter, converged = minimize(
        loss, np.eye(p) / np.sqrt(p), max_iter=max_iter, tol=tol, verbose=verbose, name="MMC"
    )
    mapped = A @ inverse_root
    return symmetric(mapped.T @ mapped) / float(np.square(A).sum()), -value, n_iter, converged


@dataclass(kw_only=True, eq=False, repr=False)
class MMC(PairSupervision, MatrixLearner):
    """Mahalanobis metric for clustering: `max Σ_D δ_M` subject to `Σ_S δ²_M ≤ 1`.

    X (n, p) -> (n, d). From labels, `n_pairs` random pairs are drawn, 40 c (c − 1) by default. `ridge` keeps a
    singular scatter of similar pairs invertible. `blend` mixes M with the identity: "auto" takes the share that
    votes best on the training rows, 0.0 is the published method.

    Reference: Xing, Ng, Jordan, Russell (2002).

    >>> X = np.array([[0.0, 0], [0, 4], [1, 0], [1, 4]])
    >>> M = MMC().fit_pairs(X, [[0, 1], [2, 3], [0, 2], [1, 3]], [1, 1, -1, -1]).mahalanobis_matrix()
    >>> bool(M[0, 0] > 10 * M[1, 1])
    True

    Args:
        n_components: dimensions to keep; None keeps all columns.
        n_pairs: pairs to draw; None takes a multiple of the number of classes.
        ridge: share of the identity added to a scatter before it is inverted.
        max_iter: the most iterations; a warning says when they did not suffice.
        tol: stop when an iteration improves the objective by less, relatively.
        blend: share of the identity in the metric; 0 is the published method, "auto" chooses it without test
            labels.
        random_state: seed or generator for everything that is drawn; None takes numpy's own.
        verbose: 1 prints the iterations.

    Attributes:
        components_: A (d, p), the learned map: distances are those of `XAᵀ`.
        blend_: share of the identity in the metric, as given or as chosen.
        objective_: the mean distance of dissimilar pairs, as it is maximised.
        n_iter_: iterations that were made.
        converged_: whether its rule to stop was met within `max_iter`.
        classes_: the classes of y, (c,), sorted.
        n_features_in_: columns of the X it was fitted on.
    """

    _takes_sparse = True

    n_pairs: int | None = None
    ridge: float = 1e-2
    max_iter: int = 200
    tol: float = 1e-5
    verbose: int = 0

    def _learn_labels(self, X: Any, codes: Array, rng: np.random.RandomState) -> Array:
        m = default_pairs(codes) if self.n_pairs is None else check_int(self.n_pairs, "n_pairs")
        return self._learn_pairs(X, *random_pairs(codes, m, rng), rng)

    def _learn_pairs(self, X: Any, pairs: Array, similar: Array, rng: np.random.RandomState) -> Array:
        ridge = check_number(self.ridge, "ridge", above=0)
        max_iter, tol = check_int(self.max_iter, "max_iter"), check_number(self.tol, "tol", above=0)
        scatters = pair_scatters(X, pairs, similar)
        scales = np.diag(scatters.similar + scatters.dissimilar)
        delta = take_differences(X, pairs[~similar, 0], pairs[~similar, 1])
        delta = delta[nonzero_pairs(delta, "MMC")]
        matrix, self.objective_, self.n_iter_, self.converged_ = mmc_matrix(
            ridged(scatters.similar, scales, ridge), delta, max_iter=max_iter, tol=tol, verbose=self.verbose
        )
        warn_if_stopped_early(self)
        return matrix
