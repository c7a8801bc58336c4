"""The methods of the semi-supervised tables, each as one run: a start from the labels, training, scores.

All methods have the same network (with batch normalisation), Adam, augmentation and start: training from the
labelled images alone with the angular loss. Methods without labels, or with nothing but labels, take as many steps
as the start and the training of the others together. The model is the best of all epochs on validation images.
`literal` is the paper's own setting instead: no batch normalisation, no augmentation, no start from labels (but for
CIFAR-10), SGD, triplets in neighbourhoods with ν = 1.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nearer.evaluation import evaluate, kmeans
from nearer.geometry import OrthogonalMap, embed
from nearer.losses import AngularLoss, SemiHardTripletLoss
from nearer.training import ClassSampler, EncoderStep, TensorBatches, UniformSampler, cosine, train
from nearer.training._alternating import Plan, alternate
from nearer.training._loop import History
from nearer.training._neighborhood_angular import NeighborhoodAngular, PseudoLabelAngular
from nearer_papers.semi_supervised._few_label_images import FewLabelImages
from nearer_papers.systems._comparators import (
    DeepClusterStep,
    ExemplarStep,
    InstanceStep,
    RotNetStep,
    SyntheticStep,
)
from nearer_papers.systems._deep_pairs import DeepAPIT, DeepAPLLR, DeepISDML, DeepLRML, DeepSERAPH
from nearer_papers.systems._synthetic import SyntheticLoss

__all__ = [
    "BASELINES",
    "OURS",
    "UNSUPERVISED",
    "WITHOUT_NETWORK",
    "Length",
    "Run",
    "run_method",
    "start_from_labels",
]

SCORES = ("recall@1", "recall@2", "recall@4", "recall@8", "nmi")
START_RATE, DECAY = 1e-3, 1e-4
PER_CLASS = 12


@dataclass(frozen=True)
class Length:
    """How long: steps from the labels alone, then partitions × epochs over `unlabeled` images and all labels."""

    start_steps: int = 150
    partitions: int = 3
    epochs: int = 2
    unlabeled: int = 9000

    def steps(self, data: FewLabelImages) -> int:
        """Of ours and of the deep baselines together with their start: what every other method gets as well."""
        labeled = int((data.labels != -1).sum())
        items = labeled + min(self.unlabeled, len(data.labels) - labeled)
        return self.start_steps + self.partitions * self.epochs * -(-items // data.batch)


@dataclass(eq=False)
class Run:
    """A trained network with its projection, its scores on test images, and how it came about."""

    encoder: nn.Module
    metric: nn.Module | None
    scores: dict[str, float]
    history: list[dict[str, float]]
    seconds: float

    def embed(self, images: Tensor) -> Tensor:
        """Where images are compared."""
        return _mapped(self.encoder, self.metric, images)


BASELINES: dict[str, Callable[[int], Any]] = {
    "Deep-LRML": DeepLRML,
    "Deep-SERAPH": DeepSERAPH,
    "Deep-ISDML": DeepISDML,
    "Deep-APLLR": DeepAPLLR,
    "Deep-APIT": DeepAPIT,
}


@dataclass(frozen=True)
class Parts:
    """What ours has beyond the paper, each of which the ablation takes away alone."""

    orthogonal: bool = True
    batch_norm: bool = True
    moved: bool = True
    """Small movements of the images."""
    start: bool = True
    """From the labelled images alone, before labels are spread."""
    adam: bool = True
    """Instead of the paper's SGD with its rates."""
    pseudo_labels: bool = True
    """Positives and negatives by what propagation says of two items, instead of triplets in a neighbourhood."""


OURS = {
    "ours": Parts(),
    "ours, not orthogonal": Parts(orthogonal=False),
    "ours, no batch normalization": Parts(batch_norm=False),
    "ours, no augmentation": Parts(moved=False),
    "ours, no start from labels": Parts(start=False),
    "ours, SGD": Parts(adam=False),
    "ours, triplets of neighborhoods": Parts(pseudo_labels=False),
}


class Pixels(nn.Module):
    """Images as rows, or as their coordinates along principal components of the unlabelled and labelled images."""

    def __init__(self, data: FewLabelImages, components: int | None = None) -> None:
        super().__init__()
        # Never trained, but what embeds rows puts them where the parameters are.
        self.mean = nn.Parameter(torch.zeros(()), requires_grad=False)
        self.components: Tensor | None = None
        if components is not None:
            rows = data.items.flatten(1).float()
            self.mean = nn.Parameter(rows.mean(0), requires_grad=False)
            centered = rows - self.mean
            values, vectors = torch.linalg.eigh(centered.T @ centered)
            self.components = vectors[:, values.argsort(descending=True)[:components]]

    def forward(self, images: Tensor) -> Tensor:
        rows = images.flatten(1).float()
        return rows if self.components is None else (rows - self.mean) @ self.components


WITHOUT_NETWORK: dict[str, Callable[[FewLabelImages], nn.Module]] = {
    "raw pixels": Pixels,
    "50 principal components": lambda data: Pixels(data, 50),
}
UNSUPERVISED = ("Exemplar", "RotNet", "NCE", "DeepCluster", "Synthetic")


@torch.no_grad()
def _mapped(encoder: nn.Module, metric: nn.Module | None, images: Tensor) -> Tensor:
    z = embed(encoder, images)
    if metric is None:
        return z
    found: Tensor = metric(z)
    return found


def _scored(encoder: nn.Module, metric: nn.Module | None, data: FewLabelImages, seed: int) -> dict[str, float]:
    images, y = data.test
    rows = _mapped(encoder, metric, images)
    found = evaluate(rows, y, scores=SCORES, similarity="euclidean", seed=seed, effort="thorough")
    return {name: 100 * found[name] for name in SCORES}


def start_from_labels(
    data: FewLabelImages, seed: int, length: Length, *, alpha: float = 40.0, parts: Parts = OURS["ours"]
) -> Run:
    """The angular loss with a projection on the labelled images alone: the start of every method, and a row."""
    begin = time.perf_counter()
    torch.manual_seed(seed)
    encoder = data.encoder(seed, batch_norm=parts.batch_norm)
    learner = PseudoLabelAngular(data.width, data.width // 2, k=data.k, alpha=alpha, pseudo_labeled=1.0)
    labeled = int((data.labels != -1).sum())
    steps_per_epoch = max(1, labeled // data.batch)
    epochs = max(1, length.start_steps // steps_per_epoch)
    plan = Plan(1, epochs, unlabeled=0, batch_size=data.batch, seed=seed)
    moved = data.moved if parts.moved else None
    history = alternate(
        encoder, learner, _optimizer(encoder, data, parts), data.items, data.labels, plan=plan, transform=moved
    )
    scores = _scored(encoder, learner.module, data, seed)
    return Run(encoder, learner.module, scores, history.epochs, time.perf_counter() - begin)


def _optimizer(encoder: nn.Module, data: FewLabelImages, parts: Parts) -> torch.optim.Optimizer:
    if parts.adam:
        return torch.optim.Adam(encoder.parameters(), lr=data.rate, weight_decay=DECAY)
    return torch.optim.SGD(encoder.parameters(), lr=1e-4, momentum=0.9, weight_decay=5e-4)


def run_method(
    method: str, data: FewLabelImages, seed: int, length: Length, start: Run, *, alpha: float = 40.0
) -> Run:
    """One run of a method by its name; the rows of the tables are such names."""
    begin = time.perf_counter()
    torch.manual_seed(seed + 1)
    if method == "Initial":
        encoder = data.encoder(seed)
        return Run(encoder, None, _scored(encoder, None, data, seed), [], time.perf_counter() - begin)
    if method in WITHOUT_NETWORK:
        pixels = WITHOUT_NETWORK[method](data)
        return Run(pixels, None, _scored(pixels, None, data, seed), [], time.perf_counter() - begin)
    if method == "labels alone":
        return start
    if method in UNSUPERVISED:
        encoder, metric, history = _without_labels(method, data, seed, length)
    elif method in ("Triplet", "Angular"):
        encoder, metric, history = _with_labels_only(method, data, seed, length, alpha)
    elif method == "literal":
        encoder, metric, history = _literal(data, seed, length, alpha)
    else:
        encoder, metric, history = _in_turn(method, data, seed, length, start, alpha)
    scores = _scored(encoder, metric, data, seed)
    return Run(encoder, metric, scores, history.epochs, time.perf_counter() - begin)


def _validation(data: FewLabelImages, encoder: nn.Module, metric: Any) -> Callable[[], dict[str, float]]:
    images, y = data.validation

    def validate() -> dict[str, float]:
        found = evaluate(_mapped(encoder, metric, images), y, scores=("recall@1",), similarity="euclidean")
        return {"recall@1": found["recall@1"]}

    return validate


def _in_turn(
    method: str, data: FewLabelImages, seed: int, length: Length, start: Run, alpha: float
) -> tuple[nn.Module, Any, History]:
    """Ours, whole or without one of its parts, and the five deep baselines, from the same start."""
    parts = OURS.get(method, OURS["ours"])
    d, unlabeled = data.width, length.unlabeled
    if not (parts.batch_norm and parts.moved and parts.adam):
        start = start_from_labels(data, seed, length, alpha=alpha, parts=parts)
    encoder = copy.deepcopy(start.encoder) if parts.start else data.encoder(seed)
    learner: Any
    if method not in OURS:
        learner = BASELINES[method](d)
    elif parts.pseudo_labels:
        settings: dict[str, Any] = {"k": data.k, "alpha": alpha, "pseudo_labeled": data.pseudo_labeled}
        learner = PseudoLabelAngular(d, d // 2, **settings, orthogonal=parts.orthogonal)
    else:
        learner = NeighborhoodAngular(d, d // 2, k=data.k, alpha=alpha)
        # Five triplets for every item: a fifth of the items are as many steps as the others take.
        unlabeled //= 5
    if method in OURS and parts.start:
        learner.module.load_state_dict(start.metric.state_dict())  # type: ignore[union-attr]
    plan = Plan(length.partitions, length.epochs, unlabeled=unlabeled, batch_size=data.batch, seed=seed)
    items = int((data.labels != -1).sum()) + min(unlabeled, int((data.labels == -1).sum()))
    steps = max(1, plan.total * -(-learner.count(items) // data.batch))
    history = alternate(
        encoder,
        learner,
        _optimizer(encoder, data, parts),
        data.items,
        data.labels,
        plan=plan,
        transform=data.moved if parts.moved else None,
        schedule=cosine(steps),
        validate=_validation(data, encoder, learner.module),
    )
    return encoder, learner.module, history


def _literal(data: FewLabelImages, seed: int, length: Length, alpha: float) -> tuple[nn.Module, Any, History]:
    """The method as printed, for as many triplets as the others see images."""
    d = data.width
    encoder = data.encoder(seed, batch_norm=False)
    if data.name == "cifar10":
        _softmax_start(encoder, data, length)
    draws = torch.Generator().manual_seed(seed)
    learner = NeighborhoodAngular(d, d // 2, k=data.k, alpha=alpha, literal=True, generator=draws)
    # An epoch of the paper is five triplets for every image; it is cut to a fifth by fewer images.
    plan = Plan(length.partitions, 1, unlabeled=length.unlabeled // 5, batch_size=100, seed=seed)
    history = alternate(
        encoder,
        learner,
        _optimizer(encoder, data, Parts(adam=False)),
        data.items,
        data.labels,
        plan=plan,
        validate=_validation(data, encoder, learner.module),
    )
    return encoder, learner.module, history


def _softmax_start(encoder: nn.Module, data: FewLabelImages, length: Length) -> None:
    """A softmax head on the labelled images, as the paper starts its CIFAR-10 network."""
    head = nn.Linear(data.width, 10)
    adam = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=START_RATE)
    rows = (data.labels != -1).nonzero()[:, 0]
    encoder.train()
    for _ in range(length.start_steps):
        chosen = rows[torch.randint(len(rows), (100,))]
        # Unit embeddings need a scale before a softmax.
        value = nn.functional.cross_entropy(10 * head(encoder(data.items[chosen])), data.labels[chosen])
        adam.zero_grad()
        value.backward()  # type: ignore[no-untyped-call]
        adam.step()


def _with_labels_only(
    method: str, data: FewLabelImages, seed: int, length: Length, alpha: float
) -> tuple[nn.Module, None, History]:
    encoder = data.encoder(seed)
    loss: nn.Module = SemiHardTripletLoss(margin=0.2) if method == "Triplet" else AngularLoss(angle=alpha)
    adam = torch.optim.Adam(encoder.parameters(), lr=data.rate, weight_decay=DECAY)
    rows = (data.labels != -1).nonzero()[:, 0]
    batches = TensorBatches(data.items[rows], data.labels[rows], transform=data.moved)
    step = EncoderStep(encoder, loss, adam, batches)
    total = length.steps(data)
    each = min(50, total)
    classes, counts = torch.unique(data.labels[rows], return_counts=True)
    per_class = min(PER_CLASS, int(counts.max()))
    classes_of_batch = min(len(classes), data.batch // per_class)
    sampler = ClassSampler(
        data.labels[rows], n_classes=classes_of_batch, per_class=per_class, batches=each, seed=seed
    )
    epochs = max(1, total // each)
    return encoder, None, train(step, sampler, epochs=epochs, validate=_validation(data, encoder, None))


def _without_labels(method: str, data: FewLabelImages, seed: int, length: Length) -> tuple[nn.Module, Any, History]:
    encoder = data.encoder(seed)
    d, n, total = data.width, min(length.unlabeled, len(data.items)), length.steps(data)
    images, pixels = data.items[:n], data.pixels[:n]
    adam = torch.optim.Adam(encoder.parameters(), lr=data.rate, weight_decay=DECAY)
    metric: Any = None
    if method == "Exemplar":
        step: Any = ExemplarStep(encoder, adam, pixels, d, views=data.exemplars)
    elif method == "RotNet":
        step = RotNetStep(encoder, adam, images, d)
    elif method == "NCE":
        step = InstanceStep(encoder, adam, images, d, negatives=1024, views=data.moved)
    elif method == "DeepCluster":
        step = DeepClusterStep(encoder, adam, images, d, cluster=_clusters, every=max(1, total // 3))
    else:
        loss = SyntheticLoss(d, d // 2)
        step = SyntheticStep(encoder, adam, images, loss)
    batches = UniformSampler(n, batch_size=min(n, data.batch), drop_last=True, seed=seed)
    validate = _validation(data, encoder, None)
    history = train(_First(step, total), batches, epochs=-(-total // len(batches)), validate=validate)
    if method == "Synthetic":
        metric = OrthogonalMap.from_factor(torch.linalg.qr(step.head.factor.detach()).Q)
    return encoder, metric, history


def _clusters(features: Tensor) -> Any:
    return kmeans(features, min(100, len(features) // 4)).assignments


class _First:
    """A step that does nothing more after so many calls, so that methods compare at equal length."""

    def __init__(self, step: Any, most: int) -> None:
        self.step, self.left, self.module = step, most, step.module

    def __call__(self, rows: Tensor) -> float:
        if self.left <= 0:
            return 0.0
        self.left -= 1
        return float(self.step(rows))

    def state_dict(self) -> dict[str, Any]:
        """What the step itself has."""
        return {"step": self.step.state_dict(), "left": self.left}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put it back."""
        self.step.load_state_dict(state["step"])
        self.left = int(state["left"])
