"""The 1,797 small digits that come with scikit-learn."""

from __future__ import annotations

import numpy as np

from nearer.datasets._dataset import Dataset, Split
from nearer.datasets._source import Source

__all__ = ["DIGITS", "load_digits"]

DIGITS = Source(
    name="digits",
    title="Optical recognition of handwritten digits, 8x8",
    citation="Alpaydin, Kaynak 1998, UCI; the test part, as shipped with scikit-learn",
    license="CC BY 4.0",
    address="https://archive.ics.uci.edu/dataset/80",
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
