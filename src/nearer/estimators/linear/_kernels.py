"""Kernel forms of the linear learners through one mechanism: map the rows, then learn in the space of the map.

A kernel `k(a, b) = ⟨φ(a), φ(b)⟩` restricted to m landmark rows has coordinates `φ̂(x) = K_mm^{−½} k_m(x)`. With
all n rows as landmarks (m = n) every linear learner on φ̂ is exactly its kernel form on the training rows (the
representer theorem); with fewer it is the Nyström approximation, and memory is O(n·m) instead of O(n²).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
from scipy import linalg
from sklearn.base import clone
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from nearer._checks import check_choice, check_int, check_number
from nearer.estimators._learner import FLOATS, MapLearner, fitted_rows
from nearer.estimators._matrices import Array, symmetric
from nearer.estimators.linear._gmml import GMML
from nearer.exceptions import NotFiniteError, ShapeError

# Squares of larger entries do not fit into float32.
_WIDE = 1e15

Kernel = Literal["rbf", "poly", "linear", "precomputed"]


def kernel_map(gram: Array) -> Array:
    """`K^{−½}` on the directions that K (m, m) has, as columns (m, r): `k_m(x) @ map` are coordinates of φ(x).

    Eigenvalues that the rounding of K could have made are dropped: below m·1e-10 (float32: m·eps) of the largest.

    >>> kernel_map(np.diag([4.0, 0.0])) + 0.0
    array([[0.5],
           [0. ]])
    """
    values, vectors = linalg.eigh(symmetric(np.asarray(gram, dtype=np.float64)))
    rounding = max(1e-10, float(np.finfo(gram.dtype).eps))
    kept = values > max(float(values[-1]), 0.0) * len(values) * rounding
    if not kept.any():
        raise ShapeError(
            "the kernel must tell rows apart, got a kernel matrix of zeros. Change `gamma` or the kernel."
        )
    values, vectors = values[kept][::-1], vectors[:, kept][:, ::-1]
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])])
    return vectors * (signs / np.sqrt(values))


@dataclass(eq=False, repr=False)
class KernelLearner(MapLearner):
    """Any linear learner in the space of a kernel: `KernelLearner(LMNN())`, `KernelLearner(NCA())`.

    `kernel` is "rbf" (`exp(−γ‖a − b‖²)`, γ = 1/(p·var X) by default), "poly" (`(γ a·b + 1)^degree`), "linear", or
    "precomputed": X is then the kernel matrix (n, n), and `transform` and the function of `get_metric` take kernels
    to the training rows.
    `n_landmarks` rows (all when None) carry the map.

    >>> X = np.array([[0.0], [0.1], [2.0], [2.1], [-2.0], [-2.1]])
    >>> learner = KernelLearner(GMML(), gamma=1.0).fit(X, [0, 0, 1, 1, 1, 1])
    >>> near, far = learner.pair_distance(X[[2, 2]], X[[4, 0]])
    >>> bool(near < far)
    True

    Args:
        learner: the linear learner that works in the kernel space; GMML if None.
        kernel: "rbf", "poly", "linear" or "precomputed".
        gamma: width of the kernel; None is one over the number of columns times the variance of X.
        degree: of the polynomial kernel.
        n_landmarks: rows that span the kernel space; None takes all.
        random_state: seed or generator for everything that is drawn; None takes numpy's own.

    Attributes:
        learner_: the fitted learner.
        map_: from values of the kernel at the landmarks to rows, (m, r).
        landmarks_: the landmarks themselves, (m, p); not for "precomputed".
        landmark_rows_: row numbers of the landmarks, (m,).
        gamma_: the width of the kernel that was used; not for "precomputed".
        n_iter_: iterations of the learner; only where it counts them.
        n_features_in_: columns of the X it was fitted on.
    """

    learner: Any = None
    _: KW_ONLY
    kernel: Kernel = "rbf"
    gamma: float | None = None
    degree: int = 3
    n_landmarks: int | None = None
    random_state: Any = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def _learner(self) -> Any:
        return GMML(random_state=self.random_state) if self.learner is None else clone(self.learner)

    def fit(self, X: Any, y: Any) -> Self:
        """Choose landmarks, map the rows, and fit the learner on the mapped rows."""
        kernel = check_choice(self.kernel, "kernel", ["rbf", "poly", "linear", "precomputed"])
        X, y = validate_data(self, X, y, dtype=FLOATS, ensure_min_samples=2)
        n = X.shape[0]
        self._forget_threshold()
        if kernel == "precomputed" and X.shape[1] != n:
            raise ShapeError(f"a precomputed kernel must be a square matrix, got shape {X.shape}.")
        m = n if self.n_landmarks is None else min(check_int(self.n_landmarks, "n_landmarks"), n)
        rows = np.arange(n) if m == n else np.sort(check_random_state(self.random_state).permutation(n)[:m])
        self.landmark_rows_ = rows
        if kernel != "precomputed":
            with np.errstate(over="ignore"):
                variance = float(X.var(dtype=np.float64))
            default = 1 / (X.shape[1] * variance) if variance > 0 else 1.0
            self.gamma_ = default if self.gamma is None else check_number(self.gamma, "gamma", above=0)
            self.landmarks_ = X[rows]
        # In float64 for rows of float32 too: their rounding would add directions that no row has.
        gram = X[np.ix_(rows, rows)] if kernel == "precomputed" else self._kernel(X[rows].astype(np.float64))
        self.map_ = kernel_map(gram).astype(X.dtype, copy=False)
        self.learner_ = self._learner().fit(self._embed(X), y)
        if hasattr(self.learner_, "n_iter_"):
            self.n_iter_ = self.learner_.n_iter_
        return self

    def _kernel(self, X: Array) -> Array:
        options: dict[str, Any] = {} if self.kernel == "linear" else {"gamma": self.gamma_}
        if self.kernel == "poly":
            options |= {"degree": check_int(self.degree, "degree"), "coef0": 1.0}
        landmarks = self.landmarks_
        if X.dtype == np.float32 and max(float(abs(X).max()), float(abs(landmarks).max())) > _WIDE:
            X, landmarks = X.astype(np.float64), landmarks.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            try:
                kernel = np.asarray(pairwise_kernels(X, landmarks, metric=self.kernel, **options))
            except ValueError:  # scikit-learn refuses some of what it makes itself
                kernel = np.array(np.nan)
        if not np.isfinite(kernel).all():
            raise NotFiniteError(
                f"the {self.kernel} kernel must have finite entries, got NaN or infinity. Standardise the features."
            )
        return kernel

    def _embed(self, X: Array) -> Array:
        kernel = X[:, self.landmark_rows_] if self.kernel == "precomputed" else self._kernel(X)
        if kernel.dtype != X.dtype and self.kernel != "precomputed":
            kernel = kernel @ self.map_.astype(kernel.dtype)
            return np.asarray(kernel.astype(X.dtype))
        return kernel.astype(X.dtype, copy=False) @ self.map_

    @property
    def _n_features_out(self) -> int:
        return int(self.learner_._n_features_out)

    def transform(self, X: Any) -> Array:
        """Coordinates in which Euclidean distance is the learned one, (n, p) -> (n, d)."""
        rows = self._embed(fitted_rows(self, X))
        return np.asarray(self.learner_.transform(rows))

    def pair_distance(self, left: Any, right: Any) -> Array:
        """The learned distance of row i of `left` to row i of `right`, (m,)."""
        left, right = (self._embed(fitted_rows(self, side)) for side in (left, right))
        return np.asarray(self.learner_.pair_distance(left, right))

    def mahalanobis_matrix(self) -> Array:
        """M in the coordinates of the kernel map, (r, r)."""
        check_is_fitted(self)
        return np.asarray(self.learner_.mahalanobis_matrix())
