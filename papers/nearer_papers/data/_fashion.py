"""Fashion-MNIST: 70,000 photos of clothes, a harder stand-in for MNIST."""

from __future__ import annotations

import os

from nearer.datasets._dataset import DataFile, Dataset, Source
from nearer_papers.data._idx import idx_downloads, load_idx_set

__all__ = ["FASHION_MNIST", "load_fashion_mnist"]

_CLASSES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag",
            "Ankle boot")  # fmt: skip

FASHION_MNIST = Source(
    name="fashion_mnist",
    title="Fashion-MNIST product photos, 28x28",
    citation="Xiao, Rasul, Vollgraf 2017, arXiv:1708.07747",
    license="MIT",
    address="https://github.com/zalandoresearch/fashion-mnist",
    files=(DataFile("fashion_mnist.npz", "5b6d2c4c694a91887af8ab7d039c04f80af3c29378d731c93a538d2e831aa469"),),
    downloads=idx_downloads(
        "fashion_mnist",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        (
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        ),
    ),
)


def load_fashion_mnist(
    *, folder: str | os.PathLike[str] | None = None, verify: bool = True, download: bool = True
) -> Dataset:
    """`train` 60,000 and `test` 10,000 images of bytes (28, 28), 10 classes of equal size, as published.

    Read from `fashion_mnist.npz` or the four published files in the data folder; fetched (31 MB) if neither is
    there.
    """
    return load_idx_set(FASHION_MNIST, _CLASSES, folder=folder, verify=verify, download=download)
