"""APIT: near the information-theoretic metric of the labels, and smooth where propagated affinities are large."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearer.estimators._matrices import Array
from nearer.estimators.linear._itml import ITML
from nearer.estimators.partial._apllr import _NearPrior


@dataclass(kw_only=True, eq=False, repr=False)
class APIT(_NearPrior):
    """Affinity propagation with the information-theoretic prior: LogDet-near to ITML, smooth on the graph.

    X (n, p) and y (n,) with −1 for unlabelled rows -> (n, d). As `APLLR`, `blend` included, with M₀ from ITML on
    the labelled rows, whose `n_iter_` and `converged_` are passed on.

    Reference: Dutta, Sekhar (2018), of which the LogDet form is a reconstruction.

    >>> rng = np.random.default_rng(0)
    >>> X = np.r_[rng.normal(size=(20, 2)), rng.normal(size=(20, 2)) + [6, 0]]
    >>> y = [0] * 5 + [-1] * 15 + [1] * 5 + [-1] * 15
    >>> APIT(random_state=0).fit(X, y).mahalanobis_matrix().shape
    (2, 2)

    Args:
        n_components: dimensions to keep; None keeps all columns.
        n_neighbors: how many neighbors of a row count.
        gamma: probability of going on along an edge of the graph.
        strength: weight of the graph relative to the prior; 0 gives the prior.
        form: "logdet" or "frobenius": what holds the metric near the identity.
        max_iter: the most iterations; a warning says when they did not suffice.
        blend: share of the identity in the metric; 0 is the published method, "auto" chooses it without test
            labels.
        random_state: seed or generator for everything that is drawn; None takes numpy's own.

    Attributes:
        components_: A (d, p), the learned map: distances are those of `XAᵀ`.
        blend_: share of the identity in the metric, as given or as chosen.
        n_iter_: iterations of ITML.
        converged_: whether ITML converged.
        classes_: the classes of y, (c,), sorted.
        n_features_in_: columns of the X it was fitted on.
    """

    max_iter: int = 500

    def _prior(self, X: Array, codes: Array, rng: np.random.RandomState) -> Array:
        learner = ITML(max_iter=self.max_iter, blend=0.0, random_state=rng).fit(X, codes)
        self.n_iter_, self.converged_ = learner.n_iter_, learner.converged_
        return learner.mahalanobis_matrix()

    def _learn(self, X: Array, codes: Array, rng: np.random.RandomState) -> Array:
        self.n_iter_, self.converged_ = 1, True
        return super()._learn(X, codes, rng)
