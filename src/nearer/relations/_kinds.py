"""Which relation a plain array of labels means: classes, label sets, distributions or numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor

from nearer._validation import check_choice, encode_labels
from nearer.exceptions import LabelError, ShapeError
from nearer.relations._distribution import LabelDistributions
from nearer.relations._labels import ClassLabels
from nearer.relations._multilabel import MultiLabels
from nearer.relations._numbers import Numbers
from nearer.relations._relation import TableRelation

__all__ = ["kind_of", "relation_of"]

KINDS = ("classes", "sets", "distributions", "numbers")


def kind_of(labels: Any) -> str:
    """ "classes" for names and whole numbers (n,), "numbers" for fractions (n,), "sets" for a 0/1 matrix (n, q),
    "distributions" for rows that are not negative and sum to one.

    One column is read as (n,).

    >>> kind_of(["a", "b"]), kind_of([0.5, 1.25]), kind_of([[1, 0], [1, 1]]), kind_of([[0.5, 0.5], [1.0, 0.0]])
    ('classes', 'numbers', 'sets', 'distributions')
    """
    array = _as_array(labels)
    if array.ndim == 1:
        return "numbers" if array.dtype.kind == "f" and not (array == np.floor(array)).all() else "classes"
    if array.dtype.kind not in "biuf":
        raise LabelError(
            f"a matrix of labels must hold numbers, got {array.dtype}. Names are for one class per row."
        )
    if np.isin(array, (0, 1)).all():
        return "sets"
    if (array >= 0).all() and (np.abs(array.sum(axis=1) - 1) <= 1e-3).all():
        return "distributions"
    wrong = (array < 0).any(axis=1) | (np.abs(array.sum(axis=1) - 1) > 1e-3)
    row = int(np.flatnonzero(wrong)[0])
    raise LabelError(
        f"a matrix of labels must hold 0 and 1 only (label sets), or rows that are not negative and sum to 1 "
        f"(distributions); row {row} has the sum {array[row].sum():.4g} and the smallest entry "
        f"{array[row].min():.4g}. Do not mix the two kinds; divide rows by their sums for distributions."
    )


def relation_of(
    labels: Any, *, kind: str = "auto", function: str | Callable[[Tensor, Tensor], Tensor] = "auto"
) -> TableRelation:
    """The relation of plain labels, by `kind_of` unless `kind` says it, and by a relation function.

    `function` "auto" is L1 of the one-hot rows for classes, "l1" for sets and distributions, the difference for
    numbers. Any other name is one of `MultiLabels` or `LabelDistributions`.

    >>> relation_of([[1, 0], [1, 1]]).farthest
    4.0
    """
    array = _as_array(labels)
    found = kind_of(array) if kind == "auto" else check_choice(kind, "kind", ["auto", *KINDS])
    if found in ("classes", "numbers"):
        if function != "auto":
            raise LabelError(
                f"a relation function compares rows of labels, got {found} of shape (n,). Leave it at 'auto', or "
                f"pass one-hot rows."
            )
        if array.ndim != 1:
            raise ShapeError(f"`labels` must have shape (n,) for {found}, got {array.shape}.")
        return ClassLabels(encode_labels(array, "labels")[0]) if found == "classes" else Numbers(array)
    if array.ndim != 2:
        raise ShapeError(f"`labels` must have shape (n, q) for {found}, got {array.shape}.")
    chosen = "l1" if function == "auto" else function
    if found == "sets":
        return MultiLabels(array, function=chosen)
    return LabelDistributions(array.astype(np.float64), function=chosen)


def _as_array(labels: Any) -> np.ndarray[Any, Any]:
    array = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim not in (1, 2) or array.shape[0] == 0:
        raise ShapeError(f"`labels` must have shape (n,) or (n, q) with n at least 1, got {array.shape}.")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise LabelError("`labels` must not hold NaN or infinity. Drop those rows.")
    return array
