"""DeML: one binomial deviance for each branch, and terms that keep the branches of a scale apart.

encoder = DecoupledEncoder(trunk, channels=512)
EncoderStep(encoder, DeMLLoss(encoder.widths, branches=encoder.branches), optimiser, data)
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nearer._checks import check_int, check_number
from nearer.exceptions import ParameterError
from nearer.geometry._similarity import normalize
from nearer.losses.pairs._binomial import BinomialDevianceLoss
from nearer.pairwise._precision import full_precision
from nearer.pairwise._rule import inner_settings
from nearer_papers.systems._linear_start import start_linear
from nearer_papers.systems._parts import check_widths, split_parts
from nearer_papers.systems._reversal import reverse_gradient

__all__ = ["DeMLLoss", "activation_product", "branch_separation"]


def activation_product(parts: Sequence[Tensor]) -> Tensor:
    """mean over items of Π_j ‖f_j‖²/d_j: small when not all branches answer to the same item.

    `parts` are J tensors (n, d_j). On unit rows it is constant and has no effect; give it what comes before.

    >>> activation_product([torch.ones(2, 3), 2 * torch.ones(2, 4)]).item()
    4.0
    """
    return torch.stack([part.square().mean(1) for part in parts]).prod(0).mean()


def branch_separation(parts: Sequence[Tensor], *, margin: float = 2.0) -> Tensor:
    """mean over items and pairs of branches of [margin − ‖u(f_i) − u(f_j)‖²]₊, u(x) = x/‖x‖.

    `parts` are J tensors (n, d). One branch gives 0.

    >>> branch_separation([torch.tensor([[1.0, 0.0]]), torch.tensor([[2.0, 0.0]])]).item()  # one direction
    2.0
    """
    units = [normalize(part) for part in parts]
    pairs = list(itertools.combinations(units, 2))
    if not pairs:
        return units[0].sum() * 0
    return torch.stack([(margin - (a - b).square().sum(1)).clamp(min=0).mean() for a, b in pairs]).mean()


class DeMLLoss(nn.Module):
    """Σ_parts binomial deviance + activation·product − separation·hinge: branches that look at different things.

    `embeddings` (n, Σ widths) are the parts of `DecoupledEncoder` side by side, `branches` parts for each scale.
    Each part has its own binomial deviance on cosines (α = 2, negatives cost `negative_cost` times as much,
    threshold ½). Within a scale the `activation_product` keeps all branches from answering at once, and a small
    network for each branch maps its part to a common space, where it tries to bring the branches together, while
    the branches, by reversed gradients, keep `margin` of squared distance there (`branch_separation`, entering with
    a minus). The optimiser must get `loss.parameters()` too.

    >>> loss = DeMLLoss((4, 4), branches=2)
    >>> loss(torch.rand(6, 8), torch.arange(6) // 2).shape
    torch.Size([])

    Reference: Chen and Deng 2019 (DeML); constants of the release. The common space is our reading:
    128 dimensions behind one hidden layer, without biases, so that no constant can win.

    Args:
        widths: the width of each part of the embeddings.
        branches: how many parts one scale has.
        negative_cost: how many times as much a negative costs.
        separation: the weight of the hinge.
        margin: the squared distance that branches keep.
        activation: the weight of the product.
        generator: draws the first weights of the networks; torch's own if None.
    """

    extra_repr = inner_settings

    def __init__(
        self,
        widths: Sequence[int],
        *,
        branches: int = 3,
        negative_cost: float = 35.0,
        separation: float = 0.2,
        margin: float = 2.0,
        activation: float = 0.014,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.widths = check_widths(widths)
        self.branches = check_int(branches, "branches")
        if len(self.widths) % self.branches:
            raise ParameterError(
                f"`widths` must have {self.branches} parts for each scale, got {len(self.widths)} in all."
            )
        self.binomial = BinomialDevianceLoss(
            alpha=2.0, beta=2.0 * check_number(negative_cost, "negative_cost", above=0.0)
        )
        self.separation = check_number(separation, "separation", minimum=0.0)
        self.margin = check_number(margin, "margin", above=0.0, maximum=4.0)
        self.activation = check_number(activation, "activation", minimum=0.0)
        alone = self.branches == 1 or self.separation == 0
        self.adversaries = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 256, bias=False), nn.ReLU(), nn.Linear(256, 128, bias=False))
            for width in (() if alone else self.widths)
        )
        start_linear(self.adversaries, generator)

    @full_precision
    def forward(self, embeddings: Tensor, labels: Any) -> Tensor:
        """The loss of the parts' embeddings (n, Σ widths) with class labels (n,) or any relation."""
        parts = split_parts(embeddings, self.widths)
        total: Tensor = torch.stack([self.binomial(part, labels) for part in parts]).sum()
        starts = range(0, len(parts), self.branches)
        if self.branches > 1 and self.activation:
            products = [activation_product(parts[k : k + self.branches]) for k in starts]
            total = total + self.activation * torch.stack(products).mean()
        if self.adversaries:
            turned = [reverse_gradient(normalize(part)) for part in parts]
            mapped = [network(part) for network, part in zip(self.adversaries, turned, strict=True)]
            hinges = [branch_separation(mapped[k : k + self.branches], margin=self.margin) for k in starts]
            total = total - self.separation * torch.stack(hinges).mean()
        return total
