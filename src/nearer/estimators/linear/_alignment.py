"""A map from one embedding space into another, learned from the same items in both."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from scipy import linalg
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from nearer._checks import check_number
from nearer.estimators._learner import FLOATS, RowMap, fitted_rows
from nearer.estimators._matrices import Array
from nearer.geometry import normalize
from nearer.neighbors import search

STRENGTHS = tuple(float(value) for value in 10.0 ** np.arange(-4, 1.5, 0.5))
# The linear map, and kernels whose width is a part of the mean squared distance of two items.
WIDTHS = (0.0, 0.5, 1.5)
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
    those whose mapped rows keep most of the 10 nearest neighbors that the items have in Y, on five folds; a kernel
    must be better than the linear map by more than a standard error. Rows of length one in Y give rows of length
    one.

    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> Y = X @ [[0.0, 2.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 3.0]] + 5
    >>> alignment = Alignment(random_state=0).fit(X, Y)
    >>> np.abs(alignment.transform(X) - Y).max() < 1e-2, alignment.width_, alignment.kept_
    (np.True_, 0.0, 1.0)

    Args:
        strength: of the ridge, in units of the mean eigenvalue of what is regularised; None chooses it.
        width: γ in units of one over the mean squared distance of two items, 0 for the linear map; None chooses it.
        random_state: draws the folds, and the items of a kernel where there are more than 4,000.

    Attributes:
        coefficients_: A, (p, q) of the linear map, (m, q) of a kernel with m items.
        landmarks_: the items of the kernel (m, p); None for the linear map.
        mean_: the mean row of X, (p,).
        target_mean_: m', (q,).
        unit_: whether mapped rows are brought to length one.
        width_: as given or as chosen.
        strength_: as given or as chosen.
        scores_: the share of neighbors that each pair (width, strength) kept.
        kept_: the share of the 10 nearest neighbors in Y that mapped rows have, on folds that did not teach the
            map; nan with fewer than 25 items.
        kept_error_: its standard error.
        before_: the share that the rows of X have by themselves: how alike the two spaces are.
        n_features_in_: columns of the X it was fitted on.
    """

    strength: float | None = None
    _: KW_ONLY
    width: float | None = None
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
        self.unit_ = bool(Y.shape[1] > 1 and np.allclose(np.linalg.norm(Y, axis=1), 1, atol=1e-3))
        strengths = STRENGTHS if self.strength is None else (check_number(self.strength, "strength", above=0),)
        widths = WIDTHS if self.width is None else (check_number(self.width, "width", minimum=0),)
        rng = check_random_state(self.random_state)
        self.scores_: dict[tuple[float, float], float] = {}
        self.kept_ = self.kept_error_ = self.before_ = float("nan")
        self.width_, self.strength_ = widths[0], strengths[-1]
        order = rng.permutation(len(X))
        if len(X) > 2 * FOLDS:
            self._judge(X[order[:MOST_ASKED]], Y[order[:MOST_ASKED]], widths, strengths)
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

    @property
    def _n_features_out(self) -> int:
        return len(self.target_mean_)

    def _judge(self, X: Array, Y: Array, widths: tuple[float, ...], strengths: tuple[float, ...]) -> None:
        """The map that keeps most neighbors of rows that did not teach it, and what it keeps."""
        choices = [(width, strength) for width in widths for strength in strengths]
        kept: dict[tuple[float, float], list[Array]] = {choice: [] for choice in choices}
        missed, before = dict.fromkeys(choices, 0.0), []
        for fold in np.array_split(np.arange(len(X)), max(2, min(FOLDS, len(X) // (NEAR + 2)))):
            rest = np.setdiff1d(np.arange(len(X)), fold)
            wanted = _neighbors(Y[fold], Y[fold])
            before.append(_shared(wanted, _neighbors(X[fold], X[fold])))
            for width in widths:
                for strength, made in zip(strengths, _ridges(X[rest], Y[rest], width, strengths), strict=True):
                    rows = made.rows(X[fold], self.unit_)
                    # As in use: the queries are embedded anew, the items that are searched in were mapped.
                    kept[width, strength].append(_shared(wanted, _neighbors(Y[fold], rows.astype(Y.dtype))))
                    missed[width, strength] += float(np.square(rows - Y[fold]).sum())
        shares = {choice: np.concatenate(parts) for choice, parts in kept.items()}
        self.scores_ = {choice: float(share.mean()) for choice, share in shares.items()}
        # Few items have few neighbors to lose: of equal ones the map that comes nearest.
        best = [
            max(((width, each) for each in strengths), key=lambda pair: (self.scores_[pair], -missed[pair]))
            for width in widths
        ]
        taken = best[0]
        for other in best[1:]:
            gain = shares[other] - shares[taken]
            if gain.mean() > standard_error(gain):
                taken = other
        self.width_, self.strength_ = taken
        if len(X) >= FEWEST:
            self.kept_, self.kept_error_ = self.scores_[taken], standard_error(shares[taken])
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
