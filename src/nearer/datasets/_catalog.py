"""Every data set by its name, for commands and experiments that are told what to load."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from nearer._checks import check_choice
from nearer.datasets import _banking77 as banking77
from nearer.datasets import _cars196 as cars196
from nearer.datasets import _cifar10 as cifar10
from nearer.datasets import _coil20 as coil20
from nearer.datasets import _cub200 as cub200
from nearer.datasets import _digits as digits
from nearer.datasets import _distribution as distribution
from nearer.datasets import _faces as faces
from nearer.datasets import _fashion as fashion
from nearer.datasets import _inshop as inshop
from nearer.datasets import _mnist as mnist
from nearer.datasets import _multilabel as multilabel
from nearer.datasets import _news20 as news20
from nearer.datasets import _omniglot as omniglot
from nearer.datasets import _shapes as shapes
from nearer.datasets import _sop as sop
from nearer.datasets import _uci as uci
from nearer.datasets import _usps as usps
from nearer.datasets._dataset import Dataset
from nearer.datasets._source import Source
from nearer.exceptions import ParameterError

__all__ = ["SOURCES", "dataset_names", "load"]

_LOADERS: tuple[tuple[Source, Callable[..., Dataset]], ...] = (
    (digits.DIGITS, digits.load_digits),
    (uci.IRIS, uci.load_iris),
    (uci.WINE, uci.load_wine),
    (uci.BREAST_CANCER, uci.load_breast_cancer),
    (mnist.MNIST, mnist.load_mnist),
    (fashion.FASHION_MNIST, fashion.load_fashion_mnist),
    (cifar10.CIFAR10, cifar10.load_cifar10),
    (usps.USPS, usps.load_usps),
    (usps.USPST, usps.load_uspst),
    (omniglot.OMNIGLOT, omniglot.load_omniglot),
    (shapes.BINARY_ALPHADIGITS, shapes.load_binary_alphadigits),
    (shapes.CALTECH101_SILHOUETTES, shapes.load_caltech101_silhouettes),
    (shapes.MPEG7_SHAPES, shapes.load_mpeg7_shapes),
    (coil20.COIL20, coil20.load_coil20),
    (faces.MSRA25, faces.load_msra25),
    (faces.ORL, faces.load_orl),
    (uci.ISOLET, uci.load_isolet),
    (uci.LETTER, uci.load_letter),
    (uci.SATIMAGE, uci.load_satimage),
    (uci.VEHICLE, uci.load_vehicle),
    (news20.NEWS20, news20.load_news20),
    (banking77.BANKING77, banking77.load_banking77),
    (cars196.CARS196_FEATURES, cars196.load_cars196_features),
    (multilabel.EMOTIONS, multilabel.load_emotions),
    (multilabel.FLAGS, multilabel.load_flags),
    (multilabel.SCENE, multilabel.load_scene),
    (multilabel.COREL5K, multilabel.load_corel5k),
    (distribution.NATURAL_SCENE, distribution.load_natural_scene),
    (distribution.SJAFFE, distribution.load_sjaffe),
    (distribution.SBU_3DFE, distribution.load_sbu_3dfe),
    (distribution.MOVIE, distribution.load_movie),
    (cub200.CUB200, cub200.load_cub200),
    (cars196.CARS196, cars196.load_cars196),
    (sop.SOP, sop.load_sop),
    (inshop.INSHOP, inshop.load_inshop),
)

SOURCES: Mapping[str, Source] = MappingProxyType({source.name: source for source, _ in _LOADERS})
_SHIPPED = frozenset({"breast_cancer", "digits", "iris", "wine"})


def dataset_names() -> list[str]:
    """The names that `load` takes, those that need no file first.

    >>> dataset_names()[:4]
    ['digits', 'iris', 'wine', 'breast_cancer']
    """
    return list(SOURCES)


def load(name: str, *, folder: str | os.PathLike[str] | None = None, **settings: Any) -> Dataset:
    """The data set of this name.

    Args:
        name: one of `dataset_names()`.
        folder: where its files are; by default `$NEARER_DATA`, else the cache.
        settings: what the loader of this data set takes besides, such as `verify=False` (skip the checksum),
            `download=False`, `pixels="105"` (omniglot), `check_counts=False` (folders of photos).

    >>> load("iris").all
    Split(x float32 (150, 4), y int64 (150,))
    """
    check_choice(name, "name", SOURCES)
    loader = dict(zip(SOURCES, (loader for _, loader in _LOADERS), strict=True))[name]
    known = inspect.signature(loader).parameters
    for setting in settings:
        if setting not in known:
            have = ", ".join(known) or "no settings"
            raise ParameterError(f"`{setting}` is no setting of the data set {name!r}, which has {have}.")
    return loader(**settings) if name in _SHIPPED else loader(folder=folder, **settings)
