"""Clustering by facility location: the true clustering must score better than any other by how wrong that is.

Inference looks at all distances of the batch at once, so it has a driver of its own.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from nearer._checks import check_int, check_number
from nearer._validation import as_labels, as_tensor
from nearer.exceptions import LabelError, ShapeError
from nearer.losses.pairs._pair_loss import PairLoss
from nearer.pairwise import Panel
from nearer.pairwise._counting import equal_within
from nearer.pairwise._rule import Gradient, Pairing
from nearer.relations import ClassLabels

__all__ = ["FacilityLocationLoss", "choose_medoids"]

# Entries of (items × candidates) that are scored at once.
_BLOCK = 1 << 22


class FacilityLocationLoss(PairLoss):
    """[max_S { f(S) + γ(1 − NMI(assign(S), y)) } − f̃]₊, f(S) = −Σ_i min_{j∈S} d(x_i, x_j), S one medoid per class.

    d is the Euclidean distance of unit vectors; f̃ = Σ_c max_{j∈c} −Σ_{i∈c} d(x_i, x_j) is the score of the true
    clustering. The maximum is sought greedily and then by at most `sweeps` sweeps of exchanging medoids, see
    `choose_medoids`; it may be missed, never exceeded. With both assignments fixed a pair (item, medoid) weighs
    +1 by its distance if the medoid is that of the item's class, −1 if it is the one that was found; equal items
    weigh 0. Reductions: "sum" as printed, "mean" divides it by n. For class labels; holds the n × n distances of
    the batch. Fewer than two classes: 0.

    `loss.gamma` may be lowered over the epochs.

    >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> FacilityLocationLoss()(z, torch.tensor([0, 0, 1, 1])).item()
    0.0
    >>> round(FacilityLocationLoss()(z, torch.tensor([0, 1, 0, 1])).item(), 3)  # both classes spread: 2√2 + 1
    3.828

    Usage: `FacilityLocationLoss(gamma=1.0)(embeddings, labels)`. Reference: Oh Song et al. 2017.

    Args:
        gamma: γ, what a wrong clustering is worth.
        sweeps: rounds of exchanging medoids.
        reduction: what the sum is divided by; the first of `reductions` is the default.
    """

    distance = True
    mineable = False
    untraceable = "medoids are searched one by one"
    reductions = ("sum", "mean")

    def __init__(self, *, gamma: float = 1.0, sweeps: int = 5, reduction: str = "sum") -> None:
        super().__init__(reduction=reduction)
        self.gamma = check_number(gamma, "gamma", minimum=0.0)
        self.sweeps = check_int(sweeps, "sweeps", minimum=0)

    def _infer(self, similarity: Tensor, codes: Tensor) -> tuple[Tensor, Tensor, float]:
        """The medoid of each item's class, the medoid it is assigned to, (n,) each, and γ(1 − NMI)."""
        distance = distances_of(similarity)
        own = _class_medoids(distance, codes)
        medoids = choose_medoids(distance, codes, gamma=self.gamma, sweeps=self.sweeps)
        place = distance[:, medoids].argmin(1)
        return own[codes], medoids[place], self.gamma * (1 - nmi(place, codes))

    def _scale(self, n: int) -> float:
        return 1 / max(n, 1) if self.reduction == "mean" else 1.0

    def formula(self, panel: Panel) -> Tensor:
        assert panel.squared is not None
        codes = _codes(panel)
        if int(codes.max()) < 1:
            return panel.squared.sum() * 0
        own, found, wrong = self._infer(panel.similarity.detach(), codes)
        apart = panel.squared > equal_within(panel.squared.dtype)
        d = torch.where(apart, torch.where(apart, panel.squared, 1.0).sqrt(), 0.0)
        every = torch.arange(len(d), device=d.device)
        return (d[every, own].sum() - d[every, found].sum() + wrong).relu() * self._scale(len(d))

    def dense_weights(self, panel: Panel) -> Tensor:
        assert panel.squared is not None
        weight, codes = torch.zeros_like(panel.squared), _codes(panel)
        if int(codes.max()) < 1:
            return weight
        own, found, wrong = self._infer(panel.similarity, codes)
        every = torch.arange(len(codes), device=codes.device)
        squared = torch.stack([panel.squared[every, own], panel.squared[every, found]])
        d, slope = _root(squared)
        if float(d[0].sum() - d[1].sum()) + wrong <= 0:
            return weight
        weight.index_put_((every, own), slope[0], accumulate=True)
        weight.index_put_((every, found), -slope[1], accumulate=True)
        return weight * self._scale(len(codes))

    def program(self, pairing: Pairing, anchor_values: Tensor | None, gradient: bool) -> Gradient:
        """Inference on the distances of the batch, then 2n pairs with a weight."""
        if not pairing.shared or type(pairing.relation) is not ClassLabels:
            raise LabelError("FacilityLocationLoss needs class labels and takes no `database`.")
        z = pairing.queries
        nothing = Gradient(z.new_zeros(()), torch.zeros_like(z) if gradient else None)
        codes = torch.unique(pairing.relation.queries, return_inverse=True)[1].to(z.device)
        if len(z) < 2 or int(codes.max()) < 1:
            return nothing
        own, found, wrong = self._infer(z @ z.T, codes)
        gaps = torch.stack([z - z[own], z - z[found]])
        d, slope = _root(gaps.square().sum(2))
        value = d[0].sum() - d[1].sum() + wrong
        if float(value) <= 0:
            return nothing
        scale = self._scale(len(z))
        if not gradient:
            return Gradient(value * scale, None)
        pull = 2 * gaps * slope[:, :, None]
        d_z = pull[0] - pull[1]
        d_z.index_add_(0, own, -pull[0]).index_add_(0, found, pull[1])
        return Gradient(value * scale, d_z * scale)


def distances_of(similarity: Tensor) -> Tensor:
    """√(2 − 2s), 0 on the diagonal: what inference looks at, the same however the loss is computed."""
    distance = (2 - 2 * similarity).clamp_(min=0).sqrt_()
    return distance.fill_diagonal_(0.0)


def _root(squared: Tensor) -> tuple[Tensor, Tensor]:
    """D and ∂D/∂D² = 1/(2D), both 0 where two items are equal."""
    apart = squared > equal_within(squared.dtype)
    d = torch.where(apart, squared, 0.0).sqrt()
    return d, torch.where(apart, 0.5 / d.clamp(min=1e-30), 0.0)


def _codes(panel: Panel) -> Tensor:
    """Class numbers 0..c−1 of a square panel: items of one class are those with the same positives."""
    if panel.relation is not None and type(panel.relation) is not ClassLabels:
        raise LabelError("FacilityLocationLoss needs class labels and takes no `database`.")
    if panel.positive.shape[0] != panel.positive.shape[1]:
        raise LabelError("FacilityLocationLoss needs class labels and takes no `database`.")
    same = panel.positive | torch.eye(len(panel.positive), dtype=torch.bool, device=panel.positive.device)
    codes: Tensor = torch.unique(same.to(torch.uint8).argmax(1), return_inverse=True)[1]
    return codes


def _class_medoids(distance: Tensor, codes: Tensor) -> Tensor:
    """The item of each class with the smallest sum of distances within it, (c,); the first of equals."""
    found = []
    for code in range(int(codes.max()) + 1):
        members = (codes == code).nonzero()[:, 0]
        found.append(members[distance[members][:, members].sum(0).argmin()])
    return torch.stack(found)


def nmi(first: Tensor, second: Tensor) -> float:
    """MI/√(H·H) of two partitions, code numbers (n,) each; denominators of at least 1e-10.

    >>> nmi(torch.tensor([0, 0, 1, 1]), torch.tensor([5, 5, 3, 3]))
    1.0
    """
    n = len(first)
    parts = [torch.unique(one, return_counts=True)[1].double() / n for one in (first, second)]
    joint = torch.unique(torch.stack([first, second]), dim=1, return_counts=True)[1].double() / n
    h_first, h_second, h_joint = (-float(torch.special.xlogy(p, p).sum()) for p in (*parts, joint))
    return max(0.0, h_first + h_second - h_joint) / max(math.sqrt(h_first * h_second), 1e-10)


def choose_medoids(distance: Any, labels: Any, *, gamma: float = 1.0, sweeps: int = 5) -> Tensor:
    """Loss-augmented inference: medoids S, one per class, with a large f(S) + γ(1 − NMI): (n, n) -> (c,).

    Greedy: add the item that gives the largest value, c times. Then sweeps: for every cluster try each of its
    items as its medoid, until a sweep changes nothing. The first of equals. Candidates whose f + γ cannot reach
    the best value so far are not assigned.

    >>> line = torch.tensor([0.0, 1.0, 2.0, 10.0, 11.0])
    >>> choose_medoids((line[:, None] - line[None, :]).abs(), [0, 0, 0, 1, 1], gamma=0.0).tolist()
    [1, 3]
    """
    d = as_tensor(distance, "distance")
    if d.ndim != 2 or d.shape[0] != d.shape[1]:
        raise ShapeError(f"`distance` must have shape (n, n), got {tuple(d.shape)}.")
    codes = torch.unique(as_labels(labels, "labels", n=len(d)), return_inverse=True)[1].to(d.device)
    search = _Search(d, codes, gamma)
    chosen: list[int] = []
    value = -torch.inf
    for _ in range(int(codes.max()) + 1):
        value, best = search.best_addition(chosen, torch.arange(len(d), device=d.device))
        chosen.append(best)
    for _ in range(sweeps):
        before = list(chosen)
        for place in range(len(chosen)):
            members = (d[:, torch.tensor(chosen, device=d.device)].argmin(1) == place).nonzero()[:, 0]
            others = chosen[:place] + chosen[place + 1 :]
            reached, best = search.best_addition(others, members)
            # What is better only by rounding would be exchanged forever.
            if reached > value + 1e-9 * max(1.0, abs(value)):
                value, chosen[place] = reached, best
        if chosen == before:
            break
    return torch.tensor(chosen, device=d.device)


class _Search:
    """Which item to add to a set of medoids."""

    def __init__(self, distance: Tensor, codes: Tensor, gamma: float) -> None:
        self.distance, self.codes, self.gamma = distance, codes, gamma
        sizes = torch.bincount(codes).double() / len(codes)
        self.classes = len(sizes)
        self.entropy = -torch.special.xlogy(sizes, sizes).sum()

    def best_addition(self, medoids: list[int], candidates: Tensor) -> tuple[float, int]:
        """The largest f + γ(1 − NMI) that one more medoid gives, and that medoid; (−∞, −1) without a candidate."""
        d = self.distance
        if medoids:
            chosen = torch.tensor(medoids, device=d.device)
            near, owner = d[:, chosen].min(1)
            candidates = candidates[~torch.isin(candidates, chosen)]
        else:
            near, owner = torch.full_like(d[:, 0], torch.inf), torch.zeros_like(self.codes)
        step = max(1, _BLOCK // len(d))
        sums = [torch.minimum(near[:, None], d[:, part]).sum(0) for part in torch.split(candidates, step)]
        if not len(candidates):
            return -torch.inf, -1
        scores = -torch.cat(sums).double()
        order = scores.argsort(descending=True, stable=True)
        best, found = -torch.inf, -1
        cells = torch.unique(owner * self.classes + self.codes, return_inverse=True, return_counts=True)
        for part in torch.split(order, 128):
            if float(scores[part[0]]) + self.gamma <= best:
                break
            value = scores[part]
            if self.gamma:
                value = value + self.gamma * (1 - self._nmi(near, cells, candidates[part]))
            top = int(value.argmax())
            if float(value[top]) > best:
                best, found = float(value[top]), int(candidates[part[top]])
        return best, found

    def _nmi(self, near: Tensor, cells: tuple[Tensor, Tensor, Tensor], candidates: Tensor) -> Tensor:
        """NMI with the labels after adding each candidate, (m,); items move that are nearer to it.

        `cells` are the (cluster, class) pairs that occur, the one of each item, and how many items each has.
        """
        n, (names, cell, total) = len(near), cells
        moved = (self.distance[:, candidates] < near[:, None]).double()
        stay = total[:, None] - moved.new_zeros((len(names), moved.shape[1])).index_add_(0, cell, moved)
        gone = moved.new_zeros((self.classes, moved.shape[1])).index_add_(0, self.codes, moved)
        joint = torch.cat([stay, gone]) / n
        owners = names // self.classes
        clusters = moved.new_zeros((int(owners[-1]) + 1, moved.shape[1])).index_add_(0, owners, stay)
        sizes = torch.cat([clusters, gone.sum(0, keepdim=True)]) / n
        h_joint, h_clusters = (-torch.special.xlogy(p, p).sum(0) for p in (joint, sizes))
        information = (h_clusters + self.entropy - h_joint).clamp(min=0)
        shared: Tensor = information / (h_clusters * self.entropy).sqrt().clamp(min=1e-10)
        return shared
