"""From row numbers to what a step needs: items for the encoder and labels for the loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from nearer._validation import as_labels, as_tensor
from nearer.exceptions import ShapeError

__all__ = ["TensorBatches", "row_numbers"]

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
        for name, given in (("items", self._items), ("labels", self._labels)):
            if given.ndim == 0:
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
        batch = self._items[row_numbers(rows, len(self)).to(self._items.device)]
        return batch if self.transform is None else self.transform(batch)

    def labels(self, rows: Tensor) -> Tensor:
        """The labels of these rows."""
        return self._labels[row_numbers(rows, len(self)).to(self._labels.device)]


def row_numbers(rows: Any, n: int) -> Tensor:
    """Whole numbers that point into n items."""
    numbers = as_labels(rows, "rows")
    if len(numbers) and (int(numbers.min()) < 0 or int(numbers.max()) >= n):
        raise ShapeError(f"`rows` must lie in 0..{n - 1}, got {int(numbers.min())} to {int(numbers.max())}.")
    return numbers
