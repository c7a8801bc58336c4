"""The recorded experiment on digits: a metric for 1,797 of them from ten labels per class, proved on held-out ones.

30 % of the digits are held out and used for nothing but the scores. Of the others ten per class keep their label.
The labels are spread over a graph of neighbours, the sure ones are believed, and a small network is trained with
RAW and valid-triplet hard mining on digits that are moved, turned and stretched a little. From time to time the
graph is made again, of what the network has learned by then, and the given labels are spread over it. Graph and
believed labels are those of `nearer.graph`, as in `SemiSupervisedMetric` and the learners of `alternate`: fix the
network and learn who belongs together, fix that and move the network.

What is compared in the end is the mean embedding of a digit over a few moved copies, beside its raw pixels: a digit
that the network puts into a wrong class is still near what it looks like.

The settings were picked from about thirty by scores on the seeds 100 to 109: other splits, but of the same digits.
Nothing is chosen during a run; the last epoch is always taken.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nearer._checks import check_int
from nearer.datasets import Split, few_labels, load, stratified_split
from nearer.evaluation import Evaluation, evaluate, map_at_r
from nearer.geometry import MLP, embed, normalize
from nearer.graph import class_shares, nearest_neighbors
from nearer.losses import RAWLoss
from nearer.mining import VTHM

__all__ = ["DigitsResult", "learn_digits"]

Labels = NDArray[np.int64]
Progress = Callable[[int, int, float], None]

SCORES = ("recall@1", "recall@2", "recall@4", "recall@8", "map@r", "nmi")
HELD_OUT = 0.3
BELIEVED = 0.95  # the share of the training digits, the surest first, whose spread label is used
NEIGHBORS, GAMMA = 6, 0.9
BELIEVED_AGAIN, NEIGHBORS_AGAIN, GAMMA_AGAIN = 0.97, 10, 0.95  # the same in the space of the network
AGAIN = (0.25, 0.5)  # after these shares of the epochs
VIEWS, RAW_WEIGHT = (
    16,
    1.0,
)  # moved copies of a digit that are averaged, and how long the raw pixels are beside them
HIDDEN, DIMENSIONS = (512,), 64
PER_CLASS_IN_BATCH = 12
RATE = 1e-3
SHIFT, TURN, STRETCH = 0.8, 0.2, 0.1  # pixels, radians, share
WATCHED = 10  # the held-out digits are scored for the curve at every tenth epoch


class DigitsMetric(nn.Module):
    """Digits (n, 64) to where they are compared (n, d + 64).

    The mean embedding of a digit and of moved copies of it, brought to length one, beside its raw pixels, brought
    to the length `RAW_WEIGHT`. The moves are always the same.
    """

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        draw = torch.rand(4, VIEWS - 1, generator=torch.Generator().manual_seed(0))
        self.register_buffer("moves", torch.cat([torch.zeros(4, 1), 2 * draw - 1], dim=1))

    def forward(self, rows: Tensor) -> Tensor:
        moves: Any = self.moves
        total = sum(self.encoder(_moved(rows, move[:, None].expand(-1, len(rows)))) for move in moves.T)
        return torch.cat([normalize(cast(Tensor, total)), RAW_WEIGHT * normalize(rows)], dim=1)


@dataclass(frozen=True, eq=False)
class DigitsResult:
    """What was found: scores of raw features and of the learned metric on held-out digits, and how."""

    raw: Evaluation
    learned: Evaluation
    history: dict[str, list[float | None]]
    encoder: DigitsMetric
    held_out: Split
    settings: dict[str, Any]
    counts: dict[str, int]
    seconds: float


def learn_digits(
    *, seed: int = 0, labels_per_class: int = 10, epochs: int = 100, progress: Progress | None = None
) -> DigitsResult:
    """Learn a metric for the digits from a few labels per class and score it on digits it never saw.

    The same seed gives the same result on the same machine. `progress(epoch, epochs, loss)` is called after every
    epoch. Takes about ten seconds on one core.

    >>> result = learn_digits(epochs=1)
    >>> result.counts["train"], result.counts["given"], result.counts["held_out"]
    (1258, 100, 539)
    """
    check_int(seed, "seed", minimum=0, maximum=2**32 - 1)
    check_int(labels_per_class, "labels_per_class", maximum=100)
    check_int(epochs, "epochs", maximum=10_000)
    begin = time.perf_counter()
    digits = load("digits").all
    rows, held_out_rows = stratified_split(digits.y, test=HELD_OUT, seed=seed)
    train, held_out = digits.take(rows), digits.take(held_out_rows)
    given = few_labels(train.y, per_class=labels_per_class, seed=seed)
    # One thread: the batches are small, and the sums come out the same whatever the number of cores.
    with _one_thread():
        believed = _pseudo_labels(train.matrix(), given, share=BELIEVED, k=NEIGHBORS, gamma=GAMMA, normalized=False)
        encoder, history, again = _train(
            train.matrix(), given, believed, held_out, seed=seed, epochs=epochs, progress=progress
        )
        learned = _scores(embed(encoder, held_out.matrix()), held_out)
        raw = _scores(held_out.matrix(), held_out)
    spread = (believed >= 0) & (given < 0)
    counts = {
        "train": len(train),
        "given": int((given >= 0).sum()),
        "spread": int(spread.sum()),
        "spread_right": int((believed == train.y)[spread].sum()),
        "spread_again": int(((again >= 0) & (given < 0)).sum()),
        "spread_again_right": int((again == train.y)[(again >= 0) & (given < 0)].sum()),
        "held_out": len(held_out),
    }
    settings = {
        "seed": seed,
        "labels_per_class": labels_per_class,
        "epochs": epochs,
        "held_out": HELD_OUT,
        "label_spreading": f"{NEIGHBORS} neighbours, gamma {GAMMA}, the surest {BELIEVED:.0%}",
        "again": f"after {_listed([f'{share:.0%}' for share in AGAIN])} of the epochs: {NEIGHBORS_AGAIN} learned "
        f"neighbours, gamma {GAMMA_AGAIN}, the surest {BELIEVED_AGAIN:.0%}",
        "encoder": f"MLP 64-{'-'.join(map(str, HIDDEN))}-{DIMENSIONS}, unit length",
        "compared": f"the mean over {VIEWS} views beside the raw pixels of length {RAW_WEIGHT:g}",
        "loss": "RAWLoss(miner=VTHM(margin=0.1))",
        "batch": f"10 classes x {PER_CLASS_IN_BATCH}",
        "optimizer": f"Adam, rate {RATE:g} falling to 0 along a cosine",
        "augmentation": f"moved {SHIFT:g} pixels, turned {TURN:g} radians, stretched {STRETCH:.0%} at most",
    }
    return DigitsResult(raw, learned, history, encoder, held_out, settings, counts, time.perf_counter() - begin)


def _scores(features: Any, held_out: Split) -> Evaluation:
    """The same distance for raw features and embeddings; on rows of unit length it orders as the cosine does."""
    return evaluate(features, held_out.y, scores=SCORES, similarity="euclidean", effort="thorough")


def _pseudo_labels(features: Any, given: Labels, *, share: float, k: int, gamma: float, normalized: bool) -> Labels:
    """Given labels as they are, the surest of the spread ones, and −1 for the rest."""
    near = nearest_neighbors(features, k=k, normalized=normalized)
    spread = class_shares(near, given, gamma=gamma)
    lead = spread.lead.numpy()
    return np.where((given >= 0) | (lead >= np.quantile(lead, 1 - share)), spread.pseudo_labels.numpy(), -1)


def _train(
    features: NDArray[np.float32],
    given: Labels,
    labels: Labels,
    watched: Split,
    *,
    seed: int,
    epochs: int,
    progress: Progress | None,
) -> tuple[DigitsMetric, dict[str, list[float | None]], Labels]:
    generator = torch.Generator().manual_seed(seed)
    encoder = MLP(features.shape[1], DIMENSIONS, hidden=HIDDEN, generator=generator)
    metric = DigitsMetric(encoder)
    optimizer = torch.optim.Adam(encoder.parameters(), lr=RATE)
    loss = RAWLoss(miner=VTHM())
    x = torch.from_numpy(features)
    members = _members(labels)
    y = torch.arange(10).repeat_interleave(PER_CLASS_IN_BATCH)
    steps = max(1, int((labels >= 0).sum()) // len(y))
    history: dict[str, list[float | None]] = {"loss": [], "map@r": []}
    again = {int(share * epochs) for share in AGAIN} - {0}
    for epoch in range(epochs):
        if epoch in again:
            labels = _pseudo_labels(
                embed(encoder, x),
                given,
                share=BELIEVED_AGAIN,
                k=NEIGHBORS_AGAIN,
                gamma=GAMMA_AGAIN,
                normalized=True,
            )
            members = _members(labels)
        for group in optimizer.param_groups:
            group["lr"] = RATE * (1 + math.cos(math.pi * epoch / epochs)) / 2
        total = 0.0
        for _ in range(steps):
            value = loss(encoder(_jiggled(x[_batch(members, generator)], generator)), y)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            total += value.item()
        history["loss"].append(total / steps)
        # Only looked at: nothing is chosen by it.
        seen = (epoch + 1) % WATCHED == 0 or epoch + 1 in (1, epochs)
        history["map@r"].append(
            map_at_r(embed(metric, watched.matrix()), watched.y, similarity="euclidean") if seen else None
        )
        if progress is not None:
            progress(epoch + 1, epochs, total / steps)
    return metric, history, labels


def _members(labels: Labels) -> list[Tensor]:
    return [torch.from_numpy(np.flatnonzero(labels == one)) for one in range(10)]


def _batch(members: list[Tensor], generator: torch.Generator) -> Tensor:
    """The same number of rows of every class, in the order of the classes; with repetition where they are few."""
    rows = []
    for one in members:
        order = torch.randperm(len(one), generator=generator)
        rows.append(one[order.repeat(-(-PER_CLASS_IN_BATCH // len(one)))[:PER_CLASS_IN_BATCH]])
    return torch.cat(rows)


def _jiggled(rows: Tensor, generator: torch.Generator) -> Tensor:
    """Digits moved, turned and stretched a little, each by another random amount: (n, 64) -> (n, 64)."""
    return _moved(rows, 2 * torch.rand(4, len(rows), generator=generator) - 1)


def _moved(rows: Tensor, moves: Tensor) -> Tensor:
    """Digits (n, 64) turned, stretched and moved by (4, n) amounts between −1 and 1."""
    n, side = len(rows), math.isqrt(rows.shape[1])
    angle, stretch, right, down = moves
    turn, scale = TURN * angle, 1 + STRETCH * stretch
    # The image is two units wide.
    move = SHIFT * 2 / side
    theta = torch.stack(
        [scale * turn.cos(), -turn.sin(), move * right, turn.sin(), scale * turn.cos(), move * down], dim=1
    ).reshape(n, 2, 3)
    grid = torch.nn.functional.affine_grid(theta, [n, 1, side, side], align_corners=False)
    image = rows.reshape(n, 1, side, side)
    return torch.nn.functional.grid_sample(image, grid, align_corners=False).reshape(n, -1)


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _listed(names: list[str]) -> str:
    """Names as people write them.

    >>> _listed(["a", "b", "c"])
    'a, b and c'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
