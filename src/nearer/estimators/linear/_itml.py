"""Information-theoretic metric learning: the matrix nearest to the identity that keeps its promises about pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import blas

from nearer._validation import check_int, check_number
from nearer.estimators._matrices import Array, symmetric
from nearer.estimators._optimize import report, warn_stopped_early
from nearer.estimators._sampling import default_pairs, random_pairs
from nearer.estimators._scatter import take_differences
from nearer.estimators._supervision import MatrixLearner, PairSupervision, nonzero_pairs
from nearer.exceptions import ParameterError

__all__ = ["ITML", "itml_matrix"]


def itml_matrix(
    delta: Array,
    similar: Array,
    upper: float,
    lower: float,
    *,
    gamma: float = 1.0,
    max_iter: int = 100,
    tol: float = 1e-2,
    verbose: int = 0,
) -> tuple[Array, Array, int, bool]:
    """Cyclic Bregman projections from `M = I` to `vᵀMv ≤ ξ` (similar) and `vᵀMv ≥ ξ` (dissimilar), with slack γ.

    Each projection: `p = vᵀMv`, `α = min(λ, s γ/(γ+1) (1/p − 1/ξ))`, `β = sα/(1 − sαp)`, `ξ ← γξ/(γ + sαξ)`, `λ ←
    λ − α`, `M ← M + β Mv vᵀM`, s = +1 for similar and −1 for dissimilar. `delta` (m, p) are differences without
    zero rows. gamma=inf keeps ξ fixed. Returns M, the slack bounds ξ (m,), the sweeps and whether λ settled.

    >>> M, _, _, _ = itml_matrix(np.array([[2.0]]), np.array([True]), 1.0, 9.0, gamma=np.inf)
    >>> M
    array([[0.25]])
    """
    m, p = delta.shape
    M = np.eye(p, order="F")
    bounds = np.where(similar, upper, lower).astype(np.float64)
    signs = np.where(similar, 1.0, -1.0)
    duals = np.zeros(m)
    share = 1.0 if np.isinf(gamma) else gamma / (gamma + 1)
    for sweep in range(1, max_iter + 1):
        before = duals.copy()
        for c in range(m):
            image = blas.dsymv(1.0, M, delta[c])
            square = float(delta[c] @ image)
            sign, bound = signs[c], bounds[c]
            if square <= 0:
                continue
            alpha = min(duals[c], sign * share * (1 / square - 1 / bound))
            if alpha == 0:
                continue
            duals[c] -= alpha
            if not np.isinf(gamma):
                bounds[c] = gamma * bound / (gamma + sign * alpha * bound)
            # Only the upper triangle is kept up to date inside a sweep.
            M = blas.dsyr(sign * alpha / (1 - sign * alpha * square), image, a=M, overwrite_a=1)
        M = np.asfortranarray(np.triu(M) + np.triu(M, 1).T)
        # The same norm above and below: a 1-norm over a 2-norm would grow with the number of pairs and never
        # settle.
        scale = float(np.abs(duals).sum() + np.abs(before).sum())
        change = float(np.abs(duals - before).sum()) / scale if scale else 0.0
        report(verbose, "ITML", sweep, change, most=max_iter)
        if change < tol:
            return symmetric(M), bounds, sweep, True
    return symmetric(M), bounds, max_iter, False


class ITML(PairSupervision, MatrixLearner):
    """Information-theoretic metric learning: near the identity, similar pairs below u, others above l.

    X (n, p) -> (n, d). `bounds` (u, l) are on squared distances; None takes the 5th and 95th percentile of the
    pairs. `gamma` prices broken promises (inf: none). From labels, `n_pairs` random pairs are drawn, 40 c (c − 1)
    by default. Pairs of equal rows are left out. `blend` mixes M with the identity: "auto" takes the share that
    votes best on the training rows, 0.0 is the published method.

    The step often printed, `½ (1/p − γ/ξ)`, is right at γ = 1 only; this one is right for every γ.

    Reference: Davis, Kulis, Jain, Sra, Dhillon (2007).

    >>> X = np.array([[0.0, 0], [0, 4], [1, 0], [1, 4]])
    >>> learner = ITML(bounds=(1.0, 9.0)).fit_pairs(X, [[0, 1], [0, 2]], [1, -1])
    >>> learner.predict_pairs(X[:2], X[2:])
    array([-1, -1])
    """

    _takes_sparse = True

    def __init__(
        self,
        n_components: int | None = None,
        *,
        gamma: float = 1.0,
        bounds: tuple[float, float] | None = None,
        n_pairs: int | None = None,
        max_iter: int = 50,
        tol: float = 1e-2,
        blend: float | str = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.gamma = gamma
        self.bounds = bounds
        self.n_pairs = n_pairs
        self.max_iter = max_iter
        self.tol = tol
        self.blend = blend
        self.random_state = random_state
        self.verbose = verbose

    def _learn_labels(self, X: Any, codes: Array, rng: np.random.RandomState) -> Array:
        m = default_pairs(int(codes.max()) + 1) if self.n_pairs is None else check_int(self.n_pairs, "n_pairs")
        return self._learn_pairs(X, *random_pairs(codes, m, rng), rng)

    def _learn_pairs(self, X: Any, pairs: Array, similar: Array, rng: np.random.RandomState) -> Array:
        gamma = np.inf if self.gamma == np.inf else check_number(self.gamma, "gamma", above=0)
        max_iter, tol = check_int(self.max_iter, "max_iter"), check_number(self.tol, "tol", above=0)
        delta = take_differences(X, pairs[:, 0], pairs[:, 1])
        kept = nonzero_pairs(delta, "ITML")
        delta, similar = delta[kept], similar[kept]
        if self.bounds is None:
            upper, lower = np.percentile(np.square(delta).sum(axis=1), [5, 95])
        else:
            upper, lower = self.bounds
            if not 0 < upper <= lower:
                raise ParameterError(
                    f"`bounds` must be (u, l) with 0 < u <= l on squared distances, got {self.bounds}. Similar "
                    f"pairs go below u, dissimilar ones above l."
                )
        self.bounds_ = (float(upper), float(lower))
        # At unit scale the identity is a fair start; the answer goes back to the scale of the data.
        unit = float(np.sqrt(np.median(np.square(delta).sum(axis=1))))
        matrix, _, self.n_iter_, converged = itml_matrix(
            delta / unit,
            similar,
            upper / unit**2,
            lower / unit**2,
            gamma=gamma,
            max_iter=max_iter,
            tol=tol,
            verbose=self.verbose,
        )
        if not converged:
            warn_stopped_early("ITML", self.n_iter_)
        return matrix / unit**2
