"""The weights of pairs under settings that a person turns: curves of the RAW loss, and the pairs that count."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from nearer._checks import check_choice, check_number
from nearer._plain import Array
from nearer.losses import RAWLoss
from nearer.mining import VTHM, HardestFraction, SemiHard
from nearer.pairwise import Miner
from nearer.reports._weights import pair_weights

MINERS = ("none", "VTHM", "semi-hard", "hardest")
BATCH, MOST_PAIRS = 64, 300


def weigh(rows: Array, labels: Array, settings: Mapping[str, Any], *, seed: int = 0) -> dict[str, Any]:
    """Curves of the weight against the similarity, and the pairs of a batch with their weights, largest first.

    `settings` are alpha, beta, gamma, margin and miner. A batch needs two labelled classes; without them there are
    curves alone.
    """
    loss = RAWLoss(
        alpha=check_number(settings.get("alpha", 2.0), "alpha", above=0, maximum=100),
        beta=check_number(settings.get("beta", 50.0), "beta", above=0, maximum=200),
        gamma=check_number(settings.get("gamma", 0.5), "gamma", minimum=-1, maximum=1),
        reduction="sum",
        miner=_miner(str(settings.get("miner", "none")), settings.get("margin", 0.1)),
    )
    s = torch.linspace(-1, 1, 101, dtype=torch.float64)
    plain = RAWLoss(alpha=loss.alpha, beta=loss.beta, gamma=loss.gamma, reduction="sum").double()
    curves = {side: pair_weights(plain, s, side=side) for side in ("positive", "negative")}
    shown = {side: (curve / curve.max().clamp(min=1e-300)).tolist() for side, curve in curves.items()}
    batch = _batch(labels, seed)
    pairs: list[list[float]] = []
    active = possible = 0
    if len(batch):
        z = torch.nn.functional.normalize(torch.from_numpy(rows[batch]).double())
        y = torch.from_numpy(labels[batch])
        weight = loss.double().weights(z @ z.T, y)
        weight = torch.triu(weight + weight.T, diagonal=1)
        first, second = torch.nonzero(weight, as_tuple=True)
        active, possible = len(first), len(batch) * (len(batch) - 1) // 2
        order = weight[first, second].abs().argsort(descending=True)[:MOST_PAIRS]
        top = max(float(weight.abs().max()), 1e-300)
        for a, b in zip(first[order].tolist(), second[order].tolist(), strict=True):
            same = int(labels[batch[a]] == labels[batch[b]])
            pairs.append([int(batch[a]), int(batch[b]), float(weight[a, b].abs()) / top, same])
    return {"similarity": s.tolist(), "curves": shown, "batch": batch.tolist(), "pairs": pairs,
            "active": active, "possible": possible}  # fmt: skip


def _miner(name: str, margin: Any) -> Miner | None:
    check_choice(name, "miner", MINERS)
    width = check_number(margin, "margin", minimum=0.001, maximum=2)
    makers: dict[str, Callable[[], Miner | None]] = {
        "none": lambda: None,
        "VTHM": lambda: VTHM(width),
        "semi-hard": lambda: SemiHard(),
        "hardest": lambda: HardestFraction(0.1),
    }
    return makers[name]()


def _batch(labels: Array, seed: int) -> Array:
    """Eight items of each of eight classes, fewer where there are fewer."""
    rng = np.random.default_rng(seed)
    classes, counts = np.unique(labels[labels >= 0], return_counts=True)
    classes = classes[counts > 1]
    if len(classes) < 2:
        return np.zeros(0, dtype=np.int64)
    picked = rng.permutation(classes)[:8]
    each = BATCH // len(picked)
    return np.concatenate([rng.permutation(np.flatnonzero(labels == label))[:each] for label in picked])
