"""Made data in the place of Omniglot, COIL-20, Fashion-MNIST, CIFAR-10 and Cars features; a short protocol."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nearer.datasets import Dataset, Split
from nearer.datasets.mnist import MNIST
from nearer.recipes.unseen_class_data import Protocol

SHORT = Protocol(2, 3, 1e-3, 1e-2, 3, 3, 16)


def drawings(classes: int, each: int, *, shape: tuple[int, ...] = (28, 28), seed: int = 0) -> Split:
    """Patterns with noise, five classes to an alphabet."""
    random = np.random.default_rng(seed)
    patterns = np.random.default_rng(9).integers(0, 200, (classes, *shape))
    y = np.repeat(np.arange(classes), each)
    x = patterns[y] + random.integers(0, 56, (len(y), *shape))
    return Split(x.astype(np.uint8), y.astype(np.int64), {"alphabet": y // 5})


def features(low: int, high: int, each: int = 6) -> Split:
    random = np.random.default_rng(low)
    y = np.repeat(np.arange(low, high), each)
    centres = np.random.default_rng(3).normal(size=(40, 24))
    x = np.abs(centres[y] + 0.5 * random.normal(size=(len(y), 24)))
    return Split(x.astype(np.float32), y.astype(np.int64))


def made() -> dict[str, Callable[[], Dataset]]:
    def whole(split: Split) -> Dataset:
        return Dataset(MNIST, {"all": split})

    def both(shape: tuple[int, ...]) -> Dataset:
        parts = {"train": drawings(10, 8, shape=shape), "test": drawings(10, 4, shape=shape, seed=1)}
        return Dataset(MNIST, parts, tuple("abcdefghij"))

    return {
        "omniglot": lambda: whole(drawings(30, 4)),
        "coil20": lambda: whole(drawings(10, 6, shape=(32, 32))),
        "fashion": lambda: both((28, 28)),
        "cifar10": lambda: both((32, 32, 3)),
        "cars196_features": lambda: Dataset(
            MNIST,
            {"train": features(0, 12), "test": features(12, 20)},
            tuple(f"maker{y % 6} {y}" for y in range(20)),
        ),
    }
