"""DML-eig: make the nearest dissimilar pair as far as possible, one eigenvector at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg
from scipy.special import logsumexp

from nearer._validation import check_int, check_number
from nearer.estimators._matrices import Array, ridged, root_and_inverse_root, symmetric
from nearer.estimators._optimize import report, warn_stopped_early
from nearer.estimators._sampling import default_pairs, random_pairs
from nearer.estimators._scatter import label_scatters, pair_scatters, take_differences
from nearer.estimators._supervision import MatrixLearner, PairSupervision, nonzero_pairs
from nearer.estimators.linear._kissme import check_both_kinds

__all__ = ["DMLEig", "dml_eig_matrix"]


def dml_eig_matrix(
    similar_scatter: Array,
    delta: Array,
    *,
    mu: float = 0.3,
    max_iter: int = 200,
    tol: float = 5e-2,
    verbose: int = 0,
) -> tuple[Array, float, int, bool]:
    """`max_M min_D vᵀMv` subject to `⟨S, M⟩ = 1`, `M ⪰ 0`, smoothed by μ, for an invertible scatter S (p, p).

    With `B = S^{−½}` and `ṽ = Bv`: Frank–Wolfe on `f_μ(Z) = −μ log Σ exp(−ṽᵀZṽ/μ)` over `Tr Z = 1`, each step
    towards the top eigenvector of the softmin-weighted `Σ w ṽṽᵀ`; the answer is mapped back, `M = B Z B`. μ is
    relative to the mean of `ṽᵀṽ/p`, and the step is the best one on the segment. Returns M, the smallest `vᵀMv`,
    iterations and whether the duality gap fell below `tol` of the value range.

    >>> M, smallest, _, _ = dml_eig_matrix(np.eye(2), np.array([[2.0, 0.0], [3.0, 0.0]]))
    >>> (M.round(3) + 0.0).tolist(), round(smallest, 3)
    ([[1.0, 0.0], [0.0, 0.0]], 4.0)
    """
    _, B = root_and_inverse_root(similar_scatter)
    white = delta @ B
    p = white.shape[1]
    scale = float(np.square(white).sum(axis=1).mean()) / p
    if scale == 0:
        return np.zeros((p, p)), 0.0, 1, True
    white = white / np.sqrt(scale)
    Z = np.eye(p) / p
    squares = np.square(white).sum(axis=1) / p
    converged, step = False, 0
    for step in range(1, max_iter + 1):
        log_weights = -squares / mu
        weights = np.exp(log_weights - logsumexp(log_weights))
        gradient = (white * weights[:, None]).T @ white
        values, vectors = linalg.eigh(symmetric(gradient), subset_by_index=[p - 1, p - 1])
        top = vectors[:, 0]
        gap = float(values[0] - weights @ squares)
        report(verbose, "DMLEig", step, float(squares.min()), most=max_iter)
        if gap <= tol * max(float(values[0]), np.finfo(np.float64).tiny):
            converged = True
            break
        target = np.square(white @ top)
        share = _best_step(squares, target, mu)
        Z = (1 - share) * Z + share * np.outer(top, top)
        squares = (1 - share) * squares + share * target
    M = symmetric(B @ Z @ B)
    return M, float(np.einsum("ij,jk,ik->i", delta, M, delta).min()), step, converged


def _best_step(squares: Array, target: Array, mu: float) -> float:
    """The share in [0, 1] that maximises the concave `f_μ` between two points, by bisection of its slope."""
    low, high = 0.0, 1.0
    difference = target - squares
    for _ in range(30):
        middle = (low + high) / 2
        log_weights = -(squares + middle * difference) / mu
        weights = np.exp(log_weights - log_weights.max())
        if weights @ difference > 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


class DMLEig(PairSupervision, MatrixLearner):
    """DML-eig: maximise the smallest squared distance of dissimilar pairs, with the similar ones' total fixed.

    X (n, p) -> (n, d). From labels, the scatter of all similar pairs is used, and `n_pairs` random dissimilar
    pairs, 20 c (c − 1) by default. `mu` smooths the minimum; `mu=1e-4` is the published value, which a few hundred
    steps do not solve. `ridge` keeps a singular scatter invertible. `blend` mixes M with the identity: "auto"
    takes the share that votes best on the training rows, 0.0 is the published method.

    Reference: Ying, Li (2012).

    >>> X = np.array([[0.0, 0], [0, 4], [1, 0], [1, 4]])
    >>> M = DMLEig(blend=0.0).fit(X, [0, 0, 1, 1]).mahalanobis_matrix()
    >>> bool(M[0, 0] > 10 * M[1, 1])
    True
    """

    _takes_sparse = True

    def __init__(
        self,
        n_components: int | None = None,
        *,
        mu: float = 0.3,
        n_pairs: int | None = None,
        ridge: float = 1e-2,
        max_iter: int = 200,
        tol: float = 5e-2,
        blend: float | str = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.mu = mu
        self.n_pairs = n_pairs
        self.ridge = ridge
        self.max_iter = max_iter
        self.tol = tol
        self.blend = blend
        self.random_state = random_state
        self.verbose = verbose

    def _learn_labels(self, X: Any, codes: Array, rng: np.random.RandomState) -> Array:
        scatters = label_scatters(X, codes)
        check_both_kinds(scatters)
        m = default_pairs(int(codes.max()) + 1) if self.n_pairs is None else check_int(self.n_pairs, "n_pairs")
        pairs, similar = random_pairs(codes, m, rng)
        scales = np.diag(scatters.similar) + np.diag(scatters.dissimilar) * (
            scatters.n_similar / scatters.n_dissimilar
        )
        return self._solve(X, scatters.similar, scales, pairs[~similar])

    def _learn_pairs(self, X: Any, pairs: Array, similar: Array, rng: np.random.RandomState) -> Array:
        scatters = pair_scatters(X, pairs, similar)
        scales = np.diag(scatters.similar + scatters.dissimilar)
        return self._solve(X, scatters.similar, scales, pairs[~similar])

    def _solve(self, X: Any, similar: Array, scales: Array, pairs: Array) -> Array:
        ridge = check_number(self.ridge, "ridge", above=0)
        mu = check_number(self.mu, "mu", above=0)
        max_iter, tol = check_int(self.max_iter, "max_iter"), check_number(self.tol, "tol", above=0)
        delta = take_differences(X, pairs[:, 0], pairs[:, 1])
        delta = delta[nonzero_pairs(delta, "DMLEig")]
        matrix, self.objective_, self.n_iter_, converged = dml_eig_matrix(
            ridged(similar, scales, ridge), delta, mu=mu, max_iter=max_iter, tol=tol, verbose=self.verbose
        )
        if not converged:
            warn_stopped_early("DMLEig", self.n_iter_)
        return matrix
