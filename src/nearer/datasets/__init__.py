"""Where data comes from: one typed loader for each data set, and `load_files` for your own.

Every loader returns a `Dataset`: named parts (`train` and `test` where a split is published, `all` always), each a
`Split` with items `x` and labels `y`. Files are looked for in `folder=`, else `$NEARER_DATA`, else
`~/.cache/nearer`; their SHA-256 is checked, and nothing is ever unpickled. docs/datasets.md lists what there is.
"""

from nearer.datasets._banking77 import load_banking77
from nearer.datasets._cars196 import load_cars196, load_cars196_features
from nearer.datasets._catalog import SOURCES, dataset_names, load
from nearer.datasets._cifar10 import load_cifar10
from nearer.datasets._coil20 import load_coil20
from nearer.datasets._cub200 import load_cub200
from nearer.datasets._dataset import Dataset, Split
from nearer.datasets._digits import load_digits
from nearer.datasets._distribution import load_movie, load_natural_scene, load_sbu_3dfe, load_sjaffe
from nearer.datasets._download import download_file
from nearer.datasets._faces import load_msra25, load_orl
from nearer.datasets._fashion import load_fashion_mnist
from nearer.datasets._files import load_files, load_image_folder
from nearer.datasets._image_files import load_image
from nearer.datasets._inshop import load_inshop
from nearer.datasets._local import data_folder
from nearer.datasets._mnist import load_mnist
from nearer.datasets._multilabel import load_corel5k, load_emotions, load_flags, load_scene
from nearer.datasets._news20 import load_news20, tfidf
from nearer.datasets._omniglot import load_omniglot
from nearer.datasets._shapes import load_binary_alphadigits, load_caltech101_silhouettes, load_mpeg7_shapes
from nearer.datasets._sop import load_sop
from nearer.datasets._source import DataFile, Download, Source
from nearer.datasets._splits import class_disjoint_split, few_labels, stratified_split
from nearer.datasets._uci import (
    load_breast_cancer,
    load_iris,
    load_isolet,
    load_letter,
    load_satimage,
    load_vehicle,
    load_wine,
)
from nearer.datasets._usps import load_usps, load_uspst

__all__ = [
    "SOURCES",
    "DataFile",
    "Dataset",
    "Download",
    "Source",
    "Split",
    "class_disjoint_split",
    "data_folder",
    "dataset_names",
    "download_file",
    "few_labels",
    "load",
    "load_banking77",
    "load_binary_alphadigits",
    "load_breast_cancer",
    "load_caltech101_silhouettes",
    "load_cars196",
    "load_cars196_features",
    "load_cifar10",
    "load_coil20",
    "load_corel5k",
    "load_cub200",
    "load_digits",
    "load_emotions",
    "load_fashion_mnist",
    "load_files",
    "load_flags",
    "load_image",
    "load_image_folder",
    "load_inshop",
    "load_iris",
    "load_isolet",
    "load_letter",
    "load_mnist",
    "load_movie",
    "load_mpeg7_shapes",
    "load_msra25",
    "load_natural_scene",
    "load_news20",
    "load_omniglot",
    "load_orl",
    "load_satimage",
    "load_sbu_3dfe",
    "load_scene",
    "load_sjaffe",
    "load_sop",
    "load_usps",
    "load_uspst",
    "load_vehicle",
    "load_wine",
    "stratified_split",
    "tfidf",
]
