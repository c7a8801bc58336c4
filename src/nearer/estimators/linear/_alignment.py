"""A linear map from one embedding space into another, learned from the same items in both."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy import linalg
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from nearer._checks import check_number
from nearer.estimators._matrices import Array
from nearer.geometry import normalize
from nearer.neighbors import search

__all__ = ["Alignment"]

STRENGTHS = tuple(float(value) for value in 10.0 ** np.arange(-5, 2.5, 0.5))
FOLDS = 5
# Neighbors that are compared, and the items that it takes to compare them.
NEAR = 10
FEWEST = 25


class Alignment(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """`y ≈ (x − m)A + m'` by ridge regression, so that embeddings of one encoder can be searched with another's.

    X (n, p) and Y (n, q) are the same n items in both spaces -> (n, q). The strength of the ridge, in units of the
    mean variance of X, is the one whose mapped rows keep most of the 10 nearest neighbors that the items of Y have,
    on five folds. Rows of length one in Y give rows of length one.

    Reference: Mikolov, Le, Sutskever (2013) map words between languages this way.

    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> Y = X @ [[0.0, 2.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 3.0]] + 5
    >>> alignment = Alignment(random_state=0).fit(X, Y)
    >>> np.abs(alignment.transform(X) - Y).max() < 1e-3, alignment.kept_
    (np.True_, 1.0)

    Args:
        strength: of the ridge; None chooses it.
        random_state: draws the folds.

    Attributes:
        components_: the linear map (q, p).
        mean_: what is subtracted before it, (p,).
        target_mean_: what is added after it, (q,).
        unit_: whether mapped rows are brought to length one.
        strength_: of the ridge, as given or as chosen.
        scores_: the share of neighbors that each strength kept, by strength.
        kept_: the share of the 10 nearest neighbors in Y that mapped rows have, on folds that did not teach the
            map; nan with fewer than 25 items.
        kept_error_: its standard error.
        before_: the share that the rows of X have by themselves: how alike the two spaces are.
        n_features_in_: columns of the X it was fitted on.
    """

    def __init__(self, strength: float | None = None, *, random_state: Any = None) -> None:
        self.strength = strength
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the map from the rows of X to those of y, (n, p) and (n, q): the same items, in the same order."""
        X, Y = validate_data(
            self, X, y, dtype=[np.float64, np.float32], multi_output=True, y_numeric=True, ensure_min_samples=2
        )
        Y = np.asarray(Y[:, None] if Y.ndim == 1 else Y)
        Y = Y if Y.dtype.kind == "f" else Y.astype(np.float64)
        self.unit_ = bool(Y.shape[1] > 1 and np.allclose(np.linalg.norm(Y, axis=1), 1, atol=1e-3))
        strengths = STRENGTHS if self.strength is None else (check_number(self.strength, "strength", above=0.0),)
        self.scores_: dict[float, float] = {}
        self.kept_ = self.kept_error_ = self.before_ = float("nan")
        self.strength_ = strengths[-1]
        if len(X) > 2 * FOLDS:
            self._judge(X, Y, strengths)
        mean, target_mean, (components,) = _maps(X, Y, (self.strength_,))
        self.mean_, self.target_mean_ = mean.astype(X.dtype), target_mean.astype(X.dtype)
        self.components_ = np.ascontiguousarray(components.T).astype(X.dtype)
        return self

    def transform(self, X: Any) -> Array:
        """Rows of the first space in the second, (n, p) -> (n, q)."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        return _mapped(X, self.mean_, self.target_mean_, self.components_.T, self.unit_)

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def _judge(self, X: Array, Y: Array, strengths: tuple[float, ...]) -> None:
        """The strength that keeps most neighbors of rows that did not teach it, and what it keeps."""
        order = check_random_state(self.random_state).permutation(len(X))
        kept: dict[float, list[Array]] = {strength: [] for strength in strengths}
        missed, before = dict.fromkeys(strengths, 0.0), []
        for fold in np.array_split(order, max(2, min(FOLDS, len(X) // (NEAR + 2)))):
            rest = np.setdiff1d(order, fold)
            mean, target_mean, maps = _maps(X[rest], Y[rest], strengths)
            wanted = _neighbors(Y[fold], Y[fold])
            before.append(_shared(wanted, _neighbors(X[fold], X[fold])))
            for strength, components in zip(strengths, maps, strict=True):
                rows = _mapped(X[fold], mean, target_mean, components, self.unit_)
                # As in use: the queries are embedded anew, the items that are searched in were mapped.
                kept[strength].append(_shared(wanted, _neighbors(Y[fold], rows.astype(Y.dtype))))
                missed[strength] += float(np.square(rows - Y[fold]).sum())
        shares = {strength: np.concatenate(parts) for strength, parts in kept.items()}
        self.scores_ = {strength: float(share.mean()) for strength, share in shares.items()}
        # Few items have few neighbors to lose: of equal ones the map that comes nearest.
        self.strength_ = max(strengths, key=lambda strength: (self.scores_[strength], -missed[strength]))
        if len(X) >= FEWEST:
            best = shares[self.strength_]
            self.kept_, self.before_ = float(best.mean()), float(np.concatenate(before).mean())
            self.kept_error_ = float(best.std(ddof=1) / np.sqrt(len(best)))


def _maps(X: Array, Y: Array, strengths: tuple[float, ...]) -> tuple[Array, Array, list[Array]]:
    """Both means, and the ridge regression (p, q) of every strength, from one decomposition."""
    mean, target_mean = (rows.mean(axis=0, dtype=np.float64) for rows in (X, Y))
    centered = X.astype(np.float64) - mean
    values, vectors = linalg.eigh(centered.T @ centered)
    values = values.clip(min=0)
    turned = vectors.T @ (centered.T @ (Y.astype(np.float64) - target_mean))
    unit = max(values.mean(), np.finfo(np.float64).tiny)
    return mean, target_mean, [vectors @ (turned / (values + one * unit)[:, None]) for one in strengths]


def _mapped(X: Array, mean: Array, target_mean: Array, components: Array, unit: bool) -> Array:
    rows = (X - mean) @ components + target_mean
    if unit:
        rows = normalize(rows).numpy()
    return np.asarray(rows, dtype=X.dtype)


def _neighbors(queries: Array, database: Array) -> Array:
    near = search(queries, database, min(NEAR, len(queries) - 1), own=np.arange(len(queries)))
    indices: Array = near.indices.numpy()
    return indices


def _shared(one: Array, other: Array) -> Array:
    """The share of row i of `one` that is in row i of `other`, (n,)."""
    return np.asarray((one[:, :, None] == other[:, None, :]).any(axis=2).mean(axis=1))
