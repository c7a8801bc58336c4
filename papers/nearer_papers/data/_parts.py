"""A published train and test part as a data set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nearer.datasets._dataset import Array, Dataset, Source, Split

__all__ = ["train_test"]


def train_test(
    source: Source,
    train: tuple[Array, Array],
    test: tuple[Array, Array],
    class_names: Sequence[Any] = (),
    *,
    feature_names: Sequence[Any] = (),
) -> Dataset:
    """A data set with a published train and test part and one class code for each item."""
    parts = {"train": Split(train[0], train[1].astype(np.int64)), "test": Split(test[0], test[1].astype(np.int64))}
    return Dataset(source, parts, tuple(map(str, class_names)), tuple(map(str, feature_names)))
