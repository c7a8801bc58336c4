"""Which answer would help most: items whose class is unsure and whose neighborhood hangs on it.

    u = (1 − lead of the spread labels) / (1 + mass / median mass),   ask argmax of u + Su + S²u

S is the walk on a graph of nearest neighbors; after each pick u falls where the pick reaches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nearer.neighbors import search

__all__ = ["ask"]

Array = NDArray[Any]
SAMPLE, NEIGHBORS, STEPS, SPREADING = 4_000, 15, 40, 0.95


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
    walk = _walk(some)
    classes, codes = np.unique(y[y >= 0], return_inverse=True)
    spread = np.zeros((len(some), len(classes)))
    if len(classes):
        start = np.zeros_like(spread)
        start[np.flatnonzero(y >= 0), codes] = 1
        spread = start
        for _ in range(STEPS):
            spread = SPREADING * (walk @ spread) + (1 - SPREADING) * start
    mass = spread.sum(axis=1)
    shares = spread / np.maximum(spread.sum(axis=0), 1e-12)
    shares = shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-12)
    top = np.sort(shares, axis=1)[:, ::-1] if len(classes) > 1 else None
    lead = top[:, 0] - top[:, 1] if top is not None else np.zeros(len(some))
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


def _walk(rows: Array) -> sparse.csr_matrix:
    k = min(NEIGHBORS, len(rows) - 1)
    if k < 1:
        return sparse.csr_matrix((len(rows), len(rows)))
    found = search(rows, k=k)
    near, distances = found.indices.numpy(), found.distances.numpy()
    scale = np.maximum(distances[:, -1:], 1e-12)
    weight = np.exp(-np.square(distances / scale))
    place = np.repeat(np.arange(len(rows)), k)
    graph = sparse.csr_matrix((weight.ravel(), (place, near.ravel())), shape=(len(rows), len(rows)))
    graph = graph + graph.T
    total = np.maximum(np.asarray(graph.sum(axis=1)).ravel(), 1e-12)
    return sparse.diags_array(1 / total) @ graph


def _partner(rows: Array, labels: Array, item: int, guess: int, walk: Any, chosen: Array, pick: int) -> int:
    if guess >= 0:
        members = np.flatnonzero(labels == guess)
        return int(members[np.square(rows[members] - rows[item]).sum(axis=1).argmin()])
    near = walk[[pick], :].tocoo().col
    return int(chosen[near[0]]) if len(near) else item
