"""The systems of the tables that are more than a loss: heads, trees and tables of their own.

Each function builds a `Learner` from the network of the data set. Head sizes are shares of the embedding that every
other row has, so that all rows are compared at the same number of columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nearer.geometry import UnitLength
from nearer.index import Index
from nearer.losses import BinomialDevianceLoss
from nearer.training._loop import Moment
from nearer.training._samplers import Sampler
from nearer_papers.systems import (
    ABIERLoss,
    BIERLoss,
    BoostedHeads,
    DecoupledEncoder,
    DeMLLoss,
    EnergyConfusionLoss,
    HardnessController,
    HDCLoss,
    HDMLLoss,
    HierarchicalTripletLoss,
    RankRange,
    SmartMiningLoss,
    SpanningTree,
)
from nearer_papers.systems._across_streams import AcrossStreams
from nearer_papers.systems._following_samplers import AnchorNeighborSampler, RankRangeSampler
from nearer_papers.systems._hdc import CascadeHeads
from nearer_papers.systems._rebuilding import rebuild
from nearer_papers.unified_view._unseen_class_data import UnseenClasses
from nearer_papers.unified_view._unseen_class_networks import FrozenWhitening, Network, SmallTrunk
from nearer_papers.unified_view._unseen_classes import Learner, make_sampler

__all__ = ["abier", "bier", "damlrrm", "deml", "ecaml", "hdc", "hdml", "htl", "smart_mining"]


def htl(data: UnseenClasses, network: Network, seed: int, constant: float) -> Learner:
    """Hierarchical triplet loss: the class tree is built anew every epoch and chooses margins and batches."""
    loss = HierarchicalTripletLoss(beta=constant)
    plan = data.protocol
    # A batch of the usual size from groups of near classes, four in each group.
    classes = min(plan.classes, data.classes)
    group = min(4, classes)
    sampler = AnchorNeighborSampler(
        data.labels,
        loss.tree,
        anchors=max(1, classes // group),
        neighbors=group - 1,
        per_class=plan.per_class,
        batches=plan.steps,
        seed=seed,
    )
    again = rebuild(loss.tree, embed=lambda: data.seen.embed(network), labels=data.labels)
    return Learner(network, loss, sampler, network, callbacks=(again,))


def smart_mining(data: UnseenClasses, network: Network, seed: int, constant: float) -> Learner:
    """Triplets with negatives of a range of ranks in an index of all seen items, harder when the loss is small."""
    plan = data.protocol

    def build(embeddings: Tensor) -> Callable[[Tensor, int], Any]:
        index = Index(embeddings.shape[1], similarity="cosine")
        index.add(embeddings)
        return lambda queries, k: index.search(queries, k).ids

    controller = HardnessController(target=0.1)
    miner = RankRange(build, low=16, high=64, controller=controller)
    anchors = max(1, min(plan.classes, data.classes) * plan.per_class // 3)
    sampler = RankRangeSampler(data.labels, miner, anchors=anchors, batches=plan.steps, seed=seed)

    def observe(moment: Moment) -> None:
        if moment.kind == "step":
            controller.observe(moment.values["loss"])

    again = rebuild(miner, embed=lambda: data.seen.embed(network), labels=data.labels)
    return Learner(network, SmartMiningLoss(triplet_margin=constant), sampler, network, callbacks=(observe, again))


def hdc(data: UnseenClasses, network: Network, seed: int, constant: float) -> Learner:
    """Three heads at increasing depth of the trunk, the deeper ones on harder pairs; together one embedding."""
    layers = depths(network)
    heads = CascadeHeads(
        network, layers, data.train.items(data.labels[:1] * 0), embedding_dim=network.dimension // 3
    )
    for name, head in zip(layers, heads.heads, strict=True):
        if name == "trunk":
            start_like(head, network)
    return Learner(heads, HDCLoss(negative_weight=constant), make_sampler("classes", data, seed), heads)


def bier(data: UnseenClasses, network: Network, seed: int, constant: float) -> Learner:
    """The embedding in three parts of growing width, each learning most from what those before got wrong."""
    heads = _parts(network, seed)
    return Learner(
        network, BIERLoss(heads.widths, negative_cost=constant), make_sampler("classes", data, seed), network
    )


def abier(data: UnseenClasses, network: Network, seed: int, constant: float) -> Learner:
    """The same, and the parts are kept different by adversaries."""
    heads = _parts(network, seed)
    loss = ABIERLoss(heads, boosting=BIERLoss(heads.widths, negative_cost=constant))
    return Learner(network, loss, make_sampler("classes", data, seed), network)


def _parts(network: Network, seed: int) -> BoostedHeads:
    """Heads in the place of the network's own, with the shares of the paper: 96, 160 and 256 of 512."""
    d = network.dimension
    widths = (d * 3 // 16, d * 5 // 16, d - d * 3 // 16 - d * 5 // 16)
    heads = BoostedHeads(network.width, widths)
    if isinstance(network.head, nn.Linear) and not isinstance(network.trunk, SmallTrunk):
        # A head that starts well is cut into the parts; every part gets directions of all strengths.
        rows = torch.split(torch.randperm(d, generator=torch.Generator().manual_seed(seed)), list(widths))
        for part, chosen in zip(heads.parts, rows, strict=True):
            part.weight.data.copy_(network.head.weight.data[chosen])  # type: ignore[operator]
    network.head = heads
    return heads


def ecaml(data: UnseenClasses, network: Network, seed: int, constant: float) -> Learner:
    """Binomial deviance with a term that confuses random pairs, which moves the head alone."""
    network.head = nn.Sequential(network.head, UnitLength())
    generator = torch.Generator().manual_seed(seed)
    loss = EnergyConfusionLoss(BinomialDevianceLoss(), network.head, weight=constant, generator=generator)
    return Learner(network, loss, make_sampler("classes", data, seed), network)


def hdml(data: UnseenClasses, network: Network, seed: int, constant: float) -> Learner:
    """Triplets with synthetic negatives that come nearer as training goes on; a generator and a classifier help."""
    network.head = nn.Sequential(network.head, UnitLength())
    loss = HDMLLoss(
        network.head,
        network.width,
        network.dimension,
        data.classes,
        epoch_steps=data.protocol.steps,
        alpha=constant,
        generator=torch.Generator().manual_seed(seed),
    )
    return Learner(network, loss, make_sampler("classes", data, seed), network)


def damlrrm(data: UnseenClasses, network: Network, seed: int, constant: float) -> Learner:
    """Two streams of unequal length over the same classes, compared across; positives are edges of a tree."""
    sampler = _Streams(make_sampler("classes", data, seed), data.protocol.per_class)
    loss = AcrossStreams(BinomialDevianceLoss(gamma=constant, miner=SpanningTree()), first=sampler.first_size)
    return Learner(network, loss, sampler, network)


class _Streams:
    """The batches of a class sampler in another order: two fifths of each class first, then the rest of each.

    Two samplers of their own (`TwoStreams`) would hardly ever draw the same of hundreds of classes, and without a
    common class nothing is pulled together.
    """

    def __init__(self, sampler: Sampler, per_class: int) -> None:
        self.sampler, self.per_class = sampler, per_class
        self.share = max(1, per_class * 2 // 5)
        self.first_size = len(sampler.epoch(0)[0]) // per_class * self.share

    def __len__(self) -> int:
        return len(self.sampler)

    def epoch(self, number: int) -> Sequence[Tensor]:
        """Batches of the same size with the first stream in front."""
        batches = []
        for rows in self.sampler.epoch(number):
            by_class = rows.reshape(-1, self.per_class)
            batches.append(
                torch.cat([by_class[:, : self.share].reshape(-1), by_class[:, self.share :].reshape(-1)])
            )
        return batches


def deml(data: UnseenClasses, network: Network, seed: int, constant: float) -> Learner:
    """Branches that attend to different channels, at two scales of an image; ready features have one scale."""
    generator = torch.Generator().manual_seed(seed)
    ready = isinstance(network.trunk, FrozenWhitening)
    trunk: nn.Module = nn.Sequential(network.trunk, nn.Unflatten(1, (-1, 1, 1))) if ready else network.trunk
    channels = network.width
    if isinstance(network.trunk, SmallTrunk):
        trunk, channels = _Maps(network.trunk), network.width // 4
    encoder = DecoupledEncoder(
        trunk, channels, embedding_dim=network.dimension, scales=1 if ready else 2, generator=generator
    )
    loss = DeMLLoss(encoder.widths, branches=encoder.branches, negative_cost=constant, generator=generator)
    return Learner(encoder, loss, make_sampler("classes", data, seed), encoder)


class _Maps(nn.Module):
    """A small trunk up to its last map."""

    def __init__(self, trunk: SmallTrunk) -> None:
        super().__init__()
        self.trunk = trunk

    def forward(self, images: Tensor) -> Tensor:
        return self.trunk.maps(images)


def depths(network: Network) -> list[str]:
    """Three layers of the network, from shallow to deep; the end of the trunk where there is nothing to tap."""
    if isinstance(network.trunk, SmallTrunk):
        last = len(network.trunk.blocks) - 1
        return [*(f"trunk.blocks.{max(0, last - back)}" for back in (2, 1)), "trunk"]
    return [*network.taps] if len(network.taps) == 3 else ["trunk"] * 3


def start_like(head: nn.Module, network: Network) -> None:
    """Let a new head on the features of the trunk begin as the first rows of the network's own."""
    if isinstance(head, nn.Linear) and isinstance(network.head, nn.Linear):
        rows = head.weight.shape[0]
        head.weight.data.copy_(network.head.weight.data[:rows])
        if head.bias is not None:
            head.bias.data.zero_()
