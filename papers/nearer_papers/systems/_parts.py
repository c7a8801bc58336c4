"""Embeddings that are several embeddings side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from nearer._checks import check_int
from nearer.exceptions import ParameterError, ShapeError
from nearer.losses.pairs._pair_loss import check_embeddings

__all__ = ["check_widths", "split_parts"]


def check_widths(widths: Sequence[int]) -> tuple[int, ...]:
    """The columns of each part, one part or more.

    >>> check_widths([2, 3])
    (2, 3)
    """
    found = tuple(check_int(width, "widths") for width in widths)
    if not found:
        raise ParameterError("`widths` must have one number or more, got none.")
    return found


def split_parts(embeddings: Any, widths: tuple[int, ...]) -> tuple[Tensor, ...]:
    """Finite embeddings (n, Σ widths) cut into their parts (n, width), on the graph.

    >>> [tuple(part.shape) for part in split_parts(torch.zeros(4, 5), (2, 3))]
    [(4, 2), (4, 3)]
    """
    z = check_embeddings(embeddings, "embeddings")
    if z.shape[1] != sum(widths):
        raise ShapeError(
            f"`embeddings` must have {sum(widths)} columns, the sum of the widths {widths}, got {z.shape[1]}."
        )
    return torch.split(z, list(widths), dim=1)
