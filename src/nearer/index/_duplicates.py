"""Near-duplicates: items so near that they are one item seen twice, in groups.

The rule: two items are duplicates when their distance is at most the threshold, and a group is one item that is
kept and its duplicates: nobody is in a group for a chain of others. Equal rows are found first, by their bytes. Up
to 20,000 different rows all pairs are compared; above, each row's nearest neighbors are the candidates, and how
many of the pairs they hold is measured on a sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nearer._checks import check_choice, check_int, check_number, check_pairs
from nearer._plain import Floats, Positions, counted
from nearer._validation import as_matrix, as_tensor
from nearer.exceptions import ShapeError
from nearer.index._rows import exact_search
from nearer.neighbors._shared import partition_rows, search_cells

EXACT_UP_TO = 20_000
# Of the usual distance to the tenth neighbor. In p dimensions about 10 · 0.1^p items come so near by chance.
SHARE, TENTH, DRAWN = 0.1, 10, 1_000
SAMPLE = 2_000
FIRST_PROBES, MOST_PROBES, ENOUGH = 4, 64, 0.99
BLOCK = 1 << 24


@dataclass(frozen=True, eq=False)
class Duplicates:
    """Groups of near-duplicates, and which item of each is kept."""

    groups: Positions
    """(n,): the number of the group, by its first item; −1 for an item without a duplicate."""
    keep: NDArray[np.bool_]
    """(n,): false for the items that a kept one stands for."""
    kept: Positions
    """(n,): the item that stands for each; itself where it is kept."""
    distances: Floats
    """(n,): the distance to that item."""
    pairs: Positions
    """(m, 2): pairs within the threshold, each once: all of them, or up to k for each item."""
    pair_distances: Floats
    """(m,)."""
    threshold: float
    rule: str
    """Where the threshold came from, and how pairs were looked for."""
    recall: float | None
    """The share of the pairs that were found, on a sample; 1 when all were compared, None without a pair in it."""

    def __str__(self) -> str:
        n, count = len(self.groups), int(self.groups.max(initial=-1)) + 1
        gone = int((~self.keep).sum())
        found = f"{counted(gone, 'near-duplicate')} among {counted(n, 'item')}, in {counted(count, 'group')}."
        return f"{found} {self.rule}"


def find_duplicates(
    embeddings: Any,
    *,
    threshold: float | None = None,
    keep: Literal["first", "best"] = "first",
    scores: Any = None,
    pairs: Any = None,
    share: float = SHARE,
    k: int = 10,
    seed: int = 0,
) -> Duplicates:
    """Groups of items (n, d): one that is kept, and others whose Euclidean distance to it is at most the threshold.

    Args:
        embeddings: rows (n, d), of a model or as they are; bring them to length one for the cosine.
        threshold: the distance up to which two items are duplicates; None takes `share` of the distance at
            which the median item has its tenth neighbor.
        keep: "first" keeps the first item of a group, "best" the one with the highest score.
        scores: (n,) for "best"; None takes items with many duplicates first.
        pairs: (m, 2) of items that are duplicates whatever their distance.
        share: of the usual distance, where no threshold is given.
        k: above 20,000 different rows, how many neighbors of each are candidates.
        seed: of the samples.

    >>> found = find_duplicates([[0.0], [5.0], [0.01], [9.0], [5.0]], threshold=0.1)
    >>> found.groups.tolist(), found.keep.tolist()
    ([0, 1, 0, -1, 1], [True, True, False, True, False])
    """
    check_choice(keep, "keep", ["first", "best"])
    rows = np.ascontiguousarray(as_matrix(embeddings, "embeddings").detach().cpu().numpy(), dtype=np.float32)
    n = len(rows)
    near, seed = check_int(k, "k"), check_int(seed, "seed", minimum=0)
    best = None if scores is None else as_tensor(scores, "scores").detach().cpu().double().numpy()
    if best is not None and best.shape != (n,):
        raise ShapeError(f"`scores` must have one number for each of the {n} rows, got shape {best.shape}.")
    # Equal rows first: they need no search, and would fill each other's lists of neighbors.
    first, twin = _twins(rows)
    order = np.argsort(first)  # different rows in order of their first item
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    leaders, twin = first[order].astype(np.int64), rank[twin.reshape(-1)].astype(np.int64)
    different = rows[leaders]
    if threshold is None:
        limit = check_number(share, "share", above=0) * _usual_distance(different, seed)
        rule = f"Duplicates are at most {limit:.4g} apart, {share:g} of the usual distance to the tenth neighbor"
    else:
        limit = check_number(threshold, "threshold", minimum=0)
        rule = f"Duplicates are at most {limit:.4g} apart, as asked"
    recall: float | None = 1.0
    if len(different) <= EXACT_UP_TO:
        near_pairs = _all_pairs(different, limit)
        rule += "; all pairs were compared."
    else:
        near_pairs, recall, full = _near_pairs(different, limit, near, seed)
        share_found = (
            "no pair in a sample" if recall is None else f"{recall:.1%} of the pairs of a sample were found"
        )
        rule += f"; looked for among the {near} nearest of each ({share_found}"
        rule += f"; {counted(full, 'item')} with more than that)." if full else ")."
    if pairs is not None:
        more = np.sort(twin[check_pairs(pairs, "pairs", n)], axis=1)
        both = np.concatenate([near_pairs, more[more[:, 0] < more[:, 1]]])
        near_pairs = both[np.unique(_keys(both, n), return_index=True)[1]]
    standing, merit = _merits(twin, leaders, near_pairs, keep, best)
    centers = _stars(near_pairs, merit)
    groups, chosen = _numbered(centers[twin]), standing[centers[twin]]
    distances = _distances(rows, np.stack([np.arange(n), chosen], axis=1))
    same = np.flatnonzero(leaders[twin] != np.arange(n))
    equal = np.stack([leaders[twin[same]], same], axis=1)
    listed = np.concatenate([leaders[near_pairs], equal]) if len(near_pairs) else equal
    apart = np.concatenate([_distances(different, near_pairs), np.zeros(len(same), dtype=np.float32)])
    return Duplicates(groups, chosen == np.arange(n), chosen, distances, listed, apart, limit, rule, recall)


def _twins(rows: Floats) -> tuple[Positions, Positions]:
    """The first of all rows that are equal, and for each row the number of its first."""
    factors = np.random.default_rng(0).integers(0, 2**63, rows.shape[1], dtype=np.uint64) * 2 + 1
    keys: NDArray[Any] = np.empty(len(rows), dtype=np.uint64)
    for start in range(0, len(rows), 1 << 14):
        # −0 is 0.
        part = rows[start : start + (1 << 14)] + np.float32(0)
        bits = part.view(np.uint32).astype(np.uint64)
        keys[start : start + (1 << 14)] = ((bits ^ (bits << np.uint64(29))) * factors).sum(axis=1)
    _, first, twin = np.unique(keys, return_index=True, return_inverse=True)
    twin = twin.reshape(-1)
    for start in range(0, len(rows), 1 << 14):
        part = rows[start : start + (1 << 14)]
        if not np.array_equal(part, rows[first[twin[start : start + (1 << 14)]]]):
            # Two rows with the same key, which are not the same: compare the bytes themselves.
            plain = np.ascontiguousarray(rows + np.float32(0))
            whole = plain.view(np.dtype((np.void, plain.dtype.itemsize * plain.shape[1]))).reshape(-1)
            _, first, twin = np.unique(whole, return_index=True, return_inverse=True)
            return first, twin.reshape(-1)
    return first, twin


def _usual_distance(rows: Floats, seed: int) -> float:
    """The median distance to the tenth neighbor (copies of an item are seldom so many), on a sample."""
    drawn = np.random.default_rng(seed).permutation(len(rows))[:DRAWN]
    values, _ = exact_search(rows[drawn], rows, TENTH + 1, similarity="euclidean")
    return float(np.median(-values[:, -1])) if len(rows) > 1 else 0.0


def _all_pairs(rows: Floats, limit: float) -> Positions:
    """Every pair (i < j) within the limit."""
    parts = []
    step = max(1, BLOCK // max(1, len(rows)))
    center = rows.mean(axis=0) if len(rows) else 0
    wide = rows - center
    squares = np.einsum("nd,nd->n", wide, wide)
    # The product loses digits: take what may be within the limit, and compute those again.
    slack = 8 * (rows.shape[1] + 8) * 2.0**-24 * float(squares.max(initial=0)) * 4
    for start in range(0, len(rows), step):
        part = wide[start : start + step]
        product = squares[start : start + step, None] + squares[start:] - 2 * part @ wide[start:].T
        first, second = np.nonzero(product <= limit**2 * (1 + 1e-6) + slack)
        pairs = np.stack([first + start, second + start], axis=1)[second > first]
        parts.append(pairs[_distances(rows, pairs) <= np.float32(limit)])
    return np.concatenate(parts) if parts else np.empty((0, 2), dtype=np.int64)


def _near_pairs(rows: Floats, limit: float, k: int, seed: int) -> tuple[Positions, float | None, int]:
    """Pairs within the limit among the k nearest of each row, their recall, and how many rows have k of them.

    Duplicates lie in one cell or in neighboring ones, so few cells are looked into: as many as find nearly all
    pairs of a sample.
    """
    rough = rows - rows.mean(axis=0)
    cells = partition_rows(rough, seed)
    drawn = np.random.default_rng(seed).permutation(len(rows))[:SAMPLE]
    values, places = exact_search(rows[drawn], rows, k + 1, similarity="euclidean")
    true = (-values <= np.float32(limit)) & (places != drawn[:, None])
    asked = np.sort(np.stack([np.broadcast_to(drawn[:, None], places.shape)[true], places[true]], axis=1), axis=1)
    probes = min(FIRST_PROBES, len(cells.centers))
    while len(asked):
        near = search_cells(cells, rough[drawn], k, probes, drawn)
        mine = np.sort(np.stack([np.repeat(drawn, k), near.reshape(-1)], axis=1), axis=1)
        share = float(np.isin(_keys(asked, len(rows)), _keys(mine, len(rows))).mean())
        if share >= ENOUGH or 2 * probes > min(MOST_PROBES, len(cells.centers)):
            break
        probes *= 2
    neighbors = search_cells(cells, rough, k, probes, np.arange(len(rows)))
    candidates = np.stack([np.repeat(np.arange(len(rows)), k), neighbors.reshape(-1)], axis=1)
    apart = _distances(rows, np.maximum(candidates, 0))
    within = (apart <= np.float32(limit)) & (candidates[:, 1] >= 0)
    pairs = np.sort(candidates[within], axis=1)
    _, once = np.unique(_keys(pairs, len(rows)), return_index=True)
    pairs = pairs[once]
    # Found from either side: a pair is one pair.
    hits = np.isin(_keys(asked, len(rows)), _keys(pairs, len(rows)))
    return pairs, float(hits.mean()) if len(asked) else None, int(within.reshape(-1, k).all(axis=1).sum())


def _keys(pairs: Positions, n: int) -> Positions:
    return np.asarray(pairs[:, 0] * n + pairs[:, 1])


def _distances(rows: Floats, pairs: Positions) -> Floats:
    apart = np.empty(len(pairs), dtype=np.float32)
    for start in range(0, len(pairs), 1 << 16):
        part = pairs[start : start + (1 << 16)]
        difference = rows[part[:, 0]].astype(np.float64) - rows[part[:, 1]]
        apart[start : start + (1 << 16)] = np.sqrt(np.einsum("md,md->m", difference, difference))
    return apart


def _merits(
    twin: Positions, leaders: Positions, pairs: Positions, keep: str, scores: NDArray[np.float64] | None
) -> tuple[Positions, NDArray[np.float64]]:
    """For every different row the item that stands for it, and how early it is kept: the smaller, the earlier."""
    if keep == "first":
        return leaders, leaders.astype(np.float64)
    if scores is None:
        return leaders, -(np.bincount(pairs.reshape(-1), minlength=len(leaders)) + np.bincount(twin)).astype(float)
    order = np.lexsort((np.arange(len(twin)), -scores, twin))
    standing = order[np.searchsorted(twin[order], np.arange(len(leaders)))]
    return standing, -scores[standing]


def _stars(pairs: Positions, merit: NDArray[np.float64]) -> Positions:
    """For every row the one that is kept for it: the first by merit takes those of its duplicates that are left."""
    n = len(merit)
    both = np.concatenate([pairs, pairs[:, ::-1]])
    graph = sparse.csr_array((np.ones(len(both), dtype=np.int8), both.T), shape=(n, n))
    centers = np.full(n, -1, dtype=np.int64)
    order = np.argsort(merit, kind="stable")
    for row in order[np.diff(graph.indptr)[order] > 0].tolist():
        if centers[row] < 0:
            others = graph.indices[graph.indptr[row] : graph.indptr[row + 1]]
            centers[others[centers[others] < 0]] = row
            centers[row] = row
    return np.asarray(np.where(centers < 0, np.arange(n), centers))


def _numbered(label: Positions) -> Positions:
    """Groups of more than one item, numbered by their first item; −1 for items alone."""
    _, first, inverse, size = np.unique(label, return_index=True, return_inverse=True, return_counts=True)
    number = np.full(len(first), -1, dtype=np.int64)
    several = np.flatnonzero(size > 1)
    number[several[np.argsort(first[several])]] = np.arange(len(several))
    return np.asarray(number[inverse.reshape(-1)])
