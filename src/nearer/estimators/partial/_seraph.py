"""SERAPH: pairs are similar with a probability, labelled pairs are likely, unlabelled ones are decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import linalg
from scipy.special import expit, log_expit

from nearer._checks import check_choice, check_int, check_number
from nearer.estimators._matrices import Array, symmetric
from nearer.estimators._optimize import minimize, warn_if_stopped_early
from nearer.estimators._scatter import take_differences
from nearer.estimators.partial._partly_labeled import PartlyLabeledLearner


class PairEvidence(NamedTuple):
    """Differences (m, p) of pairs, and how similar each is: 1 or 0 when labelled, NaN when nobody knows."""

    delta: Array
    similar: Array


def seraph_objective(
    matrix: Array, pairs: PairEvidence, *, eta: float = 1.0, mu: float = 0.0, trace_weight: float = 0.0
) -> tuple[float, Array]:
    """`−Σ log p(y_ij) + μΣ_U H(p_ij) + λTr M` with `p(+1) = σ(η − δ²_M)`, and its gradient (p, p).

    The gradient is `Σ c_ij (x_i − x_j)(x_i − x_j)ᵀ + λI`, c = 1 − p for similar, −p for dissimilar, and μ·u·p(1 −
    p), u = η − δ², for unlabelled pairs.

    >>> value, gradient = seraph_objective(np.eye(1), PairEvidence(np.array([[1.0]]), np.array([1.0])))
    >>> round(value, 4), gradient.tolist()  # p = ½
    (0.6931, [[0.5]])
    """
    u = eta - np.einsum("mi,ij,mj->m", pairs.delta, matrix, pairs.delta, optimize=True)
    p = expit(u)
    free = np.isnan(pairs.similar)
    target = np.where(free, 0.0, pairs.similar)
    cost = np.where(target > 0.5, -log_expit(u), -log_expit(-u))
    entropy = -p * log_expit(u) - (1 - p) * log_expit(-u)
    value = float(np.where(free, mu * entropy, cost).sum() + trace_weight * np.trace(matrix))
    slope = np.where(free, mu * u * p * (1 - p), target - p)
    gradient = (pairs.delta * slope[:, None]).T @ pairs.delta
    return value, gradient + trace_weight * np.eye(len(matrix))


def _expected_cost(matrix: Array, pairs: PairEvidence, q: Array, eta: float, trace_weight: float) -> Any:
    """`−Σ [q log p(+1) + (1 − q) log p(−1)] + λTr M` for given q: convex, the M-step."""
    u = eta - np.einsum("mi,ij,mj->m", pairs.delta, matrix, pairs.delta, optimize=True)
    value = -(q * log_expit(u) + (1 - q) * log_expit(-u)).sum() + trace_weight * np.trace(matrix)
    gradient = (pairs.delta * (q - expit(u))[:, None]).T @ pairs.delta
    return float(value), gradient + trace_weight * np.eye(len(matrix))


def seraph_descent(
    objective: Any, start: Array, *, max_iter: int = 500, tol: float = 1e-9
) -> tuple[Array, float, int, bool]:
    """Minimise `objective(M) = (value, gradient)` over M ⪰ 0 by L-BFGS in `M = CᵀC`: M, value, steps, converged.

    No step has to be cut to positive matrices; published are projected gradients, which need ten times as many.

    >>> matrix, value, _, _ = seraph_descent(lambda M: (float(M[0, 0] ** 2), 2 * M), np.eye(1))
    >>> bool(value < 1e-6)
    True
    """

    def loss(C: Array) -> tuple[float, Array]:
        value, gradient = objective(C.T @ C)
        return value, 2 * C @ gradient

    C, value, steps, converged = minimize(loss, linalg.sqrtm(start).real, max_iter=max_iter, tol=tol, name="SERAPH")
    return symmetric(C.T @ C), value, steps, converged


@dataclass(kw_only=True, eq=False, repr=False)
class SERAPH(PartlyLabeledLearner):
    """Semi-supervised metric by entropy regularisation: likely labelled pairs, decided unlabelled ones, small
    trace.

    X (n, p) and y (n,) with −1 for unlabelled rows -> (n, d). `mu` is relative: the weight of an unlabelled pair is
    μ·|labelled|/|unlabelled| pairs. `method` is "gradient" (descent of the objective) or "em", which
    for 0 ≤ μ < 1 guesses `q ∝ p^{1/(1−μ)}` and solves a convex problem in turn; they have different objectives.
    `objective_` is the value at the end, of the last convex problem with "em". At most `n_pairs` pairs of either
    kind are drawn. Rows are scaled so that the median δ² is η. `blend` mixes M with the identity: "auto" takes
    what agrees best with labels spread over the graph of the rows, 0.0 is the published method.

    Reference: Niu, Dai, Yamada, Sugiyama (2014).

    >>> rng = np.random.default_rng(0)
    >>> X = np.r_[rng.normal(size=(20, 2)), rng.normal(size=(20, 2)) + [6, 0]]
    >>> M = SERAPH(blend=0.0).fit(X, [0] * 20 + [1] * 20).mahalanobis_matrix()
    >>> bool(M[0, 0] > M[1, 1])
    True

    Args:
        n_components: dimensions to keep; None keeps all columns.
        eta: the squared distance that the median pair is scaled to.
        mu: weight of the unlabelled pairs.
        trace_weight: weight of the trace, which makes the metric low in rank.
        method: "gradient" or "em".
        n_pairs: pairs to draw; None takes a multiple of the number of classes.
        max_iter: the most iterations; a warning says when they did not suffice.
        blend: share of the identity in the metric; 0 is the published method, "auto" chooses it without test
            labels.
        random_state: seed or generator for everything that is drawn; None takes numpy's own.

    Attributes:
        components_: A (d, p), the learned map: distances are those of `XAᵀ`.
        blend_: share of the identity in the metric, as given or as chosen.
        objective_: the value at the end; with "em" that of the last convex problem.
        n_iter_: iterations that were made.
        converged_: whether its rule to stop was met within `max_iter`.
        classes_: the classes of y, (c,), sorted.
        n_features_in_: columns of the X it was fitted on.
    """

    eta: float = 1.0
    mu: float = 0.5
    trace_weight: float = 0.0
    method: Literal["gradient", "em"] = "gradient"
    n_pairs: int = 5000
    max_iter: int = 500

    def _learn(self, X: Array, codes: Array, rng: np.random.RandomState) -> Array:
        eta = check_number(self.eta, "eta", above=0)
        weight = check_number(self.trace_weight, "trace_weight", minimum=0)
        method = check_choice(self.method, "method", ["gradient", "em"])
        mu = check_number(self.mu, "mu", minimum=0, maximum=None if method == "gradient" else 0.999)
        max_iter = check_int(self.max_iter, "max_iter")
        pairs = draw_pairs(X, codes, check_int(self.n_pairs, "n_pairs"), rng)
        squared = np.square(pairs.delta).sum(axis=1)
        typical = float(np.median(squared[squared > 0])) if (squared > 0).any() else 1.0
        scaled = PairEvidence(pairs.delta * np.sqrt(eta / typical), pairs.similar)
        free = np.isnan(pairs.similar)
        p = X.shape[1]
        start = p / (p + 1) * np.eye(p)
        if method == "gradient":
            share = mu * max(1, int((~free).sum())) / max(1, int(free.sum()))
            descent = seraph_descent(
                lambda M: seraph_objective(M, scaled, eta=eta, mu=share, trace_weight=weight),
                start,
                max_iter=max_iter,
            )
        else:
            descent = _expectation(scaled, start, eta, mu, weight, max_iter)
        matrix, self.objective_, self.n_iter_, self.converged_ = descent
        warn_if_stopped_early(self)
        return matrix * (eta / typical)


def _expectation(
    pairs: PairEvidence, start: Array, eta: float, mu: float, weight: float, max_iter: int
) -> tuple[Array, float, int, bool]:
    """Guess the unlabelled pairs, fit, guess again."""
    free = np.isnan(pairs.similar)
    M, used, value = start, 0, np.inf
    while used < max_iter:
        u = eta - np.einsum("mi,ij,mj->m", pairs.delta, M, pairs.delta, optimize=True)
        q = np.where(free, expit(u / (1 - mu)), pairs.similar)

        def objective(matrix: Array, q: Array = q) -> Any:
            return _expected_cost(matrix, pairs, q, eta, weight)

        fresh, value, steps, _ = seraph_descent(objective, M, max_iter=min(50, max_iter - used))
        used += steps
        change = float(np.linalg.norm(fresh - M))
        M = fresh
        if change < 1e-2 * max(float(np.linalg.norm(M)), 1e-2):
            return M, value, used, True
    return M, value, used, False


def draw_pairs(X: Array, codes: Array, count: int, rng: np.random.RandomState) -> PairEvidence:
    """All pairs of labelled rows and all others, at most `count` of either kind at random.

    >>> draw_pairs(np.eye(2), np.array([0, -1]), 9, np.random.RandomState(0)).similar
    array([nan])
    """
    n = len(X)
    known = np.flatnonzero(codes >= 0)
    i, j = np.triu_indices(len(known), 1)
    i, j = known[i], known[j]
    if len(i) > count:
        chosen = rng.permutation(len(i))[:count]
        i, j = i[chosen], j[chosen]
    if n * (n - 1) // 2 <= 4 * count:
        a, b = np.triu_indices(n, 1)
        order = rng.permutation(len(a))
        a, b = a[order], b[order]
    else:
        a, b = rng.randint(0, n, 4 * count), rng.randint(0, n, 4 * count)
    open_ = ((codes[a] < 0) | (codes[b] < 0)) & (a != b)
    a, b = a[open_][:count], b[open_][:count]
    left, right = np.concatenate([i, a]), np.concatenate([j, b])
    similar = np.concatenate([(codes[i] == codes[j]).astype(np.float64), np.full(len(a), np.nan)])
    return PairEvidence(take_differences(X, left, right), similar)
