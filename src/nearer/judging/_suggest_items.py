"""Which items to label next."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearer._checks import check_int
from nearer._validation import Array, as_array, as_labels
from nearer.exceptions import ParameterError
from nearer.judging._influence import embedded, graph_of, pick, spread, walk

__all__ = ["suggest_items"]


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
    rows = embedded(metric, X)
    known = as_labels(labels, "labels", n=len(rows)).cpu().numpy()
    free = known < 0
    if allowed is not None:
        may = as_array(allowed)
        if may.shape != (len(rows),) or may.dtype != bool:
            raise ParameterError(f"`allowed` must hold true or false for each of the {len(rows)} rows.")
        free = free & may
    neighbors = graph_of(rows)
    return np.array(pick(walk(neighbors), spread(neighbors, known), n, allowed=free), dtype=np.int64)
