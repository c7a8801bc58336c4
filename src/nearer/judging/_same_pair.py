"""Are these two the same? A threshold whose errors are bounded on classes that were never seen."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from nearer._checks import check_choice, check_int, check_number
from nearer._validation import as_array
from nearer.exceptions import LabelError, NearerWarning, ParameterError, ShapeError
from nearer.judging._class_losses import (
    CONFIDENCE,
    GUARANTEES,
    Calibration,
    Floats,
    Guarantee,
    Rows,
    bets,
    database_losses,
    fewest_classes,
    matched_losses,
    mean_bound,
    missed,
    pair_bound,
    thresholds,
    within,
)
from nearer.judging._influence import embedded
from nearer.judging._likeness import Likeness
from nearer.neighbors import search
from nearer.neighbors._shared import unit_rows

SETTINGS = ("error", "miss", "guarantee", "per", "similarity", "seed")
MATCHINGS = 8
# Without labels: items that are compared pair by pair, and false matches to be expected among them.
MOST_UNLABELED, PAIRS = 3_000, 10
# Enough to draw a curve.
DRAWN = 200


class SamePair:
    """Same, different, or "cannot say", with false matches and false non-matches bounded on new classes.

    Calibrate on classes that the metric did not learn from. The unit is the class: items of one class depend on
    each other, and a threshold from pooled pairs is above its level in every second split.

    - "estimated" (default): the mean error plus its 90 % jackknife margin over the classes; about 20 classes for
      an error of .05, 40 for .01;
    - "average": over calibrations and new classes the mean error is at most `error`, proven; 39 classes for .05,
      199 for .01 (19 and 99 against a fixed database);
    - "high-probability": with a probability of .9 the error is at most `error`, proven; about 100 classes for .05.

    A guarantee that so few classes cannot give is refused, and the message says how many are missing.

    Without labels every item is a class of its own: two items drawn at random are different, and `error` bounds how
    many of such pairs are called same. Near-copies of the items, where they are given, say how many copies are
    missed. Nothing is known then of items that differ and mean the same.

    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(np.arange(40), 6)
    >>> X = rng.normal(size=(40, 8))[y] * 3 + 0.3 * rng.normal(size=(240, 8))
    >>> same = SamePair(error=0.05).calibrate(X, y)
    >>> same.decide(X[[0, 0]], X[[1, 100]]).tolist()
    ['same', 'different']

    Args:
        error: the largest share of pairs of different classes that may be called same.
        miss: the largest share of pairs of one class that may be called different; None takes `error`.
        metric: what embeds rows before they are compared: a model, an estimator with `transform`, a function; None
            compares them as they are.
        guarantee: "estimated", "average" or "high-probability".
        per: "pair" bounds the share of pairs; "search" the share of queries that have any false match in the
            database that calibration was done with.
        similarity: "euclidean", or "cosine", which brings rows to length one first.
        seed: of the sample of items and the matchings of classes.
    """

    def __init__(
        self,
        error: float = 0.05,
        *,
        miss: float | None = None,
        metric: Any = None,
        guarantee: Guarantee = "estimated",
        per: Literal["pair", "search"] = "pair",
        similarity: Literal["euclidean", "cosine"] = "euclidean",
        seed: int = 0,
    ) -> None:
        self.error = check_number(error, "error", above=0.0, maximum=0.5)
        self.miss = self.error if miss is None else check_number(miss, "miss", above=0.0, maximum=0.5)
        self.metric = metric
        self.guarantee: Guarantee = check_choice(guarantee, "guarantee", list(GUARANTEES))  # type: ignore[assignment]
        self.per = check_choice(per, "per", ["pair", "search"])
        self.similarity = check_choice(similarity, "similarity", ["euclidean", "cosine"])
        self.seed = check_int(seed, "seed", minimum=0)

    def calibrate(self, X: Any, y: Any = None, *, database: Any = None, copies: Any = None) -> Self:
        """Find the thresholds from rows X (n, p) of labelled classes y (n,); −1 and None are left out.

        Without y, `copies` (n, p) are near-copies of the rows, one of each: the same photo smaller, a text with a
        word less.

        `database` (k, p) holds the items that new ones will be compared with, of other classes than X; without it
        the calibration classes are compared with each other. `per="search"` needs one.
        """
        rows = self._embedded(X, "X")
        self.labeled_ = y is not None
        if y is None:
            data = self._every_item_a_class(rows, copies)
        else:
            data = self._of_classes(rows, y, copies)
        if self.per == "search" and database is None:
            raise ParameterError("`database` must be given for per='search': the items that queries search in.")
        known_items = None if database is None else self._embedded(database, "database")
        if self.labeled_:
            self._check_classes(data.m, pairs=known_items is None)
        grid = thresholds(data, database=known_items, seed=self.seed)
        # Items by themselves have no true pair: nothing is known of what is missed.
        paired = len(data.rows) > data.m
        far = missed(data, grid) if paired else np.full((data.m, len(grid)), np.nan)
        if known_items is None:
            # Copies are pairs that belong together, and no items of their own.
            items = data if self.labeled_ else Calibration(data.rows[: data.m], data.codes[: data.m], data.m)
            sums = within(items, grid)
            false = sums / (data.m - 1)
            holds = self._holds_for_pairs(items, grid, sums)
        else:
            false = database_losses(data, known_items, grid, any_match=self.per == "search")
            holds = self._holds(false, self.error)
        strict = np.flatnonzero(~holds)
        last = int(strict[0]) - 1 if len(strict) else len(grid) - 1
        loose = np.flatnonzero(~self._holds(far, self.miss)) if paired else np.array([len(grid) - 1])
        first = int(loose[-1]) + 1 if len(loose) else 0
        # No threshold at all still leaves an answer: nothing is the same, nothing is different.
        self.same_within_ = float(grid[last]) if last >= 0 else -np.inf
        self.different_beyond_ = float(grid[first]) if first < len(grid) else np.inf
        self.n_classes_, self.n_items_ = data.m, len(data.rows)
        self.n_database_ = None if known_items is None else len(known_items)
        self.false_matches_ = float(false.mean(axis=0)[last]) if last >= 0 else 0.0
        self.true_matches_ = 1 - float(far.mean(axis=0)[last]) if last >= 0 else 0.0
        drawn = np.unique(np.linspace(0, len(grid) - 1, DRAWN).round().astype(int))
        self.curve_ = np.column_stack([grid, false.mean(axis=0), far.mean(axis=0)])[drawn]
        self.likeness_ = Likeness.of(data, seed=self.seed)
        return self

    def _of_classes(self, rows: Rows, y: Any, copies: Any) -> Calibration:
        labels = as_array(y)
        if labels.shape != (len(rows),):
            raise ShapeError(f"`y` must have one class for each of the {len(rows)} rows, got shape {labels.shape}.")
        if copies is not None:
            raise ParameterError("`copies` must be left out where there are classes, which say what is the same.")
        known = np.array([label is not None and label != -1 for label in labels.tolist()], dtype=bool)
        return Calibration.of(rows[known], labels[known], seed=self.seed)

    def _every_item_a_class(self, rows: Rows, copies: Any) -> Calibration:
        """Different rows, some of many, each with its copy."""
        kept = np.sort(np.unique(rows, axis=0, return_index=True)[1])
        drawn = np.sort(np.random.default_rng(self.seed).permutation(kept)[:MOST_UNLABELED])
        needed = int(np.ceil(np.sqrt(2 * PAIRS / self.error))) + 1
        if len(drawn) < needed:
            raise LabelError(
                f"`X` must hold at least {needed:,} different rows for error={self.error:g} without labels, got "
                f"{len(drawn):,}. Add rows, or allow a larger error."
            )
        parts = [rows[drawn]]
        if copies is not None:
            beside = self._embedded(copies, "copies")
            if beside.shape != rows.shape:
                raise ShapeError(
                    f"`copies` must have one row for each of the {len(rows)} of `X`, got {beside.shape}."
                )
            parts.append(beside[drawn])
        codes = np.tile(np.arange(len(drawn)), len(parts))
        return Calibration(np.concatenate(parts), codes, len(drawn))

    def _check_classes(self, m: int, *, pairs: bool) -> None:
        if m < 5:
            raise LabelError(
                f"`y` must name at least five classes with two items or more each to calibrate, got {m}. The class "
                f"is the unit of the promise."
            )
        for level, in_pairs, name in ((self.error, pairs, "error"), (self.miss, False, "miss")):
            needed = fewest_classes(level, self.guarantee, pairs=in_pairs)
            if m >= needed:
                continue
            shortage = f"{needed} classes for {name}={level:g}, got {m}: {needed - m} are missing"
            if self.guarantee == "estimated":
                warnings.warn(
                    f"An estimate needs about {shortage}. The margin is wide and may not hold.",
                    NearerWarning,
                    stacklevel=4,
                )
                return
            else:
                raise LabelError(
                    f"guarantee={self.guarantee!r} must have at least {shortage}. Add classes, allow a larger "
                    f"error, or take guarantee='estimated'."
                )

    def _holds_for_pairs(self, data: Calibration, grid: Floats, sums: Floats) -> NDArray[np.bool_]:
        if self.guarantee != "high-probability":
            return pair_bound(sums, self.guarantee) <= self.error
        matched = matched_losses(data, grid, matchings=MATCHINGS, seed=self.seed)
        # A mean of e-values is one.
        values = np.mean([bets(losses, self.error) for losses in matched], axis=0)
        return values >= 1 / (1 - CONFIDENCE)

    def _holds(self, losses: Floats, level: float) -> NDArray[np.bool_]:
        if self.guarantee != "high-probability":
            return mean_bound(losses, self.guarantee) <= level
        return bets(losses, level) >= 1 / (1 - CONFIDENCE)

    def distance(self, a: Any, b: Any) -> Floats:
        """The distance of row i of `a` to row i of `b`, under the metric: (n,)."""
        return np.linalg.norm(np.subtract(*self._both(a, b), dtype=np.float64), axis=1)

    def _both(self, a: Any, b: Any) -> tuple[Rows, Rows]:
        left, right = self._embedded(a, "a"), self._embedded(b, "b")
        if left.shape != right.shape:
            raise ShapeError(f"`a` and `b` must have the same number of rows, got {len(left)} and {len(right)}.")
        return left, right

    def _different(self) -> str:
        """From where two items are different, in words."""
        if np.isinf(self.different_beyond_):
            return "and nothing is called different"
        if self.different_beyond_ <= self.same_within_:
            return "different beyond it"
        return f"different beyond {self.different_beyond_:.4g}, between them it cannot say"

    def decide(self, a: Any, b: Any) -> NDArray[Any]:
        """For row i of `a` and row i of `b`: "same", "different" or "cannot say", an array of words (n,).

        A warning says when the rows do not look like those of the calibration.
        """
        self._check_calibrated()
        if self.per == "search":
            raise ParameterError("`per` must be 'pair' to decide pairs, it is 'search'. Call `matches`.")
        left, right = self._both(a, b)
        self.likeness_.check(np.concatenate([left, right]))
        return self.answers(np.linalg.norm(left.astype(np.float64) - right, axis=1))

    def answers(self, distances: Any) -> NDArray[Any]:
        """The same for distances that are there already, (n,)."""
        self._check_calibrated()
        apart = np.asarray(distances, dtype=np.float64)
        words = np.where(apart > self.different_beyond_, "different", "cannot say").astype(object)
        words[apart <= self.same_within_] = "same"
        return words

    def matches(self, queries: Any, database: Any) -> list[list[int]]:
        """For every query the rows of the database that are the same, nearest first; often none.

        With `per="search"` a query of a class that the database does not hold has any at all with a probability of
        at most `error`. That belongs to the size of the database: a larger one is refused.
        """
        self._check_calibrated()
        items = self._embedded(database, "database")
        if self.per == "search" and len(items) != self.n_database_:
            raise ParameterError(
                f"`database` must have the {self.n_database_} items that calibration was done with, got "
                f"{len(items)}. More items find more false matches: calibrate again."
            )
        asked = self._embedded(queries, "queries")
        self.likeness_.check(asked)
        near = search(asked, items, k=min(len(items), 100))
        return [
            [int(row) for row, gap in zip(rows, gaps, strict=True) if gap <= self.same_within_]
            for rows, gaps in zip(near.indices, near.distances, strict=True)
        ]

    def __str__(self) -> str:
        """What was promised, in a sentence, and what it costs."""
        if not hasattr(self, "same_within_"):
            return f"SamePair(error={self.error:g}, miss={self.miss:g}, {self.guarantee}), not calibrated"
        words = {
            "estimated": "estimated, 90 %",
            "average": "in the mean over calibrations and new classes, proven",
            "high-probability": "with a probability of 90 %, proven",
        }
        different = (
            "pairs of different classes called same" if self.labeled_ else "pairs drawn at random called same"
        )
        what = "queries with a false match" if self.per == "search" else different
        counted = (
            f"{self.n_classes_} classes, {self.n_items_:,} items" if self.labeled_ else f"{self.n_classes_:,} items"
        )
        lines = [
            f"same within {self.same_within_:.4g}, {self._different()}",
            f"{what}: at most {self.error:g} ({words[self.guarantee]}; {counted})",
        ]
        if self.labeled_:
            lines.append(f"pairs of one class called same: {self.true_matches_:.3f} of the calibration pairs")
        else:
            share = "not known, none were given" if np.isnan(self.true_matches_) else f"{self.true_matches_:.3f}"
            lines += [
                f"near-copies called same: {share}",
                "no labels: items that differ and mean the same were counted as different",
            ]
        if self.same_within_ < 0:
            lines.append("no distance keeps the level: nothing is called the same. Add classes or allow more.")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the metric, as JSON."""
        self._check_calibrated()
        fitted = ("same_within_", "different_beyond_", "n_classes_", "n_items_", "n_database_")
        rates = ("false_matches_", "true_matches_")
        return {
            **{name: getattr(self, name) for name in SETTINGS},
            "labeled_": self.labeled_,
            **{name: _plain(getattr(self, name)) for name in (*fitted, *rates)},
            "curve_": [[_plain(value) for value in row] for row in self.curve_.tolist()],
            "likeness_": {
                "rows": np.round(self.likeness_.rows.astype(np.float64), 6).tolist(),
                "nearest": self.likeness_.nearest.tolist(),
            },
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any], *, metric: Any = None) -> SamePair:
        """The decision that `to_dict` came from; `metric` is the one it was calibrated with."""
        try:
            made = cls(metric=metric, **{name: record[name] for name in SETTINGS})
            for name in ("same_within_", "different_beyond_"):
                value = record[name]
                setattr(made, name, float(value) if value is not None else (-np.inf if "same" in name else np.inf))
            for name in ("n_classes_", "n_items_", "n_database_", "false_matches_", "true_matches_"):
                setattr(made, name, record[name])
            made.labeled_ = bool(record.get("labeled_", True))
            made.true_matches_ = float("nan") if made.true_matches_ is None else made.true_matches_
            made.curve_ = np.asarray(record["curve_"], dtype=np.float64).reshape(-1, 3)
            kept = record["likeness_"]
            made.likeness_ = Likeness(
                np.asarray(kept["rows"], dtype=np.float32), np.asarray(kept["nearest"], dtype=np.float64)
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ParameterError(f"`record` must be what SamePair.to_dict returns: {error!r} is wrong.") from error
        return made

    def _check_calibrated(self) -> None:
        if not hasattr(self, "same_within_"):
            raise ParameterError("calibrate(X, y) must come first: there is no threshold yet.")

    def _embedded(self, rows: Any, name: str) -> Rows:
        """Rows where they are compared."""
        where = embedded(self.metric, rows, name)
        return unit_rows(where, name) if self.similarity == "cosine" else where


def _plain(value: Any) -> Any:
    """Infinity and what is not known have no JSON."""
    return None if isinstance(value, float) and not np.isfinite(value) else value
