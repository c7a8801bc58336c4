"""Information-theoretic metric learning: the matrix nearest to the identity that keeps its promises about pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg
from scipy.linalg import blas, lapack

from nearer._checks import check_int, check_number
from nearer.estimators._matrices import Array, symmetric
from nearer.estimators._optimize import minimize, report, warn_if_stopped_early
from nearer.estimators._sampling import default_pairs, random_pairs
from nearer.estimators._scatter import take_differences
from nearer.estimators._supervision import MatrixLearner, PairSupervision, nonzero_pairs
from nearer.exceptions import ParameterError


class ITMLAnswer(NamedTuple):
    """M (p, p), the slack bounds ξ (m,), the objective, the iterations, and whether the gap says it is solved."""

    matrix: Array
    bounds: Array
    objective: float
    n_iter: int
    converged: bool


def itml_matrix(
    delta: Array,
    similar: Array,
    upper: float,
    lower: float,
    *,
    gamma: float = 1.0,
    max_iter: int = 500,
    tol: float = 1e-3,
    verbose: int = 0,
) -> ITMLAnswer:
    """`min D(M, I) + γ Σ D(ξ, ξ₀)` subject to `vᵀMv ≤ ξ` (similar) and `vᵀMv ≥ ξ` (dissimilar), D = LogDet.

    `delta` (m, p) are differences v without zero rows, ξ₀ is `upper` or `lower`. For a finite γ the best ξ is known
    from M, which leaves a smooth convex problem: L-BFGS until the duality gap is below `tol` of the objective. For
    γ = inf the bounds are hard: cyclic Bregman projections until none is broken by more than `tol`.

    >>> itml_matrix(np.array([[2.0]]), np.array([True]), 1.0, 9.0, gamma=np.inf).matrix
    array([[0.25]])
    """
    m, p = delta.shape
    bounds = np.where(similar, upper, lower).astype(np.float64)
    if m < p:
        # M leaves the identity only where there are differences.
        basis = linalg.qr(delta.T, mode="economic")[0]
        inner = itml_matrix(
            delta @ basis, similar, upper, lower, gamma=gamma, max_iter=max_iter, tol=tol, verbose=verbose
        )
        return inner._replace(matrix=np.eye(p) + symmetric(basis @ (inner.matrix - np.eye(m)) @ basis.T))
    solve = _project_in_turn if np.isinf(gamma) else _descend
    return solve(delta, similar, bounds, gamma, max_iter, tol, verbose)


def _descend(
    delta: Array, similar: Array, bounds: Array, gamma: float, max_iter: int, tol: float, verbose: int
) -> ITMLAnswer:
    """`f(M) = Tr M − log|M| − p + γ Σ (r − log r − 1)` over broken promises, `r = vᵀMv/ξ₀`, in `M = CᵀC`.

    The multipliers `λ = sγ(1/ξ₀ − 1/vᵀMv)` of broken promises give the dual point `K = I + Σ sλvvᵀ`, and the gap
    between f(M) and its dual value is the LogDet divergence of M and K⁻¹. With E = CKCᵀ − I, half the gradient
    times Cᵀ, that is `Σ e − log(1 + e)` over the eigenvalues of E, so the certificate costs no look at the pairs.
    """
    p = delta.shape[1]
    tiny = np.finfo(np.float64).tiny

    def broken(squares: Array) -> Array:
        return np.where(similar, squares > bounds, squares < bounds)

    def loss(C: Array) -> tuple[float, Array]:
        mapped = delta @ C.T
        squares = np.maximum(np.square(mapped).sum(axis=1), tiny)
        open_ = broken(squares)
        ratio, logs = squares[open_] / bounds[open_], np.log(squares[open_]) - np.log(bounds[open_])
        factor, pivots, _ = lapack.dgetrf(C)
        diagonal = np.diag(factor)
        if not diagonal.all():
            # A step of the line search may land on a singular C (in one dimension the first one does).
            np.fill_diagonal(factor, np.where(diagonal == 0, 1e-8, diagonal))
        log_det = float(np.log(np.abs(np.diag(factor))).sum())
        value = float(np.square(C).sum()) - 2 * log_det - p + gamma * float((ratio - logs - 1).sum())
        slope = gamma * (1 / bounds[open_] - 1 / squares[open_])
        inverse = linalg.lu_solve((factor, pivots), np.eye(p), check_finite=False).T
        gradient = 2 * (C - inverse + (mapped[open_] * slope[:, None]).T @ delta[open_])
        return value, gradient

    def solved(C: Array, value: float, gradient: Array) -> bool:
        excess = linalg.eigvalsh(symmetric(gradient @ C.T / 2), check_finite=False)
        # Not positive definite: the dual point is not feasible, and the gap is infinite.
        return bool(excess[0] > -1 and (excess - np.log1p(excess)).sum() <= tol * value)

    C, value, n_iter, _ = minimize(
        loss, np.eye(p), max_iter=max_iter, tol=1e-14, verbose=verbose, name="ITML", solved=solved
    )
    converged = solved(C, *loss(C))
    M = symmetric(C.T @ C)
    squares = np.einsum("mi,ij,mj->m", delta, M, delta, optimize=True)
    return ITMLAnswer(M, np.where(broken(squares), squares, bounds), value, n_iter, converged)


def _project_in_turn(
    delta: Array, similar: Array, bounds: Array, gamma: float, max_iter: int, tol: float, verbose: int
) -> ITMLAnswer:
    """Bregman projections on one hard bound after the other: `M ← M + β Mv vᵀM` with `β = sα/(1 − sαp)`.

    `p = vᵀMv` and `α = min(λ, s (1/p − 1/ξ))`. M stays the best matrix for its multipliers λ, so the answer is
    right when no bound is broken and none with λ > 0 is loose, `Σ sλ(ξ − p) ≈ 0`.
    """
    m, p = delta.shape
    M = np.eye(p, order="F")
    signs = np.where(similar, 1.0, -1.0)
    duals = np.zeros(m)
    sweep, converged, value = 0, False, 0.0
    for sweep in range(1, max_iter + 1):
        for c in range(m):
            image = blas.dsymv(1.0, M, delta[c])
            square = float(delta[c] @ image)
            if square <= 0:
                continue
            alpha = min(duals[c], signs[c] * (1 / square - 1 / bounds[c]))
            if alpha == 0:
                continue
            duals[c] -= alpha
            # Only the upper triangle is kept up to date inside a sweep.
            M = blas.dsyr(signs[c] * alpha / (1 - signs[c] * alpha * square), image, a=M, overwrite_a=1)
        M = np.asfortranarray(np.triu(M) + np.triu(M, 1).T)
        squares = np.einsum("mi,ij,mj->m", delta, M, delta, optimize=True)
        value = float(np.trace(M) - np.linalg.slogdet(M)[1] - p)
        worst = float((signs * (squares / bounds - 1)).max())
        report(verbose, "ITML", sweep, worst, most=max_iter)
        if worst <= tol and abs(float((duals * signs) @ (squares - bounds))) <= tol * max(value, tol):
            converged = True
            break
    return ITMLAnswer(symmetric(M), bounds, value, sweep, converged)


@dataclass(kw_only=True, eq=False, repr=False)
class ITML(PairSupervision, MatrixLearner):
    """Information-theoretic metric learning: near the identity, similar pairs below u, others above l.

    X (n, p) -> (n, d). `bounds` (u, l) are on squared distances; None takes the 5th and 95th percentile of the
    pairs. `gamma` prices broken promises (inf: none). From labels, `n_pairs` random pairs are drawn, 40 c (c − 1)
    by default. Pairs of equal rows are left out. `blend` mixes M with the identity: "auto" takes the share that
    votes best on the training rows, 0.0 is the published method.

    Solved until the duality gap is below `tol` of `objective_`, and `converged_` says so; with gamma=inf, until no
    bound is broken by more than `tol`, which contradicting pairs make impossible. The published loop of
    projections, with its step `½ (1/p − γ/ξ)` (right at γ = 1 only), has the same optimum and needs thousands of
    sweeps.

    Reference: Davis, Kulis, Jain, Sra, Dhillon (2007).

    >>> X = np.array([[0.0, 0], [0, 4], [1, 0], [1, 4]])
    >>> learner = ITML(bounds=(1.0, 9.0)).fit_pairs(X, [[0, 1], [0, 2]], [1, -1])
    >>> learner.predict_pairs(X[:2], X[2:])
    array([-1, -1])

    Args:
        n_components: dimensions to keep; None keeps all columns.
        gamma: price of broken bounds; inf allows none.
        bounds: (largest distance of similar, smallest of dissimilar pairs); None takes percentiles.
        n_pairs: pairs to draw; None takes a multiple of the number of classes.
        max_iter: the most iterations; a warning says when they did not suffice.
        tol: stop when the dual changes by less.
        blend: share of the identity in the metric; 0 is the published method, "auto" chooses it without test
            labels.
        random_state: seed or generator for everything that is drawn; None takes numpy's own.
        verbose: 1 prints the iterations.

    Attributes:
        components_: A (d, p), the learned map: distances are those of `XAᵀ`.
        bounds_: (largest squared distance of similar, smallest of dissimilar pairs) that was used.
        blend_: share of the identity in the metric, as given or as chosen.
        objective_: the divergence and the price of broken bounds at the end.
        n_iter_: iterations that were made.
        converged_: whether the duality gap fell below `tol`.
        classes_: the classes of y, (c,), sorted.
        n_features_in_: columns of the X it was fitted on.
    """

    _takes_sparse = True

    gamma: float = 1.0
    bounds: tuple[float, float] | None = None
    n_pairs: int | None = None
    max_iter: int = 500
    tol: float = 1e-3
    verbose: int = 0

    def _learn_labels(self, X: Any, codes: Array, rng: np.random.RandomState) -> Array:
        m = default_pairs(codes) if self.n_pairs is None else check_int(self.n_pairs, "n_pairs")
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
        # Differences and bounds in one unit leave M as it is, and the numbers inside moderate.
        unit = float(np.sqrt(np.median(np.square(delta).sum(axis=1))))
        answer = itml_matrix(
            delta / unit,
            similar,
            upper / unit**2,
            lower / unit**2,
            gamma=gamma,
            max_iter=max_iter,
            tol=tol,
            verbose=self.verbose,
        )
        self.objective_, self.n_iter_, self.converged_ = answer.objective, answer.n_iter, answer.converged
        hard = " (hard bounds that contradict each other have no answer)" if np.isinf(gamma) else ""
        warn_if_stopped_early(self, hard)
        return answer.matrix
