"""Which answer would help most: items whose class is unsure and whose neighborhood hangs on it.

    u = (1 − lead of the spread labels) / (1 + mass / median mass),   ask argmax of u + Su + S²u

S is the walk on a graph of nearest neighbors; after each pick u falls where the pick reaches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearer.explorer._spreading import lead_of, random_walk, spread_labels

__all__ = ["ask"]

Array = NDArray[Any]
SAMPLE = 4_000


def ask(rows: Array, labels: Array, n: int, *, allowed: Array, seed: int = 0) -> list[dict[str, Any]]:
    """The n items to ask about, each with the item to compare it with and the class it seems to have.

    `rows` (m, d) are embeddings, `labels` (m,) codes with −1, `allowed` (m,) the items that may be asked. The
    partner is the nearest labelled item of the likeliest class; without labels it is a neighbor.
    """
    rng = np.random.default_rng(seed)
    known, open_ = np.flatnonzero(labels >= 0), np.flatnonzero((labels < 0) & allowed)
    if not len(open_):
        return []
    chosen = np.concatenate([rng.permutation(open_)[:SAMPLE], rng.permutation(known)[:SAMPLE]])
    some, y = rows[chosen], labels[chosen]
    walk = random_walk(some)
    classes, shares, mass = spread_labels(walk, y)
    lead = lead_of(shares)
    unsure = (1 - lead) / (1 + mass / max(float(np.median(mass)), 1e-12))
    unsure[y >= 0] = 0
    asked: list[dict[str, Any]] = []
    for _ in range(n):
        reach = unsure + walk @ unsure + walk @ (walk @ unsure)
        reach[(y >= 0) | (unsure <= 0)] = -1
        pick = int(reach.argmax())
        if reach[pick] < 0:
            break
        guess = int(classes[shares[pick].argmax()]) if len(classes) and mass[pick] > 0 else -1
        partner = _partner(rows, labels, int(chosen[pick]), guess, walk, chosen, pick)
        asked.append({"item": int(chosen[pick]), "other": partner, "guess": guess, "lead": float(lead[pick])})
        near = np.zeros(len(some))
        near[pick] = 1
        for _ in range(3):
            near = near + walk.T @ near
        unsure = unsure * (1 - 0.9 * near / near.max())
        unsure[pick] = 0
    return asked


def _partner(rows: Array, labels: Array, item: int, guess: int, walk: Any, chosen: Array, pick: int) -> int:
    if guess >= 0:
        members = np.flatnonzero(labels == guess)
        return int(members[np.square(rows[members] - rows[item]).sum(axis=1).argmin()])
    near = walk[[pick], :].tocoo().col
    return int(chosen[near[0]]) if len(near) else item
