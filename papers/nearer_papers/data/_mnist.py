"""MNIST: 70,000 handwritten digits."""

from __future__ import annotations

import os

from nearer.datasets._dataset import DataFile, Dataset, Source
from nearer_papers.data._idx import idx_downloads, load_idx_set

__all__ = ["MNIST", "load_mnist"]

MNIST = Source(
    name="mnist",
    title="MNIST handwritten digits, 28x28",
    citation="LeCun, Bottou, Bengio, Haffner 1998, Proc. IEEE 86(11)",
    license="not stated with the files",
    address="https://storage.googleapis.com/cvdf-datasets/mnist/",
    files=(DataFile("mnist.npz", "06af5dfe73b70e3bc1c36439982b18a8d76803db9b544f6fdf838a37fbb01b64"),),
    downloads=idx_downloads(
        "mnist",
        "https://storage.googleapis.com/cvdf-datasets/mnist",
        (
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        ),
    ),
)


def load_mnist(
    *, folder: str | os.PathLike[str] | None = None, verify: bool = True, download: bool = True
) -> Dataset:
    """`train` 60,000 and `test` 10,000 images of bytes (28, 28), 10 classes, as published.

    Read from `mnist.npz` or the four published files in the data folder; fetched (12 MB) if neither is there.
    """
    return load_idx_set(MNIST, "0123456789", folder=folder, verify=verify, download=download)
