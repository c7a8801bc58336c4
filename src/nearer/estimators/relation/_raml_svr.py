"""RAML-SVR: support vector regression of a relation on outer products of differences."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVR, LinearSVR, NuSVR

from nearer._checks import check_choice, check_int, check_number
from nearer.estimators._matrices import Array, symmetric
from nearer.estimators._optimize import warn_if_stopped_early
from nearer.estimators.relation._raml import RelationLearner
from nearer.estimators.relation._raml_pairs import PairSums

_KERNEL_PAIRS = 4000


def svr_by_kernel(
    delta: Array, g: Array, *, C: float = 1.0, epsilon: float = 1e-2, nu: float | None = None, tol: float = 1e-3
) -> tuple[Array, float]:
    """M and b of `min ½‖M‖² + C Σ(ξ + ξ*)`, `|g − ⟨M, T⟩ − b| ≤ ε + ξ`, from the kernel `(Δ_p·Δ_q)²`.

    With `nu` the ν-form: the tube is chosen so that about the share ν of the pairs lies outside. M is symmetric
    but can be indefinite.

    >>> M, b = svr_by_kernel(np.array([[1.0], [2.0], [3.0]]), np.array([3.0, 9.0, 19.0]), C=100.0, epsilon=0.0)
    >>> M.round(2), round(b, 2)
    (array([[2.]]), 1.0)
    """
    kernel = np.square(delta @ delta.T)
    settings: dict[str, Any] = {"C": C, "kernel": "precomputed", "tol": tol, "cache_size": 500}
    machine = SVR(epsilon=epsilon, **settings) if nu is None else NuSVR(nu=nu, **settings)
    machine.fit(kernel, g)
    support = delta[machine.support_]
    matrix = symmetric((support * machine.dual_coef_.ravel()[:, None]).T @ support)
    return matrix, float(machine.intercept_[0])


def outer_features(delta: Array) -> Array:
    """The entries of `ΔΔᵀ` on and above the diagonal, off-diagonal ones times √2, (m, p) -> (m, p(p+1)/2).

    Their inner product is the kernel `(Δ·Δ')²`.

    >>> outer_features(np.array([[1.0, 2.0]]))
    array([[1.        , 2.82842712, 4.        ]])
    """
    rows, columns = np.triu_indices(delta.shape[1])
    return delta[:, rows] * delta[:, columns] * np.where(rows == columns, 1.0, np.sqrt(2))


def svr_by_features(
    delta: Array, g: Array, *, C: float = 1.0, epsilon: float = 1e-2, max_iter: int = 1000, tol: float = 1e-3
) -> tuple[Array, float, bool]:
    """The same by a linear SVR on `outer_features`, for many pairs in few dimensions; b is penalised a little.

    >>> M, b, _ = svr_by_features(np.array([[1.0], [2.0], [3.0]]), np.array([3.0, 9.0, 19.0]), C=100.0, epsilon=0.0)
    >>> M.round(1), round(b, 1)
    (array([[2.]]), 1.0)
    """
    features = outer_features(delta)
    machine = LinearSVR(
        C=C, epsilon=epsilon, tol=tol, max_iter=max_iter, intercept_scaling=10.0, random_state=0, dual=True
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        machine.fit(features, g)
    p = delta.shape[1]
    rows, columns = np.triu_indices(p)
    matrix = np.zeros((p, p))
    matrix[rows, columns] = machine.coef_.ravel() / np.where(rows == columns, 1.0, np.sqrt(2))
    matrix = matrix + np.triu(matrix, 1).T
    return matrix, float(np.ravel(machine.intercept_)[0]), not caught


@dataclass(kw_only=True, eq=False, repr=False)
class RAMLSVR(RelationLearner):
    """RAML-SVR: `⟨M, (x−x')(x−x')ᵀ⟩ + b` within a tube around how far apart two rows should be; then the PSD part.

    X (n, p) and y of any kind: classes, a 0/1 matrix of label sets, distributions, numbers; -> (n, d). The pairs
    are each row's k nearest (with classes k of its class and k of others) and `n_random` random ones, at most
    `max_pairs`. Differences have unit mean length, so C means the same for every data set. `nu` chooses the tube by
    the share of pairs outside it; None takes `epsilon`. `solver` "kernel" holds the kernel of all pairs, "features"
    p(p + 1)/2 numbers per pair; "auto" takes the kernel up to 4,000 pairs. `blend` mixes M with the identity:
    "auto" takes the share whose neighbours predict the training labels best, 0.0 is the published method.

    Reference: Zhu et al. (2018).

    >>> X = np.array([[0.0, 0], [0, 4], [1, 0], [1, 4], [2, 0], [2, 4]])
    >>> M = RAMLSVR(blend=0.0, C=100.0).fit(X, [0.0, 0.0, 0.5, 0.5, 1.0, 1.0]).mahalanobis_matrix()
    >>> bool(M[0, 0] > 20 * M[1, 1])
    True

    Args:
        n_components: dimensions to keep; None keeps all columns.
        relation: how near two label rows should be; "auto" is L1.
        kind: what the labels are; "auto" finds it.
        C: cost of a violated constraint.
        epsilon: width of the band without cost.
        nu: share of support vectors, instead of epsilon.
        n_neighbors: how many neighbors of a row count.
        n_random: random partners of each row, besides its neighbors.
        max_pairs: the most pairs that are used.
        solver: which algorithm; the class text says what each is.
        max_iter: the most iterations; a warning says when they did not suffice.
        tol: stop when an iteration improves the objective by less, relatively.
        blend: share of the identity in the metric; 0 is the published method, "auto" chooses it without test
            labels.
        random_state: seed or generator for everything that is drawn; None takes numpy's own.

    Attributes:
        components_: A (d, p), the learned map: distances are those of `XAᵀ`.
        bias_: the constant beside the metric.
        blend_: share of the identity in the metric, as given or as chosen.
        n_iter_: iterations that were made.
        converged_: whether the solver met its rule to stop; True in closed form.
        classes_: the classes of y, (c,); only where y are classes.
        n_features_in_: columns of the X it was fitted on.
    """

    C: float = 1.0
    epsilon: float = 1e-2
    nu: float | None = None
    n_neighbors: int = 2
    n_random: int = 2
    max_pairs: int = 4000
    max_iter: int = 1000

    def _most_pairs(self) -> int:
        return check_int(self.max_pairs, "max_pairs", minimum=2)

    def _regress(self, sums: PairSums, g: Array) -> tuple[Array, float]:
        C, tol = check_number(self.C, "C", above=0), check_number(self.tol, "tol", above=0)
        epsilon = check_number(self.epsilon, "epsilon", minimum=0)
        nu = None if self.nu is None else check_number(self.nu, "nu", above=0, maximum=1)
        solver = check_choice(self.solver, "solver", ["auto", "kernel", "features"])
        delta = np.concatenate([part for _, part in sums.blocks()])
        self.n_iter_, self.converged_ = 1, True
        if nu is not None or solver == "kernel" or (solver == "auto" and len(sums) <= _KERNEL_PAIRS):
            return svr_by_kernel(delta, g, C=C, epsilon=epsilon, nu=nu, tol=tol)
        max_iter = check_int(self.max_iter, "max_iter")
        matrix, offset, self.converged_ = svr_by_features(
            delta, g, C=C, epsilon=epsilon, max_iter=max_iter, tol=tol
        )
        self.n_iter_ = 1 if self.converged_ else max_iter
        warn_if_stopped_early(self)
        return matrix, offset
