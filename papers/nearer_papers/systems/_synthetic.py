"""Synthetic samples (SUML): made-up constraints about random triplets, and the entropy of believing them."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from nearer._checks import check_choice, check_int, check_number, check_pairs
from nearer.losses.pairs._angular import tangent_weight
from nearer.losses.pairs._pair_loss import check_embeddings
from nearer.pairwise._rule import inner_settings

__all__ = ["SyntheticLoss"]


def _angular(a: Tensor, p: Tensor, n: Tensor, weight: float) -> Tensor:
    return (a - p).square().sum(dim=1) - weight * (n - (a + p) / 2).square().sum(dim=1)


class SyntheticLoss(nn.Module):
    """`−Σ_i Σ_c p_c log p_c + λ‖LᵀL − I‖²` over five hypotheses about every random triplet; learns S and L.

    Samples are made of two embeddings, `s = Sᵀ[x; x']`, S (2d, d). Hypotheses 1 to 3 say of which two of (a, p,
    n) the first is the friend, with cost `softplus(f^s) + softplus(f^m)`: f^m is the angular margin of `Lᵀs`, f^s
    the negative one of s itself. Hypotheses 4 and 5 say that [a; p] and [a; n] are alike or not, with cost
    ∓(δ²(s, s⁺) − δ²(Lᵀs, Lᵀs⁺)). `belief` is "softmax", p = softmax(−costs), or "as_printed",
    `p_c = 1/(1 + e^{cost})`, whose five numbers do not sum to one although the paper says so.

    >>> loss = SyntheticLoss(4, 2)
    >>> loss(torch.rand(6, 4), torch.tensor([[0, 1, 2], [3, 4, 5]])).shape
    torch.Size([])

    Reference: Dutta, Harandi, Sekhar (2020), without the division by max(f) of the released demo, which flips
    signs.

    Args:
        in_features: d, the width of what comes in.
        embedding_dim: the width of Lᵀs.
        angle: of the angular margin, in degrees.
        penalty: λ.
        belief: "softmax" or "as_printed", as above.
        generator: draws S and L; torch's own if None.
    """

    extra_repr = inner_settings

    def __init__(
        self,
        in_features: int,
        embedding_dim: int,
        *,
        angle: float = 40.0,
        penalty: float = 0.5,
        belief: str = "softmax",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        d, l = check_int(in_features, "in_features"), check_int(embedding_dim, "embedding_dim")
        self.weight = tangent_weight(angle)
        # Without the penalty L = 0 would fit everything.
        self.penalty = check_number(penalty, "penalty", above=0.0)
        self.belief = check_choice(belief, "belief", ["softmax", "as_printed"])
        self.synthesis = nn.Parameter(torch.randn(2 * d, d, generator=generator) / (2 * d) ** 0.5)
        start = torch.linalg.qr(torch.randn(d, min(l, d), generator=generator)).Q
        self.factor = nn.Parameter(start.clone())

    def costs(self, embeddings: Tensor, triplets: Tensor) -> Tensor:
        """The cost of every hypothesis about every triplet, (m, 5)."""
        x = check_embeddings(embeddings, "embeddings")
        listed = check_pairs(triplets, "triplets", len(x), size=3)
        a, p, n = (x[column] for column in torch.from_numpy(listed).to(x.device).T)

        def made(x: Tensor, y: Tensor) -> Tensor:
            return torch.cat([x, y], dim=1) @ self.synthesis

        found = []
        for first, friend, stranger in ((a, p, n), (a, n, p), (p, n, a)):
            s, near, far = made(first, first), made(first, friend), made(first, stranger)
            mapped = _angular(s @ self.factor, near @ self.factor, far @ self.factor, self.weight)
            found.append(softplus(-_angular(s, near, far, self.weight)) + softplus(mapped))
        one, two = made(a, p), made(a, n)
        apart = ((one - two) @ self.factor).square().sum(dim=1) - (one - two).square().sum(dim=1)
        return torch.stack([*found, apart, -apart], dim=1)

    def forward(self, embeddings: Tensor, triplets: Tensor) -> Tensor:
        """The mean entropy over triplets (m, 3) of embeddings (n, d), and the penalty."""
        costs = self.costs(embeddings, triplets)
        if self.belief == "softmax":
            entropy = -(torch.softmax(-costs, dim=1) * torch.log_softmax(-costs, dim=1)).sum(dim=1)
        else:
            # p log p with log p = −softplus(cost), which no cost sends to −∞ · 0.
            entropy = (torch.sigmoid(-costs) * softplus(costs)).sum(dim=1)
        return entropy.mean() + self.penalty * orthogonality_penalty(self.factor)


def orthogonality_penalty(factor: Tensor) -> Tensor:
    """`‖LᵀL − I‖²_F`, on the graph of L (p, d): 0 for orthonormal columns, the soft form of the constraint.

    >>> orthogonality_penalty(torch.tensor([[2.0, 0.0], [0.0, 1.0]])).item()
    9.0
    """
    inner: Tensor = factor.T @ factor
    return (inner - torch.eye(factor.shape[1], dtype=factor.dtype, device=factor.device)).square().sum()
