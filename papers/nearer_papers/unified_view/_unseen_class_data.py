"""Classes to learn from and other classes to be tested on: the data of the class-disjoint experiments.

| name | seen classes | unseen classes |
|---|---|---|
| omniglot | the characters of the first 20 alphabets | those of the last 10 |
| cars196_features | the first 98 models, frozen features | the last 98 |
| fashion, cifar10 | the first 6 classes, 500 images each | the last 4, test images |
| cub200, cars196, sop, inshop | as published, image files in your data folder | as published |

A part of the seen classes, drawn by the seed, is held out for validation (whole alphabets of Omniglot): epochs and
settings are chosen on classes that the network has not learnt. The unseen classes are the same for all seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nearer._checks import check_choice
from nearer.datasets import Dataset, Split, class_disjoint_split
from nearer.exceptions import LabelError, ParameterError
from nearer.training import TensorBatches
from nearer.training._photo_batches import jiggled
from nearer_papers.data._cars196 import load_cars196, load_cars196_features
from nearer_papers.data._cifar10 import load_cifar10
from nearer_papers.data._cub200 import load_cub200
from nearer_papers.data._fashion import load_fashion_mnist
from nearer_papers.data._inshop import load_inshop
from nearer_papers.data._omniglot import load_omniglot
from nearer_papers.data._sop import load_sop
from nearer_papers.systems import ImageBatches
from nearer_papers.unified_view._unseen_class_networks import Backbone, FrozenWhitening, Network, SmallTrunk

__all__ = ["DATASETS", "FOLDERS", "PROTOCOLS", "Part", "Protocol", "UnseenClasses", "load_unseen_classes"]

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Protocol:
    """What all rows of a table share on one data set: length, rates, batch, network."""

    epochs: int
    steps: int
    """Steps of an epoch, 0 for one pass; the model of the best epoch on validation classes is kept."""
    rate: float
    proxy_rate: float
    classes: int
    per_class: int
    dimension: int
    held_out: float = 0.25
    """The share of the seen classes (or alphabets) that validates."""
    dropout: float = 0.0
    refit: bool = False
    """Learn once more from all seen classes, for as many epochs as were best."""
    proxies_from_means: bool = False
    """Class vectors start as the mean embeddings of their classes; for a start that is better than random."""
    schedule: Literal["cosine", "fixed", "steps"] = "cosine"
    falls_every: int = 0
    """Epochs after which "steps" divides the rate by ten."""
    eps: float = 1e-8
    decay: float = 0.0
    frozen_norms: bool = False
    """Batch normalisation keeps the mean and spread of the weights that were loaded."""


PROTOCOLS: dict[str, Protocol] = {
    "omniglot": Protocol(7, 100, 2e-3, 2e-2, 20, 5, 128, held_out=0.2),
    "cars196_features": Protocol(12, 40, 2e-4, 1e-2, 20, 5, 512, dropout=0.5, refit=True, proxies_from_means=True),
    "fashion": Protocol(6, 40, 1e-3, 1e-2, 4, 20, 64, held_out=0.34),
    "cifar10": Protocol(6, 60, 1e-3, 1e-2, 4, 20, 64, held_out=0.34),
}
FOLDER_PROTOCOL = Protocol(30, 100, 1e-5, 1e-2, 16, 5, 512, held_out=0.1)
DATASETS = tuple(PROTOCOLS)


def our_protocol(name: str) -> Protocol:
    """Ours for one data set; all photos have the same."""
    return PROTOCOLS.get(name, FOLDER_PROTOCOL)


def pair_weighting_protocol(name: str) -> Protocol:
    """Photos as in the pair-weighting paper: Adam at 1e-5 throughout, 5 items of a class, 4 for products.

    What it does not print is ours: 16 (20) classes in a batch, the length, and that the best epoch on validation
    classes is kept. Batch normalisation is frozen as in the authors' later release.
    """
    classes, items = (20, 4) if name in ("sop", "inshop") else (16, 5)
    return replace(FOLDER_PROTOCOL, classes=classes, per_class=items, schedule="fixed", frozen_norms=True)


def joint_protocol(name: str) -> Protocol:
    """Photos as in the joint-representation paper: batches of 100, 50 passes (80 of SOP), the rate in steps."""
    epochs, every = (80, 40) if name == "sop" else (50, 20)
    return Protocol(
        epochs,
        0,
        1e-4,
        1e-2,
        20,
        5,
        512,
        held_out=0.1,
        schedule="steps",
        falls_every=every,
        eps=0.01,
        decay=1e-4,
        frozen_norms=True,
    )


LOADERS: dict[str, Callable[..., Dataset]] = {
    "omniglot": load_omniglot,
    "cars196_features": load_cars196_features,
    "fashion": load_fashion_mnist,
    "cifar10": load_cifar10,
    "cub200": load_cub200,
    "cars196": load_cars196,
    "sop": load_sop,
    "inshop": load_inshop,
}
FOLDERS = ("cub200", "cars196", "sop", "inshop")


@dataclass(frozen=True, eq=False)
class Part:
    """Items that are scored, and their classes."""

    batches: TensorBatches | ImageBatches
    labels: Tensor

    @torch.no_grad()
    def embed(self, network: torch.nn.Module, rows: Tensor | None = None, *, batch_size: int = 256) -> Tensor:
        """The embeddings (n, d) of all items or some rows, in evaluation mode; files are read batch by batch."""
        before = network.training
        network.eval()
        try:
            chosen = torch.arange(len(self.labels)) if rows is None else rows
            return torch.cat([network(self.batches.items(one)) for one in torch.split(chosen, batch_size)])
        finally:
            network.train(before)


@dataclass(frozen=True, eq=False)
class UnseenClasses:
    """Items of seen classes to learn from, held-out seen classes to choose by, unseen classes to be scored on."""

    name: str
    protocol: Protocol
    train: TensorBatches | ImageBatches
    labels: Tensor  # (n,), 0..classes-1
    seen: Part
    """The items that are learnt from as they are scored, without random changes."""
    validation: Part
    test: Part
    make_network: Callable[[], Network] = field(repr=False)
    database: Part | None = None
    """Where the test items are searched; None: among themselves."""
    whole: UnseenClasses | None = None
    """The same with the held-out classes put back, when the protocol learns once more."""
    note: str = ""
    fingerprint: str = ""
    """Of the data set that it was made of."""

    @property
    def classes(self) -> int:
        """How many classes are learnt from."""
        return int(self.labels.max()) + 1

    def network(self, seed: int) -> Network:
        """A fresh network; the same one for every row of a table."""
        state = torch.get_rng_state()
        try:
            torch.manual_seed(seed)
            return self.make_network()
        finally:
            torch.set_rng_state(state)


def load_unseen_classes(
    name: str,
    seed: int,
    *,
    protocol: Protocol | None = None,
    backbone: Backbone | None = None,
    limit: int | None = None,
    allow_missing: bool = False,
) -> UnseenClasses:
    """One data set, its validation classes drawn by the seed.

    `backbone` is needed for photos in folders, and not used otherwise. `limit` keeps that many test items, the
    first of every class, for a quick look. `allow_missing` goes on where some photos are not there.
    """
    check_choice(name, "name", list(LOADERS))
    if name in FOLDERS:
        if backbone is None:
            raise ParameterError(
                f"`backbone` must be given for the photos of {name}: a Backbone with a function that makes the "
                f"network and a local file with its weights. Nothing is downloaded."
            )
        lacking = {"allow_missing": True} if allow_missing and name in ("cub200", "cars196") else {}
        data = LOADERS[name](**lacking)
        made = _from_folder(name, data, seed, protocol or FOLDER_PROTOCOL, backbone, limit)
        return replace(made, fingerprint=data.fingerprint())
    plan = protocol or PROTOCOLS[name]
    data = LOADERS[name]()
    seen, unseen, groups = _sides(name, data)
    if limit is not None:
        unseen = unseen.take(_first_of_each(unseen.y, limit))
    fit, held_out = hold_out(seen.y if groups is None else groups, plan.held_out, seed)
    if name == "cars196_features":
        made = _features(data, seen, unseen, fit, held_out, plan)
    else:
        made = _images(name, data, seen, unseen, fit, held_out, plan)
    return replace(made, fingerprint=data.fingerprint())


def hold_out(labels: Any, share: float, seed: int) -> tuple[Rows, Rows]:
    """Rows of the classes that are learnt and rows of those that validate, at least two of each.

    >>> [len(rows) for rows in hold_out([0, 0, 1, 1, 2, 2, 3, 3], 0.25, seed=0)]
    [4, 4]
    """
    count = len(np.unique(labels))
    if count < 4:
        raise LabelError(
            f"`labels` must hold four seen classes or more, two to learn and two to validate, got {count}."
        )
    kept = min(count - 2, count - max(2, round(share * count)))
    return class_disjoint_split(labels, train_classes=kept, seed=seed)


def _sides(name: str, data: Dataset) -> tuple[Split, Split, Rows | None]:
    """Seen and unseen items, and what is kept whole when seen classes are held out, if not the classes."""
    if name == "omniglot":
        everything = data.all
        alphabet = everything.extra["alphabet"]
        seen, unseen = class_disjoint_split(alphabet, train_classes=len(np.unique(alphabet)) * 2 // 3)
        return everything.take(seen), everything.take(unseen), alphabet[seen]
    if name in ("fashion", "cifar10"):
        learnt = data.train.take(_first_of_each(data.train.y, 500 * data.n_classes))
        # The published test images of the unseen classes; those of the seen ones are not used.
        return learnt.take(learnt.y < 6), data.test.take(data.test.y >= 6), None
    return data.train, data.test, None


def _first_of_each(labels: Rows, total: int) -> Rows:
    """About `total` rows, the first ones of every class."""
    each = max(2, total // len(np.unique(labels)))
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(labels[order]) > 0])
    place = np.arange(len(order)) - np.repeat(starts, np.diff(np.r_[starts, len(order)]))
    return np.sort(order[place < each])


def _codes(labels: Any) -> Tensor:
    codes: Tensor = torch.unique(torch.as_tensor(np.asarray(labels)), return_inverse=True)[1]
    return codes


def _images(
    name: str, data: Dataset, seen: Split, unseen: Split, fit: Rows, held_out: Rows, plan: Protocol
) -> UnseenClasses:
    """Small images, standardised with the mean and deviation of the images that are learnt from."""
    pixels = torch.from_numpy(seen.images())
    mean = pixels[fit].mean(dim=(0, 2, 3), keepdim=True)
    spread = pixels[fit].std(dim=(0, 2, 3), keepdim=True)

    def standard(images: Tensor) -> Tensor:
        return (images - mean) / spread

    def moved(images: Tensor) -> Tensor:
        if name == "omniglot":
            return jiggled(images, shift=2.0, turn=0.15)
        return jiggled(images, shift=2.0, turn=0.05, flip=True)

    def part(images: Tensor, labels: Any) -> Part:
        return Part(TensorBatches(standard(images), labels), torch.as_tensor(labels))

    learnt, labels = standard(pixels[fit]), _codes(seen.y[fit])

    def make() -> Network:
        trunk = SmallTrunk(pixels.shape[1])
        return Network(trunk, trunk.width, plan.dimension, dropout=plan.dropout)

    return UnseenClasses(
        name,
        plan,
        TensorBatches(learnt, labels, transform=moved),
        labels,
        Part(TensorBatches(learnt, labels), labels),
        part(pixels[held_out], seen.y[held_out]),
        part(torch.from_numpy(unseen.images()), unseen.y),
        make,
        note=data.note,
    )


def _features(
    data: Dataset, seen: Split, unseen: Split, fit: Rows, held_out: Rows, plan: Protocol
) -> UnseenClasses:
    """Ready features: whitening as a frozen trunk, and a linear head that starts as its principal directions."""

    def build(rows: Rows, whole: UnseenClasses | None) -> UnseenClasses:
        x, labels = torch.from_numpy(seen.x[rows]), _codes(seen.y[rows])
        trunk = FrozenWhitening.from_rows(x, labels)
        white = trunk(x)
        dimension = min(plan.dimension, *x.shape)
        # The directions in which whitened rows vary most; the head learns from there.
        _, vectors = torch.linalg.eigh((white.t() @ white).double())
        directions = vectors.flip(1)[:, :dimension].t().float()

        def make() -> Network:
            head = torch.nn.Linear(x.shape[1], dimension, bias=False)
            head.weight.data.copy_(directions)
            return Network(trunk, x.shape[1], dimension, head=head, dropout=plan.dropout)

        def part(split: Split) -> Part:
            return Part(TensorBatches(torch.from_numpy(split.x), split.y), torch.from_numpy(split.y))

        return UnseenClasses(
            "cars196_features",
            plan,
            TensorBatches(x, labels),
            labels,
            Part(TensorBatches(x, labels), labels),
            part(seen.take(held_out)),
            part(unseen),
            make,
            whole=whole,
            note=data.note,
        )

    return build(fit, build(np.arange(len(seen)), None) if plan.refit else None)


def _from_folder(
    name: str, data: Dataset, seed: int, plan: Protocol, backbone: Backbone, limit: int | None
) -> UnseenClasses:
    """Photos that are read from their files when they are needed; crops and mirrors while learning."""
    seen = data.train
    fit, held_out = hold_out(seen.y, plan.held_out, seed)
    size = backbone.size
    # Crops from images about 256/224 as large: 256 for both published sizes, 224 and 227.
    larger = 256 if size == 227 else math.ceil(size * 256 / 224)
    if plan.steps == 0:
        plan = replace(plan, steps=max(1, len(fit) // (plan.classes * plan.per_class)))

    def part(split: Split) -> Part:
        batches = ImageBatches(split, size=larger, transform=lambda images: _middle(images, size))
        return Part(batches, torch.from_numpy(split.y))

    def limited(split: Split) -> Split:
        return split if limit is None else split.take(_first_of_each(split.y, limit))

    width = backbone.width()
    # The backbone stands behind the scaling of colours.
    taps = [f"1.{name}" for name in backbone.taps]
    separate = "database" in data.parts
    labels = _codes(seen.y[fit])
    learnt = Split(seen.x[fit], labels.numpy(), root=seen.root)
    return UnseenClasses(
        name,
        plan,
        ImageBatches(learnt, size=larger, transform=lambda images: _cropped(images, size)),
        labels,
        part(learnt),
        part(seen.take(held_out)),
        part(limited(data["queries" if separate else "test"])),
        lambda: Network(
            backbone.trunk(),
            width,
            plan.dimension,
            dropout=plan.dropout,
            taps=taps,
            frozen_norms=plan.frozen_norms,
        ),
        database=part(limited(data["database"])) if separate else None,
        note=data.note,
    )


def _middle(images: Tensor, size: int) -> Tensor:
    top, left = (images.shape[2] - size) // 2, (images.shape[3] - size) // 2
    return images[:, :, top : top + size, left : left + size]


def _cropped(images: Tensor, size: int) -> Tensor:
    """Every image its own crop, half of them mirrored; random numbers from torch's own generator."""
    n, _, height, width = images.shape
    tops = torch.randint(height - size + 1, (n,)).tolist()
    lefts = torch.randint(width - size + 1, (n,)).tolist()
    mirrored = (torch.rand(n) < 0.5).tolist()
    crops = []
    for image, top, left, mirror in zip(images, tops, lefts, mirrored, strict=True):
        crop = image[:, top : top + size, left : left + size]
        crops.append(crop.flip(2) if mirror else crop)
    return torch.stack(crops)
