"""The published data sets by name: with this package installed, `nearer.datasets.load` knows them."""

from __future__ import annotations

from collections.abc import Callable

from nearer.datasets import Dataset
from nearer.datasets._dataset import Source
from nearer_papers.data import _banking77 as banking77
from nearer_papers.data import _cars196 as cars196
from nearer_papers.data import _cifar10 as cifar10
from nearer_papers.data import _coil20 as coil20
from nearer_papers.data import _cub200 as cub200
from nearer_papers.data import _distribution as distribution
from nearer_papers.data import _faces as faces
from nearer_papers.data import _fashion as fashion
from nearer_papers.data import _inshop as inshop
from nearer_papers.data import _mnist as mnist
from nearer_papers.data import _multilabel as multilabel
from nearer_papers.data import _news20 as news20
from nearer_papers.data import _omniglot as omniglot
from nearer_papers.data import _shapes as shapes
from nearer_papers.data import _sop as sop
from nearer_papers.data import _uci as uci
from nearer_papers.data import _usps as usps

__all__ = ["LOADERS"]

LOADERS: tuple[tuple[Source, Callable[..., Dataset]], ...] = (
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
