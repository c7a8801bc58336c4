"""What metrics are learned of, one metric with what was derived from it, and the questions of the page, each with
what to compare an item with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import nn

from nearer._plain import Array
from nearer.app.explorer._maps import principal_axes
from nearer.app.explorer._metric import Metric
from nearer.judging._influence import graph_of, pick, spread, walk
from nearer.neighbors import search, vote

VOTERS, NEIGHBORS = 4_000, 10


# Directions of the rows that a refit works in.
MOST_COLUMNS = 128


@dataclass(frozen=True, eq=False)
class Base:
    """Rows (n, d) that metrics are learned of, and their principal directions, in which that is done.

    `embed` brings a text or a picture among the rows; `encoder` is the model's own map where a refit learned it
    again.
    """

    rows: Array
    mean: Array
    axes: Array
    features: Array
    embed: Callable[[Any], Array] | None = None
    encoder: nn.Module | None = None

    @classmethod
    def of(cls, rows: Array, embed: Callable[[Any], Array] | None = None, encoder: nn.Module | None = None) -> Base:
        """The base of rows (n, d)."""
        mean, axes = principal_axes(rows, MOST_COLUMNS)
        return cls(rows, mean, axes, rows @ axes - mean @ axes, embed, encoder)


@dataclass(eq=False)
class State:
    """Embeddings (n, d) and their map (n, 2), what they were made of, and by which metric; None leaves the base.

    `placed` says how many items t-SNE has placed, 0 before it has; `warm`, whether it begins from where they are.
    """

    rows: Array
    positions: Array
    base: Base
    metric: Metric | None = None
    about: str = ""
    placed: int = 0
    warm: bool = False
    table: dict[str, Any] = field(default_factory=dict)
    kept: dict[str, Array] = field(default_factory=dict)
    """Predictions by the labels they were made of."""

    def place(self, rows: Array) -> Array:
        """Rows of the base (m, d) under the metric."""
        base = self.base
        return rows if self.metric is None else self.metric(rows @ base.axes - base.mean @ base.axes)


def nearest_to(rows: Array, item: int, k: int, *, among: Array | None = None) -> tuple[Array, Array]:
    """The k rows nearest to one of them, itself left out, and their distances; `among` (n,) says which may be."""
    allowed = np.arange(len(rows)) if among is None else np.flatnonzero(among)
    own = np.flatnonzero(allowed == item)
    k = min(k, len(allowed) - len(own))
    if k < 1:
        return allowed[:0], np.zeros(0)
    near = search(rows[[item]], rows[allowed], k, own=own if len(own) else np.array([-1]))
    return allowed[near.indices[0].numpy()], near.distances[0].numpy()


def usual_distance(rows: Array, item: int) -> float:
    """The median distance of the other rows to one of them; 0 where there is none."""
    others = np.delete(np.linalg.norm(rows - rows[item], axis=1), item)
    return float(np.median(others)) if len(others) else 0.0


def predicted(rows: Array, labels: Array, *, seed: int = 0) -> Array:
    """The vote of the nearest labelled items for every row, itself left out, −1 without any: (n,)."""
    known = np.random.default_rng(seed).permutation(np.flatnonzero(labels >= 0))[:VOTERS]
    if not len(known):
        return np.full(len(rows), -1, dtype=np.int64)
    known = np.sort(known)
    own = np.full(len(rows), -1, dtype=np.int64)
    own[known] = np.arange(len(known))
    near = search(rows, rows[known], min(NEIGHBORS, len(known)), own=own).indices.numpy()
    codes = np.where(near >= 0, labels[known][near], -1)
    return vote(codes)


# Items that are looked at; a graph of more would keep the page waiting.
SAMPLE = 4_000


def ask(rows: Array, labels: Array, n: int, *, allowed: Array, seed: int = 0) -> list[dict[str, Any]]:
    """The n items to ask about, each with the item to compare it with and the class it seems to have.

    `rows` (m, d) are embeddings, `labels` (m,) codes with −1, `allowed` (m,) the items that may be asked. The
    partner is the nearest labelled item of the likeliest class; without labels it is a neighbor.
    """
    rng = np.random.default_rng(seed)
    known, open_ = np.flatnonzero(labels >= 0), np.flatnonzero((labels < 0) & allowed)
    chosen = np.concatenate([rng.permutation(open_)[:SAMPLE], rng.permutation(known)[:SAMPLE]])
    if not len(open_) or len(chosen) < 2:
        return []
    some, y = rows[chosen].astype(np.float32), labels[chosen]
    neighbors = graph_of(some)
    S, shares = walk(neighbors), spread(neighbors, y)
    guesses, lead = shares.pseudo_labels.numpy(), shares.lead.numpy()
    asked = []
    for row in pick(S, shares, n, allowed=y < 0):
        guess = int(guesses[row])
        item = int(chosen[row])
        near = S[[row]].indices
        other = int(chosen[near[near != row][0]]) if len(near) > 1 or (len(near) and near[0] != row) else item
        if guess >= 0:
            members = np.flatnonzero(labels == guess)
            other = int(members[np.square(rows[members] - rows[item]).sum(axis=1).argmin()])
        asked.append({"item": item, "other": other, "guess": guess, "lead": float(lead[row])})
    return asked
