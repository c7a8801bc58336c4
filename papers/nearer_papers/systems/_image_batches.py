"""Batches of images that stay on the disk until a step asks for them."""

from __future__ import annotations

import torch
from torch import Tensor

from nearer.datasets import Split
from nearer.training._step import Transform, row_numbers

__all__ = ["ImageBatches"]


class ImageBatches:
    """Images that are read from their files batch by batch, as (n, channels, h, w) between 0 and 1.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> from nearer.datasets import load_image_folder
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("cats", "dogs"):
    ...         (Path(folder) / name).mkdir()
    ...         Image.new("RGB", (30, 20)).save(Path(folder) / name / "one.png")
    ...     photos = ImageBatches(load_image_folder(folder).all, size=16)
    ...     photos.items(torch.tensor([0, 1])).shape
    torch.Size([2, 3, 16, 16])

    Args:
        split: paths and labels, from `load_image_folder`.
        size: height and width in pixels.
        transform: changes the items of a batch.
    """

    def __init__(self, split: Split, *, size: int | tuple[int, int], transform: Transform | None = None) -> None:
        self.split = split
        self.size = size
        self.transform = transform
        self._labels = torch.from_numpy(split.y)

    def __len__(self) -> int:
        return len(self.split)

    def items(self, rows: Tensor) -> Tensor:
        """The images of these rows, changed by the transform."""
        batch = torch.from_numpy(self.split.images(row_numbers(rows, len(self)).numpy(), size=self.size))
        return batch if self.transform is None else self.transform(batch)

    def labels(self, rows: Tensor) -> Tensor:
        """The labels of these rows."""
        return self._labels[row_numbers(rows, len(self))]
