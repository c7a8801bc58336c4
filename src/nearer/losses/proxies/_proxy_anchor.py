"""One proxy for each class instead of pairs of items: ProxyAnchor and ProxyNCA."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from nearer._checks import check_number
from nearer._tracing import at_once
from nearer.losses.proxies._proxy_loss import ProxyLoss
from nearer.pairwise._shared import Shards, VectorSimilarity, attach, class_softmax, class_tiles, own_classes


class ProxyAnchorLoss(ProxyLoss):
    """(1/|P⁺|) Σ_{p∈P⁺} log(1 + Σ_{x∈p} e^{−α(s−δ)}) + (1/C) Σ_p log(1 + Σ_{x∉p} e^{α(s+δ)}).

    P⁺ are the classes in the batch. A class is complete in its tile, so one pass gives value and gradient.

    >>> loss = ProxyAnchorLoss(2, 2, alpha=1.0, delta=0.0)
    >>> _ = loss.proxies.data.copy_(torch.eye(2))
    >>> round(loss(torch.eye(2), torch.tensor([0, 1])).item(), 4)   # log(1 + e^-1) + log(1 + e^0)
    1.0064

    Reference: Kim et al. 2020, eq. 4.

    Args:
        n_classes: how many classes there are; labels are 0..n_classes − 1.
        embedding_dim: the width of the embeddings.
        alpha: what cosines are multiplied by.
        delta: the margin.
        generator: draws the first proxies; torch's own if None.

    Attributes:
        proxies: the class vectors, (n_classes, embedding_dim): parameters, so the optimizer must get them.
    """

    def __init__(
        self,
        n_classes: int,
        embedding_dim: int,
        *,
        alpha: float = 32.0,
        delta: float = 0.1,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(n_classes, embedding_dim, generator=generator)
        self.alpha = check_number(alpha, "alpha", above=0.0)
        self.delta = check_number(delta, "delta")

    def compute(self, x: Tensor, labels: Tensor, *, sharded: bool) -> Tensor:
        vectors = self.vectors()
        if not sharded and at_once(x, len(x) * len(vectors)):
            return self._traceable(x, vectors, labels)
        with torch.no_grad():
            value, gradients = _proxy_anchor(x, vectors, labels, self.alpha, self.delta, sharded)
        return attach(value, (x, vectors), gradients)

    def _traceable(self, x: Tensor, vectors: Tensor, labels: Tensor) -> Tensor:
        """The printed formula on the whole matrix, by tensors alone."""
        s = x @ vectors.to(x.dtype).T
        own = labels[:, None] == torch.arange(self.n_classes, device=x.device)
        none = torch.zeros_like(s[:1])  # the 1 in each logarithm
        pull = torch.cat([none, (-self.alpha * (s - self.delta)).masked_fill(~own, -torch.inf)]).logsumexp(0)
        push = torch.cat([none, (self.alpha * (s + self.delta)).masked_fill(own, -torch.inf)]).logsumexp(0)
        return pull.sum() / own.any(0).sum().clamp(min=1) + push.sum() / self.n_classes


def _proxy_anchor(
    x: Tensor, vectors: Tensor, labels: Tensor, alpha: float, delta: float, sharded: bool
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Value and gradients, tile of classes by tile: a driver of its own, because classes are the anchors here."""
    shards = Shards(len(x), x.device, averaged=True) if sharded else None
    rows, owners = (x, labels) if shards is None else (shards.gather(x), shards.gather(labels))
    work = torch.float64 if x.dtype == torch.float64 else torch.float32
    rows, table = rows.to(work), vectors.to(work)
    total = len(table)
    present = max(1, len(torch.unique(owners)))
    first, count = own_classes(total, sharded)
    value = rows.new_zeros(())
    dx, dw = torch.zeros_like(rows), torch.zeros_like(table)
    for start, stop in class_tiles(len(rows), count, 1, first):
        s = rows @ table[start:stop].t()
        inside = ((owners >= start) & (owners < stop)).nonzero().squeeze(1)
        column = owners[inside] - start
        pull = torch.full_like(s, -torch.inf)
        pull[inside, column] = -alpha * (s[inside, column] - delta)
        push = alpha * (s + delta)
        push[inside, column] = -torch.inf
        # log(1 + Σ e^z) is the log-sum-exp with one more entry, 0.
        for z, sign, parts in ((pull, -alpha, present), (push, alpha, total)):
            top = z.amax(0).clamp_min(0) if len(z) else z.new_zeros(stop - start)
            z.sub_(top).exp_()
            whole = z.sum(0) + (-top).exp()
            value += (top + whole.log()).sum() / parts
            g = z.mul_(sign / (whole * parts))
            dx += g @ table[start:stop]
            dw[start:stop] += g.t() @ rows
    if shards is not None:
        dist.all_reduce(value)
        dist.all_reduce(dx)
        dx, dw = dx[shards.own] * shards.scale, dw * shards.scale
    return value.to(x.dtype), (dx.to(x.dtype), dw.to(vectors.dtype))


class ProxyNCALoss(ProxyLoss):
    """mean d_y + log Σ_{c≠y} e^{−d_c} with d = σ‖x − p‖² of unit vectors; may be negative.

    Weights by distance: 1 on the own proxy, −softmax_{c≠y}(−d) on the others. `own_in_denominator` keeps c = y in
    the sum, which makes it the cross-entropy of −d: another loss, and the common variant. One class alone gives 0.

    >>> loss = ProxyNCALoss(2, 2, scale=1.0)
    >>> _ = loss.proxies.data.copy_(torch.eye(2))
    >>> loss(torch.eye(2), torch.tensor([0, 1])).item()   # 0 + log e^-2
    -2.0

    Reference: Movshovitz-Attias et al. 2017, eq. 6.

    Args:
        n_classes: how many classes there are; labels are 0..n_classes − 1.
        embedding_dim: the width of the embeddings.
        scale: σ.
        own_in_denominator: keep the own class in the sum.
        generator: draws the first proxies; torch's own if None.

    Attributes:
        proxies: the class vectors, (n_classes, embedding_dim): parameters, so the optimizer must get them.
    """

    def __init__(
        self,
        n_classes: int,
        embedding_dim: int,
        *,
        scale: float = 8.0,
        own_in_denominator: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(n_classes, embedding_dim, generator=generator)
        self.scale = check_number(scale, "scale", above=0.0)
        self.own_in_denominator = own_in_denominator

    def compute(self, x: Tensor, labels: Tensor, *, sharded: bool) -> Tensor:
        # −d = 2σs − 2σ, and the constant is the same in both parts of the quotient.
        return class_softmax(
            x,
            self.proxies,
            labels,
            similarity=VectorSimilarity(),
            scale=2 * self.scale,
            target=lambda s: (2 * self.scale * s, torch.full_like(s, 2 * self.scale)),
            included=self.own_in_denominator,
            sharded=sharded,
        )
