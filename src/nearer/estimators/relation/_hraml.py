"""HRAML: a network whose squared distances on the unit sphere follow a relation between labels of any kind."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
import torch
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data
from torch import Tensor, nn

from nearer._checks import check_choice, check_int, check_number
from nearer.estimators._learner import FLOATS, MapLearner, fitted_rows
from nearer.estimators._matrices import Array
from nearer.estimators.relation._raml_pairs import table_relation
from nearer.exceptions import LabelError
from nearer.geometry import embed, normalize
from nearer.losses import RelationAlignmentLoss
from nearer.mining import LargestErrors
from nearer.relations import ClassLabels, Relation
from nearer.relations._shared import TableRelation
from nearer.training import EncoderStep, cosine, train


def draw_partners(
    relation: Relation,
    anchors: Tensor,
    *,
    count: int = 1,
    sharpness: float = 1.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    """For each anchor `count` partners j ≠ i with probability ∝ (g_ij + 1e-6)^{−sharpness}: (a,) -> (a, count).

    Anchors and partners are item numbers; g is `farthest·(1 − degree)` of a relation among the items themselves.
    Pairs that are not known are never drawn. Sharpness 0 draws uniformly. An anchor without any known partner meets
    itself. Without replacement where there are enough partners.

    >>> from nearer.relations import ClassLabels, Relation
    >>> draw_partners(ClassLabels([0, 1, 0, 1]), torch.tensor([0, 3]), sharpness=2.0).tolist()
    [[2], [1]]

    Reference: the sampler for soft labels that the authors of HRAML released, with its positions mapped back to
    items (as released, partners did not depend on g).

    Args:
        relation: among the items themselves.
        anchors: item numbers (a,).
        count: how many partners each anchor gets.
        sharpness: 0 draws uniformly, more prefers the near.
        generator: where random numbers come from; torch's own if None.
    """
    check_int(count, "count")
    power = check_number(sharpness, "sharpness", minimum=0.0)
    degree, known = relation.degrees(anchors)
    logits = -power * (relation.farthest * (1 - degree.double()) + 1e-6).log()
    own = torch.arange(len(anchors), device=anchors.device)
    known = known.clone()
    known[own, anchors] = False
    some = known.any(1)
    # Gumbel noise: the largest of logit + noise is a draw without replacement by these probabilities.
    lots = torch.rand(logits.shape, generator=generator, dtype=torch.float64).to(logits.device).clamp_(min=1e-300)
    noisy = (logits - (-lots.log()).log()).masked_fill(~known, -torch.inf)
    take = min(count, noisy.shape[1])
    values, chosen = noisy.topk(take, dim=1)
    # Too few known partners: the nearest of them again.
    chosen = torch.where(torch.isfinite(values), chosen, chosen[:, :1])
    chosen = torch.where(some[:, None], chosen, anchors[:, None])
    return chosen if take == count else chosen[:, torch.arange(count, device=chosen.device) % take]


class AlignmentNetwork(nn.Module):
    """`h ← tanh(W h + b)` for every layer, then length one: (n, p) -> (n, d).

    `bounded` False leaves the tanh of the last layer out. `dropout` silences hidden units, `input_dropout` inputs.
    Weights start as torch starts them, or uniform in ±`spread` with biases 0, as the paper has it (0.2).

    >>> AlignmentNetwork([8, 16, 4])(torch.rand(3, 8)).square().sum(1).round(decimals=3).tolist()
    [1.0, 1.0, 1.0]
    """

    def __init__(
        self,
        widths: Sequence[int],
        *,
        dropout: float = 0.0,
        input_dropout: float = 0.0,
        bounded: bool = True,
        spread: float | None = None,
    ) -> None:
        super().__init__()
        self.width = int(widths[-1])
        layers: list[nn.Module] = [nn.Dropout(input_dropout)] if input_dropout else []
        for number, (a, b) in enumerate(itertools.pairwise(widths), start=1):
            linear = nn.Linear(a, b)
            if spread is not None:
                nn.init.uniform_(linear.weight, -spread, spread)
                nn.init.zeros_(linear.bias)
            layers.append(linear)
            last = number == len(widths) - 1
            if bounded or not last:
                layers.append(nn.Tanh())
            if dropout and not last:
                layers.append(nn.Dropout(dropout))
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        return normalize(self.layers(x))


@dataclass(frozen=True)
class PartnerSampler:
    """Every item once per epoch as an anchor, in random order; each brings a partner drawn by `draw_partners`.

    `sharpness` 0 leaves the partners out: batches are then plain random items.
    """

    relation: TableRelation
    batch_size: int
    sharpness: float
    seed: int

    @property
    def anchors(self) -> int:
        """Anchors of a batch."""
        return self.batch_size // 2 if self.sharpness else self.batch_size

    def __len__(self) -> int:
        return max(1, round(self.relation.n_queries / self.anchors))

    def epoch(self, number: int) -> list[Tensor]:
        """The item numbers of every batch; the same each time it is asked."""
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + number)
        order = torch.randperm(self.relation.n_queries, generator=generator)
        batches = []
        for rows in torch.tensor_split(order, len(self)):
            if self.sharpness:
                partners = draw_partners(self.relation, rows, sharpness=self.sharpness, generator=generator)
                rows = torch.cat([rows, partners[:, 0]])
            batches.append(rows)
        return batches


@dataclass(frozen=True)
class _Rows:
    """Items and the relation among them, by row number."""

    X: Tensor
    relation: TableRelation

    def items(self, rows: Tensor) -> Tensor:
        return self.X[rows]

    def labels(self, rows: Tensor) -> TableRelation:
        table = self.relation.queries[rows]
        return self.relation.between(table, table)


@dataclass(eq=False, repr=False)
class HRAML(MapLearner):
    """HRAML: a small network on the unit sphere, `‖f(x) − f(x')‖²` regressed on how far apart two rows should be.

    X (n, p) and y of any kind: classes, a 0/1 matrix of label sets, distributions, numbers; -> (n, d), rows of
    length one. `relation` is the relation function ("l1", "cosine", "jaccard", "hellinger", "jensen_shannon", … or
    your own), `scale` what it is multiplied by (see `RelationAlignmentLoss`): the default asks for nothing that
    unit vectors cannot do. Several `networks` are trained and their outputs put side by side, which averages their
    squared distances. A batch is half anchors, half partners that are alike with probability ∝ g^{−sharpness};
    `hard_fraction` keeps only the pairs with the largest errors. `n_components` (of each network) is by default at
    least the number of labels: with fewer dimensions one-hot targets cannot be met.

    Reference: Gu, HRAML; the settings of the released code are `hidden=(100,), networks=1, dropout=0,
    input_dropout=0, bounded=True, spread=0.2, optimizer="sgd", lr=1e-2, epochs=20, batch_size=40`.

    >>> X = np.array([[0.0, 0], [0, 9], [1, 0], [1, 9]])
    >>> learner = HRAML(epochs=200, networks=1, dropout=0.0, input_dropout=0.0, random_state=0)
    >>> near, far = learner.fit(X, [[1, 0], [1, 0], [0, 1], [0, 1]]).pair_distance(X[[0, 0]], X[[1, 2]])
    >>> bool(near < far)
    True

    Args:
        n_components: dimensions to keep; None keeps all columns.
        hidden: widths of the hidden layers.
        relation: how near two label rows should be; "auto" is L1.
        kind: what the labels are; "auto" finds it.
        scale: what distances are compared with: targets scaled to be "attainable", or a number.
        networks: networks whose embeddings stand side by side.
        epochs: passes over the data.
        batch_size: items in a batch.
        optimizer: "adam" or "sgd".
        lr: learning rate.
        weight_decay: of the optimizer.
        dropout: share of hidden units that are left out.
        input_dropout: share of inputs that are left out.
        bounded: end in a tanh.
        spread: the first weights are uniform in ±spread; None starts as torch does.
        sharpness: how much alike partners are preferred.
        hard_fraction: share of the worst pairs that count; None takes all.
        standardize: bring every feature to mean 0 and deviation 1 first.
        random_state: seed or generator for everything that is drawn; None takes numpy's own.
        verbose: 1 prints the iterations.

    Attributes:
        encoders_: the trained networks.
        mean_: mean of every column, (p,).
        scale_: what centred columns are divided by, (p,).
        losses_: the loss of every network in its last epoch.
        n_iter_: epochs that were made.
        n_labels_: columns of the label rows, or classes.
        n_features_in_: columns of the X it was fitted on.
    """

    n_components: int | None = None
    _: KW_ONLY
    hidden: Sequence[int] = (200,)
    relation: Any = "auto"
    kind: str = "auto"
    scale: float | str = "attainable"
    networks: int = 3
    epochs: int = 100
    batch_size: int = 128
    optimizer: str = "adam"
    lr: float = 3e-3
    weight_decay: float = 1e-4
    dropout: float = 0.5
    input_dropout: float = 0.2
    bounded: bool = False
    spread: float | None = None
    sharpness: float = 0.0
    hard_fraction: float | None = None
    standardize: bool = True
    random_state: Any = None
    verbose: int = 0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from rows X (n, p) and labels y: classes or numbers (n,), label sets or distributions (n, q)."""
        X, y = validate_data(self, X, y, dtype=FLOATS, multi_output=True, ensure_min_samples=2)
        self._forget_threshold()
        relation = table_relation(y, kind=self.kind, function=self.relation)
        self._check_spread_of_labels(relation)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self._scale_features(X)
        rows = torch.from_numpy(self._scaled(X))
        epochs = check_int(self.epochs, "epochs")
        sampler = PartnerSampler(
            relation,
            min(check_int(self.batch_size, "batch_size", minimum=4), 2 * X.shape[0]),
            check_number(self.sharpness, "sharpness", minimum=0),
            seed,
        )
        self.encoders_: list[AlignmentNetwork] = []
        self.losses_: list[float] = []
        with torch.random.fork_rng(devices=[]):
            for number in range(check_int(self.networks, "networks")):
                torch.manual_seed(seed + number)
                encoder = self._network(X.shape[1], relation)
                step = EncoderStep(
                    encoder,
                    self._loss(),
                    self._optimizer(encoder),
                    _Rows(rows, relation),
                    schedule=cosine(epochs * len(sampler)),
                )
                history = train(step, sampler, epochs=epochs)
                self.encoders_.append(encoder.eval())
                self.losses_.append(history.epochs[-1]["loss"])
                if self.verbose:
                    print(f"[HRAML] network {number + 1}: loss {self.losses_[-1]:.6g}")
        self.n_iter_ = epochs
        return self

    def _check_spread_of_labels(self, relation: TableRelation) -> None:
        table = relation.queries
        if bool((table == table[:1]).all()):
            raise LabelError(
                "`y` must tell rows apart, got the same labels for all of them: collapse would be optimal."
            )
        self.n_labels_ = int(table.max()) + 1 if isinstance(relation, ClassLabels) else int(table.shape[1])

    def _network(self, p: int, relation: TableRelation) -> AlignmentNetwork:
        hidden = [check_int(width, "hidden") for width in self.hidden]
        if self.n_components is None:
            d = max(self.n_labels_, min(p, 64), 2)
        else:
            d = check_int(self.n_components, "n_components")
        return AlignmentNetwork(
            [p, *hidden, d],
            dropout=check_number(self.dropout, "dropout", minimum=0, maximum=0.95),
            input_dropout=check_number(self.input_dropout, "input_dropout", minimum=0, maximum=0.95),
            bounded=bool(self.bounded),
            spread=None if self.spread is None else check_number(self.spread, "spread", above=0),
        )

    def _loss(self) -> RelationAlignmentLoss:
        miner = None if self.hard_fraction is None else LargestErrors(self.hard_fraction)
        return RelationAlignmentLoss(scale=self.scale, miner=miner)

    def _optimizer(self, encoder: nn.Module) -> torch.optim.Optimizer:
        name = check_choice(self.optimizer, "optimizer", ["adam", "sgd"])
        rate = check_number(self.lr, "lr", above=0)
        decay = check_number(self.weight_decay, "weight_decay", minimum=0)
        if name == "sgd":
            return torch.optim.SGD(encoder.parameters(), lr=rate, momentum=0.9, weight_decay=decay)
        return torch.optim.AdamW(encoder.parameters(), lr=rate, weight_decay=decay)

    def _scale_features(self, X: Array) -> None:
        """Centre; then unit variance of each feature, or of all together; a constant feature stays."""
        rows = X.astype(np.float64, copy=False)
        self.mean_ = rows.mean(axis=0)
        deviation = rows.std(axis=0)
        if not self.standardize:
            deviation = np.full_like(deviation, np.sqrt(np.square(deviation).mean()))
        # What is left of a constant feature is the rounding of its mean.
        varies = deviation > 1e-13 * np.abs(self.mean_) + np.finfo(np.float64).tiny
        self.scale_ = np.where(varies, deviation, 1.0)

    def _scaled(self, X: Array) -> Array:
        return ((X - self.mean_) / self.scale_).astype(np.float32)

    @property
    def _n_features_out(self) -> int:
        return sum(encoder.width for encoder in self.encoders_)

    def transform(self, X: Any) -> Array:
        """Unit vectors whose Euclidean distance is the learned one, (n, p) -> (n, networks·d)."""
        X = fitted_rows(self, X)
        rows = torch.from_numpy(self._scaled(X))
        parts = [embed(encoder, rows, batch_size=4096).numpy() for encoder in self.encoders_]
        side_by_side: Array = np.concatenate(parts, axis=1) / np.sqrt(len(parts))
        return side_by_side.astype(X.dtype, copy=False)
