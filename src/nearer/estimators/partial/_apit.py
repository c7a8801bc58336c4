"""APIT: near the information-theoretic metric of the labels, and smooth where propagated affinities are large."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from nearer.estimators._matrices import Array
from nearer.estimators.linear._itml import ITML
from nearer.estimators.partial._apllr import _NearPrior

__all__ = ["APIT"]


class APIT(_NearPrior):
    """Affinity propagation with the information-theoretic prior: LogDet-near to ITML, smooth on the graph.

    X (n, p) and y (n,) with −1 for unlabelled rows -> (n, d). As `APLLR`, `blend` included, with M₀ from ITML on
    the labelled rows.

    Reference: Dutta, Sekhar (2018), of which the LogDet form is a reconstruction.

    >>> rng = np.random.default_rng(0)
    >>> X = np.r_[rng.normal(size=(20, 2)), rng.normal(size=(20, 2)) + [6, 0]]
    >>> y = [0] * 5 + [-1] * 15 + [1] * 5 + [-1] * 15
    >>> APIT(max_iter=200, random_state=0).fit(X, y).mahalanobis_matrix().shape
    (2, 2)
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_neighbors: int = 10,
        gamma: float = 0.99,
        strength: float = 1.0,
        form: Literal["logdet", "frobenius"] = "logdet",
        max_iter: int = 50,
        blend: float | Literal["auto"] = "auto",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.gamma = gamma
        self.strength = strength
        self.form = form
        self.max_iter = max_iter
        self.blend = blend
        self.random_state = random_state

    def _prior(self, X: Array, codes: Array, rng: np.random.RandomState) -> Array:
        learner = ITML(max_iter=self.max_iter, blend=0.0, random_state=rng).fit(X, codes)
        self.n_iter_ = learner.n_iter_
        return learner.mahalanobis_matrix()

    def _learn(self, X: Array, codes: Array, rng: np.random.RandomState) -> Array:
        self.n_iter_ = 1
        return super()._learn(X, codes, rng)
