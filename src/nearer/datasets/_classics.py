"""Four small sets that come with scikit-learn: digits, iris, wine, breast_cancer."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearer.datasets._dataset import Dataset, Split
from nearer.datasets._source import Source

__all__ = [
    "BREAST_CANCER",
    "DIGITS",
    "IRIS",
    "WINE",
    "load_breast_cancer",
    "load_digits",
    "load_iris",
    "load_wine",
]

_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"

DIGITS = Source(
    name="digits",
    title="Optical recognition of handwritten digits, 8x8",
    citation="Alpaydin, Kaynak 1998, UCI; the test part, as shipped with scikit-learn",
    license="CC BY 4.0",
    address="https://archive.ics.uci.edu/dataset/80",
)
IRIS = Source("iris", "Iris flowers", "Fisher 1936, Annals of Eugenics 7", "CC BY 4.0", f"{_UCI}/iris")
WINE = Source("wine", "Wines of three growers", "Forina et al. 1988, PARVUS; UCI", "CC BY 4.0", f"{_UCI}/wine")
BREAST_CANCER = Source(
    "breast_cancer",
    "Breast cancer Wisconsin (diagnostic)",
    "Street, Wolberg, Mangasarian 1993",
    "CC BY 4.0",
    f"{_UCI}/breast-cancer-wisconsin",
)


def load_digits() -> Dataset:
    """1,797 handwritten digits of 8x8 grey pixels in 0..1 (the sixteenths of scikit-learn), 10 classes, no split.

    >>> data = load_digits()
    >>> data.all
    Split(x float32 (1797, 8, 8), y int64 (1797,))
    >>> data.all.y[:4]
    array([0, 1, 2, 3])
    """
    from sklearn import datasets

    x, y = datasets.load_digits(return_X_y=True)
    images = (x.reshape(-1, 8, 8) / 16).astype(np.float32)
    return Dataset(DIGITS, {"all": Split(images, y.astype(np.int64))}, tuple("0123456789"))


def _shipped(source: Source, bunch: Any) -> Dataset:
    part = Split(bunch.data.astype(np.float32), bunch.target.astype(np.int64))
    return Dataset(source, {"all": part}, tuple(map(str, bunch.target_names)), tuple(map(str, bunch.feature_names)))


def load_iris() -> Dataset:
    """150 flowers, 4 lengths in centimetres, 3 classes of 50, no split; comes with scikit-learn.

    >>> load_iris().class_names
    ('setosa', 'versicolor', 'virginica')
    """
    from sklearn import datasets

    return _shipped(IRIS, datasets.load_iris())


def load_wine() -> Dataset:
    """178 wines, 13 measurements of very different scales, 3 classes, no split; comes with scikit-learn.

    >>> load_wine().all
    Split(x float32 (178, 13), y int64 (178,))
    """
    from sklearn import datasets

    return _shipped(WINE, datasets.load_wine())


def load_breast_cancer() -> Dataset:
    """569 tumours, 30 measurements, 2 classes, no split; comes with scikit-learn.

    >>> load_breast_cancer().class_names
    ('malignant', 'benign')
    """
    from sklearn import datasets

    return _shipped(BREAST_CANCER, datasets.load_breast_cancer())
