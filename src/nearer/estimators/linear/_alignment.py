"""A map from one embedding space into another, learned from the same items in both."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from scipy import linalg
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from nearer._checks import check_number
from nearer.estimators._learner import FLOATS, RowMap, fitted_rows
from nearer.estimators._matrices import Array, have_unit_length, ridged, root_and_inverse_root
from nearer.exceptions import ShapeError
from nearer.geometry import normalize
from nearer.neighbors import search

STRENGTHS = tuple(float(value) for value in 10.0 ** np.arange(-4, 1.5, 0.5))
# The linear map, and kernels whose width is a part of the mean squared distance of two items.
WIDTHS = (0.0, 0.5, 1.0, 2.0)
FOLDS = 5
# Neighbors that are compared, the items that it takes to compare them, and the items that the choice looks at.
NEAR = 10
FEWEST = 25
MOST_ASKED = 1_500
# Items that a kernel map is made of: a transform compares with each, and the fit takes their cube.
MOST_LANDMARKS = 4_000


@dataclass(eq=False, repr=False)
class Alignment(RowMap):
    """Ridge regression `y ≈ φ(x)A + m'`, so that embeddings of one encoder can be searched with those of another.

    X (n, p) and Y (n, q) are the same n items in both spaces -> (n, q). φ is the centred row, or the values
    `exp(−γ‖x − x_i‖²)` of a Gaussian kernel at the items that taught it. Both γ and the strength of the ridge are
    those whose mapped rows come nearest to the rows of Y, on five folds; a kernel must come nearer than the linear
    map by more than a standard error. Rows of length one in Y give rows of length one.

    With `whiten` the rows meet in a third space, `(y − m)(C + t·I)^−½` at length one: C and m are covariance and
    mean of Y, t the mean eigenvalue of C. `transform_target` takes the rows of Y there.

    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> Y = X @ [[0.0, 2.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 3.0]] + 5
    >>> alignment = Alignment(random_state=0).fit(X, Y)
    >>> np.abs(alignment.transform(X) - Y).max() < 1e-2, alignment.width_, alignment.kept_
    (np.True_, 0.0, 1.0)

    Args:
        strength: of the ridge, in units of the mean eigenvalue of what is regularised; None chooses it.
        width: γ in units of one over the mean squared distance of two items, 0 for the linear map; None chooses it.
        whiten: whether the rows meet in the whitened space of Y.
        random_state: draws the folds, and the items of a kernel where there are more than 4,000.

    Attributes:
        coefficients_: A, (p, q) of the linear map, (m, q) of a kernel with m items.
        landmarks_: the items of the kernel (m, p); None for the linear map.
        mean_: the mean row of X, (p,).
        target_mean_: m', (q,).
        center_: m, (q,); None without `whiten`.
        whitening_: (C + t·I)^−½, (q, q); None without `whiten`.
        unit_: whether mapped rows are brought to length one.
        width_: as given or as chosen.
        strength_: as given or as chosen.
        errors_: the mean squared distance of mapped rows to theirs, of each pair (width, strength), on folds that
            did not teach the map.
        kept_: the share of the 10 nearest neighbors in Y that mapped rows have, on the same folds; nan with
            fewer than 25 items.
        kept_error_: its standard error.
        before_: the share that the rows of X have by themselves: how alike the two spaces are.
        n_features_in_: columns of the X it was fitted on.
    """

    strength: float | None = None
    _: KW_ONLY
    width: float | None = None
    whiten: bool = False
    random_state: Any = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the map from the rows of X to those of y, (n, p) and (n, q): the same items, in the same order."""
        X, Y = validate_data(self, X, y, dtype=FLOATS, multi_output=True, y_numeric=True, ensure_min_samples=2)
        Y = np.asarray(Y[:, None] if Y.ndim == 1 else Y)
        Y = Y if Y.dtype.kind == "f" else Y.astype(np.float64)
        given, self.center_, self.whitening_ = Y, None, None
        if self.whiten:
            self.center_ = Y.mean(axis=0, dtype=np.float64)
            covariance = np.cov(Y.astype(np.float64), rowvar=False, bias=True).reshape(Y.shape[1], -1)
            mean = np.full(len(covariance), np.trace(covariance) / len(covariance))
            self.whitening_ = root_and_inverse_root(ridged(covariance, mean, 1.0))[1]
            Y = self._meet(Y)
        self.unit_ = self.whiten or (Y.shape[1] > 1 and have_unit_length(Y))
        strengths = STRENGTHS if self.strength is None else (check_number(self.strength, "strength", above=0),)
        widths = WIDTHS if self.width is None else (check_number(self.width, "width", minimum=0),)
        rng = check_random_state(self.random_state)
        self.errors_: dict[tuple[float, float], float] = {}
        self.kept_ = self.kept_error_ = self.before_ = float("nan")
        self.width_, self.strength_ = widths[0], strengths[-1]
        order = rng.permutation(len(X))
        if len(X) > 2 * FOLDS:
            asked = order[:MOST_ASKED]
            self._judge(X[asked], Y[asked], given[asked], widths, strengths)
        taught = np.sort(order[:MOST_LANDMARKS]) if self.width_ else np.arange(len(X))
        (made,) = _ridges(X[taught], Y[taught], self.width_, (self.strength_,))
        self.mean_, self.target_mean_ = made.mean.astype(X.dtype), made.target_mean.astype(X.dtype)
        self.landmarks_, self.coefficients_ = made.landmarks, made.coefficients.astype(X.dtype)
        self._map = made
        return self

    def transform(self, X: Any) -> Array:
        """Rows of the first space in the second, (n, p) -> (n, q)."""
        X = fitted_rows(self, X)
        return self._map.rows(X, self.unit_)

    def transform_target(self, Y: Any) -> Array:
        """Rows of the second space as they ask the mapped ones, (n, q) -> (n, q): whitened, or as they are."""
        check_is_fitted(self)
        rows = check_array(Y, dtype=FLOATS)
        if rows.shape[1] != len(self.target_mean_):
            raise ShapeError(f"`Y` must have {len(self.target_mean_)} columns, got {rows.shape[1]}.")
        return rows if self.whitening_ is None else self._meet(rows)

    def _meet(self, Y: Array) -> Array:
        return np.asarray(normalize((Y - self.center_) @ self.whitening_).numpy(), dtype=Y.dtype)

    @property
    def _n_features_out(self) -> int:
        return len(self.target_mean_)

    def _judge(
        self, X: Array, Y: Array, given: Array, widths: tuple[float, ...], strengths: tuple[float, ...]
    ) -> None:
        """The map that comes nearest to rows that did not teach it, and the neighbors in `given` that it keeps."""
        everyone = np.arange(len(X))
        folds = np.array_split(everyone, max(2, min(FOLDS, len(X) // (NEAR + 2))))
        errors: dict[tuple[float, float], list[Array]] = {
            (width, strength): [] for width in widths for strength in strengths
        }
        for fold in folds:
            rest = np.setdiff1d(everyone, fold)
            for width in widths:
                for strength, made in zip(strengths, _ridges(X[rest], Y[rest], width, strengths), strict=True):
                    rows = made.rows(X[fold], self.unit_)
                    errors[width, strength].append(np.square(rows - Y[fold]).sum(axis=1))
        missed = {choice: np.concatenate(parts) for choice, parts in errors.items()}
        self.errors_ = {choice: float(each.mean()) for choice, each in missed.items()}
        best = [min(((width, each) for each in strengths), key=self.errors_.__getitem__) for width in widths]
        taken = best[0]
        for other in best[1:]:
            nearer = missed[taken] - missed[other]
            if nearer.mean() > standard_error(nearer):
                taken = other
        self.width_, self.strength_ = taken
        if len(X) < FEWEST:
            return
        kept, before = [], []
        for fold in folds:
            rest = np.setdiff1d(everyone, fold)
            (made,) = _ridges(X[rest], Y[rest], self.width_, (self.strength_,))
            rows = made.rows(X[fold], self.unit_)
            wanted = _neighbors(given[fold], given[fold])
            # As in use: the queries are embedded anew, the items that are searched in were mapped.
            kept.append(_shared(wanted, _neighbors(Y[fold], rows.astype(Y.dtype))))
            before.append(_shared(wanted, _neighbors(X[fold], X[fold])))
        shares = np.concatenate(kept)
        self.kept_, self.kept_error_ = float(shares.mean()), standard_error(shares)
        self.before_ = float(np.concatenate(before).mean())


@dataclass(frozen=True, eq=False)
class _Ridge:
    """One fitted map."""

    mean: Array
    target_mean: Array
    gamma: float
    landmarks: Array | None
    coefficients: Array

    def rows(self, X: Array, unit: bool) -> Array:
        inputs = X - self.mean if self.landmarks is None else rbf_kernel(X, self.landmarks, gamma=self.gamma)
        mapped = inputs @ self.coefficients + self.target_mean
        if unit:
            mapped = normalize(mapped).numpy()
        return np.asarray(mapped, dtype=X.dtype)


def _ridges(X: Array, Y: Array, width: float, strengths: tuple[float, ...]) -> list[_Ridge]:
    """The ridge regression of every strength, from one decomposition: of the scatter, or of the kernel."""
    mean, target_mean = (rows.mean(axis=0, dtype=np.float64) for rows in (X, Y))
    centered, target = X.astype(np.float64) - mean, Y.astype(np.float64) - target_mean
    spread = 2 * float(np.square(centered).sum()) / len(X)
    gamma = width / spread if spread > 0 else 0.0
    if gamma:
        landmarks: Array | None = X.astype(np.float64)
        matrix, wanted = rbf_kernel(landmarks, gamma=gamma), target
    else:
        landmarks, matrix, wanted = None, centered.T @ centered, centered.T @ target
    values, vectors = linalg.eigh(matrix)
    values, turned = values.clip(min=0), vectors.T @ wanted
    unit = max(float(values.mean()), np.finfo(np.float64).tiny)
    return [
        _Ridge(mean, target_mean, gamma, landmarks, vectors @ (turned / (values + strength * unit)[:, None]))
        for strength in strengths
    ]


def _neighbors(queries: Array, database: Array) -> Array:
    near = search(queries, database, min(NEAR, len(queries) - 1), own=np.arange(len(queries)))
    return near.indices.numpy()


def _shared(first: Array, second: Array) -> Array:
    """The share of row i of `first` that is in row i of `second`, (n,)."""
    return np.asarray((first[:, :, None] == second[:, None, :]).any(axis=2).mean(axis=1))


def standard_error(values: Array) -> float:
    """Of their mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values)))
