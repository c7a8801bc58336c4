"""k-NN with one map for queries and another for the database, both trained for the vote."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from nearer._checks import check_choice, check_number
from nearer.estimators import Euclidean, KernelLearner
from nearer.estimators._learner import check_components, fitted_rows
from nearer.estimators._matrices import Array
from nearer.estimators._scatter import class_means
from nearer.estimators._starts import Init, canonical_starts, start_components
from nearer.estimators.linear._kernels import Kernel
from nearer.estimators.neighbors._near import nearest_rows
from nearer.estimators.neighbors._neighborhood_fitting import check_settings, fit_maps, scale_to_margin
from nearer.estimators.neighbors._neighborhood_training import learn_maps
from nearer.exceptions import ShapeError
from nearer.losses._shared import Inference, RegularizerName
from nearer.neighbors import vote


def _other_side(database: Any, queries: Array) -> Array:
    database = check_array(database, dtype=[np.float64, np.float32], input_name="database")
    if len(database) != len(queries):
        raise ShapeError(
            f"`database` must have the {len(queries)} rows of `queries`, got {len(database)}. Row i of both is "
            f"the same item."
        )
    return np.asarray(database)


# How much of the mean variance is added before two views are whitened; held-out votes choose.
SHRINKS = (0.1, 0.01, 1.0)


@dataclass(eq=False, repr=False)
class AsymmetricKNN(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """k-NN under `D(x, x_i) = ‖U(x − m) − V(x_i − m')‖²`: U maps what is asked for, V what is stored.

    `fit(X, y)` learns both maps from one set, leave-one-out; `fit_views(queries, database, y)` from two
    descriptions of the same items, which may have different features. `predict` votes among the k nearest stored
    items; equal votes go to the class of the nearest. Index `transform_database(X)` in any Euclidean index and
    search it with `transform_queries(X)`.

    Minimises the mean of `NeighborhoodLoss` (exact inference on per-class lists) plus `regularization·Ω/Ω_start`,
    Ω the norm `regularizer`, by default `‖W‖_F²`. `margin` is the task loss in units of the typical squared
    distance to the k-th neighbour of the own class at the start. A share `validation` of the items is held out to
    find the number of epochs (at most `max_iter`), then all are fitted for as long. `n_iter_` says how long,
    `loss_` is the mean loss of the last epoch (NaN if the start was best), `validation_error_` the error of the
    held-out votes (NaN if none were). "grams" and "factors" of `regularizer` hold both maps by themselves, and the
    norms of one map hold that one only. `task_loss` (c, c), in the order of `classes_`, says what it costs to vote
    for the class of the column, 1 where it is wrong by default; `inference` "greedy" is the pass of the reference,
    which is not exact from three classes on. k is cut to n − 1.

    Reference: the asymmetric form of Trivedi, McAllester, Shakhnarovich (2014).

    >>> X = np.array([[0.0, 0], [0, 9], [1, 1], [1, 8], [0, 5], [1, 4]])
    >>> model = AsymmetricKNN(n_neighbors=1, max_iter=200, random_state=0).fit(X, ["a", "a", "b", "b", "a", "b"])
    >>> model.predict([[0.1, 8.1], [0.9, 0.0]])
    array(['a', 'b'], dtype='<U1')

    Args:
        n_components: dimensions to keep; None keeps all columns.
        n_neighbors: how many neighbors of a row count.
        margin: the task loss, in units of the typical squared distance to the k-th neighbor of the own class.
        regularization: strength of the penalty on the maps.
        regularizer: which penalty on the two maps.
        task_loss: what a wrong vote costs: 1, or a matrix of costs (c, c).
        inference: "exact" or "greedy" choice of neighbor sets.
        init: where to start: "auto", "identity", "pca", "lda" or a matrix. "auto" of two views are their canonical
            directions, whitened as held-out votes ask for.
        max_iter: the most iterations; a warning says when they did not suffice.
        lr: learning rate of the maps.
        validation: share of the rows held out to choose the best epoch.
        random_state: seed or generator for everything that is drawn; None takes numpy's own.
        verbose: 1 prints the iterations.

    Attributes:
        query_components_: the map of queries, (d, p).
        database_components_: the map of the database, (d, p).
        query_mean_: mean of the query rows, (p,).
        database_mean_: mean of the database rows, (p,).
        rows_: the mapped database rows, (n, d).
        codes_: the class number of every training row, (n,).
        k_: neighbors that are looked at: `n_neighbors`, or fewer where there are fewer rows.
        loss_: the mean loss of the last epoch.
        validation_error_: share of wrong votes on the rows held out; NaN without any.
        n_iter_: epochs that were made.
        classes_: the classes of y, (c,), sorted.
        n_features_in_: columns of the X it was fitted on.
    """

    n_components: int | None = None
    _: KW_ONLY
    n_neighbors: int = 3
    margin: float = 3.0
    regularization: float = 1e-2
    regularizer: RegularizerName = "squared_w"
    task_loss: Any = None
    inference: Inference = "exact"
    init: Init = "auto"
    max_iter: int = 30
    lr: float = 0.01
    validation: float = 0.2
    random_state: Any = None
    verbose: int = 0

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from rows X (n, p) that are queries and database at once, and their classes y (n,), of any type."""
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], ensure_min_samples=2)
        return self._fit(X, X, y)

    def fit_views(self, queries: Any, database: Any, y: Any) -> Self:
        """Learn from the same n items seen from two sides, (n, p) and (n, p'): row i of both is item i."""
        queries, y = validate_data(self, queries, y, dtype=[np.float64, np.float32], ensure_min_samples=2)
        return self._fit(queries, _other_side(database, queries), y)

    def _fit(self, queries: Array, database: Array, y: Any) -> Self:
        check_classification_targets(y)
        self.classes_, self.codes_ = np.unique(y, return_inverse=True)
        settings = check_settings(self, len(y), len(self.classes_), self.regularizer)
        self.k_ = settings.k
        margin = check_number(self.margin, "margin", above=0)
        share = check_number(self.validation, "validation", minimum=0, maximum=0.9)
        rng = check_random_state(self.random_state)
        self.query_mean_, self.database_mean_ = (
            side.mean(axis=0, dtype=np.float64) for side in (queries, database)
        )
        left = queries - self.query_mean_
        right = left if queries is database else database - self.database_mean_

        def start(rows: Array, shrink: float | None = None) -> tuple[Array, Array]:
            sides = left[rows], (left if queries is database else right)[rows]
            maps = self._start(*sides, self.codes_[rows], shrink, rng, one_view=queries is database)
            mapped = [side @ one for side, one in zip(sides, maps, strict=True)]
            scale = scale_to_margin(mapped[0], mapped[1], self.codes_[rows], settings.k, margin, rng)
            return maps[0] * scale, maps[1] * scale

        canonical = queries is not database and isinstance(self.init, str) and self.init == "auto"
        fitted = fit_maps(
            learn_maps,
            [partial(start, shrink=shrink) for shrink in SHRINKS] if canonical else [start],
            (left, right),
            self.codes_,
            settings,
            validation=share,
            rng=rng,
            verbose=self.verbose,
        )
        self.n_iter_, self.loss_, self.validation_error_ = fitted.epochs, fitted.loss, fitted.held_out_error
        self.query_components_, self.database_components_ = (
            side.T.astype(queries.dtype, copy=False) for side in (fitted.queries, fitted.database)
        )
        self.rows_ = self._map(database, self.database_mean_, self.database_components_)
        return self

    def _start(
        self,
        left: Array,
        right: Array,
        codes: Array,
        shrink: float | None,
        rng: np.random.RandomState,
        *,
        one_view: bool,
    ) -> tuple[Array, Array]:
        """U = V for one view; for two, canonical directions, or V by `init` and U by ridge regression.

        The regression is on the class means under V.
        """
        d = check_components(self.n_components, right.shape[1], of=" of the database")
        if shrink is not None:
            return canonical_starts(left, right, d, shrink)
        A = start_components(self.init, right, codes, d, rng)
        V = A.T
        if one_view:
            return V.copy(), V
        mapped = right @ V
        means = class_means(mapped, codes, np.maximum(np.bincount(codes), 1))
        gram = left.T @ left
        ridge = 1e-2 * float(np.trace(gram)) / len(gram) + 1e-12
        U = np.linalg.solve(gram + ridge * np.eye(len(gram)), left.T @ means[codes])
        return U, V

    @staticmethod
    def _map(X: Array, mean: Array, components: Array) -> Array:
        return np.asarray((X - mean.astype(X.dtype)) @ components.T.astype(X.dtype, copy=False))

    def transform_queries(self, X: Any) -> Array:
        """Rows to search with, (m, p) -> (m, d): `U(x − m)`."""
        X = fitted_rows(self, X)
        return self._map(X, self.query_mean_, self.query_components_)

    def transform_database(self, X: Any) -> Array:
        """Rows to index, (m, p') -> (m, d): `V(x − m')`."""
        check_is_fitted(self)
        X = check_array(X, dtype=[np.float64, np.float32], input_name="X")
        if X.shape[1] != self.database_components_.shape[1]:
            raise ShapeError(
                f"`X` must have the {self.database_components_.shape[1]} features of the database, got "
                f"{X.shape[1]}."
            )
        return self._map(X, self.database_mean_, self.database_components_)

    def predict(self, X: Any) -> Array:
        """The class with most votes, (m,); equal votes go to the class of the nearest neighbour."""
        mapped = self.transform_queries(X)
        near = self.codes_[nearest_rows(mapped, self.rows_.astype(mapped.dtype, copy=False), self.k_)]
        return self.classes_[vote(near)]


@dataclass(eq=False, repr=False)
class KernelAsymmetricKNN(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """`AsymmetricKNN` in the space of a kernel: `Ux → A·k(x)`, `Vx → B·k(x)`, with the norm of W in that space.

    Kernels and landmarks are those of `KernelLearner`; `learner=AsymmetricKNN(...)` sets the rest up. With all rows
    as landmarks it is the exact kernel form, with `n_landmarks` the Nyström one.

    >>> X = np.array([[0.0], [0.1], [0.2], [2.0], [2.1], [-2.0], [-2.1]])
    >>> model = KernelAsymmetricKNN(AsymmetricKNN(n_neighbors=1), gamma=1.0)
    >>> model.fit(X, [0, 0, 0, 1, 1, 1, 1]).predict([[-0.1], [2.2]])
    array([0, 1])

    Args:
        learner: the linear learner that works in the kernel space.
        kernel: "rbf", "poly", "linear" or "precomputed".
        gamma: width of the kernel; None is one over the number of columns.
        degree: of the polynomial kernel.
        n_landmarks: rows that span the kernel space; None takes all.
        random_state: seed or generator for everything that is drawn; None takes numpy's own.

    Attributes:
        map_: the fitted `KernelLearner` whose coordinates the queries get.
        database_map_: that of the database: the same one after `fit`.
        learner_: the fitted `AsymmetricKNN` in those coordinates.
        n_iter_: epochs that were made.
        classes_: the classes of y, (c,), sorted.
        n_features_in_: columns of the X it was fitted on.
    """

    learner: AsymmetricKNN | None = None
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

    def fit(self, X: Any, y: Any) -> Self:
        """Map the rows by the kernel, and fit the learner on the mapped rows."""
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], ensure_min_samples=2)
        return self._fit(X, X, y)

    def fit_views(self, queries: Any, database: Any, y: Any) -> Self:
        """Learn from the same n items seen from two sides, row i of both is item i; each side has a kernel."""
        queries, y = validate_data(self, queries, y, dtype=[np.float64, np.float32], ensure_min_samples=2)
        return self._fit(queries, _other_side(database, queries), y)

    def _fit(self, queries: Array, database: Array, y: Any) -> Self:
        check_choice(self.kernel, "kernel", ["rbf", "poly", "linear", "precomputed"])
        check_classification_targets(y)
        self.map_ = self._kernel_map().fit(queries, y)
        self.database_map_ = self.map_ if database is queries else self._kernel_map().fit(database, y)
        learner = AsymmetricKNN(random_state=self.random_state) if self.learner is None else clone(self.learner)
        mapped = self.map_.transform(queries)
        if database is queries:
            self.learner_ = learner.fit(mapped, y)
        else:
            self.learner_ = learner.fit_views(mapped, self.database_map_.transform(database), y)
        self.classes_, self.n_iter_ = self.learner_.classes_, self.learner_.n_iter_
        return self

    def _kernel_map(self) -> KernelLearner:
        return KernelLearner(
            Euclidean(),
            kernel=self.kernel,
            gamma=self.gamma,
            degree=self.degree,
            n_landmarks=self.n_landmarks,
            random_state=self.random_state,
        )

    def _embed(self, X: Any) -> Array:
        X = fitted_rows(self, X)
        return np.asarray(self.map_.transform(X))

    def transform_queries(self, X: Any) -> Array:
        """Rows to search with, (m, p) -> (m, d)."""
        rows = self._embed(X)
        return self.learner_.transform_queries(rows)

    def transform_database(self, X: Any) -> Array:
        """Rows to index, (m, p) -> (m, d)."""
        check_is_fitted(self)
        return self.learner_.transform_database(np.asarray(self.database_map_.transform(X)))

    def predict(self, X: Any) -> Array:
        """The class with most votes, (m,)."""
        rows = self._embed(X)
        return self.learner_.predict(rows)
