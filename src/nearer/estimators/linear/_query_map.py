"""A map for queries alone, learned from (query, document) pairs; what is searched in stays as it is."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from scipy import linalg
from sklearn.model_selection import GroupKFold
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from nearer._checks import check_number
from nearer.estimators._learner import FLOATS, RowMap, fitted_rows
from nearer.estimators._matrices import Array, have_unit_length
from nearer.estimators.linear._alignment import standard_error
from nearer.evaluation._paired import per_query_scores
from nearer.exceptions import ShapeError
from nearer.geometry import normalize

# A careful map first: with 100 to 3,000 clicks of BANKING77 and Cars-196 it was above the raw queries in the mean.
POWERS = (0.3, 0.5, 0.7)
FOLDS = 5
# Pairs and rows of the database that the choice looks at, and the pairs without which there is no choice.
MOST_ASKED, MOST_SEARCHED, FEWEST = 2_000, 20_000, 20


@dataclass(eq=False, repr=False)
class QueryMap(RowMap):
    """`q ↦ q·((1 − s)·S/t + s·I)^(−a)`, S the mean of (q − d)ᵀ(q − d) over pairs of a query q and its document d.

    X (m, p) are queries and y (m, p) the documents that belong to them, clicks for instance, in one space. S says
    in which directions queries differ from what they ask for; these count less afterwards, t is the mean eigenvalue
    of S. Only the query is mapped, so an index of the documents stays as it is, those behind a paid API too. Of
    three powers a, and of the queries as they are, the one is taken that finds the documents of pairs which did not
    teach it: a larger power must be better by more than two standard errors, and where no map is better than none,
    there is none (`power_` 0). Queries of length one keep that length.

    >>> rng = np.random.default_rng(0)
    >>> documents = rng.normal(size=(60, 2)) * [1.0, 4.0]
    >>> queries = documents + rng.normal(size=(60, 2)) * [0.1, 4.0]  # the second column says nothing
    >>> adapted = QueryMap(power=0.5).fit(queries, documents)
    >>> print(adapted.transform([[1.0, 1.0]]).round(1))
    [[1.3 0.8]]

    Args:
        power: a; None chooses it.
        shrink: s, how much of the identity there is in what is inverted.
        random_state: draws the pairs and rows that the choice looks at.

    Attributes:
        components_: the map, symmetric, (p, p).
        power_: as given or as chosen; 0 where the queries stay as they are.
        unit_: whether mapped queries are brought to length one.
        scores_: for every power that was tried, the mean of Recall@1, 2, 4 and 8 of the document of a pair.
        gain_: what the chosen map adds to that of the raw queries, on pairs that did not teach it; nan if too few.
        gain_error_: its standard error.
        n_features_in_: columns of the X it was fitted on.
    """

    _: KW_ONLY
    power: float | None = None
    shrink: float = 0.6
    random_state: Any = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any, *, database: Any = None) -> Self:
        """Learn the map from queries X (m, p) and the documents y (m, p) that belong to them.

        `database` (n, p) are more rows that are searched in, among which the documents have to be found; without it
        they are found among each other.
        """
        X, Y = validate_data(self, X, y, dtype=FLOATS, multi_output=True, y_numeric=True, ensure_min_samples=2)
        Y = np.asarray(Y, dtype=X.dtype).reshape(len(X), -1)
        if Y.shape[1] != X.shape[1]:
            raise ShapeError(
                f"`y` must have the {X.shape[1]} columns of `X`, got {Y.shape[1]}. Queries and documents come from "
                f"one encoder; `Alignment` maps one space into another."
            )
        self.unit_ = have_unit_length(np.concatenate([X, Y]))
        powers = POWERS if self.power is None else (check_number(self.power, "power", minimum=0),)
        shrink = check_number(self.shrink, "shrink", minimum=0, maximum=1)
        rng = check_random_state(self.random_state)
        self.scores_: dict[float, float] = {}
        self.gain_ = self.gain_error_ = float("nan")
        self.power_ = powers[0]
        if len(X) >= FEWEST:
            part = np.sort(rng.permutation(len(X))[:MOST_ASKED])
            self._judge(X[part], Y[part], _others(database, X, rng), powers, shrink)
        self.components_ = _maps(X, Y, (self.power_,), shrink)[0].astype(X.dtype)
        return self

    def transform(self, X: Any) -> Array:
        """Queries as they should be searched with, (n, p) -> (n, p)."""
        X = fitted_rows(self, X)
        return self._mapped(X, self.components_.astype(X.dtype, copy=False))

    def _mapped(self, X: Array, components: Array) -> Array:
        rows = X @ components
        return np.asarray(normalize(rows).numpy() if self.unit_ else rows, dtype=X.dtype)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _judge(self, X: Array, Y: Array, others: Array, powers: tuple[float, ...], shrink: float) -> None:
        """The power that finds most documents of pairs whose document taught it nothing."""
        documents, codes = np.unique(Y, axis=0, return_inverse=True)
        if len(documents) < 2:
            # Nothing can be found before another, so nothing says that a map helps.
            self.power_ = 0.0 if self.power is None else powers[0]
            return
        codes = codes.reshape(-1)
        # A document that is there twice would count twice among what is found before another.
        known = {row.tobytes() for row in documents}
        database = np.concatenate([documents, others[[row.tobytes() not in known for row in others]]])
        found = {power: np.empty(len(X)) for power in (0.0, *powers)}
        for rest, fold in GroupKFold(min(FOLDS, len(documents))).split(X, groups=codes):
            maps = _maps(X[rest], Y[rest], tuple(found), shrink)
            for power, components in zip(found, maps, strict=True):
                rows = self._mapped(X[fold], components.astype(X.dtype))
                each = per_query_scores(rows, codes[fold], database, np.arange(len(database)))
                recalls = [each[name] for name in each if name.startswith("recall")]
                found[power][fold] = np.mean(recalls, axis=0)
        self.scores_ = {power: float(values.mean()) for power, values in found.items()}
        taken = powers[0]
        for power in powers[1:]:
            more = found[power] - found[taken]
            if more.mean() > 2 * standard_error(more):
                taken = power
        gain = found[taken] - found[0.0]
        if self.power is None and gain.mean() <= 0:
            taken, gain = 0.0, np.zeros(len(X))
        self.power_, self.gain_, self.gain_error_ = taken, float(gain.mean()), standard_error(gain)


def _others(database: Any, X: Array, rng: np.random.RandomState) -> Array:
    """Some rows of the database beside the documents of the pairs."""
    if database is None:
        return X[:0]
    rows = np.ascontiguousarray(database, dtype=X.dtype)
    if rows.ndim != 2 or rows.shape[1] != X.shape[1]:
        raise ShapeError(f"`database` must have the {X.shape[1]} columns of `X`, got {rows.shape}.")
    return rows[np.sort(rng.permutation(len(rows))[:MOST_SEARCHED])]


def _maps(X: Array, Y: Array, powers: tuple[float, ...], shrink: float) -> list[Array]:
    """The map of every power, from one decomposition."""
    difference = X.astype(np.float64) - Y
    values, vectors = linalg.eigh(difference.T @ difference / len(X))
    mean = float(values.mean())
    shrunk = (1 - shrink) * (values.clip(min=0) / mean if mean > 0 else np.ones(len(values))) + shrink
    # Where nothing is shrunk, a direction in which no pair differs would count without a bound.
    shrunk = shrunk.clip(min=1e-6)
    return [(vectors * shrunk ** (-power)) @ vectors.T for power in powers]
