"""Batches of one pair per class, for losses that take anchors first and then their positives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from nearer._validation import as_labels
from nearer.training import ClassSampler
from nearer.training._samplers import BatchSampler

__all__ = ["NPairSampler"]


class NPairSampler(BatchSampler):
    """One pair of items from each of `pairs` classes: anchors first, then their positives in the same order.

    >>> labels = [0, 0, 1, 1, 2, 2]
    >>> rows = NPairSampler(labels, pairs=3).epoch(0)[0]
    >>> [labels[row] for row in rows[:3]] == [labels[row] for row in rows[3:]]
    True

    Args:
        labels: classes of the items, (n,).
        pairs: classes in a batch.
        batches: batches in an epoch; None as many as the items need.
        seed: draws the batches.
    """

    def __init__(self, labels: Any, *, pairs: int, batches: int | None = None, seed: int = 0) -> None:
        array = as_labels(labels, "labels").cpu().numpy()
        names, counts = np.unique(array[array >= 0], return_counts=True)
        # A class of one item has no pair.
        usable = np.where(np.isin(array, names[counts > 1]), array, -1)
        self._by_class = ClassSampler(usable, n_classes=pairs, per_class=2, batches=batches, seed=seed)

    def __len__(self) -> int:
        return len(self._by_class)

    def epoch(self, number: int) -> Sequence[Tensor]:
        """Batches of shape (2 · pairs,)."""
        return [rows.reshape(-1, 2).t().reshape(-1) for rows in self._by_class.epoch(number)]
