"""Linear discriminant analysis: the directions along which the class means differ most beside the spread inside."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from nearer._checks import check_number
from nearer.estimators._learner import MetricLearner
from nearer.exceptions import LabelError, ParameterError


@dataclass(eq=False, repr=False)
class LDA(MetricLearner):
    """Linear discriminant analysis as a metric, X (n, p) -> (n, d), d at most one less than the classes.

    The rows of A whiten the spread inside classes and are sorted by how far they separate the class means, so that
    `‖A(a − b)‖` is the Mahalanobis distance inside classes along them. By scikit-learn, in double precision.

    >>> X = np.array([[-9.0, 0], [9, 0], [-9, 2], [9, 2.1]])
    >>> LDA().fit(X, ["a", "a", "b", "b"]).transform(X).shape
    (4, 1)

    Args:
        n_components: directions kept; all if None.
        shrinkage: share of the identity in the spread inside classes; "auto" takes Ledoit's and Wolf's, None none.

    Attributes:
        components_: the linear map (d, p).
        classes_: the classes.
        n_features_in_: columns of the X it was fitted on.
    """

    n_components: int | None = None
    _: KW_ONLY
    shrinkage: float | Literal["auto"] | None = None

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the directions from rows (n, p) and their classes (n,)."""
        shrinkage = self.shrinkage
        if isinstance(shrinkage, str) and shrinkage != "auto":
            raise ParameterError(f'`shrinkage` must be "auto", None or between 0 and 1, got {shrinkage!r}.')
        if shrinkage is not None and shrinkage != "auto":
            shrinkage = check_number(shrinkage, "shrinkage", minimum=0.0, maximum=1.0)
        X, codes = self._check_labeled(X, y)
        n, n_classes = len(codes), len(self.classes_)
        if not 2 <= n_classes < n:
            raise LabelError(f"`y` must name two classes or more, and fewer than the {n} rows, got {n_classes}.")
        most = min(self._check_targets(X.shape[1]), n_classes - 1)
        solver = LinearDiscriminantAnalysis(
            solver="svd" if shrinkage is None else "eigen", shrinkage=shrinkage, n_components=None
        )
        with warnings.catch_warnings():
            # Columns that depend on each other are no error: they have no direction of their own.
            warnings.filterwarnings("ignore", message="Variables are collinear")
            warnings.filterwarnings("ignore", category=RuntimeWarning)
            try:
                scalings = solver.fit(X.astype(np.float64), codes).scalings_
            except (np.linalg.LinAlgError, IndexError) as error:  # scikit-learn takes the first of no directions
                raise LabelError(
                    "The rows must vary inside their classes, and do not. Set `shrinkage` above 0, or leave out "
                    "columns that are constant inside every class."
                ) from error
        if not scalings.size or not np.isfinite(scalings).all():
            raise LabelError("The class means must differ and the rows vary inside their classes.")
        self.components_ = np.ascontiguousarray(scalings[:, :most].T, dtype=X.dtype)
        return self
