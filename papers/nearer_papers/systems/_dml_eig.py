"""DML-eig: make the nearest dissimilar pair as far as possible while the similar pairs keep their total."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy import linalg
from scipy.special import logsumexp

from nearer._checks import check_int, check_number
from nearer.estimators._matrices import Array, ridged, root_and_inverse_root, symmetric
from nearer.estimators._optimize import follow_iterations, minimize, report, warn_if_stopped_early
from nearer.estimators._sampling import default_pairs, random_pairs
from nearer.estimators._scatter import label_scatters, pair_scatters, take_differences
from nearer.estimators._supervision import MatrixLearner, PairSupervision, nonzero_pairs
from nearer.estimators.linear._kissme import check_both_kinds

__all__ = ["DMLEig", "dml_eig_matrix"]

# The smoothing to begin with, and the least one: below it only rounding is left.
_FIRST, _LAST = 0.3, 1e-9
_ROUND = 30


def dml_eig_matrix(
    similar_scatter: Array,
    delta: Array,
    *,
    mu: float | None = None,
    max_iter: int = 1000,
    tol: float = 2e-2,
    verbose: int = 0,
) -> tuple[Array, float, int, bool]:
    """`max_M min_D vᵀMv` subject to `⟨S, M⟩ = 1`, `M ⪰ 0`, for an invertible scatter S (p, p).

    With `B = S^{−½}`, `ṽ = Bv` and `M = BZB` this is `max min_D ṽᵀZṽ` over `Tr Z = 1`. L-BFGS on `Z = AᵀA/‖A‖²`
    maximises the smoothed `−μ log Σ exp(−ṽᵀZṽ/μ)`; μ, relative to the mean of `ṽᵀṽ/p`, is halved whenever most of
    the gap comes from the smoothing. For every set of weights on the pairs the largest eigenvalue of `Σ w ṽṽᵀ` lies
    above the optimum, so the gap to it is a certificate. A number `mu` keeps the smoothing and solves the smoothed
    problem. Returns M, the smallest `vᵀMv`, iterations and whether the gap fell below `tol` of the value.

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
    A = np.eye(p) / np.sqrt(p)
    smooth = _FIRST if mu is None else mu
    best, best_A, bound = -np.inf, A, np.inf
    used, converged = 0, False
    while True:
        squares = np.square(white @ A.T).sum(axis=1)
        log_weights = -squares / smooth
        weights = np.exp(log_weights - logsumexp(log_weights))
        top = float(linalg.eigvalsh((white * weights[:, None]).T @ white, subset_by_index=[p - 1, p - 1])[0])
        average, smallest = float(weights @ squares), float(squares.min())
        if mu is not None:
            best_A, converged = A, top - average <= tol * top
        else:
            bound = min(bound, top)
            if smallest > best:
                best, best_A = smallest, A
            converged = bound - best <= tol * bound
            if used and average - smallest > top - average:
                smooth = max(smooth / 2, _LAST)
        if converged or used >= max_iter:
            break
        report(verbose, "DMLEig", used, smallest * scale, most=max_iter)
        # Who follows hears of the rounds, not of the descent inside each.
        with follow_iterations(None):
            # Farther pairs have no weight in any digit; a round that brings them near is corrected by the next one.
            active = white if mu is not None else white[squares <= smallest + 40 * smooth]
            A, _, done, _ = minimize(
                partial(_smoothed, white=active, mu=smooth), A, max_iter=min(_ROUND, max_iter - used), tol=1e-12
            )
        used += done
        A = A / np.linalg.norm(A)
    mapped = best_A @ B
    M = symmetric(mapped.T @ mapped)
    return M, float(np.einsum("ij,jk,ik->i", delta, M, delta).min()), max(used, 1), converged


def _smoothed(A: Array, *, white: Array, mu: float) -> tuple[float, Array]:
    """`μ log Σ exp(−‖Aṽ‖²/(μ‖A‖²))` and its gradient in A (d, p)."""
    mapped = white @ A.T
    size = float(np.square(A).sum())
    squares = np.square(mapped).sum(axis=1) / size
    log_weights = -squares / mu
    total = float(logsumexp(log_weights))
    weights = np.exp(log_weights - total)
    gradient = 2 / size * (float(weights @ squares) * A - (mapped * weights[:, None]).T @ white)
    return mu * total, gradient


class DMLEig(PairSupervision, MatrixLearner):
    """DML-eig: maximise the smallest squared distance of dissimilar pairs, with the similar ones' total fixed.

    X (n, p) -> (n, d). From labels, the scatter of all similar pairs is used, and `n_pairs` random dissimilar
    pairs, 20 c (c − 1) by default. The minimum is smoothed less and less until the optimum is certified within
    `tol`; a number `mu` solves one smoothed problem instead (1e-4 is published). `ridge` keeps a singular scatter
    invertible. `objective_` is the smallest squared distance. `blend` mixes M with the identity: "auto" takes the
    share that votes best on the training rows, 0.0 is the published method.

    Reference: Ying, Li (2012).

    >>> X = np.array([[0.0, 0], [0, 4], [1, 0], [1, 4]])
    >>> M = DMLEig(blend=0.0).fit(X, [0, 0, 1, 1]).mahalanobis_matrix()
    >>> bool(M[0, 0] > 10 * M[1, 1])
    True

    Args:
        n_components: dimensions to keep; None keeps all columns.
        mu: smoothing of the smallest distance; smaller is nearer to the problem as stated and slower.
        n_pairs: pairs to draw; None takes a multiple of the number of classes.
        ridge: share of the identity added to a scatter before it is inverted.
        max_iter: the most iterations; a warning says when they did not suffice.
        tol: stop when the objective changes by less, relatively.
        blend: share of the identity in the metric; 0 is the published method, "auto" chooses it without test
            labels.
        random_state: seed or generator for everything that is drawn; None takes numpy's own.
        verbose: 1 prints the iterations.

    Attributes:
        components_: A (d, p), the learned map: distances are those of `XAᵀ`.
        blend_: share of the identity in the metric, as given or as chosen.
        objective_: the smallest squared distance of a dissimilar pair.
        n_iter_: iterations that were made.
        converged_: whether its rule to stop was met within `max_iter`.
        classes_: the classes of y, (c,), sorted.
        n_features_in_: columns of the X it was fitted on.
    """

    _takes_sparse = True

    def __init__(
        self,
        n_components: int | None = None,
        *,
        mu: float | None = None,
        n_pairs: int | None = None,
        ridge: float = 1e-2,
        max_iter: int = 1000,
        tol: float = 2e-2,
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
        m = default_pairs(codes) if self.n_pairs is None else check_int(self.n_pairs, "n_pairs")
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
        mu = None if self.mu is None else check_number(self.mu, "mu", above=0)
        max_iter, tol = check_int(self.max_iter, "max_iter"), check_number(self.tol, "tol", above=0)
        delta = take_differences(X, pairs[:, 0], pairs[:, 1])
        delta = delta[nonzero_pairs(delta, "DMLEig")]
        matrix, self.objective_, self.n_iter_, self.converged_ = dml_eig_matrix(
            ridged(similar, scales, ridge), delta, mu=mu, max_iter=max_iter, tol=tol, verbose=self.verbose
        )
        warn_if_stopped_early(self)
        return matrix
