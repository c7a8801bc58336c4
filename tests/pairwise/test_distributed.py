"""The sharded form, in two real processes: value and gradient of every loss equal those of the joint batch."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import multiprocessing

from every_loss import CASES, batch, value_and_gradient
from nearer.exceptions import LabelError, ParameterError
from nearer.losses import RAWLoss, ShardedLoss
from nearer.mining import VTHM, DistanceWeighted, HardestFraction, SemiHardTriplets
from nearer.pairwise._panels import tile_size
from nearer.relations import MultiLabels, Pairs, PartialLabels
from nearer_papers.systems import RandomPairs, SpanningTree

# Shards of different length: 14 and 10 of 24.
CUT = 14


def _work(rank: int, meeting: str, errors: object) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    own = slice(0, CUT) if rank == 0 else slice(CUT, 24)
    failures = []

    def compare(name: str, sharded: object, whole: object, x: torch.Tensor, mine: object, all_: object) -> None:
        try:
            expected = value_and_gradient(whole, x, all_)  # type: ignore[arg-type]
            found = value_and_gradient(sharded, x[own], mine)  # type: ignore[arg-type]
            torch.testing.assert_close(found[0], expected[0], rtol=1e-9, atol=1e-11)
            torch.testing.assert_close(found[1], expected[1][own], rtol=1e-7, atol=1e-10)
        except Exception:
            failures.append(f"{name} in process {rank}:\n{traceback.format_exc()}")

    x, y = batch(24, 6, seed=1)
    for name, make in CASES.items():
        compare(name, ShardedLoss(make().double(), averaged=False), make().double(), x, y[own], y)
    with tile_size(4):
        make = CASES["RAWLoss()"]
        compare("RAW in tiles", ShardedLoss(make().double(), averaged=False), make(), x, y[own], y)

    # Tiles larger than one shard and smaller than the joint batch: both processes must choose the same driver.
    for size in (12, 16, 23):
        for name in ("RAWLoss()", "SupConLoss()", "ContrastiveLoss()", "MarginLoss()", "BinomialDevianceLoss()"):
            with tile_size(size):
                make = CASES[name]
                compare(
                    f"{name} {size}", ShardedLoss(make().double(), averaged=False), make().double(), x, y[own], y
                )

    # A process without a single item.
    everything, nobody = slice(0, 24), slice(24, 24)
    for size in (None, 8):
        for name in ("RAWLoss()", "ContrastiveLoss()", "ContrastiveLoss(reduction=active)", "TripletLoss()"):
            with tile_size(size):
                make, part = CASES[name], everything if rank == 0 else nobody
                try:
                    expected = value_and_gradient(make().double(), x, y)
                    found = value_and_gradient(ShardedLoss(make().double(), averaged=False), x[part], y[part])
                    torch.testing.assert_close(found[0], expected[0], rtol=1e-9, atol=1e-11)
                    torch.testing.assert_close(found[1], expected[1][part], rtol=1e-7, atol=1e-10)
                except Exception:
                    failures.append(f"{name} without items in process {rank}:\n{traceback.format_exc()}")

    def miners() -> list[object]:
        generator = [torch.Generator().manual_seed(2) for _ in range(2)]
        return [
            VTHM(),
            SemiHardTriplets(margin=0.3),
            DistanceWeighted(generator=generator[0]),
            RandomPairs(negatives=3, generator=generator[1]),
            HardestFraction(0.2),
            SpanningTree(),
        ]

    for first, second in zip(miners(), miners(), strict=True):
        compare(
            f"RAW with {first!r}",
            ShardedLoss(RAWLoss(miner=first), averaged=False),  # type: ignore[arg-type]
            RAWLoss(miner=second),  # type: ignore[arg-type]
            x,
            y[own],
            y,
        )
    unknown = torch.where(torch.arange(24) % 4 == 0, -1, y)
    sets = (torch.rand(24, 4, generator=torch.Generator().manual_seed(0)) > 0.6).int()
    for relation, mine in (
        (PartialLabels(unknown), PartialLabels(unknown[own])),
        (MultiLabels(sets), MultiLabels(sets[own])),
    ):
        compare(type(relation).__name__, ShardedLoss(RAWLoss(), averaged=False), RAWLoss(), x, mine, relation)

    # What DistributedDataParallel does: average over processes. `averaged` makes that the joint gradient.
    linear = torch.nn.Linear(8, 5, bias=False).double()
    torch.nn.init.eye_(linear.weight)
    parallel = torch.nn.parallel.DistributedDataParallel(linear)
    ShardedLoss(RAWLoss(miner=VTHM()))(parallel(x[own]), y[own]).backward()
    alone = torch.nn.Linear(8, 5, bias=False).double()
    torch.nn.init.eye_(alone.weight)
    RAWLoss(miner=VTHM())(alone(x), y).backward()
    if not torch.allclose(linear.weight.grad, alone.weight.grad, rtol=1e-8, atol=1e-12):  # type: ignore[arg-type]
        failures.append(f"data parallel in process {rank}")
    try:
        ShardedLoss(RAWLoss())(x[own], Pairs(len(x[own])))
        failures.append("pairs were sharded")
    except LabelError as error:
        if "cannot be sharded" not in str(error):
            failures.append(str(error))
    errors.put("\n".join(failures))  # type: ignore[attr-defined]
    dist.destroy_process_group()


def test_two_processes_equal_one(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    errors = context.SimpleQueue()
    multiprocessing.spawn(_work, (str(tmp_path / "meeting"), errors), nprocs=2)
    found = [errors.get() for _ in range(2)]
    assert not any(found), "\n".join(found)


def test_outside_distributed_it_says_what_to_do() -> None:
    with pytest.raises(ParameterError, match=r"needs torch\.distributed\.init_process_group"):
        ShardedLoss(RAWLoss())(torch.eye(3), torch.arange(3))
    with pytest.raises(ParameterError, match="`loss` must be a pair loss"):
        ShardedLoss(torch.nn.MSELoss())  # type: ignore[arg-type]
