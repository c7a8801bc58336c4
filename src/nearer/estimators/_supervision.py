"""Learners of a matrix M, and the kinds of supervision they take: labels, pairs, triplets, quadruplets."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state

from nearer.estimators._blending import mix_with_identity, resolve_blend
from nearer.estimators._learner import MetricLearner, as_similar, best_threshold
from nearer.estimators._matrices import Array, factor_psd, fix_signs
from nearer.estimators._scatter import take_differences, total_scatter
from nearer.exceptions import LabelError, NearerWarning, NotFiniteError, ShapeError


def reduce_components(components: Array, covariance: Array, d: int) -> Array:
    """The d directions of largest variance in the learned space, (r, p) -> (d, p).

    They are the best rank-d approximation of the learned distances on data with this covariance.

    >>> reduce_components(np.diag([1.0, 3.0]), np.eye(2), 1)
    array([[0., 3.]])
    """
    if d >= len(components):
        return components
    _, vectors = np.linalg.eigh(components @ covariance @ components.T)
    return fix_signs(vectors[:, ::-1][:, :d].T @ components)


@dataclass(eq=False, repr=False)
class MatrixLearner(MetricLearner):
    """A learner of M from labels: subclasses give `_learn_labels`; blending, factor and reduction are here."""

    n_components: int | None = None
    _: KW_ONLY
    blend: float | str = "auto"
    random_state: Any = None

    def _learn_labels(self, X: Any, codes: Array, rng: np.random.RandomState) -> Array:
        raise NotImplementedError

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from rows X (n, p) and their classes y (n,), of any type."""
        X, codes = self._check_labeled(X, y)
        d = self._check_targets(X.shape[1])
        rng = check_random_state(self.random_state)
        self._finish(self._learn_labels(X, codes, rng), X, codes, d, rng)
        return self

    def _fit_tuples(self, X: Any, tuples: Any, name: str, learn: Callable[..., Array]) -> Self:
        """Learn from triplets or quadruplets of row numbers."""
        X, tuples = self._check_tuples(X, tuples, name, {"triplets": 3, "quadruplets": 4}[name])
        d = self._check_targets(X.shape[1])
        rng = check_random_state(self.random_state)
        self._finish(learn(X, tuples, rng), X, None, d, rng)
        return self

    def _choose_blend(self, X: Any, codes: Array | None, matrix: Array, rng: np.random.RandomState) -> float:
        return resolve_blend(self.blend, X, codes, matrix, rng)

    def _finish(
        self,
        matrix: Array,
        X: Any,
        codes: Array | None,
        d: int,
        rng: np.random.RandomState,
        *,
        covariance: Array | None = None,
    ) -> None:
        """Blend, factor, reduce, and keep the dtype of the caller. `covariance` is that of all rows where X is a
        sample of them.
        """
        name = type(self).__name__
        if not np.isfinite(matrix).all():
            raise NotFiniteError(
                f"{name} must end with finite numbers, got NaN or infinity. Standardise the features or raise the "
                f"regularization."
            )
        if not np.any(matrix):
            warnings.warn(
                f"{name} found no direction that separates, and falls back to the Euclidean distance.",
                NearerWarning,
                stacklevel=3,
            )
            matrix = np.eye(len(matrix))
        self.blend_ = self._choose_blend(X, codes, matrix, rng)
        if covariance is None:
            # Whoever fits on all rows begins anew.
            self.__dict__.pop("_moments", None)
        if self.blend_ == 0 and d >= len(matrix):
            components = factor_psd(matrix)
        else:
            covariance = total_scatter(X) / X.shape[0] if covariance is None else covariance
            components = reduce_components(
                factor_psd(mix_with_identity(matrix, covariance, self.blend_)), covariance, d
            )
        self.components_ = components.astype(X.dtype, copy=False)


class PairSupervision:
    """Adds `fit_pairs` to a matrix learner with `_learn_pairs`; the threshold is calibrated on the same pairs."""

    def _learn_pairs(self, X: Any, pairs: Array, similar: Array, rng: np.random.RandomState) -> Array:
        raise NotImplementedError

    def fit_pairs(self: Any, X: Any, pairs: Any, similar: Any) -> Any:
        """Learn from `pairs` (m, 2) of row numbers of X and answers `similar` (m,), +1 or −1; sets `threshold_`."""
        X, pairs = self._check_tuples(X, pairs, "pairs", 2)
        answers = as_similar(similar, len(pairs))
        if answers.all() or not answers.any():
            kind = "similar" if answers.all() else "dissimilar"
            raise LabelError(f"`similar` must hold both kinds of pairs, got {len(pairs)} pairs, all {kind}.")
        d = self._check_targets(X.shape[1])
        rng = check_random_state(self.random_state)
        self._finish(self._learn_pairs(X, pairs, answers, rng), X, None, d, rng)
        projected = take_differences(X, pairs[:, 0], pairs[:, 1]) @ self.components_.T.astype(np.float64)
        self.threshold_ = best_threshold(np.sqrt(np.square(projected).sum(axis=1)), answers)
        return self


class TripletSupervision:
    """Adds `fit_triplets` to a matrix learner with `_learn_triplets`."""

    def _learn_triplets(self, X: Any, triplets: Array, rng: np.random.RandomState) -> Array:
        raise NotImplementedError

    def fit_triplets(self: Any, X: Any, triplets: Any) -> Any:
        """Learn from `triplets` (m, 3) of row numbers of X: the first is nearer to the second than to the third."""
        return self._fit_tuples(X, triplets, "triplets", self._learn_triplets)


class QuadrupletSupervision:
    """Adds `fit_quadruplets` to a matrix learner with `_learn_quadruplets`."""

    def _learn_quadruplets(self, X: Any, quadruplets: Array, rng: np.random.RandomState) -> Array:
        raise NotImplementedError

    def fit_quadruplets(self: Any, X: Any, quadruplets: Any) -> Any:
        """Learn from `quadruplets` (m, 4) of row numbers: the first two are nearer than the last two."""
        return self._fit_tuples(X, quadruplets, "quadruplets", self._learn_quadruplets)


def nonzero_pairs(delta: Array, name: str) -> Array:
    """Which differences (m, p) are not zero; refuses when none is left."""
    kept: Array = np.square(delta).sum(axis=1) > 0
    if not kept.any():
        raise ShapeError(f"{name} must see two rows that differ, got only pairs of equal rows.")
    return kept
