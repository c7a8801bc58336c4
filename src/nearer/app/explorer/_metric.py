"""A linear metric from labels and pairs in closed form, fast enough to wait for.

    M = C^{−power} (floor·I + V diag(q) Vᵀ),   C = (1 − s)·W + s·(tr W / p)·I

W is the spread inside classes and inside groups that belong together; V and q are the directions of the class means
and of the differences of items that are apart, with q = between / (between + within) along each. Which of
them, whether labels are first spread to neighbors, and whether the features stay as they are, is decided by MAP@R
on labelled items that were left out for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.sparse.csgraph import connected_components
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from nearer.app.explorer._spreading import lead_of, random_walk, spread_labels
from nearer.exceptions import LabelError

__all__ = ["Learned", "fit_metric", "principal_axes"]

Array = NDArray[Any]
# (power, floor, shrink); no power and no floor are the features as they are.
Candidate = tuple[float, float | None, float]
CANDIDATES: tuple[Candidate, ...] = (
    (0.0, None, 0.3),
    (0.25, None, 0.3),
    (0.5, 1.0, 0.3),
    (0.25, 0.3, 0.1),
    (0.5, 0.3, 0.3),
    (0.5, 0.1, 0.3),
    (0.5, 0.1, 0.1),
    (0.5, 0.1, 0.03),
)
UNSURE: Candidate = (0.25, 1.0, 0.3)
MOST_ASKED, LEAST_ASKED, MOST_LEARNED = 800, 40, 20_000
# Where fewer than half of the items have a label, labels are spread over so many items, and believed with a lead.
MOST_SPREAD, BELIEVED = 8_000, 0.3
Progress = Callable[[str, float], None]


@dataclass(frozen=True, eq=False)
class Learned:
    """A matrix (p, d) for the features, and a sentence on how it was chosen."""

    matrix: Array
    told: str


def principal_axes(rows: Array, most: int, *, sample: int = 10_000) -> tuple[Array, Array]:
    """The mean (p,) and the first principal axes (p, q) of rows (n, p), from a sample of them.

    >>> mean, axes = principal_axes(np.array([[0.0, 1], [2, 1], [4, 1]]), 1)
    >>> mean.tolist(), np.abs(axes).round(3).ravel().tolist()
    ([2.0, 1.0], [1.0, 0.0])
    """
    some = rows
    if len(rows) > sample:
        some = rows[np.sort(np.random.default_rng(0).permutation(len(rows))[:sample])]
    mean = some.mean(axis=0, dtype=np.float64).astype(np.float32)
    centered = (some - mean).astype(np.float32)
    wide = some.shape[1] > len(some)
    # Double precision where it is quick; single precision has seven digits, and a map needs three.
    kind = np.float64 if min(some.shape) <= 256 else np.float32
    gram = (centered @ centered.T if wide else centered.T @ centered).astype(kind)
    keep = min(most, *some.shape)
    # One thread: on a busy machine several wait for each other for seconds.
    with threadpool_limits(limits=1):
        values, axes = linalg.eigh(gram, subset_by_index=[len(gram) - keep, len(gram) - 1])
    values, axes = values[::-1], axes[:, ::-1]
    if wide:
        axes = centered.T @ axes / np.sqrt(np.maximum(values, 1e-30))
    # A sign that does not depend on the linear algebra library.
    signs = np.where(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])] < 0, -1.0, 1.0)
    return mean, (axes * signs).astype(np.float32)


def fit_metric(
    rows: Array, labels: Array, together: Array, apart: Array, *, progress: Progress = lambda text, share: None
) -> Learned:
    """The metric for rows (n, p) from codes (n,), −1 for unknown, and pairs (m, 2) of rows.

    >>> rows = np.array([[0.0, 0], [9, 0.1], [0, 1], [9, 1.1]], dtype=np.float32)
    >>> none = np.zeros((0, 2), dtype=np.int64)
    >>> z = rows @ fit_metric(rows, np.array([0, 0, 1, 1]), none, none).matrix
    >>> bool(np.linalg.norm(z[0] - z[1]) < np.linalg.norm(z[0] - z[2]) * 9)
    True
    """
    known = np.flatnonzero(labels >= 0)
    if len(np.unique(labels[known])) < 2 and not len(together) and not len(apart):
        raise LabelError(
            "There is nothing to learn from yet: label items of two classes, or say what belongs together."
        )
    rng = np.random.default_rng(0)
    known = rng.permutation(known)[:MOST_LEARNED]
    asked = _asked(labels, known)
    if not len(asked):
        progress("learning", 0.5)
        matrix = _Basis(rows, labels, known, together, apart).matrix(*UNSURE)
        return Learned(matrix, "Too few labels to choose by: a careful step from the features.")
    taught = labels.copy()
    taught[asked] = -1
    given = {"": taught}
    if 2 * int((labels >= 0).sum()) < len(rows):
        progress("spreading the labels", 0.1)
        given["with labels spread to neighbors, "] = _believed(rows, taught, rng)
    best, how, score, first = CANDIDATES[0], "", -1.0, 0.0
    for place, (name, codes) in enumerate(given.items()):
        basis = _Basis(rows, codes, _some(codes, rng), together, apart)
        for number, one in enumerate(CANDIDATES):
            progress("choosing", (place + number / len(CANDIDATES)) / len(given))
            value = _map_at_r(rows[asked] @ basis.matrix(*one), labels[asked])
            first = value if number == place == 0 else first
            if value > score + 1e-9:
                best, how, score = one, name, value
    final = _believed(rows, labels, rng) if how else labels
    matrix = _Basis(rows, final, _some(final, rng), together, apart).matrix(*best)
    if best == CANDIDATES[0]:
        return Learned(matrix, f"The features as they are: nothing was better on {len(asked):,} labelled items.")
    tried = len(CANDIDATES) * len(given)
    told = f"Chosen among {tried} maps, {how}on {len(asked):,} labelled items: MAP@R {first:.3f} → {score:.3f}."
    return Learned(matrix, told)


def _some(labels: Array, rng: np.random.Generator) -> Array:
    """Labelled items to learn from, at most 20,000."""
    return rng.permutation(np.flatnonzero(labels >= 0))[:MOST_LEARNED]


def _believed(rows: Array, labels: Array, rng: np.random.Generator) -> Array:
    """The labels, and those that their neighbors lead to where the lead is clear; of a random part of the items."""
    known, others = np.flatnonzero(labels >= 0), np.flatnonzero(labels < 0)
    known = rng.permutation(known)[: MOST_SPREAD // 2]
    chosen = np.concatenate([known, rng.permutation(others)[: MOST_SPREAD - len(known)]])
    classes, shares, mass = spread_labels(random_walk(rows[chosen]), labels[chosen])
    sure = (lead_of(shares) > BELIEVED) & (mass > 0)
    found = labels.copy()
    found[chosen[sure]] = classes[shares[sure].argmax(axis=1)]
    found[labels >= 0] = labels[labels >= 0]
    return found


def _asked(labels: Array, known: Array) -> Array:
    """Labelled items to choose by: a quarter, of classes that keep enough to learn from."""
    _, code, counts = np.unique(labels[known], return_inverse=True, return_counts=True)
    able = known[counts[code] >= 8]
    if len(able) < LEAST_ASKED * 2 or len(np.unique(labels[able])) < 2:
        return able[:0]
    return able[: min(len(able) // 4, MOST_ASKED)]


def _map_at_r(rows: Array, labels: Array) -> float:
    """MAP@R of rows searched among each other; in single precision and without a tie rule, to choose by."""
    squares = np.einsum("ij,ij->i", rows, rows)
    apart = squares[None, :] - 2 * (rows @ rows.T)
    np.fill_diagonal(apart, np.inf)
    _, code, counts = np.unique(labels, return_inverse=True, return_counts=True)
    relevant = counts[code] - 1
    k = max(int(relevant.max()), 1)
    near = np.argpartition(apart, k - 1, axis=1)[:, :k]
    near = np.take_along_axis(near, np.argsort(np.take_along_axis(apart, near, axis=1), axis=1), axis=1)
    hits = labels[near] == labels[:, None]
    place = np.arange(1, k + 1)
    precision = np.cumsum(hits, axis=1) / place * hits * (place <= relevant[:, None])
    able = relevant > 0
    return float((precision.sum(axis=1)[able] / relevant[able]).mean()) if able.any() else 0.0


class _Basis:
    """The directions of the spread inside classes, found once for all candidates."""

    def __init__(self, rows: Array, labels: Array, known: Array, together: Array, apart: Array) -> None:
        groups = _groups(together)
        codes = labels[known]
        members = [known]
        for number, group in enumerate(groups):
            members.append(group)
            codes = np.concatenate([codes, np.full(len(group), -2 - number)])
        x = rows[np.concatenate(members)].astype(np.float32)
        p = rows.shape[1]
        if len(x):
            _, place, counts = np.unique(codes, return_inverse=True, return_counts=True)
            one_hot = sparse.csr_matrix(
                ((1 / counts[place]).astype(np.float32), (place, np.arange(len(x)))), shape=(len(counts), len(x))
            )
            means = one_hot @ x
            rest = x - means[place]
            within = (rest.T @ rest / len(x)).astype(np.float64)
        else:
            means = np.zeros((0, p))
            within = np.zeros((p, p))
        if not within.any():
            # Nothing is known of what varies inside a class; all directions count alike.
            within = np.eye(p)
        named = means[np.unique(codes) >= 0] if len(x) else means
        centered = named - named.mean(axis=0) if len(named) else named
        differences = (rows[apart[:, 0]] - rows[apart[:, 1]]).astype(np.float64) / np.sqrt(2)
        if len(differences) and len(centered):
            # All that was said by hand counts as much as one class.
            differences = differences / np.sqrt(len(differences))
        self.between = np.concatenate([centered, differences])
        with threadpool_limits(limits=1):
            self.values, self.vectors = np.linalg.eigh(within)

    def matrix(self, power: float, floor: float | None, shrink: float) -> Array:
        """The map (p, p) of one candidate."""
        typical = max(float(self.values.mean()), 1e-300)
        scale = ((1 - shrink) * np.maximum(self.values, 0) / typical + shrink) ** -power
        white = (self.vectors * scale) @ self.vectors.T
        if floor is not None and self.between.any():
            _, spread, axes = np.linalg.svd(_fewer(self.between) @ white, full_matrices=False)
            axes, spread = axes[spread > 1e-9 * spread[0]], spread[spread > 1e-9 * spread[0]]
            between = np.square(spread) / max(len(self.between), 1)
            inside = np.square((axes @ white @ self.vectors) * np.sqrt(np.maximum(self.values, 0))).sum(axis=1)
            q = between / (between + np.maximum(inside, 1e-12))
            white = white @ (floor * q.max() * np.eye(len(white)) + (axes.T * q) @ axes)
        size = np.sqrt(np.square(white).sum() / len(white))
        found: Array = (white / max(size, 1e-300)).astype(np.float32)
        return found


def _fewer(rows: Array) -> Array:
    """Rows with the same sum of outer products, at most as many as columns: what an SVD for directions needs."""
    return rows if len(rows) <= rows.shape[1] else np.asarray(np.linalg.qr(rows, mode="r"))


def _groups(together: Array) -> list[Array]:
    """Items that belong together, as groups: the connected components of the pairs."""
    if not len(together):
        return []
    items, place = np.unique(together, return_inverse=True)
    pairs = place.reshape(-1, 2)
    links = sparse.coo_matrix((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(len(items), len(items)))
    _, group = connected_components(links, directed=False)
    order = np.argsort(group, kind="stable")
    return np.split(items[order], np.flatnonzero(np.diff(group[order])) + 1)
