"""PDDM: a small network scores pairs by their difference and their mean, and finds the hard quadruplets itself."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from nearer._checks import check_int, check_number
from nearer._validation import as_labels
from nearer.exceptions import ShapeError
from nearer.losses.pairs._pair_loss import check_embeddings
from nearer.pairwise._rule import inner_settings

__all__ = ["PDDMLoss", "PairScore"]

# Numbers in one block of pairs while all pairs of a batch are scored.
_BLOCK = 1 << 22


class PairScore(nn.Module):
    """A learned similarity of two features, up = closer: (m, d) and (m, d) -> (m,).

    u = |f_i − f_j| and v = (f_i + f_j)/2, each at length one (0 stays 0); u' = relu(W_u u + b), v' = relu(W_v v +
    b), c = relu(W_c [u'; v'] + b), score = W_s c + b. It is the same in both orders.

    >>> score = PairScore(4, generator=torch.Generator().manual_seed(0))
    >>> a, b = torch.rand(3, 4), torch.rand(3, 4)
    >>> torch.equal(score(a, b), score(b, a))
    True

    Reference: Huang, Loy, Tang 2016 (PDDM), fig. 2.
    """

    extra_repr = inner_settings

    def __init__(
        self, embedding_dim: int, *, hidden: int | None = None, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        d = check_int(embedding_dim, "embedding_dim")
        h = d if hidden is None else check_int(hidden, "hidden")
        self.embedding_dim = d
        self.difference, self.middle = nn.Linear(d, h), nn.Linear(d, h)
        self.joint, self.score = nn.Linear(2 * h, h), nn.Linear(h, 1)
        for layer in (self.difference, self.middle, self.joint, self.score):
            nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu", generator=generator)
            nn.init.zeros_(layer.bias)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """The scores of the rows of `first` with those of `second`; leading shapes may broadcast."""
        u = torch.relu(self.difference(_unit((first - second).abs())))
        v = torch.relu(self.middle(_unit((first + second) / 2)))
        scores: Tensor = self.score(torch.relu(self.joint(torch.cat([u, v], dim=-1)))).squeeze(-1)
        return scores

    @torch.no_grad()
    def table(self, features: Tensor) -> Tensor:
        """The scores of all pairs of a batch (n, d), without a graph and in blocks: (n, n)."""
        n, width = len(features), max(features.shape[1], self.joint.in_features)
        step = max(1, _BLOCK // max(1, n * width))
        rows = [self(part[:, None], features[None]) for part in torch.split(features, step)]
        return torch.cat(rows) if rows else features.new_zeros((0, 0))


class PDDMLoss(nn.Module):
    """The hard quadruplet of a batch, on scores and on distances.

    (i, j) is the positive pair with the smallest score; k, l are the negatives with the largest scores for i and
    for j. The loss is [a + s_ik − s_ij]₊ + [a + s_jl − s_ij]₊ + λ([b + D_ij − D_ik]₊ + [b + D_ij − D_jl]₊), D
    Euclidean, embeddings at length one. Published: one quadruplet per batch; `quadruplets` takes that many of the
    hardest pairs (fewer if there are fewer) and their mean. Score network and encoder learn together: give the
    parameters of this loss to the optimiser. No positive or no negative: 0.

    Usage: `loss = PDDMLoss(64); loss(embeddings, labels)`.

    >>> loss = PDDMLoss(2, generator=torch.Generator().manual_seed(0))
    >>> loss(torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]]), torch.tensor([0, 0, 1])).item() >= 0
    True

    Reference: Huang, Loy, Tang 2016, eqs 3 to 5.

    Args:
        embedding_dim: the width of the embeddings.
        hidden: the width of the score network; that of the embeddings if None.
        score_margin: a.
        distance_margin: b.
        weight: λ.
        quadruplets: how many of the hardest are taken.
        generator: draws the first weights of the score network; torch's own if None.
    """

    extra_repr = inner_settings

    def __init__(
        self,
        embedding_dim: int,
        *,
        hidden: int | None = None,
        score_margin: float = 0.5,
        distance_margin: float = 1.0,
        weight: float = 0.5,
        quadruplets: int = 1,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.network = PairScore(embedding_dim, hidden=hidden, generator=generator)
        self.score_margin = check_number(score_margin, "score_margin", minimum=0.0)
        self.distance_margin = check_number(distance_margin, "distance_margin", minimum=0.0)
        self.weight = check_number(weight, "weight", minimum=0.0)
        self.quadruplets = check_int(quadruplets, "quadruplets")

    def forward(self, embeddings: Tensor, labels: Any) -> Tensor:
        """The loss of embeddings (n, embedding_dim) with class labels (n,)."""
        x = check_embeddings(embeddings, "embeddings")
        if x.shape[1] != self.network.embedding_dim:
            raise ShapeError(f"`embeddings` must have {self.network.embedding_dim} columns, got {x.shape[1]}.")
        y = as_labels(labels, "labels", n=len(x)).to(x.device)
        dtype = self.network.score.weight.dtype
        with torch.autocast(x.device.type, enabled=False):
            z = _unit(x.to(dtype))
            found = self.mine(z.detach(), y)
            if not len(found):
                nothing: Tensor = (z * 0).sum() + sum((one * 0).sum() for one in self.network.parameters())
                return nothing
            i, j, k, l = (z[column] for column in found.T)
            score = self.network(i, j)
            near = _length(i - j)
            total = torch.zeros_like(score)
            for one, other in ((i, k), (j, l)):
                total = total + torch.relu(self.score_margin + self.network(one, other) - score)
                total = total + self.weight * torch.relu(self.distance_margin + near - _length(one - other))
            return total.mean()

    def mine(self, features: Tensor, labels: Tensor) -> Tensor:
        """The hard quadruplets (i, j, k, l) of a batch, hardest positive pair first: (m, 4)."""
        score = self.network.table(features)
        same = labels[:, None] == labels[None, :]
        i, j = torch.triu(same, diagonal=1).nonzero(as_tuple=True)
        able = (~same).any(1)[i]  # both have one class, so both have a negative or neither
        i, j = i[able], j[able]
        hardest = score[i, j].argsort(stable=True)[: self.quadruplets]
        i, j = i[hardest], j[hardest]
        best = score.masked_fill(same, -math.inf).argmax(1) if len(i) else i
        return torch.stack([i, j, best[i], best[j]], dim=1)


def _length(x: Tensor) -> Tensor:
    """Row lengths whose gradient is 0, not NaN, at 0."""
    squared = x.square().sum(-1)
    some = squared > 0
    return torch.where(some, torch.where(some, squared, 1.0).sqrt(), 0.0)


def _unit(x: Tensor) -> Tensor:
    """Rows at length one; a zero row stays zero and has the gradient 0."""
    length = _length(x)[..., None]
    some = length > 0
    return torch.where(some, x / torch.where(some, length, 1.0), 0.0)
