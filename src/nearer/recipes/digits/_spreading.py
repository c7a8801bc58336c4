"""A few labels spread over a graph of neighbours: the simple semi-supervised step of the digits demo."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearer._validation import as_labels, as_matrix, check_int, check_number
from nearer.exceptions import LabelError, ParameterError
from nearer.geometry import euclidean_distance

__all__ = ["spread_labels"]


def spread_labels(
    features: Any, labels: Any, *, neighbors: int = 6, alpha: float = 0.9
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """A class for every item and how sure it is, from the labels of a few: (n, p), (n,) -> (n,), (n,).

    F = (I − αS)⁻¹ Y with S = D^{-1/2} W D^{-1/2}, where W joins each item to its `neighbors` nearest ones by
    exp(−d²/2σ²), σ being the mean distance to the last of them. The columns of F are brought to one sum, so that
    no class wins by its size; the class is the largest share of a row, and how sure it is, 0..1, its lead over the
    second. Labels that are given (not −1) are kept, and are sure. An item that no label reaches gets −1 and 0.

    >>> classes, sure = spread_labels([[0], [1], [9], [10]], [3, -1, -1, 7], neighbors=1)
    >>> classes.tolist()
    [3, 3, 7, 7]

    Memory O(n²): for thousands of items, not millions. Reference: Zhou et al. 2003, eq. 4, whose σ is a setting.
    """
    x = as_matrix(features, "features", minimum_rows=2).detach().cpu()
    given = as_labels(labels, "labels", n=len(x)).cpu().numpy()
    k = check_int(neighbors, "neighbors", maximum=len(x) - 1)
    check_number(alpha, "alpha", above=0.0)
    if alpha >= 1:
        raise ParameterError(f"`alpha` must be below 1, got {alpha}.")
    classes, codes = np.unique(given, return_inverse=True)
    known = given != -1
    if not known.any():
        raise LabelError("`labels` must name at least one item, got only -1. Label a few items of every class.")

    from scipy.sparse import csc_array, diags_array, eye_array
    from scipy.sparse.linalg import splu

    n = len(x)
    distance = euclidean_distance(x.double())
    distance.fill_diagonal_(float("inf"))
    near = distance.topk(k, largest=False)
    far = float(near.values[:, -1].mean())
    weight = np.exp(-((near.values.numpy() / max(far, 1e-12)) ** 2) / 2).ravel()
    graph = csc_array((weight, (np.repeat(np.arange(n), k), near.indices.numpy().ravel())), shape=(n, n))
    graph = graph.maximum(graph.T)
    scale = diags_array(1 / np.sqrt(np.maximum(graph.sum(axis=1), 1e-300)))
    start = np.zeros((n, len(classes)))
    start[known, codes[known]] = 1
    mass = splu((eye_array(n) - alpha * (scale @ graph @ scale)).tocsc()).solve(start)
    mass = np.maximum(mass, 0) / np.maximum(mass.sum(axis=0), 1e-300)

    total = mass.sum(axis=1)
    reached = total > 0
    share = mass / np.where(reached, total, 1)[:, None]
    lead = np.sort(share, axis=1)[:, -2:]
    sure = lead[:, -1] - (lead[:, 0] if len(classes) > 1 else 0)
    found = np.where(reached, classes[share.argmax(axis=1)], -1)
    return np.where(known, given, found).astype(np.int64), np.where(known, 1.0, np.where(reached, sure, 0.0))
