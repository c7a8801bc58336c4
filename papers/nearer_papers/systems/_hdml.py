"""HDML: negatives pulled towards their anchors as far as training has come, made into features by a generator.

encoder = nn.Sequential(backbone, head)
loss = HDMLLoss(head, 1024, 512, 98, epoch_steps=len(sampler))
EncoderStep(encoder, loss, Adam([*encoder.parameters(), *loss.parameters()]), data)
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from nearer._checks import check_int, check_number
from nearer._validation import as_labels
from nearer.exceptions import LabelError
from nearer.losses.pairs._pair_loss import check_embeddings
from nearer.pairwise._precision import full_precision
from nearer.pairwise._rule import inner_settings
from nearer_papers.systems._layer_input import LayerInput
from nearer_papers.systems._linear_start import start_linear

__all__ = ["HDMLLoss", "harder_negatives"]


def harder_negatives(anchor: Tensor, positive: Tensor, negative: Tensor, *, pull: float) -> Tensor:
    """ẑ⁻ = z + (z⁻ − z)·(d⁺ + (d⁻ − d⁺)·pull)/d⁻ where d⁻ > d⁺, else z⁻: (m, d) three times -> (m, d).

    `pull` = e^{−α/J_avg} is 1 at the start (nothing moves) and 0 at the end (as near as the positive).

    >>> z = torch.tensor([[0.0], [1.0], [3.0]])
    >>> harder_negatives(z[:1], z[1:2], z[2:], pull=0.5)
    tensor([[2.]])

    Reference: Zheng et al. 2019.
    """
    near, far = ((other - anchor).norm(dim=1, keepdim=True) for other in (positive, negative))
    movable = far > near
    reach = near + (far - near) * pull
    # Where nothing moves the ratio is not used; 1 keeps its gradient finite.
    return torch.where(movable, anchor + (negative - anchor) * (reach / torch.where(movable, far, 1.0)), negative)


class HDMLLoss(nn.Module):
    """J_metric, a triplet loss on real and on synthetic triplets; two helpers learn beside it.

    One random negative is drawn for every ordered positive pair of the batch. J_m = mean [D²_ap − D²_an + margin]₊
    on the embeddings as they come; J_syn is the same on head(generator(z)), head(generator(z⁺)) and
    head(generator(ẑ⁻)). J_metric = e^{−β/J_gen}·J_m + (1 − e^{−β/J_gen})·J_syn moves the encoder only;
    J_gen = (1 − λ)·Σ‖y − generator(z)‖² + λ·10⁴·CE(ỹ) moves the generator only, ỹ the synthetic features; CE(y)
    moves the classifier only. The value is J_metric, the gradient that of all three.

    J_avg in ẑ⁻ and J_gen in the weights are the means of J_m and J_gen over the epoch before, i.e. `epoch_steps`
    calls in training mode; they start at 10⁶, so that at first next to nothing is synthetic, and are part of the
    state. `head` turns features y (n, features) into embeddings (n, embedding_dim); a hook notes what goes into it.
    Labels are 0..n_classes − 1. The optimiser must get `loss.parameters()` too. A batch without a triplet has
    J_metric = 0.

    >>> head = nn.Linear(6, 4)
    >>> loss = HDMLLoss(head, 6, 4, 3, epoch_steps=10)
    >>> value = loss(head(torch.rand(6, 6)), torch.arange(6) // 2)
    >>> round(loss.synthetic_share, 2)
    0.01

    Reference: Zheng et al. 2019; α, β, λ and 10⁴ of the release, in its form for triplets.

    Args:
        head: the module of the encoder that turns features into embeddings.
        features: the width of the features.
        embedding_dim: the width of the embeddings.
        n_classes: how many classes there are.
        epoch_steps: how many batches make an epoch.
        alpha: how strongly synthetic negatives are pulled towards the anchor.
        beta: how slowly synthetic triplets gain weight.
        balance: λ.
        margin: of the triplet loss, on squared distances.
        generator: where random numbers come from; torch's own if None.
    """

    extra_repr = inner_settings

    means: Tensor
    course: Tensor

    def __init__(
        self,
        head: nn.Module,
        features: int,
        embedding_dim: int,
        n_classes: int,
        *,
        epoch_steps: int,
        alpha: float = 90.0,
        beta: float = 1e4,
        balance: float = 0.5,
        margin: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        p, d = check_int(features, "features"), check_int(embedding_dim, "embedding_dim")
        self.epoch_steps = check_int(epoch_steps, "epoch_steps")
        self.alpha = check_number(alpha, "alpha", minimum=0.0)
        self.beta = check_number(beta, "beta", minimum=0.0)
        self.balance = check_number(balance, "balance", minimum=0.0, maximum=1.0)
        self.margin = check_number(margin, "margin", minimum=0.0)
        self.random = generator
        self.generator = nn.Sequential(nn.Linear(d, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Linear(512, p))
        self.classifier = nn.Linear(p, check_int(n_classes, "n_classes"))
        start_linear(self, generator)
        # J_m and J_gen: their means over the last whole epoch; their sums and the number of calls in this one.
        self.register_buffer("means", torch.full((2,), 1e6, dtype=torch.float64))
        self.register_buffer("course", torch.zeros(3, dtype=torch.float64))
        self._input = LayerInput(head)

    @property
    def pull(self) -> float:
        """e^{−α/J_avg}: 1 leaves negatives where they are, 0 puts them as near as the positive."""
        return _decay(self.alpha, float(self.means[0]))

    @property
    def synthetic_share(self) -> float:
        """1 − e^{−β/J_gen}: what part of J_metric is synthetic."""
        return 1 - _decay(self.beta, float(self.means[1]))

    @full_precision
    def forward(self, embeddings: Tensor, labels: Any) -> Tensor:
        """The loss of what the head has just given, (n, embedding_dim), with class labels (n,)."""
        z = check_embeddings(embeddings, "embeddings")
        y = as_labels(labels, "labels", n=len(z)).to(z.device)
        count = self.classifier.out_features
        if len(y) and not 0 <= int(y.min()) <= int(y.max()) < count:
            raise LabelError(f"`labels` must be 0 to {count - 1}, got {int(y.min())} to {int(y.max())}.")
        features = self._input.take(len(z))
        triplets = _triplets(y, self.random)
        if not len(triplets):
            return z.sum() * 0
        a, p, n = (z[column] for column in triplets.T)
        negative = harder_negatives(a, p, n, pull=self.pull)
        whole = torch.cat([z, a, p, negative])
        # The encoder learns through the generator, but not what the generator should be.
        frozen = {name: value.detach() for name, value in self.generator.named_parameters()}
        made = functional_call(self.generator, frozen, (whole,))[len(z) :]
        synthetic = self._input.layer.forward(made)
        j_m = self._metric(a, p, n)
        share = self.synthetic_share
        value = (1 - share) * j_m + share * self._metric(*synthetic.chunk(3))
        j_gen, j_class = self._helpers(whole.detach(), features.detach(), y, y[triplets.T.reshape(-1)])
        if self.training:
            self._note(j_m, j_gen)
        return value + (j_gen - j_gen.detach()) + (j_class - j_class.detach())

    def _metric(self, a: Tensor, p: Tensor, n: Tensor) -> Tensor:
        return ((a - p).square().sum(1) - (a - n).square().sum(1) + self.margin).clamp(min=0).mean()

    def _helpers(self, whole: Tensor, features: Tensor, y: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """J_gen for the generator, with the classifier held fixed, and the cross-entropy for the classifier."""
        again, synthetic = self.generator(whole).split([len(y), len(whole) - len(y)])
        fixed = {name: value.detach() for name, value in self.classifier.named_parameters()}
        wrong = cross_entropy(functional_call(self.classifier, fixed, (synthetic,)), labels)
        j_gen = (1 - self.balance) * (features - again).square().sum() + self.balance * 1e4 * wrong
        return j_gen, cross_entropy(self.classifier(features), y)

    @torch.no_grad()
    def _note(self, j_m: Tensor, j_gen: Tensor) -> None:
        self.course += torch.stack([j_m, j_gen, torch.ones_like(j_m)]).to(self.course)
        if int(self.course[2]) >= self.epoch_steps:
            self.means.copy_(self.course[:2] / self.course[2])
            self.course.zero_()


def _decay(rate: float, mean: float) -> float:
    return math.exp(-rate / mean) if mean > 0 else float(rate == 0)


def _triplets(y: Tensor, generator: torch.Generator | None) -> Tensor:
    """(m, 3): every ordered positive pair with one random negative; pairs without a negative are left out."""
    anchor, positive = (y[:, None] == y[None]).fill_diagonal_(False).nonzero(as_tuple=True)
    order = torch.argsort(y, stable=True)
    _, codes, sizes = torch.unique(y, return_inverse=True, return_counts=True)
    start, size = (sizes.cumsum(0) - sizes)[codes][anchor], sizes[codes][anchor]
    # In class order the own class is one stretch: draw among the others and step over it.
    place = (torch.rand(len(anchor), generator=generator).to(y.device) * (len(y) - size)).to(torch.int64)
    place = place + size * (place >= start)
    kept = size < len(y)
    return torch.stack([anchor[kept], positive[kept], order[place[kept]]], dim=1)
