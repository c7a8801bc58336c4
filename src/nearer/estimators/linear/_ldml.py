"""Logistic discriminant metric learning: the probability that two rows are similar, as a function of distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from nearer._checks import check_int, check_number
from nearer.estimators._matrices import Array
from nearer.estimators._optimize import minimize, warn_if_stopped_early
from nearer.estimators._sampling import near_pairs
from nearer.estimators._scatter import take_differences
from nearer.estimators._supervision import MatrixLearner, PairSupervision, nonzero_pairs


def ldml_loss_and_gradient(
    components: Array, bias: float, delta: Array, similar: Array, *, ridge: float = 0.0
) -> tuple[float, Array, float]:
    """Mean negative log-likelihood of `p(similar) = σ(b − ‖Av‖²)`, its gradient in A (d, p), and in b.

    Both kinds of pairs weigh one half in all. `ridge` adds `ridge·Tr(AᵀA)`: without it separable pairs drive the
    matrix to infinity. With respect to M the gradient is `−Σ w (s − p) vvᵀ`.

    >>> value, _, _ = ldml_loss_and_gradient(np.zeros((1, 1)), 0.0, np.ones((2, 1)), np.array([True, False]))
    >>> round(value, 4)
    0.6931
    """
    mapped = delta @ components.T
    logit = bias - np.square(mapped).sum(axis=1)
    weights = np.where(similar, 0.5 / max(similar.sum(), 1), 0.5 / max((~similar).sum(), 1))
    signed = np.where(similar, logit, -logit)
    value = float(weights @ np.logaddexp(0, -signed)) + ridge * float(np.square(components).sum())
    # d/d logit of −log σ(±logit)
    slope = weights * (expit(logit) - similar)
    gradient = -2 * (mapped * slope[:, None]).T @ delta + 2 * ridge * components
    return value, gradient, float(slope.sum())


@dataclass(kw_only=True, eq=False, repr=False)
class LDML(PairSupervision, MatrixLearner):
    """Logistic discriminant metric learning: maximise the likelihood of `p(similar) = σ(b − δ²)`.

    X (n, p) -> (n, d). From labels, each of at most `max_anchors` rows meets its k nearest hits and misses. `ridge`
    keeps separable pairs finite. `bias_` is b; pairs with δ² < b are more likely similar than not. `blend` mixes M
    with the identity: "auto" takes the share that votes best on the training rows, 0.0 is the plain method.

    Reference: Guillaumin, Verbeek, Schmid (2009).

    >>> X = np.array([[0.0, 0], [0, 9], [1, 1], [1, 8]])
    >>> learner = LDML(n_neighbors=1).fit_pairs(X, [[0, 1], [2, 3], [0, 2], [1, 3]], [1, 1, -1, -1])
    >>> learner.predict_pairs(X[[0, 0]], X[[1, 2]])
    array([ 1, -1])

    Args:
        n_components: dimensions to keep; None keeps all columns.
        n_neighbors: how many neighbors of a row count.
        max_anchors: rows that constraints are drawn for.
        ridge: share of the identity added to a scatter before it is inverted.
        max_iter: the most iterations; a warning says when they did not suffice.
        tol: stop when an iteration improves the objective by less, relatively.
        blend: share of the identity in the metric; 0 is the published method, "auto" chooses it without test
            labels.
        random_state: seed or generator for everything that is drawn; None takes numpy's own.
        verbose: 1 prints the iterations.

    Attributes:
        components_: A (d, p), the learned map: distances are those of `XAᵀ`.
        bias_: b: pairs with δ² below it are more likely similar than not.
        blend_: share of the identity in the metric, as given or as chosen.
        n_iter_: iterations that were made.
        converged_: whether its rule to stop was met within `max_iter`.
        classes_: the classes of y, (c,), sorted.
        n_features_in_: columns of the X it was fitted on.
    """

    _takes_sparse = True

    n_neighbors: int = 3
    max_anchors: int = 2000
    ridge: float = 1e-3
    max_iter: int = 200
    tol: float = 1e-5
    verbose: int = 0

    def _learn_labels(self, X: Any, codes: Array, rng: np.random.RandomState) -> Array:
        dense = X.toarray() if hasattr(X, "toarray") else X
        most = check_int(self.max_anchors, "max_anchors")
        pairs, similar = near_pairs(dense, codes, check_int(self.n_neighbors, "n_neighbors"), rng, most=most)
        return self._learn_pairs(dense, pairs, similar, rng)

    def _learn_pairs(self, X: Any, pairs: Array, similar: Array, rng: np.random.RandomState) -> Array:
        ridge = check_number(self.ridge, "ridge", minimum=0)
        max_iter, tol = check_int(self.max_iter, "max_iter"), check_number(self.tol, "tol", above=0)
        delta = take_differences(X, pairs[:, 0], pairs[:, 1])
        kept = nonzero_pairs(delta, "LDML")
        delta, similar = delta[kept], similar[kept]
        unit = float(np.sqrt(np.square(delta).sum(axis=1).mean()))
        scaled, p = delta / unit, delta.shape[1]

        def loss(point: Array) -> tuple[float, Array]:
            value, gradient, slope = ldml_loss_and_gradient(
                point[:-1].reshape(p, p), float(point[-1]), scaled, similar, ridge=ridge
            )
            return value, np.append(gradient.ravel(), slope)

        start = np.append(np.eye(p).ravel(), 1.0)
        point, _, self.n_iter_, self.converged_ = minimize(
            loss, start, max_iter=max_iter, tol=tol, verbose=self.verbose, name="LDML"
        )
        warn_if_stopped_early(self)
        self.bias_ = float(point[-1])
        components = point[:-1].reshape(p, p) / unit
        return components.T @ components
