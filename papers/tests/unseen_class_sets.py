"""Made data in the place of Omniglot, COIL-20, Fashion-MNIST, CIFAR-10 and Cars features; a short protocol."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from torch import nn

from nearer.datasets import Dataset, Split
from nearer_papers.data._mnist import MNIST
from nearer_papers.unified_view._unseen_class_data import Protocol

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
    centers = np.random.default_rng(3).normal(size=(40, 24))
    x = np.abs(centers[y] + 0.5 * random.normal(size=(len(y), 24)))
    return Split(x.astype(np.float32), y.astype(np.int64))


def made() -> dict[str, Callable[[], Dataset]]:
    def whole(split: Split) -> Dataset:
        return Dataset(MNIST, {"all": split})

    def both(shape: tuple[int, ...]) -> Dataset:
        parts = {"train": drawings(10, 8, shape=shape), "test": drawings(10, 4, shape=shape, seed=1)}
        return Dataset(MNIST, parts, tuple("abcdefghij"))

    return {
        "omniglot": lambda: whole(drawings(30, 4)),
        "fashion": lambda: both((28, 28)),
        "cifar10": lambda: both((32, 32, 3)),
        "cars196_features": lambda: Dataset(
            MNIST,
            {"train": features(0, 12), "test": features(12, 20)},
            tuple(f"maker{y % 6} {y}" for y in range(20)),
        ),
    }


def photos(root: Path, *, each: int = 3) -> Path:
    """A CUB tree with eight kinds of birds, each of one colour."""
    image = pytest.importorskip("PIL.Image")
    random = np.random.default_rng(0)
    lists: dict[str, list[str]] = {"images": [], "image_class_labels": [], "classes": []}
    number = 0
    for kind in range(8):
        lists["classes"].append(f"{kind + 1} {kind + 1:03d}.Bird_{kind}")
        folder = root / "CUB_200_2011" / "images" / f"{kind + 1:03d}.Bird_{kind}"
        folder.mkdir(parents=True)
        color = np.random.default_rng(kind + 20).integers(0, 255, 3)
        for place in range(each):
            number += 1
            pixels = (color + random.integers(-10, 10, (30, 26, 3))).clip(0, 255)
            image.fromarray(pixels.astype(np.uint8)).save(folder / f"{place}.png")
            lists["images"].append(f"{number} {kind + 1:03d}.Bird_{kind}/{place}.png")
            lists["image_class_labels"].append(f"{number} {kind + 1}")
    for name, lines in lists.items():
        (root / "CUB_200_2011" / f"{name}.txt").write_text("\n".join(lines) + "\n")
    return root


def tiny_backbone() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 4, stride=4), nn.ReLU())
