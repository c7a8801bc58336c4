"""Images of which few have a label: the data of the semi-supervised experiments, split once and for all by a seed.

15 % of every training class are held out for validation and seen by nothing else. Of the rest ten per class (a
hundred for CIFAR-10) keep their label. Pixels are standardised with the mean and deviation of the training images.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nearer._checks import check_choice
from nearer.datasets import few_labels, stratified_split
from nearer.geometry._encoders import ColorCNN, DigitsCNN
from nearer.training._photo_batches import jiggled
from nearer_papers.data._cifar10 import load_cifar10
from nearer_papers.data._fashion import load_fashion_mnist
from nearer_papers.data._mnist import load_mnist
from nearer_papers.systems._views import exemplar_views

__all__ = ["DATASETS", "FewLabelImages", "load_few_label_images"]

LOADERS = {"mnist": load_mnist, "fashion": load_fashion_mnist, "cifar10": load_cifar10}
DATASETS = tuple(LOADERS)
HELD_OUT = 0.15


@dataclass(frozen=True, eq=False)
class FewLabelImages:
    """Training images with few labels, and images with all labels to validate and to test on."""

    name: str
    items: Tensor  # (n, c, h, w)
    labels: Tensor  # (n,), -1 for unlabelled
    validation: tuple[Tensor, Any]
    test: tuple[Tensor, Any]
    pixels: Tensor  # (n, c, h, w) in 0..1, for views that need colours
    note: str
    mean: Tensor  # (1, c, 1, 1), of the pixels
    spread: Tensor
    fingerprint: str = ""
    """Of the data set that it was made of."""

    k = 10
    """Neighbours of the graph."""
    is_images = True
    rate = 1e-3
    """Of Adam."""

    @property
    def pseudo_labeled(self) -> float:
        """The share of the unlabelled items, the surest first, whose pseudo-label is used."""
        return 0.5 if self.name == "cifar10" else 0.9

    @property
    def batch(self) -> int:
        """Items of a batch: twelve of every class in the mean."""
        return 120

    def standard(self, pixels: Tensor) -> Tensor:
        """Pixels in 0..1 as the network sees `items`: every channel with mean 0 and spread 1."""
        return (pixels - self.mean) / self.spread

    def exemplars(self, pixels: Tensor) -> Tensor:
        """Views of pixels in 0..1, which changes of colour need, on the scale of everything else."""
        return self.standard(exemplar_views(pixels))

    @property
    def width(self) -> int:
        """Columns of the embeddings before the projection; half of them remain after it."""
        return 64 if self.name == "cifar10" else 128

    def encoder(self, seed: int, *, batch_norm: bool = True) -> nn.Module:
        """A fresh network of the paper; batch normalisation after each convolution is an option of its base."""
        generator = torch.Generator().manual_seed(seed)
        kind = ColorCNN if self.name == "cifar10" else DigitsCNN
        return kind(batch_norm=batch_norm, generator=generator)

    def moved(self, images: Tensor) -> Tensor:
        """Images moved, turned and stretched a little; clothes and things are mirrored, digits are not."""
        if self.name == "mnist":
            return jiggled(images, shift=2.0, turn=0.15)
        return jiggled(images, shift=1.0 if self.name == "fashion" else 2.0, turn=0.05, flip=True)


def load_few_label_images(
    name: str, seed: int, *, limit: int | None = None, scored: int = 2000, tested: int | None = None
) -> FewLabelImages:
    """Load and split one of "mnist", "fashion" and "cifar10".

    `limit` keeps that many training images; `scored` images of the validation part are used, the same number of
    each class, and `tested` of the test part (all by default).
    """
    check_choice(name, "name", DATASETS)
    data = LOADERS[name]()
    train, test = data.parts["train"], data.parts["test"]
    fit, held_out = stratified_split(train.y, test=HELD_OUT, seed=seed)
    random = np.random.default_rng(seed)
    per_class = 100 if name == "cifar10" else 10
    labels = few_labels(train.y[fit], per_class=per_class, seed=seed)
    if limit is not None:
        free = random.permutation(np.flatnonzero(labels < 0))[:limit]
        kept = np.sort(np.concatenate([np.flatnonzero(labels >= 0), free]))
        fit, labels = fit[kept], labels[kept]
    each = scored // 10
    chosen = np.concatenate([random.permutation(held_out[train.y[held_out] == c])[:each] for c in range(10)])
    rows = np.arange(len(test)) if tested is None else np.sort(random.permutation(len(test))[:tested])
    pixels = torch.from_numpy(train.take(fit).images())
    mean, spread = pixels.mean(dim=(0, 2, 3), keepdim=True), pixels.std(dim=(0, 2, 3), keepdim=True)

    def standard(images: Tensor) -> Tensor:
        return (images - mean) / spread

    return FewLabelImages(
        name,
        standard(pixels),
        torch.from_numpy(labels),
        (standard(torch.from_numpy(train.take(chosen).images())), train.y[chosen]),
        (standard(torch.from_numpy(test.take(rows).images())), test.y[rows]),
        pixels,
        data.note,
        mean,
        spread,
        data.fingerprint(),
    )
