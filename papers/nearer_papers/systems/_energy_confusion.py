"""ECAML: a little confusion of random pairs keeps the embedding layer from fitting the training classes too well.

encoder = nn.Sequential(backbone, layer)
EncoderStep(encoder, EnergyConfusionLoss(NPairsLoss(), layer), optimiser, data)
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from nearer._checks import check_int, check_number
from nearer._validation import as_labels
from nearer.losses.pairs._distances import sum_weighted_squares
from nearer.losses.pairs._pair_loss import check_embeddings
from nearer.pairwise._rule import inner_settings
from nearer_papers.systems._layer_input import LayerInput

__all__ = ["EnergyConfusionLoss", "energy_confusion"]

_SMALLEST = 1e-12


def energy_confusion(
    embeddings: Any, labels: Any, *, pairs: int = 10, generator: torch.Generator | None = None
) -> Tensor:
    """log E, E = Σ ½‖x_i − x_j‖²/w_ij over random pairs: low when random items lie near each other.

    Each item i is paired with `pairs` of the items after it in the batch, drawn without repetition (fewer at the
    end, where there are fewer), so no pair counts twice. w is the number of pairs of the batch that agree in class,
    or that do not, as (i, j) does. `embeddings` (n, d), taken as they are; `labels` (n,). Without a pair, or with
    all of them in one place, the value is log 1e-12 and has no gradient.

    >>> x = torch.tensor([[0.0, 0.0], [2.0, 0.0]])
    >>> round(energy_confusion(x, [0, 1]).item(), 4)  # log 2
    0.6931

    Reference: Chen and Deng 2019 (ECAML), with the draw and the weights of the released layer.
    """
    x = check_embeddings(embeddings, "embeddings")
    x = x if x.dtype == torch.float64 else x.float()
    y = as_labels(labels, "labels", n=len(x)).to(x.device)
    i, j = _draw(len(x), check_int(pairs, "pairs"), generator)
    i, j = i.to(x.device), j.to(x.device)
    sizes = torch.unique(y, return_counts=True)[1]
    alike = int((sizes * (sizes - 1)).sum()) // 2
    other = len(x) * (len(x) - 1) // 2 - alike
    weights = torch.where(y[i] == y[j], 0.5 / max(alike, 1), 0.5 / max(other, 1)).to(x.dtype)
    energy = sum_weighted_squares(x, x, i, j, weights).sum()
    return energy.clamp(min=_SMALLEST).log()


class EnergyConfusionLoss(nn.Module):
    """L_metric + λ·log E, where E moves `layer` alone: the features that go into it are held fixed for this term.

    `layer` is the module of the encoder that makes the embeddings (with a `UnitLength` inside, if rows have length
    one); a hook notes what goes into it, and it is run once more on that. Called as loss(embeddings, labels).

    >>> from nearer.losses.pairs._contrastive import ContrastiveLoss
    >>> layer = nn.Linear(4, 2)
    >>> loss = EnergyConfusionLoss(ContrastiveLoss(), layer)
    >>> loss(layer(torch.rand(6, 4)), torch.arange(6) // 2).shape
    torch.Size([])

    Reference: Chen and Deng 2019; λ = 0.13 in the release.

    Args:
        loss: the metric loss.
        layer: the module that makes the embeddings.
        weight: λ.
        pairs: how many pairs of classes are drawn for a batch.
        generator: where random numbers come from; torch's own if None.
    """

    extra_repr = inner_settings

    def __init__(
        self,
        loss: nn.Module,
        layer: nn.Module,
        *,
        weight: float = 0.13,
        pairs: int = 10,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.loss = loss
        self.weight = check_number(weight, "weight", minimum=0.0)
        self.pairs = check_int(pairs, "pairs")
        self.generator = generator
        self._input = LayerInput(layer)

    def forward(self, embeddings: Tensor, labels: Any) -> Tensor:
        """The loss of what the layer has just given, (n, d), with class labels (n,)."""
        value: Tensor = self.loss(embeddings, labels)
        features = self._input.take(len(embeddings)).detach()
        # `forward` itself: the second pass is not to be noted by the hook.
        again = self._input.layer.forward(features)
        return value + self.weight * energy_confusion(again, labels, pairs=self.pairs, generator=self.generator)


def _draw(n: int, pairs: int, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    """Up to `pairs` later items for every item, without repetition; what a round drew twice is drawn again."""
    start = max(0, n - 1 - pairs)
    listed = torch.combinations(torch.arange(start, n))  # from here on every later item is taken
    many = torch.arange(start)
    drawn = torch.empty(0, dtype=torch.int64)
    missing = many.repeat_interleave(pairs)
    while len(missing):
        later = (torch.rand(len(missing), generator=generator) * (n - 1 - missing)).to(torch.int64)
        drawn = torch.unique(torch.cat([drawn, missing * n + missing + 1 + later]))
        short = pairs - torch.bincount(drawn // n, minlength=n)[many]
        missing = many.repeat_interleave(short)
    return torch.cat([drawn // n, listed[:, 0]]), torch.cat([drawn % n, listed[:, 1]])
