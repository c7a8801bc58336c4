"""Items against class vectors: the softmax over C classes in tiles, so that B × C is never held.

Pass 1 reduces each row to its log-sum-exp, pass 2 forms the weights G = ∂L/∂s tile by tile and gathers both
gradients at once. It has a driver of its own because a scale of 64 needs a running maximum, class vectors are
normalised tile by tile, and the classes may be sharded: then rows are gathered, the row statistics are reduced over
the processes, and every gradient is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from nearer._tracing import at_once
from nearer.pairwise._distributed import Shards
from nearer.pairwise._function import attach, normalize_rows
from nearer.pairwise._masked import masked_logsumexp

# Entries of a tile: 1 MB of float32, which stays in cache while it is worked on.
TILE = 1 << 18
LOG2E = 1.4426950408889634
# e^(−2 · scale), the smallest term there can be, must still be a number in single precision.
BOUNDED = 40.0


class ClassSimilarity(Protocol):
    """How near items (q, d) are to a stretch of classes, and what a weight on that does to both."""

    width: int
    """Vectors of each class."""

    def tile(self, x: Tensor, vectors: Tensor) -> tuple[Tensor, Any]:
        """Similarities (q, t) to the classes whose vectors are given, and what the gradient needs again."""

    def traceable(self, x: Tensor, vectors: Tensor) -> Tensor:
        """The same similarities on the graph of both."""

    def gradient(self, x: Tensor, vectors: Tensor, weights: Tensor, saved: Any) -> tuple[Tensor, Tensor]:
        """From weights (q, t): the gradients by the items (q, d) and by the vectors."""


class VectorSimilarity:
    """One vector per class: s = xᵀw."""

    width = 1

    def tile(self, x: Tensor, vectors: Tensor) -> tuple[Tensor, Any]:
        return x @ vectors.t(), None

    def traceable(self, x: Tensor, vectors: Tensor) -> Tensor:
        return x @ vectors.t()

    def gradient(self, x: Tensor, vectors: Tensor, weights: Tensor, saved: Any) -> tuple[Tensor, Tensor]:
        return weights @ vectors, weights.t() @ x


class CenterSimilarity:
    """Several centres per class: S = Σ_k q_k s_k with q = softmax_k(s_k/γ); dS/ds_k = q_k(1 + (s_k − S)/γ).

    `merging` is the weight of the distance √(2 + 1e−5 − 2w_t·w_u) of every two centres of a class.
    """

    def __init__(self, centers: int, temperature: float, merging: float = 0.0) -> None:
        self.width = centers
        self.merging = merging if centers > 1 else 0.0
        self._factor = LOG2E / temperature
        # Powers of cosines divided by γ fit into single precision as they are.
        self._bounded = temperature * BOUNDED >= 1
        # Kept from tile to tile: fresh pages cost more than the exponentials on them.
        self._space: Tensor | None = None

    def tile(self, x: Tensor, vectors: Tensor) -> tuple[Tensor, Any]:
        # (t, K, q) from one product: sums over the centres then run along the memory. u = s log2(e)/γ.
        size = len(vectors) * len(x)
        if self._space is None or self._space.shape[1] < size:
            self._space = x.new_empty(2, size)
        u, power = (room[:size].view(len(vectors) // self.width, self.width, len(x)) for room in self._space)
        flat = u.view(len(vectors), len(x))
        torch.addmm(flat, vectors, x.t(), beta=0, alpha=self._factor, out=flat)
        torch.exp2(u if self._bounded else u - u.amax(1, keepdim=True), out=power)
        mass = power.sum(1)
        mean = power[:, 0] * u[:, 0]
        for center in range(1, self.width):
            mean.addcmul_(power[:, center], u[:, center])
        return (mean.div_(mass) / self._factor).t(), (u, power, mass, mean)

    def traceable(self, x: Tensor, vectors: Tensor) -> Tensor:
        s = (x @ vectors.t()).view(len(x), -1, self.width)
        return (torch.softmax(s * (self._factor / LOG2E), 2) * s).sum(2)

    def traceable_distances(self, vectors: Tensor) -> Tensor:
        """The weighted sum of the distances, on the graph of the vectors."""
        centers = vectors.reshape(-1, self.width, vectors.shape[1])
        squared = (2 + 1e-5 - 2 * centers @ centers.transpose(1, 2)).clamp_min(1e-12)
        itself = torch.eye(self.width, dtype=torch.bool, device=vectors.device)
        return squared.sqrt().masked_fill(itself, 0.0).sum() * (self.merging / 2)

    def gradient(self, x: Tensor, vectors: Tensor, weights: Tensor, saved: Any) -> tuple[Tensor, Tensor]:
        u, power, mass, mean = saved
        each = torch.div(weights.t(), mass).div_(LOG2E)
        flat = u.sub_(mean.sub_(LOG2E)[:, None]).mul_(power).mul_(each[:, None]).view(len(vectors), len(x))
        return flat.t() @ vectors, flat @ x

    def distances(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """The weighted sum of the distances of centres of one class, and its gradient by the vectors."""
        centers = vectors.reshape(-1, self.width, vectors.shape[1])
        each = torch.baddbmm(vectors.new_full((1,), 2 + 1e-5), centers, centers.transpose(1, 2), alpha=-2)
        # Rounding may bring it below zero, where there is no slope.
        each = each.clamp_min_(1e-12).sqrt_()
        slopes = -self.merging / each
        each.diagonal(dim1=1, dim2=2).zero_()
        slopes.diagonal(dim1=1, dim2=2).zero_()
        # Each pair stands twice in the square.
        return each.sum() * (self.merging / 2), torch.bmm(slopes, centers).view(vectors.shape)


def class_tiles(n: int, classes: int, width: int, first: int = 0) -> list[tuple[int, int]]:
    """Stretches of classes whose tile has about 2¹⁸ entries.

    >>> class_tiles(1 << 17, 5, 1)
    [(0, 2), (2, 4), (4, 5)]
    """
    step = max(1, TILE // max(1, n * width))
    return [(start, min(start + step, first + classes)) for start in range(first, first + classes, step)]


def class_softmax(
    x: Tensor,
    vectors: Tensor,
    labels: Tensor,
    *,
    similarity: ClassSimilarity,
    scale: float,
    target: Callable[[Tensor], tuple[Tensor, Tensor]],
    included: bool = True,
    sharded: bool = False,
) -> Tensor:
    """mean_i { log Σ_c exp(z_ic) − z_iy }, z = scale · s but for the own class, whose z_iy = target(s_iy).

    `x` (q, d) of unit length; `vectors` (C · width, d) of any length, brought to one tile by tile; `labels` (q,) in
    0..C−1. `included` says whether the own class is in the sum. `sharded` takes the joint batch of all processes,
    each with its part of the classes.
    """
    if not sharded and at_once(x, len(x) * len(vectors)):
        return _traceable(x, vectors, labels, similarity, scale, target, included)
    wanted = torch.is_grad_enabled() and (x.requires_grad or vectors.requires_grad)
    with torch.no_grad():
        value, gradients = _class_softmax(
            x, vectors, labels, similarity, scale, target, included=included, sharded=sharded, gradient=wanted
        )
    return attach(value, (x, vectors), gradients) if wanted else value


def _traceable(
    x: Tensor,
    vectors: Tensor,
    labels: Tensor,
    similarity: ClassSimilarity,
    scale: float,
    target: Callable[[Tensor], tuple[Tensor, Tensor]],
    included: bool,
) -> Tensor:
    """The same on the whole matrix, by tensors alone, differentiated by autograd or by the compiler."""
    unit = normalize_rows(vectors.to(x.dtype), "proxies")[0]
    s = similarity.traceable(x, unit)
    own = s.gather(1, labels[:, None])[:, 0]
    logit, slope = target(own.detach())
    logit = logit + slope * (own - own.detach())  # with the slope that is written by hand
    other = labels[:, None] != torch.arange(s.shape[1], device=s.device)
    others = masked_logsumexp(scale * s, other)
    whole = torch.logaddexp(others, logit) if included else others
    usable = whole.isfinite()
    value = torch.where(usable, torch.where(usable, whole, 0.0) - logit, 0.0).sum() / max(len(x), 1)
    if isinstance(similarity, CenterSimilarity) and similarity.merging > 0:
        value = value + similarity.traceable_distances(unit)
    return value


def _class_softmax(
    x: Tensor,
    vectors: Tensor,
    labels: Tensor,
    similarity: ClassSimilarity,
    scale: float,
    target: Callable[[Tensor], tuple[Tensor, Tensor]],
    *,
    included: bool,
    sharded: bool,
    gradient: bool,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    width = similarity.width
    total = len(vectors) // width
    shards = Shards(len(x), x.device, averaged=True) if sharded else None
    rows, owners = (x, labels) if shards is None else (shards.gather(x), shards.gather(labels))
    first, count = own_classes(total, sharded)
    work = torch.float64 if x.dtype == torch.float64 else torch.float32
    rows, table = rows.to(work), vectors.detach().to(work)
    reciprocals = inverse_lengths(table)

    def unit(part: slice) -> Tensor:
        return table[part] * reciprocals[part, None]

    n = len(rows)
    tiles = class_tiles(n, count, width, first)
    top = rows.new_full((n,), -torch.inf)
    mass = rows.new_zeros(n)
    own = rows.new_zeros(n)
    owed = rows.new_zeros(())
    merged = similarity if isinstance(similarity, CenterSimilarity) and similarity.merging > 0 else None
    # Cosines are at most 1, so the largest exponent is known before any is: no running maximum is needed. With one
    # vector per class scale, shift and the base of the exponential all go into the product.
    bounded = scale <= BOUNDED
    fused = bounded and isinstance(similarity, VectorSimilarity)
    factor = rows * (scale * LOG2E) if fused else rows
    for start, stop in tiles:
        directions = unit(slice(start * width, stop * width))
        inside = ((owners >= start) & (owners < stop)).nonzero().squeeze(1)
        column = owners[inside] - start
        if fused:
            z = torch.addmm(ceiling(rows, scale), factor, directions.t())
            own[inside] = (rows[inside] * table[owners[inside]]).sum(1) * reciprocals[owners[inside]]
        else:
            z, _ = similarity.tile(rows, directions)
            own[inside] = z[inside, column]
            z = z.sub_(1).mul_(scale * LOG2E) if bounded else z.mul_(scale)
        z[inside, column] = -torch.inf
        if merged is not None and not gradient:
            owed += merged.distances(directions)[0]
        if bounded:
            mass += z.exp2_().sum(1)
            continue
        higher = torch.maximum(top, z.amax(1))
        # A row whose only class so far is its own has no maximum yet.
        safe = torch.where(higher.isfinite(), higher, 0.0)
        mass = mass * (top - safe).exp() + z.sub_(safe[:, None]).exp_().sum(1)
        top = higher
    if bounded:
        top = torch.where(mass > 0, scale, -torch.inf).to(work)
    if sharded:
        top, mass, own = _joined(top, mass, own)
    others = top + mass.log()
    logit, slope = target(own)
    whole = torch.logaddexp(others, logit) if included else others
    usable = whole.isfinite()
    value = torch.where(usable, whole - logit, 0.0).sum() / max(n, 1)
    if not gradient:
        return (value + _summed(owed, sharded)).to(x.dtype), ()
    share = usable.to(work) / max(n, 1)
    safe = torch.where(usable, whole, 0.0)
    # Classes of other processes get no gradient here.
    dx, dw = torch.zeros_like(rows), torch.zeros_like(table) if sharded else torch.empty_like(table)
    at_target = ((logit - safe).exp() if included else torch.zeros_like(logit)) - 1
    shift = (torch.log2(scale * share) - LOG2E * safe)[:, None]
    for start, stop in tiles:
        part = slice(start * width, stop * width)
        directions = unit(part)
        inside = ((owners >= start) & (owners < stop)).nonzero().squeeze(1)
        column = owners[inside] - start
        if fused:
            saved = None
            g = torch.addmm(shift, factor, directions.t()).exp2_()
        else:
            s, saved = similarity.tile(rows, directions)
            g = s.mul_(scale * LOG2E).add_(shift).exp2_()
        g[inside, column] = (at_target * slope * share)[inside]
        by_rows, by_vectors = similarity.gradient(rows, directions, g, saved)
        dx += by_rows
        if merged is not None:
            toll, push = merged.distances(directions)
            owed += toll
            by_vectors += push
        # A vector of any length: what points along it changes nothing.
        along = (by_vectors * directions).sum(1, keepdim=True)
        torch.mul(by_vectors.addcmul_(along, directions, value=-1), reciprocals[part, None], out=dw[part])
    if shards is not None:
        dist.all_reduce(dx)
        dx, dw = dx[shards.own] * shards.scale, dw.mul_(shards.scale)
    return (value + _summed(owed, sharded)).to(x.dtype), (dx.to(x.dtype), dw.to(vectors.dtype))


def inverse_lengths(vectors: Tensor) -> Tensor:
    """1/‖w‖ of each row, and 0 for a row of zeros, which then has no direction and no gradient.

    >>> inverse_lengths(torch.tensor([[0.0, 4.0], [0.0, 0.0]]))
    tensor([0.2500, 0.0000])
    """
    lengths = torch.linalg.vector_norm(vectors, dim=1)
    smallest, largest = (float(extreme) for extreme in torch.aminmax(lengths)) if len(lengths) else (1.0, 1.0)
    if not (smallest > 1e-15 and largest < 1e15):
        lengths = torch.linalg.vector_norm(vectors, dim=1, dtype=torch.float64)
    return torch.where(lengths > 0, 1 / lengths, 0.0).to(vectors.dtype)


def ceiling(rows: Tensor, scale: float) -> Tensor:
    """Minus the largest exponent that unit rows can have, in base 2."""
    return rows.new_full((1,), -scale * LOG2E)


def own_classes(total: int, sharded: bool) -> tuple[int, int]:
    """The first class of this process and how many it has; all of them when it is alone.

    >>> own_classes(7, sharded=False)
    (0, 7)
    """
    if not sharded:
        return 0, total
    bounds = [total * rank // dist.get_world_size() for rank in range(dist.get_world_size() + 1)]
    first = bounds[dist.get_rank()]
    return first, bounds[dist.get_rank() + 1] - first


def _summed(value: Tensor, sharded: bool) -> Tensor:
    """What the classes of all processes add up to."""
    if sharded:
        dist.all_reduce(value)
    return value


def _joined(top: Tensor, mass: Tensor, own: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Row statistics of all classes from those of each process's classes."""
    highest = top.clone()
    dist.all_reduce(highest, op=dist.ReduceOp.MAX)
    safe = torch.where(highest.isfinite(), highest, 0.0)
    mass = mass * torch.where(top.isfinite(), (top - safe).exp(), 0.0)
    dist.all_reduce(mass)
    # Each row's own class lives in one process; the others have a zero there.
    dist.all_reduce(own)
    return highest, mass, own
