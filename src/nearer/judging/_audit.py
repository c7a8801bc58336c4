"""One look at features and labels, and what a person should look at next, worst first.

Labels are doubted by out-of-sample class probabilities by logistic regression, as strongly regularised as the data
ask for.

    min_W  mean_i −log softmax(xᵢW)_{yᵢ} + λ/2 ‖W‖²

Rows are centred and brought to a mean square length of one, so that one grid of λ serves all data; λ is the one
with the best likelihood of the labels as they are on one fold that it was not fitted on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.stats import rankdata

from nearer._checks import check_int, check_number
from nearer._plain import Array, counted, csv_text
from nearer._validation import as_array, as_matrix
from nearer.estimators._shared import minimize
from nearer.exceptions import LabelError, ShapeError
from nearer.neighbors import search

NEIGHBORS = 15
# How much the probability of the given label counts beside its lead over the best other one. Chosen on other flips
# than those of docs/audit.md: the probability finds labels that were drawn at random, the lead finds mix-ups.
SELF = 0.6
# Distances below this share of the usual one to the nearest neighbor are those of duplicates.
DUPLICATE = 0.1
# Deviations (robust) of the logarithm of the distance above which an item is unlike everything.
UNLIKE = 3.5


@dataclass(frozen=True, eq=False)
class Audit:
    """What `find_issues` found in n rows.

    `quality` (n,) goes from 0, the label most likely to be wrong, to 1; NaN where there is no label. `suspects` are
    the rows to look at, worst first: their label is less likely than another one that is as likely as it is on
    average for the rows that carry it. `suggested` (n,) is the likeliest class code. `duplicates` are groups of
    rows, those with several labels first. `overlap` (c, c) is the mean probability of class b for rows labelled a.
    `unlike` are the rows far from everything, farthest first, and `strangeness` (n,) says how far.

    >>> from nearer.judging import find_issues
    >>> found = find_issues([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]] * 5, [0, 0, 0, 1, 1, 1] * 5)
    >>> found.quality.shape, len(found.suspects)
    ((30,), 0)
    """

    labels: Array
    classes: tuple[str, ...]
    probabilities: Array = field(repr=False)
    quality: Array = field(repr=False)
    suspects: Array
    duplicates: Sequence[Array]
    overlap: Array = field(repr=False)
    unlike: Array
    strangeness: Array = field(repr=False)
    notes: tuple[str, ...] = ()

    @property
    def suggested(self) -> Array:
        """The likeliest class of each row (n,), −1 where nothing is known."""
        if not self.probabilities.shape[1]:
            return np.full(len(self.labels), -1, dtype=np.int64)
        return np.asarray(self.probabilities.argmax(axis=1))

    @property
    def overlaps(self) -> list[tuple[int, int, float]]:
        """Pairs of classes (a, b, share), a < b, the share of either that looks like the other, largest first."""
        both = (self.overlap + self.overlap.T) / 2
        pairs = [(a, b, float(both[a, b])) for a in range(len(both)) for b in range(a + 1, len(both))]
        return sorted(pairs, key=lambda pair: -pair[2])

    def name(self, code: int) -> str:
        """The class of a code in words; "–" without one."""
        return "–" if code < 0 else self.classes[code] if code < len(self.classes) else str(code)

    def rows(self) -> list[dict[str, Any]]:
        """One entry for each finding: row, finding, label, suggestion, score, group; suspects first."""
        entries: list[dict[str, Any]] = []
        best = self.suggested
        for row in self.suspects.tolist():
            entries.append(self._entry(row, "label", self.name(int(best[row])), float(self.quality[row])))
        for number, group in enumerate(self.duplicates):
            entries += [self._entry(row, "duplicate", "", float("nan"), number) for row in group.tolist()]
        for row in self.unlike.tolist():
            entries.append(self._entry(row, "unlike", "", float(self.strangeness[row])))
        return entries

    def _entry(
        self, row: int, finding: str, suggestion: str, score: float, group: int | str = ""
    ) -> dict[str, Any]:
        shown = "" if np.isnan(score) else round(score, 6)
        head = {"row": row, "finding": finding, "label": self.name(int(self.labels[row]))}
        return {**head, "suggestion": suggestion, "score": shown, "group": group}

    def to_csv(self) -> str:
        """The findings as a table, one row each."""
        return csv_text(["row", "finding", "label", "suggestion", "score", "group"], self.rows())

    def to_dict(self) -> dict[str, Any]:
        """The findings as JSON."""
        top = [
            {"first": self.name(a), "second": self.name(b), "share": round(share, 4)}
            for a, b, share in self.overlaps[:20]
        ]
        return {
            "rows": len(self.labels),
            "suspects": len(self.suspects),
            "duplicate_groups": len(self.duplicates),
            "unlike": len(self.unlike),
            "overlaps": top,
            "findings": self.rows(),
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        groups = sum(len(np.unique(self.labels[group])) > 1 for group in self.duplicates)
        lines = [
            f"{counted(len(self.labels), 'row')}: {counted(len(self.suspects), 'label')} likely wrong, "
            f"{counted(len(self.duplicates), 'group')} of near-duplicates ({groups:,} with different labels), "
            f"{counted(len(self.unlike), 'item')} unlike everything."
        ]
        if self.overlaps and self.overlaps[0][2] > 0.02:
            a, b, share = self.overlaps[0]
            lines.append(f"{self.name(a)} and {self.name(b)} overlap most ({share:.0%} of either).")
        return "\n".join([*lines, *self.notes])


def _silently(text: str, share: float) -> None:
    """Progress that nobody waits for."""


def find_issues(
    features: Any,
    labels: Any = None,
    *,
    classes: Sequence[str] = (),
    k: int = NEIGHBORS,
    seed: int = 0,
    progress: Callable[[str, float], Any] = _silently,
) -> Audit:
    """Look at rows (n, p) and class codes (n,), −1 without one: wrong labels, duplicates, overlap, isolated rows.

    Wrong labels: P is the mean of out-of-sample logistic regression and of the vote of k nearest neighbors, and
    rows are ordered by 0.6·rank(P_y) + 0.4·rank(P_y − max_{j≠y} P_j). Without labels of two classes there is no
    such list, and a note says so.

    Args:
        features: rows (n, p).
        labels: class codes (n,), −1 for rows without one.
        classes: names of the codes.
        k: how many neighbors vote.
        seed: of the folds.
        progress: is called with what is being done and the share that is done.

    >>> x = np.repeat(np.array([[0.0], [9.0]]), 20, axis=0) + np.linspace(0, 1, 40)[:, None]
    >>> y = np.repeat([0, 1], 20)
    >>> y[3] = 1
    >>> find_issues(x, y).suspects.tolist()
    [3]
    """
    x = as_matrix(features, "features").detach().cpu().numpy().astype(np.float32, copy=False)
    n = len(x)
    codes = _codes(labels, n)
    check_int(k, "k")
    known = codes >= 0
    n_classes = max(int(codes.max(initial=-1)) + 1, len(classes))
    notes: list[str] = []
    progress("Looking for neighbors", 0.0)
    near = _nearest(x, min(k, max(n - 1, 1))) if n > 1 else None
    probabilities: Array = np.zeros((n, 0), dtype=np.float32)
    if len(np.unique(codes[known])) < 2:
        notes.append("No label can be called wrong: that needs labels of at least two classes.")
    elif near is not None:
        votes = neighbor_votes(near[0], codes, n_classes)
        probabilities = (votes + cross_fitted(x, codes, n_classes, seed=seed, progress=progress)) / 2
    progress("Comparing", 0.9)
    quality, suspects = _suspects(probabilities, codes, known)
    overlap = np.zeros((n_classes, n_classes))
    if probabilities.shape[1]:
        for code in np.unique(codes[known]):
            overlap[code] = probabilities[codes == code].mean(axis=0)
    np.fill_diagonal(overlap, 0.0)
    if n < 3 or near is None:
        notes.append(f"{n} rows are too few to look for duplicates and for items unlike everything.")
        return Audit(codes, tuple(map(str, classes)), probabilities, quality, suspects, [], overlap,
                     np.zeros(0, np.int64), np.zeros(n), tuple(notes))  # fmt: skip
    strangeness, unlike = _unlike(near[1])
    groups = _duplicates(near[0], near[1], codes)
    names = tuple(map(str, classes))
    return Audit(codes, names, probabilities, quality, suspects, groups, overlap, unlike, strangeness, tuple(notes))


def label_quality(probabilities: Array, codes: Array, *, weight: float = SELF) -> Array:
    """w·rank(P_y) + (1 − w)·rank(P_y − max_{j≠y} P_j), scaled to 0..1; low is likely wrong: (n, c), (n,) -> (n,).

    >>> label_quality(np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]), np.array([0, 0, 0])).tolist()
    [1.0, 0.0, 0.5]
    """
    check_number(weight, "weight", minimum=0, maximum=1)
    number = np.arange(len(codes))
    own = probabilities[number, codes]
    others = probabilities.copy()
    others[number, codes] = -1
    ranks = weight * rankdata(own) + (1 - weight) * rankdata(own - others.max(axis=1))
    return (ranks - 1) / max(len(codes) - 1, 1)


def neighbor_votes(near: Array, codes: Array, n_classes: int) -> Array:
    """The smoothed shares of the classes among labelled neighbors (n, k), as (n, c) with rows that sum to one."""
    votes = np.full((len(near), n_classes), 1 / n_classes, dtype=np.float32)
    for column in near.T:
        able = np.flatnonzero((column >= 0) & (codes[column] >= 0))
        votes[able, codes[column[able]]] += 1
    return votes / votes.sum(axis=1, keepdims=True)


def _suspects(probabilities: Array, codes: Array, known: Array) -> tuple[Array, Array]:
    quality = np.full(len(codes), np.nan)
    if not probabilities.shape[1]:
        return quality, np.zeros(0, dtype=np.int64)
    rows = np.flatnonzero(known)
    p, y = probabilities[rows], codes[rows]
    quality[rows] = label_quality(p, y)
    # Confident learning (Northcutt et al. 2021): another class is likelier, and as likely as it is on average for
    # the rows that carry it.
    usual = np.array([p[y == code, code].mean() if (y == code).any() else 1.0 for code in range(p.shape[1])])
    best = p.argmax(axis=1)
    wrong = (best != y) & (p[np.arange(len(p)), best] >= usual[best])
    suspects = rows[wrong]
    return quality, suspects[np.argsort(quality[suspects], kind="stable")]


def _nearest(x: Array, k: int) -> tuple[Array, Array]:
    neighbors = search(x, k=k, method="auto")
    return neighbors.indices.numpy(), neighbors.distances.numpy().astype(np.float64)


def _unlike(distances: Array) -> tuple[Array, Array]:
    """Deviations of the logarithm of the mean distance to the neighbors from its median, and who stands out."""
    mean = np.where(np.isfinite(distances), distances, np.nan)
    far = np.log(np.maximum(np.nanmean(mean, axis=1), 1e-300))
    middle = float(np.median(far))
    spread = 1.4826 * float(np.median(np.abs(far - middle)))
    if spread <= 1e-12:
        return np.zeros(len(far)), np.zeros(0, dtype=np.int64)
    z = (far - middle) / spread
    rows = np.flatnonzero(z > UNLIKE)
    return z, rows[np.argsort(-z[rows], kind="stable")]


def _duplicates(near: Array, distances: Array, codes: Array) -> list[Array]:
    usual = float(np.median(distances[:, 0]))
    limit = DUPLICATE * usual
    rows, columns = np.nonzero((distances <= limit) & (near >= 0))
    if not len(rows):
        return []
    shape = (len(near), len(near))
    links = sparse.coo_matrix((np.ones(len(rows)), (rows, near[rows, columns])), shape=shape)
    _, group = connected_components(links, directed=False)
    order = np.argsort(group, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(group[order])) + 1)
    groups = [np.sort(part) for part in parts if len(part) > 1]
    # Twins with different labels cannot both be right: they come first, then the largest groups.
    return sorted(groups, key=lambda part: (-len(np.unique(codes[part])), -len(part), int(part[0])))


def _codes(labels: Any, n: int) -> Array:
    if labels is None:
        return np.full(n, -1, dtype=np.int64)
    codes = as_array(labels)
    if codes.shape != (n,):
        raise ShapeError(f"`labels` must have one class code for each of the {n} rows, got shape {codes.shape}.")
    if codes.dtype.kind not in "iu":
        raise LabelError(
            f"`labels` must be class codes 0, 1, … or -1, got {codes.dtype}. Number the classes first."
        )
    return np.where(codes < 0, -1, codes).astype(np.int64)


STRENGTHS = (1e-3, 3e-4, 1e-4, 3e-5, 1e-5)
FOLDS = 5
# More rows make the classifier hardly better and the wait longer.
MOST_LEARNED = 20_000


def cross_fitted(
    x: Array, codes: Array, n_classes: int, *, seed: int = 0, progress: Callable[[str, float], Any] = _silently
) -> Array:
    """The probability of each class for each row, from fits that did not see the row: (n, p), (n,) -> (n, c).

    `codes` are 0..c−1; rows with −1 teach nothing and get their probabilities from the first fit.

    >>> x = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]] * 5)
    >>> p = cross_fitted(x, np.array([0, 0, 0, 1, 1, 1] * 5), 2)
    >>> p.argmax(axis=1)[:6].tolist()
    [0, 0, 0, 1, 1, 1]
    """
    rows = _scaled(x)
    rng = np.random.default_rng(seed)
    fold = _folds(codes, rng)
    known = np.flatnonzero(codes >= 0)
    progress("Learning what the classes look like", 0.2)
    strength, start = _strength(rows, codes, n_classes, fold, rng)
    shares = np.empty((len(rows), n_classes), dtype=np.float32)
    for number in range(FOLDS):
        progress("Asking what each label should be", 0.4 + 0.5 * number / FOLDS)
        inside = _some(known[fold[known] != number], rng)
        start = fit_logistic(rows[inside], codes[inside], n_classes, strength, start=start)
        asked = fold == number
        shares[asked] = probabilities(rows[asked], start)
    return shares


def fit_logistic(rows: Array, codes: Array, n_classes: int, strength: float, *, start: Array | None) -> Array:
    """The weights (p + 1, c), the last row the offsets; from those of an easier problem it takes fewer steps."""
    n, p = rows.shape
    wide = np.concatenate([rows, np.ones((n, 1), dtype=np.float32)], axis=1)
    number = np.arange(n)

    def loss_and_gradient(weights: Array) -> tuple[float, Array]:
        w = weights.astype(np.float32)
        scores = wide @ w
        scores -= scores.max(axis=1, keepdims=True)
        shares = np.exp(scores)
        total = shares.sum(axis=1, keepdims=True)
        loss = float((np.log(total[:, 0]) - scores[number, codes]).mean(dtype=np.float64))
        shares /= total
        shares[number, codes] -= 1
        gradient = wide.T @ (shares / n)
        gradient[:-1] += strength * w[:-1]
        return loss + 0.5 * strength * float(np.square(w[:-1]).sum(dtype=np.float64)), gradient

    begin = np.zeros((p + 1, n_classes)) if start is None else start
    return minimize(loss_and_gradient, begin, max_iter=100, tol=1e-7)[0]


def probabilities(rows: Array, weights: Array) -> Array:
    """softmax(xW + b), (n, c)."""
    scores = rows @ weights[:-1].astype(np.float32) + weights[-1].astype(np.float32)
    scores -= scores.max(axis=1, keepdims=True)
    shares = np.exp(scores)
    return shares / shares.sum(axis=1, keepdims=True)


def _strength(
    rows: Array, codes: Array, n_classes: int, fold: Array, rng: np.random.Generator
) -> tuple[float, Array]:
    known = np.flatnonzero(codes >= 0)
    inside, outside = _some(known[fold[known] != 0], rng), known[fold[known] == 0]
    weights: Array | None = None
    best: tuple[float, float, Array] | None = None
    for strength in STRENGTHS:
        weights = fit_logistic(rows[inside], codes[inside], n_classes, strength, start=weights)
        given = probabilities(rows[outside], weights)[np.arange(len(outside)), codes[outside]]
        likelihood = float(np.log(np.maximum(given, 1e-12)).mean()) if len(outside) else -strength
        if best is not None and likelihood < best[0]:
            break
        best = (likelihood, strength, weights)
    assert best is not None
    return best[1], best[2]


def _scaled(x: Array) -> Array:
    rows = np.asarray(x, dtype=np.float64)
    rows = rows - rows.mean(axis=0)
    length = np.sqrt(np.square(rows).sum(axis=1).mean())
    return (rows / max(float(length), 1e-300)).astype(np.float32)


def _folds(codes: Array, rng: np.random.Generator) -> Array:
    """Rows of every class spread evenly over the folds; rows without a label are asked of the first."""
    fold = np.zeros(len(codes), dtype=np.int64)
    order = rng.permutation(len(codes))
    order = order[np.argsort(codes[order], kind="stable")]
    order = order[codes[order] >= 0]
    fold[order] = np.arange(len(order)) % FOLDS
    return fold


def _some(rows: Array, rng: np.random.Generator) -> Array:
    return rows if len(rows) <= MOST_LEARNED else rng.choice(rows, MOST_LEARNED, replace=False)
