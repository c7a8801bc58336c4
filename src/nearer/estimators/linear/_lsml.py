"""Least squared-residual metric learning: relative comparisons of two distances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearer._checks import check_int, check_number
from nearer.estimators._matrices import Array
from nearer.estimators._optimize import minimize, warn_if_stopped_early
from nearer.estimators._sampling import default_pairs, near_triplets
from nearer.estimators._scatter import take_differences
from nearer.estimators._supervision import MatrixLearner, QuadrupletSupervision, nonzero_pairs


def lsml_loss_and_gradient(
    components: Array, near: Array, far: Array, *, prior_weight: float = 1.0
) -> tuple[float, Array]:
    """`mean [δ(near) − δ(far)]₊² + w (Tr M − log det M)` with `M = AᵀA`, and its gradient in A (p, p).

    `near` and `far` (m, p) are differences whose distances should be ordered. The hinge is on distances, not
    squares.

    >>> value, _ = lsml_loss_and_gradient(np.eye(1), np.array([[3.0]]), np.array([[1.0]]))
    >>> value
    5.0
    """
    first, second = near @ components.T, far @ components.T
    tiny = np.finfo(np.float64).tiny
    short = np.sqrt(np.square(first).sum(axis=1))
    long = np.sqrt(np.square(second).sum(axis=1))
    excess = np.maximum(short - long, 0)
    sign, log_det = np.linalg.slogdet(components)
    if sign == 0:
        return np.inf, np.zeros_like(components)
    prior = float(np.square(components).sum()) - 2 * float(log_det)
    value = float(np.square(excess).mean()) + prior_weight * prior
    slope = 2 * excess / len(near)
    gradient = (first * (slope / np.maximum(short, tiny))[:, None]).T @ near
    gradient -= (second * np.divide(slope, long, out=np.zeros_like(slope), where=long > 0)[:, None]).T @ far
    gradient += 2 * prior_weight * (components - np.linalg.inv(components).T)
    return value, gradient


@dataclass(kw_only=True, eq=False, repr=False)
class LSML(QuadrupletSupervision, MatrixLearner):
    """Least squared-residual metric learning: squared violations of "a, b nearer than c, d", and a LogDet prior.

    X (n, p) -> (n, d). From labels, `n_quadruplets` comparisons of a row's nearest hit with its nearest miss are
    used (20 c (c − 1), at least 1,000, by default). `prior_weight` is the pull towards the identity at the scale
    of the data; the published value is 1. `blend` mixes M with the identity: "auto" takes the share that votes
    best on the training rows, 0.0 is the published method.

    Reference: Liu, Guo, Zhou, Wang (2012).

    >>> X = np.array([[0.0, 0], [0, 4], [3, 0], [3, 4]])
    >>> M = LSML(blend=0.0).fit_quadruplets(X, [[0, 1, 0, 2], [2, 3, 1, 3]]).mahalanobis_matrix()
    >>> bool(M[0, 0] > M[1, 1])
    True

    Args:
        n_components: dimensions to keep; None keeps all columns.
        prior_weight: pull towards the identity.
        n_quadruplets: quadruplets to draw; None takes a multiple of the rows.
        max_iter: the most iterations; a warning says when they did not suffice.
        tol: stop when an iteration improves the objective by less, relatively.
        blend: share of the identity in the metric; 0 is the published method, "auto" chooses it without test
            labels.
        random_state: seed or generator for everything that is drawn; None takes numpy's own.
        verbose: 1 prints the iterations.

    Attributes:
        components_: A (d, p), the learned map: distances are those of `XAᵀ`.
        blend_: share of the identity in the metric, as given or as chosen.
        objective_: the loss of the quadruplets and the pull to the identity at the end.
        n_iter_: iterations that were made.
        converged_: whether its rule to stop was met within `max_iter`.
        classes_: the classes of y, (c,), sorted.
        n_features_in_: columns of the X it was fitted on.
    """

    _takes_sparse = True

    prior_weight: float = 1e-4
    n_quadruplets: int | None = None
    max_iter: int = 200
    tol: float = 1e-7
    verbose: int = 0

    def _learn_labels(self, X: Any, codes: Array, rng: np.random.RandomState) -> Array:
        default = max(default_pairs(codes) // 2, 1000)
        m = default if self.n_quadruplets is None else check_int(self.n_quadruplets, "n_quadruplets")
        dense = X.toarray() if hasattr(X, "toarray") else X
        triplets = near_triplets(dense, codes, 1, rng, most=m)
        return self._learn_quadruplets(dense, triplets[:, [0, 1, 0, 2]], rng)

    def _learn_quadruplets(self, X: Any, quadruplets: Array, rng: np.random.RandomState) -> Array:
        weight = check_number(self.prior_weight, "prior_weight", above=0)
        max_iter, tol = check_int(self.max_iter, "max_iter"), check_number(self.tol, "tol", above=0)
        near = take_differences(X, quadruplets[:, 0], quadruplets[:, 1])
        far = take_differences(X, quadruplets[:, 2], quadruplets[:, 3])
        both = np.concatenate([near, far])
        unit = float(np.sqrt(np.square(both[nonzero_pairs(both, "LSML")]).sum(axis=1).mean()))
        near, far = near / unit, far / unit

        def loss(components: Array) -> tuple[float, Array]:
            return lsml_loss_and_gradient(components, near, far, prior_weight=weight)

        components, self.objective_, self.n_iter_, self.converged_ = minimize(
            loss, np.eye(X.shape[1]), max_iter=max_iter, tol=tol, verbose=self.verbose, name="LSML"
        )
        warn_if_stopped_early(self)
        return components.T @ components / unit**2
