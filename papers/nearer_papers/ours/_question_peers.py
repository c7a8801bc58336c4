"""Pairs that two other libraries ask about, in their order: farthest first (scikit-query) and COBRAS (cobras-ts).

Both want to find clusters; here they only choose the questions, and the metric is learned from the answers as for
everybody else. Neither is a dependency: without the package its row is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["PEERS", "asked_pairs", "installed"]

Array = NDArray[Any]
PEERS = {"farthest-first pairs (scikit-query)": "skquery", "COBRAS pairs (cobras-ts)": "cobras_ts"}


def installed(strategy: str) -> bool:
    """Whether the library of a strategy is there; ours need none.

    >>> installed("random")
    True
    """
    return strategy not in PEERS or find_spec(PEERS[strategy]) is not None


def asked_pairs(strategy: str, x: Array, y: Array, most: int, seed: int) -> list[tuple[int, int]]:
    """The pairs (i, j) that a library asks for on rows x (n, p) when y answers, at most so many."""
    asked: list[tuple[int, int]] = []

    def answer(i: int, j: int) -> bool:
        asked.append((min(int(i), int(j)), max(int(i), int(j))))
        return bool(y[i] == y[j])

    # Both draw from numpy's own state, which is given back.
    before = np.random.get_state()  # noqa: NPY002
    np.random.seed(seed)  # noqa: NPY002
    try:
        (_farthest_first if "skquery" in PEERS[strategy] else _cobras)(x, len(np.unique(y)), most, answer)
    finally:
        np.random.set_state(before)  # noqa: NPY002
    return asked[:most]


def _farthest_first(x: Array, classes: int, most: int, answer: Callable[[int, int], bool]) -> None:
    from skquery.exceptions import EmptyBudgetError
    from skquery.pairwise import FFQS

    class Oracle:
        budget, queries = most, 0

        def query(self, i: int, j: int) -> bool:
            if self.queries >= self.budget:
                raise EmptyBudgetError
            self.queries += 1
            return answer(i, j)

    FFQS().fit(x, Oracle(), n_clusters=classes)


def _cobras(x: Array, classes: int, most: int, answer: Callable[[int, int], bool]) -> None:
    from cobras_ts.cobras_kmeans import COBRAS_kmeans

    class Answers:
        """What the library asks of somebody who answers; its own base class needs a web server."""

        def query_points(self, i: int, j: int) -> bool:
            return answer(i, j)

        def continue_cluster_process(self) -> bool:
            return True

        def update_clustering(self, clustering: Any) -> None:
            """Nothing is shown."""

        def update_clustering_detailed(self, clustering: Any) -> None:
            """Nothing is shown."""

    # The library is older than NumPy 1.24, which took this name away.
    vars(np).setdefault("int", int)
    COBRAS_kmeans(x.astype(np.float64), Answers(), most, store_intermediate_results=False).cluster()
