"""Distance-weighted sampling: negatives drawn so that all distances are seen equally often."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nearer._checks import check_int, check_number
from nearer._tracing import readable
from nearer.pairwise import Miner, Panel
from nearer.pairwise._shared import Pairing, Select, fresh_seed, uniform


def log_inverse_density(squared: Tensor, dimension: int, *, cutoff: float = 0.5) -> Tensor:
    """log 1/q(D) of distances on the unit sphere, q(d) ∝ d^{n−2}(1 − d²/4)^{(n−3)/2}.

    Distances below `cutoff` count as the cutoff. Antipodal points are kept finite (1 − d²/4 ≥ 1e-8).

    >>> log_inverse_density(torch.tensor([2.0]), 3)  # −log √2
    tensor([-0.3466])
    """
    bounded = squared.clamp(min=cutoff**2)
    inside = (1 - bounded / 4).clamp(min=1e-8)
    return 0.5 * (2 - dimension) * bounded.log() - 0.5 * (dimension - 3) * inside.log()


class DistanceWeighted(Miner):
    """All positives; negatives drawn with probability ∝ 1/q(D), as many as the anchor has positives.

    Draws are with replacement and equal ones are merged. Distances of `far` or more are left out (the margin
    loss is zero there); an anchor with no negative nearer than that draws uniformly from all its negatives.
    `per_positive` multiplies the number of draws. For unit vectors; the weights are normalised row by row, so a
    row of large distances does not underflow. The draws do not depend on tiles or shards.

    >>> DistanceWeighted().far
    1.4

    Reference: Wu et al. 2017.

    Args:
        cutoff: distances below it count as it.
        far: distances from here on are left out.
        per_positive: how many draws there are for each positive.
        embedding_dim: the dimension of the sphere; that of the embeddings if None, and in `loss.weights`
            the rank of S.
        generator: where random numbers come from; torch's own if None.
    """

    def __init__(
        self,
        cutoff: float = 0.5,
        *,
        far: float = 1.4,
        per_positive: int = 1,
        embedding_dim: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        self.cutoff = check_number(cutoff, "cutoff", above=0.0)
        self.far = check_number(far, "far", above=0.0)
        self.per_positive = check_int(per_positive, "per_positive")
        self.embedding_dim = None if embedding_dim is None else check_int(embedding_dim, "embedding_dim", minimum=2)
        self.generator = generator

    def prepare(self, pairing: Pairing) -> Select:
        """One seed for the batch; every anchor's draws follow from it."""
        seed = fresh_seed(self.generator)
        dimension = self.embedding_dim or pairing.dimension

        def select(panel: Panel) -> tuple[Tensor, Tensor]:
            squared = (2 - 2 * panel.similarity).clamp(0, 4)
            near = panel.negative & (squared < self.far**2)
            allowed = torch.where(near.any(1, keepdim=True), near, panel.negative)
            log_weight = log_inverse_density(squared, dimension, cutoff=self.cutoff)
            uniformly = ~near.any(1, keepdim=True)
            log_weight = torch.where(uniformly, 0.0, log_weight).masked_fill(~allowed, -math.inf)
            draws = panel.positive.sum(1) * self.per_positive
            most = panel.similarity.shape[1] * self.per_positive
            return panel.positive, draw_rows(log_weight, draws, seed, panel.numbers, most)

        return select


def draw_rows(log_weight: Tensor, draws: Tensor, seed: int | Tensor, numbers: Tensor, largest: int) -> Tensor:
    """Draw `draws` (r,) columns of each row with replacement, with probability ∝ e^{log_weight}; mask (r, n).

    `largest` bounds `draws` where values cannot be read.
    """
    some = torch.isfinite(log_weight).any(1)
    most = largest if not readable(draws) else int(draws.max()) if draws.numel() else 0
    if most == 0:
        return torch.zeros_like(log_weight, dtype=torch.bool)
    # Relative to the row's own maximum: a row of large distances must not vanish against the others.
    top = torch.where(some[:, None], log_weight.amax(1, keepdim=True), 0.0)
    steps = (log_weight - top).double().exp().cumsum(1)
    u = uniform(seed, numbers[:, None], torch.arange(most, device=numbers.device)[None])
    columns = torch.searchsorted(steps, u * steps[:, -1:], right=True).clamp(max=log_weight.shape[1] - 1)
    wanted = (torch.arange(most, device=draws.device)[None] < draws[:, None]) & some[:, None]
    hits = torch.zeros_like(log_weight).scatter_add_(1, columns, wanted.to(log_weight.dtype))
    # The last step may be repeated by columns of zero weight: those were never allowed.
    return (hits > 0) & torch.isfinite(log_weight)
