"""The metric on frozen features, in closed form: undo what varies inside classes, raise what tells classes apart.

    z = (g(x) − m) C^{−power},  C = (1 − shrink)·W + shrink·(tr W / p)·I,  then  z ↦ floor·q₁·z + Σ_k q_k (v_kᵀz)
    v_k

and rows of length one, so that near is cosine. g is the root or the identity, W the covariance inside classes, v_k
the principal directions of the class means of unit rows, q_k = between / (between + within) along v_k. Power 0 and
no raised direction are the features themselves; floor 0 keeps nothing but the directions of the class means, which
is a discriminant analysis. Which of them it is, is decided on training rows: on contiguous blocks of classes where
the classes to come are new (random blocks mislead, because near relatives stand on both sides), on rows otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nearer.exceptions import LabelError
from nearer.geometry import Chain, Mahalanobis, Standardize, UnitLength, normalize
from nearer.geometry._plain import SignedRoot

__all__ = ["RAW", "WithinClass", "candidates", "choose_within_class", "fit_within_class"]

POWERS = (0.3, 0.5, 0.7, 0.9)
SHRINKS = (0.2, 0.5, 0.8)
# How much of the other directions stays beside those of the class means; None raises nothing.
FLOORS = (None, 2.8, 1.4, 0.7, 0.35, 0.1, 0.0)
BLOCKS = 4
# Rows of a block that are searched among each other, and rows that the choice looks at; more would only cost time.
MOST_ASKED, MOST_LEARNED = 2_000, 12_000


@dataclass(frozen=True)
class WithinClass:
    """One map of the family; power 0 without a floor is the features themselves."""

    power: float = 0.7
    shrink: float = 0.5
    floor: float | None = 1.4
    root: bool = False

    def __str__(self) -> str:
        if self == RAW:
            return "the features as they are"
        told = f"within-class covariance to the power −{self.power:g}, shrunk by {self.shrink:g}"
        if self.root:
            told = f"roots of the features, {told}"
        if self.floor == 0:
            return f"{told}, directions of the class means alone"
        return told if self.floor is None else f"{told}, directions of the class means raised over {self.floor:g}"


RAW = WithinClass(power=0.0, shrink=0.0, floor=None)


def candidates(rows: Tensor) -> list[WithinClass]:
    """What is tried first on these rows (n, p): the features themselves, then every power and floor at one share of
    shrinking; roots too where no feature is negative.
    """
    roots = (False, True) if bool((rows >= 0).all()) else (False,)
    return [
        RAW,
        *(WithinClass(power, 0.5, floor, root) for root in roots for power in POWERS for floor in FLOORS),
    ]


def _around(best: WithinClass) -> list[WithinClass]:
    """Other shares of shrinking, with the powers beside the best one."""
    if best == RAW:
        return []
    place = POWERS.index(best.power)
    return [
        WithinClass(power, shrink, floor, best.root)
        for power in POWERS[max(0, place - 1) : place + 2]
        for shrink in SHRINKS
        if shrink != best.shrink
        for floor in FLOORS
    ]


def fit_within_class(
    rows: Tensor, labels: Tensor, chosen: WithinClass, *, n_components: int | None = None
) -> nn.Module:
    """The map of rows (n, p) with class codes (n,), as a module from features to unit rows.

    `n_components` keeps the principal directions of the training rows behind the map.

    >>> rows = torch.tensor([[0.0, 1], [4, 1.1], [0, 9], [4, 9.1]])
    >>> near = fit_within_class(rows, torch.tensor([0, 0, 1, 1]), WithinClass(floor=0.0))
    >>> near(rows).round().abs().tolist()
    [[1.0], [1.0], [1.0], [1.0]]
    """
    if chosen == RAW and n_components is None:
        return Chain(UnitLength())
    parts: list[nn.Module] = []
    x = rows.double()
    if chosen == RAW:
        matrix = torch.eye(x.shape[1], dtype=torch.float64)
    else:
        basis = _Basis.of(x, labels, root=chosen.root)
        scale = basis.scale(chosen)
        matrix = basis.vectors * scale
        if chosen.floor is not None:
            directions, q = _raised(normalize(basis.turned * scale), labels)
            raised = (directions * q) @ directions.T
            if chosen.floor == 0:
                matrix = matrix @ (directions * q)
            else:
                matrix = matrix @ (chosen.floor * q[0] * torch.eye(len(raised), dtype=torch.float64) + raised)
        if chosen.root:
            parts.append(SignedRoot())
            x = parts[0](x)
        center = Standardize(x.shape[1])
        center.mean = basis.mean.float()
        parts.append(center)
        x = x - basis.mean
    if n_components is not None and n_components < matrix.shape[1]:
        unit = normalize(x @ matrix)
        matrix = matrix @ torch.linalg.eigh(unit.T @ unit)[1].flip(1)[:, :n_components]
    # Rows get length one behind it; a matrix of ordinary size keeps float32 from losing digits on the way.
    matrix = matrix / matrix.norm(dim=0).mean().clamp(min=1e-300)
    return Chain(*parts, Mahalanobis.from_factor(matrix.float()), UnitLength()).eval()


def choose_within_class(
    rows: Tensor, labels: Tensor, *, new_classes: bool, seed: int = 0
) -> tuple[WithinClass, dict[WithinClass, float]]:
    """The map with the best Recall@1 over blocks of the training rows, and the score of every one that was tried.

    Ties go to the one that was tried first, so to the features themselves before all. With `new_classes` a block
    is a run of classes in their order and the map is learned from the other classes; otherwise it is a share of the
    rows of every class. Without enough rows for two blocks the features stay as they are.
    """
    rng = np.random.default_rng(seed)
    part = _some(torch.arange(len(rows)), rng, most=MOST_LEARNED)
    x, y = rows[part].float(), labels[part]
    blocks = [
        _Block(x[train], y[train], x[asked], y[asked])
        for train, asked in _blocks(y, new_classes=new_classes, rng=rng)
    ]
    scores: dict[WithinClass, float] = {RAW: 0.0}
    if not blocks:
        return RAW, scores
    for stage in (candidates, None):
        best = max(scores, key=lambda one: scores[one])
        tried = stage(x) if stage is not None else _around(best)
        found = [block.scores(tried) for block in blocks]
        scores |= {one: float(np.mean([each[one] for each in found])) for one in tried}
    return max(scores, key=lambda one: scores[one]), scores


@dataclass(frozen=True, eq=False)
class _Basis:
    """Training rows in the directions of their within-class covariance."""

    mean: Tensor
    values: Tensor
    vectors: Tensor
    turned: Tensor

    @classmethod
    def of(cls, rows: Tensor, labels: Tensor, *, root: bool) -> _Basis:
        x = SignedRoot()(rows) if root else rows
        centers, codes = _centers(x, labels)
        rest = x - centers[codes]
        # In double precision whatever the rows have: LAPACK's float32 gave NaN for 18 rows of 1,280 features.
        spread, directions = torch.linalg.eigh((rest.T @ rest / len(x)).double())
        values, vectors = spread.to(x.dtype), directions.to(x.dtype)
        mean = x.mean(0)
        return cls(mean, values.clamp(min=0), vectors, (x - mean) @ vectors)

    def scale(self, chosen: WithinClass) -> Tensor:
        """What each direction is multiplied with; 1 for all where nothing varies inside classes."""
        typical = self.values.mean()
        if float(typical) == 0:
            return torch.ones_like(self.values)
        shrunk = (1 - chosen.shrink) * self.values + chosen.shrink * typical
        scaled: Tensor = (shrunk / typical).clamp(min=1e-12) ** -chosen.power
        return scaled


def _centers(x: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    _, codes, counts = torch.unique(labels, return_inverse=True, return_counts=True)
    return x.new_zeros(len(counts), x.shape[1]).index_add_(0, codes, x) / counts[:, None], codes


def _raised(unit: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The principal directions of the class means (p, k) and the share q (k,) of the spread that lies between."""
    centers, codes = _centers(unit, labels)
    _, spread, found = torch.linalg.svd(centers - centers.mean(0), full_matrices=False)
    kept = spread > 1e-9 * spread[0].clamp(min=1e-300)
    directions = found[kept].T
    between = spread[kept].square() / len(centers)
    within = ((unit - centers[codes]) @ directions).square().mean(0)
    q = between / (between + within)
    order = q.argsort(descending=True)
    return directions[:, order], q[order]


class _Block:
    """Rows to learn from and rows to ask; the directions of the former are found once for each root."""

    def __init__(self, x: Tensor, y: Tensor, asked: Tensor, answers: Tensor) -> None:
        self.x, self.y, self.asked, self.answers = x, y, asked, answers
        self._bases: dict[bool, tuple[_Basis, Tensor]] = {}

    def scores(self, tried: Sequence[WithinClass]) -> dict[WithinClass, float]:
        """The Recall@1 of every map."""
        found: dict[WithinClass, float] = {}
        settings = dict.fromkeys((one.root, one.power, one.shrink) for one in tried)
        for root, power, shrink in settings:
            mine = [one for one in tried if (one.root, one.power, one.shrink) == (root, power, shrink)]
            if mine == [RAW]:
                unit = normalize(self.asked)
                found[RAW] = _recall(unit @ unit.T, self.answers)
                continue
            basis, turned = self._basis(root)
            scale = basis.scale(mine[0])
            directions, q = _raised(normalize(basis.turned * scale), self.y)
            unit = normalize(turned * scale)
            gram, p = unit @ unit.T, unit @ directions
            for one in mine:
                # All floors from one product: z'z'' = a² zz + 2a pQp + pQ²p with p = Vᵀz.
                a = 0.0 if one.floor is None else one.floor * float(q[0])
                raised = gram if one.floor is None else a * a * gram + (p * (2 * a * q + q * q)) @ p.T
                found[one] = _recall(raised, self.answers)
        return found

    def _basis(self, root: bool) -> tuple[_Basis, Tensor]:
        if root not in self._bases:
            basis = _Basis.of(self.x, self.y, root=root)
            asked = SignedRoot()(self.asked) if root else self.asked
            self._bases[root] = basis, (asked - basis.mean) @ basis.vectors
        return self._bases[root]


def _recall(gram: Tensor, labels: Tensor) -> float:
    """The share of the rows with a relative whose nearest by cosine is one; `gram` (n, n) are inner products."""
    near = gram / gram.diagonal().clamp(min=1e-300).sqrt()
    near.fill_diagonal_(-torch.inf)
    _, codes, counts = torch.unique(labels, return_inverse=True, return_counts=True)
    able = counts[codes] > 1
    right = (labels[near.argmax(1)] == labels)[able]
    return float(right.double().mean()) if len(right) else 0.0


def _blocks(labels: Tensor, *, new_classes: bool, rng: np.random.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows to learn from and rows to score on, block by block."""
    names, counts = torch.unique(labels, return_counts=True)
    if len(names) < 2:
        raise LabelError(f"The labels must name at least two classes, got {len(names)}.")
    if new_classes and len(names) >= 4:
        number = BLOCKS if len(names) >= 2 * BLOCKS else 2
        for block in np.array_split(names.numpy(), number):
            inside = torch.isin(labels, torch.from_numpy(block))
            yield torch.where(~inside)[0], _some(torch.where(inside)[0], rng)
        return
    # Two rows of a class in a block can find each other; classes of fewer rows teach and are not asked.
    number = min(BLOCKS, int(counts.max()) // 2)
    if number < 2:
        return
    place = np.zeros(len(labels), dtype=np.int64)
    for name in names:
        rows = torch.where(labels == name)[0].numpy()
        place[rng.permutation(rows)] = np.arange(len(rows)) * number // max(len(rows), 2 * number)
    for block_number in range(number):
        inside = torch.from_numpy(place == block_number)
        yield torch.where(~inside)[0], _some(torch.where(inside)[0], rng)


def _some(rows: Tensor, rng: np.random.Generator, *, most: int = MOST_ASKED) -> Tensor:
    if len(rows) <= most:
        return rows
    order: NDArray[np.int64] = np.sort(rng.permutation(len(rows))[:most])
    return rows[torch.from_numpy(order)]
