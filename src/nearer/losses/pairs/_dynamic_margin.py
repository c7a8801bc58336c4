"""Dynamic soft margin: a triplet weighs as much as the share of recent triplets that are easier than it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from nearer._checks import check_int, check_number
from nearer._tracing import at_once
from nearer._validation import as_labels
from nearer.exceptions import ParameterError, ShapeError
from nearer.losses.pairs._pair_loss import check_embeddings
from nearer.pairwise._shared import as_columns, inner_settings, normalize_rows

_LOWEST, _WIDTH = -2.0, 4.0  # gaps of distances between unit vectors lie in [−2, 2]


class DynamicSoftMarginLoss(nn.Module):
    """Mean over triplets of w(g)·g, g = D_ap − D_an on unit vectors, w the cumulative distribution of recent gaps.

    The distribution is a histogram over [−2, 2] that moves with `momentum`, a gap being shared by the two bins
    around it; w is constant for the gradient, as in the paper, and the first batch fills the histogram alone. It
    is a buffer, and moves in training mode only. No margin has to be chosen.

    `loss(embeddings, labels)` takes all triplets (memory: positive pairs · n), `loss(…, indices_tuple)` the listed
    ones, `loss(first, ref_emb=second)` row i of both views as a positive pair with its hardest negative, the form
    of the paper. No triplet: 0.

    >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
    >>> DynamicSoftMarginLoss()(z, torch.tensor([0, 0, 1])).item()   # both gaps 0 − 2, the only ones there are
    -2.0

    The same value as pytorch-metric-learning's, but for gaps in the last bin, which it cannot count. Reference:
    Zhang and Rusinkiewicz 2019.

    Args:
        bins: how many bins the histogram has.
        momentum: the share of a new batch in the histogram.
    """

    extra_repr = inner_settings

    histogram: Tensor

    def __init__(self, *, bins: int = 10, momentum: float = 0.01) -> None:
        super().__init__()
        self.bins = check_int(bins, "bins", minimum=2)
        self.momentum = check_number(momentum, "momentum", above=0.0, maximum=1.0)
        self.register_buffer("histogram", torch.zeros(self.bins, dtype=torch.float64))

    def forward(
        self, embeddings: Tensor, labels: Any = None, indices_tuple: Any = None, ref_emb: Any = None
    ) -> Tensor:
        """The loss of embeddings (n, d) with classes (n,), or of two views (n, d) without labels."""
        x = check_embeddings(embeddings, "embeddings")
        gaps = self._views(x, ref_emb, labels, indices_tuple) if labels is None else None
        if gaps is None:
            if ref_emb is not None:
                raise ParameterError("`ref_emb` must be left out when there are `labels`: it is a second view.")
            if indices_tuple is None and at_once(x, 16 * len(x) ** 3):
                return self._of_all(_unit(x, "embeddings"), labels)
            gaps = self._triplets(_unit(x, "embeddings"), labels, indices_tuple)
        if gaps.numel() == 0:
            return x.sum() * 0
        with torch.no_grad():
            weight = self._weigh(gaps.double()).to(gaps.dtype)
        return (weight * gaps).mean()

    def _views(self, x: Tensor, ref_emb: Any, labels: Any, indices: Any) -> Tensor:
        """Each row with its row in the other view, against the hardest other one of both."""
        if ref_emb is None or indices is not None:
            raise ParameterError("`labels` must be given, or `ref_emb` alone as a second view of the same rows.")
        other = check_embeddings(ref_emb, "ref_emb")
        if other.shape != x.shape:
            raise ShapeError(
                f"`ref_emb` must have the shape {tuple(x.shape)} of the first view, got {tuple(other.shape)}."
            )
        if len(x) < 2:
            return x.new_empty(0)
        d = _distances(_unit(x, "embeddings"), _unit(other, "ref_emb"))
        far = d.masked_fill(torch.eye(len(d), dtype=torch.bool, device=d.device), torch.inf)
        return d.diagonal() - torch.minimum(far.amin(0), far.amin(1))

    def _triplets(self, z: Tensor, labels: Any, indices: Any) -> Tensor:
        y = as_labels(labels, "labels", n=len(z)).to(z.device)
        d = _distances(z, z)
        if indices is not None:
            columns = as_columns(indices, len(z), None, z.device)
            if len(columns) == 3:
                a, p, n = columns
                return d[a, p] - d[a, n]
            rows, places = (columns[0][:, None] == columns[2][None]).nonzero(as_tuple=True)
            return d[columns[0], columns[1]][rows] - d[columns[2], columns[3]][places]
        same = y[:, None] == y[None]
        a, p = (same & ~torch.eye(len(z), dtype=torch.bool, device=z.device)).nonzero(as_tuple=True)
        return (d[a, p][:, None] - d[a])[~same[a]]

    def _of_all(self, z: Tensor, labels: Any) -> Tensor:
        """The loss of all triplets where it cannot be read which there are: n³ gaps, counted or not."""
        y, d = as_labels(labels, "labels", n=len(z)).to(z.device), _distances(z, z)
        same = y[:, None] == y[None]
        positive = same & ~torch.eye(len(z), dtype=torch.bool, device=z.device)
        gaps = d[:, :, None] - d[:, None, :]
        counted = (positive[:, :, None] & ~same[:, None, :]).to(gaps.dtype)
        with torch.no_grad():
            weight = self._weigh(gaps.double(), counted.double()).to(gaps.dtype) * counted
        return (weight * gaps).sum() / counted.sum().clamp(min=1)

    def _weigh(self, gaps: Tensor, counted: Tensor | None = None) -> Tensor:
        """w of each gap, after the histogram has moved."""
        position = ((gaps - _LOWEST) * (self.bins / _WIDTH)).clamp(0, self.bins - 1e-9)
        low = position.long()
        part = position - low
        mass = torch.ones_like(gaps) if counted is None else counted
        fresh = gaps.new_zeros(self.bins).scatter_add(0, low.view(-1), ((1 - part) * mass).view(-1))
        # The bin above the last one does not exist: its share stays in the last.
        above = (low + 1).clamp(max=self.bins - 1)
        fresh = fresh.scatter_add(0, above.view(-1), (part * mass).view(-1))
        histogram = self.histogram.to(gaps)
        empty = ~histogram.any()
        momentum = empty.to(histogram.dtype) * (1 - self.momentum) + self.momentum
        moved = (1 - momentum) * histogram + momentum * fresh
        moves = fresh.any() if self.training else fresh.any() & empty
        histogram = torch.where(moves, moved / moved.sum().clamp(min=torch.finfo(moved.dtype).tiny), histogram)
        self.histogram.copy_(histogram)
        return histogram.cumsum(0)[low]


def _unit(x: Tensor, name: str) -> Tensor:
    return normalize_rows(x.to(torch.float64 if x.dtype == torch.float64 else torch.float32), name)[0]


def _distances(first: Tensor, second: Tensor) -> Tensor:
    """Euclidean, without the product that loses digits between near items."""
    return torch.cdist(first, second, compute_mode="donot_use_mm_for_euclid_dist")
