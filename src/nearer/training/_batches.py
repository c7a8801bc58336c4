"""From row numbers to what a step needs: items for the encoder and labels for the loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from nearer._validation import as_labels, as_tensor
from nearer.datasets import Split
from nearer.exceptions import ShapeError

__all__ = ["ImageBatches", "TensorBatches"]

Transform = Callable[[Tensor], Tensor]


class TensorBatches:
    """Items and labels that lie in memory; `transform` changes the items of a batch, such as by augmentation.

    A transform that draws random numbers takes them from torch's own generator, so that a resumed run repeats it.
    Labels are class labels (n,), or rows (n, c) of multi-labels or distributions.

    >>> TensorBatches(torch.tensor([[1.0], [2.0], [3.0]]), [0, 1, 1]).items(torch.tensor([2, 0]))
    tensor([[3.],
            [1.]])

    Args:
        items: array or tensor, (n, ...).
        labels: classes (n,) or rows (n, c).
        transform: changes the items of a batch.
    """

    def __init__(self, items: Any, labels: Any, *, transform: Transform | None = None) -> None:
        self._items = as_tensor(items, "items")
        self._labels = as_tensor(labels, "labels")
        for name, one in (("items", self._items), ("labels", self._labels)):
            if one.ndim == 0:
                raise ShapeError(f"`{name}` must have one entry for each item, got a single number.")
        if len(self._items) != len(self._labels):
            raise ShapeError(
                f"`labels` must have one entry for each of the {len(self._items)} items, got {len(self._labels)}."
            )
        self.transform = transform

    def __len__(self) -> int:
        return len(self._items)

    def items(self, rows: Tensor) -> Tensor:
        """The items of these rows, changed by the transform."""
        batch = self._items[_row_numbers(rows, len(self)).to(self._items.device)]
        return batch if self.transform is None else self.transform(batch)

    def labels(self, rows: Tensor) -> Tensor:
        """The labels of these rows."""
        return self._labels[_row_numbers(rows, len(self)).to(self._labels.device)]


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
        batch = torch.from_numpy(self.split.images(_row_numbers(rows, len(self)).numpy(), size=self.size))
        return batch if self.transform is None else self.transform(batch)

    def labels(self, rows: Tensor) -> Tensor:
        """The labels of these rows."""
        return self._labels[_row_numbers(rows, len(self))]


def _row_numbers(rows: Any, n: int) -> Tensor:
    """Whole numbers that point into n items."""
    found = as_labels(rows, "rows")
    if len(found) and (int(found.min()) < 0 or int(found.max()) >= n):
        raise ShapeError(f"`rows` must lie in 0..{n - 1}, got {int(found.min())} to {int(found.max())}.")
    return found
