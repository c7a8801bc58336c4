"""The questions of the page: `nearer.judging` on a sample of the items, each with what to compare it with."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearer._plain import Array
from nearer.judging._influence import graph_of, pick, spread, walk

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
