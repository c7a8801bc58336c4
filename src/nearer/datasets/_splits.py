"""Splits that experiments need: classes kept apart, classes kept in proportion, and few labels kept.

Each function takes integer labels (−1 = no label) and returns row numbers or new labels; the same seed gives the
same answer. `Split.take(rows)` applies row numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from nearer._checks import check_int, check_number
from nearer._validation import as_labels
from nearer.datasets._dataset import Array
from nearer.exceptions import LabelError, ParameterError, ShapeError


def _labels(labels: Any) -> Array:
    array = as_labels(labels, "labels").cpu().numpy()
    if array.size == 0:
        raise ShapeError("`labels` must not be empty.")
    if array.min() < -1:
        raise LabelError(f"`labels` must be at least 0, or -1 for no label, got {array.min()}.")
    return array


def _rows_by_class(array: Array) -> dict[int, Array]:
    """The rows of every class but −1, from one sort: a loop over masks would be slow for thousands of classes."""
    order = np.argsort(array, kind="stable")
    classes, starts = np.unique(array[order], return_index=True)
    groups = np.split(order, starts[1:])
    return {int(label): rows for label, rows in zip(classes, groups, strict=True) if label >= 0}


def class_disjoint_split(
    labels: Any, *, train_classes: int | Iterable[int] | None = None, seed: int | None = None
) -> tuple[Array, Array]:
    """Rows of the training classes and rows of all other classes: no class is on both sides.

    `train_classes` is how many classes to train on (default: half, rounded down) or which ones. A number takes the
    smallest labels, as the published protocols do, or with `seed` random ones.

    >>> class_disjoint_split([0, 1, 2, 3, 0, 1])
    (array([0, 1, 4, 5]), array([2, 3]))

    Args:
        labels: classes of the rows, (n,).
        train_classes: how many classes to train on, or which; half of them if None.
        seed: draws the classes; None takes the smallest labels.
    """
    array = _labels(labels)
    if (array < 0).any():
        raise LabelError(
            f"`labels` must give every row a class, got {int((array < 0).sum())} rows without (-1). Split the "
            f"labelled rows only: the class of the others is not known."
        )
    classes = np.unique(array)
    if train_classes is None or isinstance(train_classes, (int, np.integer)):
        if len(classes) < 2:
            raise LabelError(f"`labels` must hold at least two classes to keep apart, got {len(classes)}.")
        half = len(classes) // 2 if train_classes is None else train_classes
        count = check_int(half, "train_classes", maximum=len(classes) - 1)
        order = (
            classes
            if seed is None
            else np.random.default_rng(check_int(seed, "seed", minimum=0)).permutation(classes)
        )
        chosen = order[:count]
    else:
        if seed is not None:
            raise ParameterError("`seed` must be left out when `train_classes` names the classes.")
        chosen = np.unique(np.asarray(list(train_classes)))
        absent = np.setdiff1d(chosen, classes)
        if absent.size:
            raise LabelError(f"`train_classes` must occur in `labels`, and {absent[:5].tolist()} do not.")
        if chosen.size in (0, classes.size):
            raise LabelError(
                f"`train_classes` must leave classes on both sides, got {chosen.size} of {classes.size}."
            )
    seen = np.isin(array, chosen)
    return np.flatnonzero(seen), np.flatnonzero(~seen)


def stratified_split(labels: Any, *, test: float | int = 0.2, seed: int = 0) -> tuple[Array, Array]:
    """Rows to train on and rows to test on, at random, every class in the same proportion.

    `test` is the share (a float in 0..1) or the number (an int) of rows to test on. Shares are rounded by largest
    remainder, so the total is exact; a class of two or more rows is on both sides wherever the total allows it,
    and a class of one stays in training. Rows without a label (−1) stay in training: they cannot be scored.

    >>> train, held_out = stratified_split([0, 0, 0, 1, 1, 1], test=2)
    >>> len(train), len(held_out)
    (4, 2)

    Args:
        labels: classes of the rows, (n,).
        test: share or number of rows to test on.
        seed: draws the rows.
    """
    array = _labels(labels)
    generator = np.random.default_rng(check_int(seed, "seed", minimum=0))
    groups = _rows_by_class(array)
    sizes = np.array([len(rows) for rows in groups.values()], dtype=np.int64)
    # A class gives at most all rows but one to the test part.
    most = sizes - 1
    if isinstance(test, (float, np.floating)):
        share = check_number(test, "test", above=0.0)
        if share >= 1:
            raise ParameterError(
                f"`test` as a share must be below 1, got {share}. For a number of rows pass an int."
            )
        total = round(share * int(sizes.sum()))
    else:
        total = check_int(test, "test")
    if not 1 <= total <= most.sum():
        raise ParameterError(
            f"`test` must leave a row of each class to train on: between 1 and {max(int(most.sum()), 0)} of the "
            f"{int(sizes.sum())} labelled rows, got {total}."
        )
    counts = _apportion(sizes, most, total)
    held_out = [generator.permutation(rows)[:count] for rows, count in zip(groups.values(), counts, strict=True)]
    test_rows = np.sort(np.concatenate(held_out))
    return np.setdiff1d(np.arange(len(array)), test_rows, assume_unique=True), test_rows


def _apportion(sizes: Array, most: Array, total: int) -> Array:
    """Whole numbers near total·sizes/Σsizes that sum to total, at most `most` each, at least 1 where it can be."""
    exact: Array = total * sizes / sizes.sum()
    counts: Array = np.minimum(np.maximum(np.floor(exact).astype(np.int64), 1), most)
    while counts.sum() != total:
        step = 1 if counts.sum() < total else -1
        # The last row of a class is taken only where no class has more than one.
        least = 1 if (counts > 1).any() else 0
        can_change = counts < most if step == 1 else counts > least
        # Give to (or take from) the class that is furthest from its exact share, among those that can change.
        counts[np.argmax(np.where(can_change, step * (exact - counts), -np.inf))] += step
    return counts


def few_labels(labels: Any, *, per_class: int, seed: int = 0) -> Array:
    """New labels in which `per_class` random rows of each class keep their label and all others are −1.

    >>> few_labels([7, 7, 7, 9], per_class=1).tolist().count(-1)
    2

    Args:
        labels: classes of the rows, (n,).
        per_class: labels that each class keeps.
        seed: draws the rows.
    """
    array = _labels(labels)
    keep = check_int(per_class, "per_class")
    generator = np.random.default_rng(check_int(seed, "seed", minimum=0))
    result = np.full(len(array), -1, dtype=np.int64)
    groups = _rows_by_class(array)
    if not groups:
        raise LabelError("`labels` must hold at least one class, got only rows without a label (-1).")
    for label, rows in groups.items():
        if len(rows) < keep:
            raise LabelError(
                f"`per_class` must be at most the size of every class; class {label} has {len(rows)}, got {keep}."
            )
        result[generator.permutation(rows)[:keep]] = label
    return result
