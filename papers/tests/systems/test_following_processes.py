"""Two real processes train HTL and Smart Mining as one does: trees and tables are the same in both."""

from __future__ import annotations

import traceback
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, multiprocessing

from nearer.training import EncoderStep, TensorBatches, train
from nearer_papers.systems import HierarchicalTripletLoss, RankRange, SmartMiningLoss
from nearer_papers.systems._following_samplers import AnchorNeighborSampler, RankRangeSampler
from nearer_papers.systems._rank_range import Search
from nearer_papers.systems._rebuilding import rebuild

LABELS = torch.arange(48) // 4


def _exact(embeddings: Tensor) -> Search:
    return lambda queries, k: torch.cdist(queries, embeddings).argsort(dim=1, stable=True)[:, :k]


def _run(kind: str) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(48, 6, generator=generator, dtype=torch.float64) + torch.eye(12, 6)[LABELS] * 2
    encoder = torch.nn.Linear(6, 3, dtype=torch.float64)
    with torch.no_grad():
        encoder.weight.copy_(torch.randn(3, 6, generator=generator))
        encoder.bias.zero_()
    loss = HierarchicalTripletLoss() if kind == "tree" else SmartMiningLoss()
    step = EncoderStep(encoder, loss, torch.optim.SGD(encoder.parameters(), lr=0.1), TensorBatches(x, LABELS))
    if isinstance(loss, HierarchicalTripletLoss):
        part, sampler = loss.tree, AnchorNeighborSampler(LABELS, loss.tree, anchors=2, neighbors=2, per_class=3)
    else:
        part = step.module["mining"] = RankRange(_exact, low=1, high=5)
        sampler = RankRangeSampler(LABELS, part, anchors=8)
    renew = rebuild(part, embed=lambda: encoder(x).detach(), labels=LABELS)
    train(step, sampler, epochs=2, callbacks=[renew])
    return encoder.weight.detach()


def _work(rank: int, meeting: str, expected: dict[str, Tensor], errors: object) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    failures = []
    for kind, weight in expected.items():
        try:
            torch.testing.assert_close(_run(kind), weight, rtol=1e-7, atol=1e-9)
        except Exception:
            failures.append(f"{kind} in process {rank}:\n{traceback.format_exc()}")
    errors.put("\n".join(failures))  # type: ignore[attr-defined]
    dist.destroy_process_group()


def test_two_processes_take_the_steps_of_one(tmp_path: Path) -> None:
    expected = {kind: _run(kind) for kind in ("tree", "table")}
    context = multiprocessing.get_context("spawn")
    errors = context.SimpleQueue()
    multiprocessing.spawn(_work, (str(tmp_path / "meeting"), expected, errors), nprocs=2)
    found = [errors.get() for _ in range(2)]
    assert not any(found), "\n".join(found)
