"""How far unseen classes are from seen ones: λ^NN and d̂ of the bound ε_unseen ≤ ε_seen + d + λ."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from nearer._validation import as_matrix, encode_labels
from nearer.evaluation._retrieval import recall_at_k
from nearer.exceptions import LabelError, ShapeError
from nearer.neighbors import search

__all__ = ["nn_discrepancy", "nn_lambda"]


def nn_lambda(seen: Any, seen_labels: Any, unseen: Any, unseen_labels: Any) -> float:
    """λ^NN: the leave-one-out 1-NN label error, the mean of that on seen and that on unseen rows.

    >>> nn_lambda([[0.0], [0.1], [5.0], [5.1]], [0, 0, 1, 1], [[9.0], [9.1]], [2, 2])
    0.0

    Args:
        seen: rows of seen classes, (n, d).
        seen_labels: their classes, (n,).
        unseen: rows of classes never seen, (m, d).
        unseen_labels: their classes, (m,).
    """
    parts = [(seen, seen_labels, "seen_labels"), (unseen, unseen_labels, "unseen_labels")]
    errors = []
    for rows, labels, name in parts:
        matrix = as_matrix(rows, name.removesuffix("_labels"), minimum_rows=2)
        codes = encode_labels(labels, name, n=len(matrix))[0]
        if int(codes.bincount().max()) < 2:
            raise LabelError(f"`{name}` must hold a class with two rows, got none: no row has a neighbour to find.")
        errors.append(1 - recall_at_k(matrix, codes, k=1, similarity="euclidean"))
    return float(np.mean(errors))


def nn_discrepancy(seen: Any, unseen: Any) -> float:
    """d̂ = 1 − 2·e, e the balanced leave-one-out 1-NN error of telling seen rows from unseen ones.

    1 when they lie apart, about 0 when they lie mixed. Can be below 0 on few rows.

    >>> nn_discrepancy([[0.0], [0.1], [0.2]], [[9.0], [9.1]])
    1.0

    Args:
        seen: rows of seen classes, (n, d).
        unseen: rows of classes never seen, (m, d).
    """
    a, b = as_matrix(seen, "seen", minimum_rows=2), as_matrix(unseen, "unseen", minimum_rows=2)
    if a.shape[1] != b.shape[1]:
        raise ShapeError(f"`unseen` must have {a.shape[1]} columns like `seen`, got {b.shape[1]}.")

    joint = torch.cat([a.double(), b.double()])
    unseen_rows = torch.arange(len(joint)) >= len(a)
    wrong = unseen_rows[search(joint, k=1).indices[:, 0]] != unseen_rows
    return 1 - float(wrong[: len(a)].double().mean() + wrong[len(a) :].double().mean())
