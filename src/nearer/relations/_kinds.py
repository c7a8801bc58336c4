"""What labels are: one word for it, decided in one place, and the relation that plain labels mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
from torch import Tensor

from nearer._checks import check_choice
from nearer._validation import as_array, encode_labels
from nearer.exceptions import LabelError, ShapeError
from nearer.relations._relation import Relation, TableRelation

Kind = Literal["classes", "partial", "sets", "distributions", "numbers", "pairs"]
"""What the labels of a data set are; `kind_of` says it of a relation or of labels as they come."""
KINDS: tuple[Kind, ...] = get_args(Kind)
SIGNS = (-1, 1)
"""Two classes where they are alone, as everywhere in the field; beside others −1 marks what has no label."""


def kind_of(labels: Any, *, name: str = "labels") -> Kind:
    """What labels are. `name` is what errors call them.

    - "classes": names or whole numbers (n,);
    - "partial": the same with −1 for rows without a label; −1 and 1 alone are two classes;
    - "numbers": fractions (n,);
    - "sets": a 0/1 matrix (n, q);
    - "distributions": a matrix (n, q) whose rows are not negative and sum to one;
    - "pairs": listed `Pairs` or `Triplets`.

    One column is read as (n,), no rows as classes. A relation has the kind it was made for.

    >>> kind_of(["a", "b"]), kind_of([0, 2, -1]), kind_of([0.5, 1.25])
    ('classes', 'partial', 'numbers')
    >>> kind_of([[1, 0], [1, 1]]), kind_of([[0.5, 0.5], [1.0, 0.0]])
    ('sets', 'distributions')

    Args:
        labels: labels as they come, or a relation.
        name: what errors call them.
    """
    if isinstance(labels, Relation):
        from nearer.relations._relate import kind_of_relation

        return kind_of_relation(labels)
    array = _as_array(labels, name)
    if array.ndim == 2:
        return kind_of_matrix(array, name=name)
    return kind_of_column(array, name=name)


def kind_of_column(
    array: np.ndarray[Any, Any], known: np.ndarray[Any, Any] | None = None, *, name: str = "labels"
) -> Literal["classes", "partial", "numbers"]:
    """What labels (n,) are. `known` (n,) says which rows have one; None: all but those that are −1 beside others.

    >>> kind_of_column(np.array([-1, 1])), kind_of_column(np.array([-1, 1]), np.array([False, True]))
    ('classes', 'partial')
    """
    present = array if known is None else array[known]
    if array.dtype.kind == "f" and (present != np.floor(present)).any():
        if len(present) < len(array):
            raise LabelError(
                f"`{name}` must have a number in every row, got {len(array) - len(present)} without. "
                f"Drop those rows."
            )
        return "numbers"
    if known is None:
        known = np.ones(len(array), dtype=bool)
        if array.dtype.kind in "if" and not np.isin(array, SIGNS).all():
            known = array != -1
    return "classes" if known.all() else "partial"


def kind_of_matrix(array: np.ndarray[Any, Any], *, name: str = "labels") -> Literal["sets", "distributions"]:
    """Which of the two a matrix of labels (n, q) holds; anything else is refused.

    >>> kind_of_matrix(np.array([[0, 1]]))
    'sets'
    """
    if array.dtype.kind not in "biuf":
        raise LabelError(
            f"`{name}` must hold numbers in a matrix of labels, got {array.dtype}. Names are for one class per row."
        )
    if np.isin(array, (0, 1)).all():
        return "sets"
    sums = array.sum(axis=1, dtype=np.float64)
    wrong = (array < 0).any(axis=1) | (np.abs(sums - 1) > 1e-3)
    if not wrong.any():
        return "distributions"
    row = int(np.flatnonzero(wrong)[0])
    raise LabelError(
        f"`{name}` must hold 0 and 1 only (label sets), or rows that are not negative and sum to 1 "
        f"(distributions); row {row} has the sum {sums[row]:.4g} and the smallest entry {array[row].min():.4g}. Do "
        f"not mix the two kinds; divide rows by their sums for distributions."
    )


def relation_of(
    labels: Any, *, kind: str = "auto", function: str | Callable[[Tensor, Tensor], Tensor] = "auto"
) -> TableRelation:
    """The relation of plain labels, by `kind_of` unless `kind` says it, and by a relation function.

    `function` "auto" is L1 of the one-hot rows for classes, "l1" for sets and distributions, the difference for
    numbers. Any other name is one of `MultiLabels` or `LabelDistributions`. Pairs are no table and are refused.

    >>> relation_of([[1, 0], [1, 1]]).farthest
    4.0

    Args:
        labels: labels as they come.
        kind: what they are; "auto" finds out.
        function: how different two rows are, by name or as a function.
    """
    # Late: a search asks for the kind of its labels and never for a relation.
    from nearer.relations._graded import LabelDistributions, MultiLabels, Numbers
    from nearer.relations._labels import ClassLabels, PartialLabels

    array = _as_array(labels, "labels")
    if not len(array):
        raise ShapeError(f"`labels` must have at least one row, got shape {array.shape}.")
    kind_found = kind_of(array) if kind == "auto" else check_choice(kind, "kind", ["auto", *KINDS])
    if kind_found == "pairs":
        raise LabelError(
            "`kind` must be one of labels with a row for every item, got 'pairs'. Pass relations.Pairs."
        )
    if kind_found in ("classes", "partial", "numbers"):
        if function != "auto":
            raise LabelError(
                f"a relation function compares rows of labels, got {kind_found} of shape (n,). Leave it at 'auto', "
                f"or pass one-hot rows."
            )
        if array.ndim != 1:
            raise ShapeError(f"`labels` must have shape (n,) for {kind_found}, got {array.shape}.")
        if kind_found == "partial":
            return PartialLabels(array.astype(np.int64))
        return ClassLabels(encode_labels(array, "labels")[0]) if kind_found == "classes" else Numbers(array)
    if array.ndim != 2:
        raise ShapeError(f"`labels` must have shape (n, q) for {kind_found}, got {array.shape}.")
    chosen = "l1" if function == "auto" else function
    if kind_found == "sets":
        return MultiLabels(array, function=chosen)
    return LabelDistributions(array.astype(np.float64), function=chosen)


def _as_array(labels: Any, name: str) -> np.ndarray[Any, Any]:
    array = as_array(labels)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim not in (1, 2):
        raise ShapeError(f"`{name}` must have shape (n,) or (n, q), got {array.shape}.")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise LabelError(f"`{name}` must not hold NaN or infinity. Drop those rows.")
    return array
