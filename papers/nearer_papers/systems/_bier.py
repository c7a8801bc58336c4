"""BIER and ABIER: parts of an embedding as the learners of a booster, kept different from each other.

heads = BoostedHeads(1024)
encoder = nn.Sequential(backbone, heads)
EncoderStep(encoder, ABIERLoss(heads), optimiser, data)
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from nearer._checks import check_choice, check_int, check_number
from nearer._validation import as_matrix
from nearer.geometry._similarity import normalize
from nearer.pairwise._masked import softplus
from nearer.pairwise._panels import panel_rows
from nearer.pairwise._precision import full_precision
from nearer.pairwise._rule import inner_settings
from nearer.relations import Relation
from nearer.relations._relate import relate
from nearer_papers.systems._boosted_heads import BoostedHeads
from nearer_papers.systems._layer_input import LayerInput
from nearer_papers.systems._linear_start import start_linear
from nearer_papers.systems._parts import check_widths, split_parts
from nearer_papers.systems._reversal import reverse_gradient

__all__ = ["ABIERLoss", "BIERLoss", "HeadDiversity", "decorrelate"]


class BIERLoss(nn.Module):
    """(1/M) Σ_m Σ_pairs W·b_m·log(1 + e^{−α(D_m − β)M}): a part learns most from what those before got wrong.

    D_m is the cosine of part m, M = 1 on positives and −`negative_cost` on negatives, W = 1/number of pairs of the
    side, b₁ = 1. "shrinkage": a_m = a_{m−1} + `shrinkage`·α(D_m − β)M from a₀ = ½, b_{m+1} = σ(−a_m), twice that on
    negatives. "running": a_m = (1 − ν)a_{m−1} + νD_m, ν = 2/(m + 1), b_{m+1} = σ(−α(a_m − β)M). The b carry no
    gradient. `embeddings` (n, Σ widths) are the parts side by side, of any length each. No pair gives 0.

    >>> loss = BIERLoss((2,), alpha=2, beta=0, negative_cost=1)
    >>> round(loss(torch.eye(2), torch.tensor([0, 1])).item(), 4)  # log 2
    0.6931

    Related: one part is binomial deviance over all pairs. Reference: Opitz et al. 2018, algorithm 1.

    Args:
        widths: the width of each part of the embeddings.
        alpha: how steep the deviance is.
        beta: the cosine at which a pair costs log 2.
        negative_cost: how many times as much a negative costs.
        shrinkage: how far one part moves what the next ones see.
        boosting: "shrinkage" or "running", as above.
    """

    extra_repr = inner_settings

    def __init__(
        self,
        widths: Sequence[int] = (96, 160, 256),
        *,
        alpha: float = 2.0,
        beta: float = 0.5,
        negative_cost: float = 25.0,
        shrinkage: float = 0.06,
        boosting: str = "shrinkage",
    ) -> None:
        super().__init__()
        self.widths = check_widths(widths)
        self.alpha = check_number(alpha, "alpha", above=0.0)
        self.beta = check_number(beta, "beta")
        self.negative_cost = check_number(negative_cost, "negative_cost", above=0.0)
        self.shrinkage = check_number(shrinkage, "shrinkage", minimum=0.0)
        self.boosting = check_choice(boosting, "boosting", ["shrinkage", "running"])

    @full_precision
    def forward(self, embeddings: Tensor, labels: Any) -> Tensor:
        """The loss of embeddings (n, Σ widths) with class labels (n,) or any relation."""
        parts = [normalize(part) for part in split_parts(embeddings, self.widths)]
        n = len(parts[0])
        relation = relate(labels, n=n, device=parts[0].device)
        step = panel_rows(n, n)
        panels = [slice(start, start + step) for start in range(0, n, step)]
        sides = torch.tensor([[int(mask.sum()) for mask in _masks(relation, panel)] for panel in panels]).sum(0)
        shares = (1 / max(int(sides[0]), 1), 1 / max(int(sides[1]), 1))
        total = parts[0].new_zeros(())
        for panel in panels:
            # Each panel is computed again in the backward pass, so that only one exists at a time.
            if len(panels) > 1 and torch.is_grad_enabled():
                value = checkpoint(self._panel, panel, relation, shares, *parts, use_reentrant=False)
            else:
                value = self._panel(panel, relation, shares, *parts)
            total = total + value
        return total

    def _panel(self, anchors: slice, relation: Relation, shares: tuple[float, float], *parts: Tensor) -> Tensor:
        positive, negative = (mask.to(parts[0]) for mask in _masks(relation, anchors))
        side = positive - self.negative_cost * negative
        weight = shares[0] * positive + shares[1] * negative
        ensemble, boost = torch.full_like(side, 0.5), torch.ones_like(side)
        total = parts[0].new_zeros(())
        for number, part in enumerate(parts, start=1):
            cosine = part[anchors] @ part.T
            total = total + (weight * boost * softplus(-self.alpha * (cosine - self.beta) * side)).sum()
            known = cosine.detach()
            if self.boosting == "shrinkage":
                ensemble = ensemble + self.shrinkage * self.alpha * (known - self.beta) * side
                boost = torch.sigmoid(-ensemble) * (1 + negative)
            else:
                nu = 2 / (number + 1)
                ensemble = (1 - nu) * ensemble + nu * known
                boost = torch.sigmoid(-self.alpha * (ensemble - self.beta) * side)
        return total / len(parts)


class HeadDiversity(nn.Module):
    """How alike the parts of `heads` are, plus a price for weights that are not of length one.

    "activation": Σ_{i<j} mean (f_i f_jᵀ)², every unit of part i against every unit of part j. "adversarial":
    networks r_{j→i} (one hidden layer) try to make mean (f_i ⊙ r(f_j))² large and the parts, by reversed
    gradients, small; the value is minus that. f_m = W_m x + b_m with x detached, so only the heads move. Price:
    `weight_penalty` times mean (‖w‖² − 1)² over the rows w of each matrix, and [‖b‖² − 1]₊ for the biases b of
    the networks.

    >>> heads = BoostedHeads(4, (2, 3))
    >>> HeadDiversity(heads, kind="activation")(torch.zeros(5, 4)).item() >= 0
    True

    Reference: Opitz et al. 2018.

    Args:
        heads: the heads whose parts should differ.
        kind: "adversarial" or "activation", as above.
        weight_penalty: the price of weights that are not of length one.
        hidden: the width of the hidden layer of the networks.
        generator: draws the first weights of the networks; torch's own if None.
    """

    def __init__(
        self,
        heads: BoostedHeads,
        *,
        kind: str = "adversarial",
        weight_penalty: float = 1e5,
        hidden: int = 512,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.kind = check_choice(kind, "kind", ["adversarial", "activation"])
        self.weight_penalty = check_number(weight_penalty, "weight_penalty", minimum=0.0)
        check_int(hidden, "hidden")
        self._heads = (heads,)  # not a sub-module: its parameters are the encoder's
        pairs = itertools.combinations(heads.widths, 2) if self.kind == "adversarial" else ()
        self.regressors = nn.ModuleList(
            nn.Sequential(nn.Linear(source, hidden), nn.ReLU(), nn.Linear(hidden, target))
            for target, source in pairs
        )
        start_linear(self, generator)

    def forward(self, features: Tensor) -> Tensor:
        """The sum over pairs of parts and the price, for what goes into the heads (n, p)."""
        (heads,) = self._heads
        parts = heads.raw(features.detach())
        total = parts[0].new_zeros(())
        if self.kind == "activation":
            for one, two in itertools.combinations(parts, 2):
                total = total + (one.square().mean(1) * two.square().mean(1)).mean()
        else:
            turned = [reverse_gradient(part) for part in parts]
            for regressor, (one, two) in zip(self.regressors, itertools.combinations(turned, 2), strict=True):
                total = total - (one * regressor(two)).square().mean()
        return total + self.weight_penalty * self._price(heads)

    def _price(self, heads: BoostedHeads) -> Tensor:
        matrices = [part.weight for part in heads.parts]
        own = [layer for layer in self.modules() if isinstance(layer, nn.Linear)]
        lengths = [
            (weight.square().sum(1) - 1).square().mean()  # type: ignore[operator]
            for weight in [*matrices, *(layer.weight for layer in own)]
        ]
        return torch.stack([*lengths, *((layer.bias.square().sum() - 1).clamp(min=0) for layer in own)]).sum()


class ABIERLoss(nn.Module):
    """`BIERLoss` + `diversity`·`HeadDiversity` of the encoder's `heads`, called as loss(embeddings, labels).

    The heads must be the module that the encoder runs last; what goes into them is noted by a hook. The price of
    the weights is inside the diversity, as in the released code. Give the optimiser `loss.parameters()` too: the
    adversaries learn.

    >>> heads = BoostedHeads(4, (2, 3))
    >>> loss = ABIERLoss(heads)
    >>> loss(heads(torch.rand(6, 4)), torch.arange(6) // 2).shape
    torch.Size([])

    Args:
        heads: the `BoostedHeads` that the encoder runs last.
        boosting: the boosted loss; a `BIERLoss` of the same widths if None.
        regularizer: the diversity of the heads; a new one if None.
        diversity: its weight.
    """

    def __init__(
        self,
        heads: BoostedHeads,
        *,
        boosting: BIERLoss | None = None,
        regularizer: HeadDiversity | None = None,
        diversity: float = 5e-5,
    ) -> None:
        super().__init__()
        self.boosting = boosting or BIERLoss(heads.widths)
        self.regularizer = regularizer or HeadDiversity(heads)
        self.diversity = check_number(diversity, "diversity", minimum=0.0)
        self._input = LayerInput(heads)

    def forward(self, embeddings: Tensor, labels: Any) -> Tensor:
        """The loss of what the heads have just given, (n, Σ widths), with class labels (n,) or any relation."""
        value: Tensor = self.boosting(embeddings, labels)
        alike: Tensor = self.regularizer(self._input.take(len(embeddings)))
        return value + self.diversity * alike


def decorrelate(
    heads: BoostedHeads, features: Any, *, steps: int = 200, lr: float = 0.01, weight_penalty: float = 10.0
) -> list[float]:
    """Start the heads apart: descend on the activation diversity of features (n, p) before any label is used.

    Moves the heads in place by Adam and returns the diversity, weights' price left out, before each step.

    >>> heads = BoostedHeads(6, (2, 2), generator=torch.Generator().manual_seed(0))
    >>> course = decorrelate(heads, torch.rand(50, 6, generator=torch.Generator().manual_seed(1)), steps=50)
    >>> course[-1] < course[0]
    True

    Reference: Opitz et al. 2017 (BIER).
    """
    x = as_matrix(features, "features", columns=heads.in_features)
    adam = torch.optim.Adam(heads.parameters(), lr=check_number(lr, "lr", above=0.0))
    alike = HeadDiversity(heads, kind="activation", weight_penalty=weight_penalty)
    course = []
    for _ in range(check_int(steps, "steps")):
        adam.zero_grad()
        value = alike(x)
        course.append(float(value.detach() - weight_penalty * alike._price(heads).detach()))
        value.backward()
        adam.step()
    adam.zero_grad()
    return course


def _masks(relation: Relation, anchors: slice) -> tuple[Tensor, Tensor]:
    """Positive and negative pairs of some anchors with everybody but themselves."""
    positive, negative = relation.masks(anchors, slice(None))
    for mask in (positive, negative):
        mask.diagonal(anchors.start).fill_(False)
    return positive, negative
