"""What the neighbors say: the class with most votes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearer.exceptions import ShapeError


def vote(classes: NDArray[Any]) -> NDArray[Any]:
    """The class with most votes in each row of (m, k) classes of neighbors, nearest first: (m,).

    Equal votes go to the class whose nearest member is nearest. Classes are whole numbers of any size; −1, no
    neighbor, has no vote, and a row of nothing else gives −1.

    >>> vote(np.array([[2, 1, 1], [2, 1, 0], [5, -1, -1]]))
    array([1, 2, 5])

    Args:
        classes: classes of the neighbors, (m, k), nearest first.
    """
    if classes.ndim != 2 or classes.dtype.kind not in "iu":
        raise ShapeError(f"`classes` must be whole numbers (m, k), got {classes.dtype} of shape {classes.shape}.")
    if classes.shape[1] == 0:
        return np.full(len(classes), -1, dtype=np.int64)
    # How often each entry's class occurs in its row: k columns compared one after the other, no (m, k, c) array.
    votes = np.zeros(classes.shape, dtype=np.int64)
    for column in classes.T:
        votes += classes == column[:, None]
    votes[classes < 0] = 0
    return np.take_along_axis(classes, votes.argmax(axis=1)[:, None], axis=1)[:, 0]
