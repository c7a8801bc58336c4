"""Pairs as index tuples, the currency of pytorch-metric-learning: (a, p, n) or (a1, p, a2, n).

Anchors are rows of the embeddings, positives and negatives rows of the database (the embeddings themselves when
there is none). That library is never imported here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nearer._tracing import readable, require
from nearer._validation import as_tensor
from nearer.exceptions import LabelError, ParameterError, ShapeError
from nearer.pairwise._rule import Miner, Pairing, Panel, Select
from nearer.relations import ClassLabels, Pairs, Relation

_SMALL = 1 << 24  # entries of a mask: 16 MB
_BOTH = "a pair must not be listed as positive and as negative. Remove it from one list."
_SHAPE = "`indices_tuple` must be (anchors, positives, negatives) or (anchors, positives, anchors, negatives)"


@dataclass(frozen=True, repr=False)
class ListedPairs(Miner):
    """The pairs that a checked tuple lists, whatever the labels say; one that is listed twice counts once."""

    columns: Sequence[Tensor]

    def prepare(self, pairing: Pairing) -> Select:
        """The list as masks where they are small, which is many times faster, or as sorted pairs."""
        masks = _masks(self.columns, len(pairing.queries), len(pairing.database))

        def select(panel: Panel) -> tuple[Tensor, Tensor]:
            return masks(slice(panel.first, panel.first + len(panel.similarity)))

        return select


def _masks(columns: Sequence[Tensor], n: int, m: int) -> Callable[[slice], tuple[Tensor, Tensor]]:
    """From rows to the masks of positives and negatives."""
    if n * m > _SMALL and (not len(columns[0]) or readable(columns[0])):
        return pairs_of(columns, n, m).masks
    sides = []
    for anchors, others in _sides(columns):
        mask = torch.zeros(n * m, dtype=torch.bool, device=anchors.device)
        mask.index_fill_(0, anchors * m + others, True)
        sides.append(mask.view(n, m))
    positive, negative = sides
    if not readable(positive):
        require("indices_tuple", "not list a pair as positive and as negative", ~(positive & negative))
    elif bool((positive & negative).any()):
        raise LabelError(_BOTH)
    return lambda rows: (positive[rows], negative[rows])


def _sides(columns: Sequence[Tensor]) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """(anchors, positives) and (anchors, negatives)."""
    if len(columns) == 4:
        return (columns[0], columns[1]), (columns[2], columns[3])
    return (columns[0], columns[1]), (columns[0], columns[2])


class PeerMiner(Miner):
    """A miner of pytorch-metric-learning, or any function (embeddings, labels, …) -> index tuple."""

    def __init__(self, mine: Callable[..., Any]) -> None:
        self.mine = mine

    def prepare(self, pairing: Pairing) -> Select:
        """Refused: such a miner wants the embeddings themselves, so the loss calls it before anything else."""
        raise ParameterError(
            f"`miner` must be a miner of nearer.mining for the joint batch of many processes and for "
            f"`weights`, got {type(self.mine).__name__}."
        )

    def indices(self, embeddings: Tensor, database: Tensor | None, relation: Relation) -> Any:
        """What it finds in a batch, with the gradient switched off."""
        if type(relation) is not ClassLabels:
            raise ParameterError(
                f"`miner` must be a miner of nearer.mining for {type(relation).__name__}, got "
                f"{type(self.mine).__name__}, which knows class labels only."
            )
        with torch.no_grad():
            if database is None:
                return self.mine(embeddings.detach(), relation.queries)
            return self.mine(embeddings.detach(), relation.queries, database.detach(), relation.database)

    def __repr__(self) -> str:
        return type(self.mine).__name__


def as_columns(indices: Any, n: int, n_database: int | None, device: torch.device) -> list[Tensor]:
    """Three or four columns of row numbers on a device, checked against the sizes of the batch."""
    if isinstance(indices, Tensor) or not isinstance(indices, Sequence) or len(indices) not in (3, 4):
        came = f"{len(indices)} columns" if isinstance(indices, Sequence) else type(indices).__name__
        raise ShapeError(f"{_SHAPE}, got {came}.")
    names = "apn" if len(indices) == 3 else ("a1", "p", "a2", "n")
    columns = []
    for name, listed in zip(names, indices, strict=True):
        column = as_tensor(listed, f"{name} of indices_tuple").detach().to(device)
        if column.ndim != 1 or (column.numel() and (column.is_floating_point() or column.dtype == torch.bool)):
            raise ShapeError(
                f"{_SHAPE}, whole numbers of shape (m,), got `{name}` of shape {tuple(column.shape)} and type "
                f"{str(column.dtype).removeprefix('torch.')}."
            )
        column = column.to(torch.int64)
        rows = n if name.startswith("a") or n_database is None else n_database
        if not readable(column):
            require("indices_tuple", f"lie in 0..{rows - 1}", (column >= 0) & (column < rows))
        elif len(column) and (int(column.min()) < 0 or int(column.max()) >= rows):
            raise ParameterError(
                f"`{name}` of `indices_tuple` must lie in 0..{rows - 1}, got {int(column.min())} to "
                f"{int(column.max())}. Was it mined from another batch?"
            )
        columns.append(column)
    sides = [columns] if len(columns) == 3 else [columns[:2], columns[2:]]
    for side in sides:
        if len({len(column) for column in side}) > 1:
            raise ShapeError(f"{_SHAPE} of equal lengths, got {', '.join(str(len(rows)) for rows in side)}.")
        if n_database is None and not readable(side[0]):
            for other in side[1:]:
                require("indices_tuple", "not pair an item with itself", side[0] != other)
        elif n_database is None and any(bool((side[0] == other).any()) for other in side[1:]):
            raise ParameterError("`indices_tuple` must not pair an item with itself, and does.")
    return columns


def pairs_of(columns: Sequence[Tensor], n: int, n_database: int | None) -> Pairs:
    """The pairs of a checked tuple as a relation."""
    positive, negative = (torch.stack(side, dim=1) for side in _sides(columns))
    return Pairs(n, n_database, positive=positive, negative=negative, both_ways=False)
