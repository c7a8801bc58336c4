"""What to ask a person next: pairs, or items, whose answer would change most."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from nearer._checks import check_int
from nearer._plain import Array
from nearer._validation import as_array, as_labels
from nearer.exceptions import ParameterError, ShapeError
from nearer.graph._shared import ClassShares
from nearer.judging._influence import embedded, graph_of, mass_of, pick, spread, walk
from nearer.relations import Pairs


def groups_of(pairs: Pairs) -> tuple[Array, set[tuple[int, int]]]:
    """What pairs say of items: a group for each that was asked about (n,), −1 for the others, and groups apart.

    Near is taken as transitive: a and b, b and c make one group of three. An item that was only ever different is
    a group of its own.

    >>> groups, apart = groups_of(Pairs(5, positive=[[0, 1], [1, 2]], negative=[[2, 3]]))
    >>> groups.tolist(), apart
    ([0, 0, 0, 1, -1], {(0, 1)})
    """
    listed, near = (table.cpu().numpy() for table in pairs.listed())
    n = pairs.n_queries
    links = sparse.coo_array((np.ones(int(near.sum())), (listed[near, 0], listed[near, 1])), shape=(n, n))
    _, component = connected_components(links, directed=False)
    groups = np.full(n, -1, dtype=np.int64)
    asked = np.unique(listed)
    _, groups[asked] = np.unique(component[asked], return_inverse=True)
    apart = {(min(a, b), max(a, b)) for a, b in groups[listed[~near]].tolist() if a != b}
    return groups, apart


def suggest_pairs(metric: Any, X: Any, known: Any, n: int = 20) -> Array:
    """The n pairs of rows whose answer, same or different, would help most: row numbers (n, 2).

    Groups of rows that are the same stand for classes. Half of the questions are about groups that may be one: the
    likeliest first, so that most are answered "same" and fragments grow together. The others bring new items,
    chosen like those of `suggest_items`, each beside the nearest member of the group that it most likely belongs
    to. What is likely comes from the groups, spread over the graph of the rows.

    >>> rows = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]])
    >>> suggest_pairs(None, rows, Pairs(6, positive=[[0, 1]], negative=[[0, 3]]), n=1).shape
    (1, 2)

    Args:
        metric: what embeds the rows: a model, an estimator with `transform`, a function, or None.
        X: rows (m, p), or whatever the metric takes.
        known: the `Pairs` that were answered, or labels (m,) with −1 for rows without one; None for nothing yet.
        n: how many questions.
    """
    n = check_int(n, "n")
    rows = embedded(metric, X, minimum_rows=2)
    groups, apart = _what_is_known(known, len(rows))
    neighbors = graph_of(rows)
    S = walk(neighbors)
    if not (groups >= 0).any():
        # Somebody has to be the first group: the item that most others hang on.
        groups[pick(S, spread(neighbors, groups), 1, allowed=groups < 0)[0]] = 0
    spread_groups = spread(neighbors, groups)
    reached, likeliest = mass_of(spread_groups) > 0, spread_groups.pseudo_labels.numpy()
    questions = _merges(groups, apart, spread_groups, rows)[: n // 2]
    fresh = pick(S, spread_groups, n - len(questions), allowed=groups < 0)
    for number, row in enumerate(fresh):
        likely = int(likeliest[row] if reached[row] else spread_groups.classes[0])
        # New items of one crowd are compared with each other: that is where "same" is likely.
        near = set(S[[row]].indices.tolist())
        neighbor = next((other for other in fresh[:number] if other in near), None)
        questions.append((row, neighbor if neighbor is not None else _nearest(rows, row, groups == likely)))
    return np.array(questions[:n], dtype=np.int64).reshape(-1, 2)


def _merges(groups: Array, apart: set[tuple[int, int]], spread: ClassShares, rows: Array) -> list[tuple[int, int]]:
    """Pairs of groups that may be one, the likeliest first, each by its two nearest members."""
    names = spread.classes.numpy()
    # How much of every group is reached by every other, by the number of its labels, in both directions.
    reach = spread.reach.numpy() / np.array([(groups == group).sum() for group in names])
    member = np.stack([reach[groups == group].mean(axis=0) for group in names])
    likely = np.minimum(member, member.T)
    np.fill_diagonal(likely, 0.0)
    first, second = np.triu_indices(len(names), 1)
    order = np.argsort(-likely[first, second], kind="stable")
    used: set[int] = set()
    questions: list[tuple[int, int]] = []
    for number in order.tolist():
        a, b = int(names[first[number]]), int(names[second[number]])
        if likely[first[number], second[number]] <= 0 or a in used or b in used or (a, b) in apart:
            continue
        used |= {a, b}
        mine = np.flatnonzero(groups == a)
        other = [_nearest(rows, int(row), groups == b) for row in mine]
        gaps = np.square(rows[mine] - rows[other]).sum(axis=1)
        best = int(gaps.argmin())
        questions.append((int(mine[best]), other[best]))
    return questions


def _nearest(rows: Array, row: int, members: Array) -> int:
    """The row among `members` that is nearest to this one, and not itself."""
    allowed = np.flatnonzero(members)
    allowed = allowed[allowed != row]
    return int(allowed[np.square(rows[allowed] - rows[row]).sum(axis=1).argmin()])


def _what_is_known(known: Any, n: int) -> tuple[Array, set[tuple[int, int]]]:
    if known is None:
        return np.full(n, -1, dtype=np.int64), set()
    if isinstance(known, Pairs):
        if known.n_queries != n or not known.both_ways:
            raise ShapeError(f"`known` must be pairs of the {n} rows among themselves.")
        return groups_of(known)
    groups = as_labels(known, "known", n=n).cpu().numpy().astype(np.int64)
    # Different classes are known to differ.
    names = np.unique(groups[groups >= 0]).tolist()
    return groups, {(a, b) for a in names for b in names if a < b}


def suggest_items(metric: Any, X: Any, labels: Any, n: int = 20, *, allowed: Any = None) -> Array:
    """The n unlabelled rows whose class would help most, best first: row numbers (n,).

    Labels that there are spread over the graph of the rows; an item is worth asking that they leave unsure, that
    they hardly reach, and that many others hang on (docs/questions.md has the formula). Ask in batches of about 20,
    put the answers into `labels`, and ask again. Without any label it picks the middle of every crowd.

    >>> rows = np.concatenate([np.linspace(0, 1, 20), np.linspace(9, 10, 20)])[:, None]
    >>> labels = np.where(np.arange(40) == 10, 0, -1)  # one label, in the first crowd
    >>> rows[suggest_items(None, rows, labels, n=1)] > 5
    array([[ True]])

    Args:
        metric: what embeds the rows: a model, an estimator with `transform`, a function, or None.
        X: rows (m, p), or whatever the metric takes.
        labels: classes (m,), −1 for rows without one.
        n: how many questions.
        allowed: (m,) true for rows that may be asked; None allows all that have no label.
    """
    n = check_int(n, "n")
    rows = embedded(metric, X, minimum_rows=2)
    known = as_labels(labels, "labels", n=len(rows)).cpu().numpy()
    free = known < 0
    if allowed is not None:
        may = as_array(allowed)
        if may.shape != (len(rows),) or may.dtype != bool:
            raise ParameterError(f"`allowed` must hold true or false for each of the {len(rows)} rows.")
        free = free & may
    neighbors = graph_of(rows)
    return np.array(pick(walk(neighbors), spread(neighbors, known), n, allowed=free), dtype=np.int64)
