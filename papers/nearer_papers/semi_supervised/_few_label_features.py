"""Fine-grained classes of which few items have a label, as rows of features: the data of Table 2.

`cars196_features` are ready; the photos of `cub200` and `cars196` are described by R-MAC of EfficientNet-Lite0, or
of a backbone of yours, added over three sizes; descriptors of Lite0 are kept in the cache. Five items of every seen
class keep their label, 15 % validate, the unseen classes are scored. The network is a linear map that starts as the
principal directions of the training rows, so "Initial" is the features.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nearer._checks import check_choice
from nearer.datasets import Dataset, Split, few_labels, stratified_split
from nearer.geometry import MLP, normalize
from nearer.models._encoders import frozen
from nearer.models._feature_cache import cache_folder
from nearer_papers.data._cars196 import load_cars196, load_cars196_features
from nearer_papers.data._cub200 import load_cub200
from nearer_papers.semi_supervised._few_label_images import HELD_OUT, FewLabelImages
from nearer_papers.semi_supervised._googlenet import rmac_descriptors
from nearer_papers.unified_view._unseen_class_networks import Backbone

__all__ = ["FEATURES", "NETWORK", "PHOTOS", "FewLabelFeatures", "load_few_label_features"]

LOADERS: dict[str, Callable[..., Dataset]] = {
    "cars196_features": load_cars196_features,
    "cub200": load_cub200,
    "cars196": load_cars196,
}
FEATURES = ("cars196_features",)
PHOTOS = ("cub200", "cars196")
LABELS_PER_CLASS, WIDTH, NEIGHBORS = 5, 128, 50
NETWORK = "efficientnet-lite0"


@dataclass(frozen=True, eq=False)
class FewLabelFeatures(FewLabelImages):
    """Rows of features (n, p) in the place of images; `standard` takes the mean of the training rows away."""

    directions: Tensor | None = None  # (d, p), where the linear map starts
    thumbnails: Callable[[Any], Any] | None = None
    """Images (m, 3, h, w) of some test rows, where there are photos."""

    k = NEIGHBORS
    pseudo_labeled = 0.9
    is_images = False

    @property
    def width(self) -> int:
        """Columns of the embeddings before the projection."""
        return 0 if self.directions is None else len(self.directions)

    @property
    def batch(self) -> int:
        """Five items of every class in the mean: with fewer a batch has no friends."""
        return LABELS_PER_CLASS * len(torch.unique(self.labels[self.labels != -1]))

    def encoder(self, seed: int, *, batch_norm: bool = True) -> nn.Module:
        """The principal directions of the training rows as a linear map, then rows of length one."""
        if self.directions is None:
            raise TypeError("A linear map needs the directions that it starts from.")
        network = MLP(self.items.shape[1], self.width, hidden=())
        first = next(one for one in network.modules() if isinstance(one, nn.Linear))
        first.weight.data.copy_(self.directions)
        first.bias.data.zero_()
        return network

    def moved(self, images: Tensor) -> Tensor:
        """Features as they are: nothing is known that may change them and leave the class."""
        return images

    def exemplars(self, pixels: Tensor) -> Tensor:
        """The same."""
        return self.standard(pixels)


def load_few_label_features(
    name: str,
    seed: int,
    *,
    backbone: Backbone | None = None,
    tested: int | None = None,
    allow_missing: bool = False,
) -> FewLabelFeatures:
    """Load and split one of "cars196_features", "cub200" and "cars196"; of the last two some photos may be missing.

    `tested` keeps about that many test rows, whole classes.
    """
    check_choice(name, "name", list(LOADERS))
    data, test = _parts(name, tested, allow_missing)
    train = data.train
    thumbnails = None
    if name in PHOTOS:
        rows, unseen = _described(name, tested, allow_missing, backbone)

        def thumbnails(chosen: Any) -> Any:
            return test.images(chosen, size=64)

    else:
        rows, unseen = (normalize(torch.from_numpy(one.matrix()).float()) for one in (train, test))
    fit, held_out = stratified_split(train.y, test=HELD_OUT, seed=seed)
    labels = few_labels(train.y[fit], per_class=LABELS_PER_CLASS, seed=seed)
    learnt = rows[fit]
    mean = learnt.mean(dim=0, keepdim=True)
    # One number for all columns: what varies little must not become loud.
    spread = (learnt - mean).square().sum(dim=1).mean().sqrt()
    centered = (learnt - mean) / spread
    _, vectors = torch.linalg.eigh((centered.t() @ centered).double())
    return FewLabelFeatures(
        name,
        centered,
        torch.from_numpy(labels),
        ((rows[held_out] - mean) / spread, train.y[held_out]),
        ((unseen - mean) / spread, test.y),
        learnt,
        data.note,
        mean,
        spread,
        data.fingerprint(),
        directions=vectors.flip(1)[:, : min(WIDTH, *learnt.shape)].t().float(),
        thumbnails=thumbnails,
    )


def _parts(name: str, tested: int | None, allow_missing: bool) -> tuple[Dataset, Split]:
    """The data set, and the test items that are scored."""
    data = LOADERS[name](**({"allow_missing": allow_missing} if name in PHOTOS else {}))
    test = data.test
    if tested is not None:
        classes, counts = np.unique(test.y, return_counts=True)
        test = test.take(np.isin(test.y, classes[: max(2, int((counts.cumsum() <= tested).sum()))]))
    return data, test


@functools.lru_cache(maxsize=1)
def _described(
    name: str, tested: int | None, allow_missing: bool, backbone: Backbone | None
) -> tuple[Tensor, Tensor]:
    """R-MAC of all photos, the same for every seed; of 512, 362 and 256 pixels for a network of 224."""
    data, test = _parts(name, tested, allow_missing)
    parts = {"train": data.train, "test": test}
    if backbone is not None:
        train, unseen = (_rmac(split, backbone) for split in parts.values())
        return train, unseen
    backbone, folder = packaged_backbone(), cache_folder().parent / "photographs"
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for part, split in parts.items():
        file = folder / f"rmac-{name}-{data.fingerprint()[:12]}-{part}-{tested}.npy"
        if not file.exists():
            with file.with_suffix(".new").open("wb") as out:
                np.save(out, _rmac(split, backbone).numpy())
            file.with_suffix(".new").rename(file)
        found.append(torch.from_numpy(np.load(file)))
    return found[0], found[1]


def packaged_backbone() -> Backbone:
    """EfficientNet-Lite0 with its ImageNet weights."""
    encoder = frozen(NETWORK, "photos")
    module = encoder.module()
    assert module is not None
    scale = {name: tuple(encoder.settings[name]) for name in ("mean", "std")}
    return Backbone(lambda: module, size=224, mean=scale["mean"], spread=scale["std"])


def _rmac(split: Split, backbone: Backbone) -> Tensor:
    sizes = [round(backbone.size * 16 / 7 * factor) for factor in (1, 0.5**0.5, 0.5)]
    trunk = backbone.trunk().eval()
    found = []
    for first in range(0, len(split), 16):
        images = split.images(np.arange(first, min(first + 16, len(split))), size=sizes[0])
        # The trunk brings colours to its own mean and spread.
        found.append(rmac_descriptors(trunk, images, sizes=sizes, mean=(0.0,) * 3, spread=(1.0,) * 3))
    return torch.cat(found)
