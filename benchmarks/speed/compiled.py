"""A network with a loss behind it: a step in eager beside the same step through torch.compile; and the peers'.

Forward and backward of a small network and of the loss, CPU seconds of one thread, all of a row in turn;
values are checked to be equal first. Compiling is not counted.

    python benchmarks/speed/compiled.py [--quick]
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from nearer.losses import ArcFaceLoss, ContrastiveLoss, ProxyAnchorLoss, RAWLoss
from nearer.mining import VTHM
from record import save

warnings.filterwarnings("ignore")

QUICK = "--quick" in sys.argv
WIDTH, CLASSES = 128, 100
Step = Callable[[], object]


def losses() -> dict[str, tuple[nn.Module, nn.Module | None]]:
    """Ours, and pytorch-metric-learning's of the same formula where it has one that needs no miner."""
    from pytorch_metric_learning import distances
    from pytorch_metric_learning import losses as peers

    cosine = distances.CosineSimilarity()
    return {
        "RAW": (RAWLoss(), peers.MultiSimilarityLoss(alpha=2, beta=50, base=0.5)),
        "RAW + VTHM": (RAWLoss(miner=VTHM(margin=0.1)), None),
        "contrastive": (ContrastiveLoss(), peers.ContrastiveLoss(pos_margin=1, neg_margin=0.5, distance=cosine)),
        "ArcFace": (ArcFaceLoss(CLASSES, WIDTH), peers.ArcFaceLoss(CLASSES, WIDTH)),
        "ProxyAnchor": (ProxyAnchorLoss(CLASSES, WIDTH), peers.ProxyAnchorLoss(CLASSES, WIDTH)),
    }


def step(network: nn.Module, loss: nn.Module, x: Tensor, y: Tensor, *, compiled: bool) -> Step:
    def both(rows: Tensor, labels: Tensor) -> Tensor:
        value: Tensor = loss(network(rows), labels)
        return value

    run = torch.compile(both) if compiled else both

    def once() -> Tensor:
        network.zero_grad(set_to_none=True)
        loss.zero_grad(set_to_none=True)
        value = run(x, y)
        value.backward()
        return value.detach()

    return once


def cpu_seconds(contestants: dict[str, Step], repeats: int) -> dict[str, float]:
    """The median of each, in turn."""
    spent: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(repeats):
        for name, run in contestants.items():
            start = time.process_time()
            run()
            spent[name].append(time.process_time() - start)
    return {name: median(times) for name, times in spent.items()}


def main() -> None:
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    for name, (ours, theirs) in losses().items():
        for batch in (128,) if QUICK else (32, 128, 512):
            torch.manual_seed(0)
            torch._dynamo.reset()
            network = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, WIDTH))
            x, y = torch.randn(batch, 256), torch.arange(batch) // 4 % CLASSES
            contestants = {"eager": step(network, ours, x, y, compiled=False)}
            contestants["compiled"] = step(network, ours, x, y, compiled=True)
            torch.testing.assert_close(contestants["compiled"](), contestants["eager"](), rtol=1e-4, atol=1e-5)
            if theirs is not None:
                contestants["peer"] = step(network, theirs, x, y, compiled=False)
                contestants["peer, compiled"] = step(network, theirs, x, y, compiled=True)
            for run in contestants.values():
                run()
            seconds = cpu_seconds(contestants, 15 if batch > 128 else 40)
            row = {"loss": name, "batch": batch, "seconds": seconds}
            row["times_faster_than"] = {who: spent / seconds["compiled"] for who, spent in seconds.items()}
            rows.append(row)
            print(row, flush=True)
    save("losses_compiled", rows, key=("loss", "batch"))


if __name__ == "__main__":
    main()
