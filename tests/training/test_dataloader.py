"""Samplers as the `batch_sampler` of a real DataLoader: alone, with workers, and under DistributedDataParallel."""

from __future__ import annotations

import os
import socket

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from nearer.exceptions import ParameterError
from nearer.losses import SupConLoss
from nearer.training import ClassSampler, HierarchicalSampler, UniformSampler, joint_loss
from nearer_papers.systems import AnchorNeighborSampler, ClassTree, NPairSampler, RankRange, RankRangeSampler

LABELS = torch.arange(12).repeat_interleave(6)
ROWS = torch.randn(72, 5, generator=torch.Generator().manual_seed(0))


class Items(torch.utils.data.Dataset):
    """Rows that say which they are; at module level, for workers."""

    def __len__(self) -> int:
        return len(LABELS)

    def __getitem__(self, row: int) -> tuple[torch.Tensor, torch.Tensor, int]:
        return ROWS[row], LABELS[row], row


def seen(loader: DataLoader) -> list[list[int]]:
    return [rows.tolist() for _, _, rows in loader]


SAMPLERS = {
    "uniform": lambda: UniformSampler(72, batch_size=10),
    "classes": lambda: ClassSampler(LABELS, n_classes=4, per_class=3),
    "pairs": lambda: NPairSampler(LABELS, pairs=5),
    "groups": lambda: HierarchicalSampler(LABELS, LABELS // 3, groups_per_batch=2, n_classes=2, per_class=2),
    "near classes": lambda: AnchorNeighborSampler(LABELS, ClassTree(), anchors=2, neighbors=1, per_class=2),
    "rank range": lambda: RankRangeSampler(LABELS, RankRange(lambda x: None, low=0, high=2), anchors=6),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_every_pass_is_the_next_epoch(name: str) -> None:
    sampler = SAMPLERS[name]()
    loader = DataLoader(Items(), batch_sampler=sampler)
    assert len(loader) == len(sampler)
    for number in range(3):
        assert seen(loader) == [rows.tolist() for rows in sampler.epoch(number)]
    sampler.set_epoch(1)
    assert seen(loader) == [rows.tolist() for rows in sampler.epoch(1)]
    assert list(sampler) == [rows.tolist() for rows in sampler.epoch(2)]
    with pytest.raises(ParameterError, match="`number`"):
        sampler.set_epoch(-1)


@pytest.mark.parametrize("persistent", [False, True])
def test_workers_change_nothing(persistent: bool) -> None:
    sampler = SAMPLERS["classes"]()
    loader = DataLoader(Items(), batch_sampler=sampler, num_workers=2, persistent_workers=persistent)
    for number in range(3):
        assert seen(loader) == [rows.tolist() for rows in sampler.epoch(number)]


def test_the_loop_of_the_migration_page() -> None:
    data = TensorDataset(ROWS, LABELS)
    batches = list(DataLoader(data, batch_sampler=ClassSampler(LABELS, n_classes=10, per_class=4)))
    assert [len(y) for _, y in batches] == [40]
    _, counts = torch.unique(batches[0][1], return_counts=True)
    assert counts.tolist() == [4] * 10


def test_a_batch_smaller_than_the_processes_is_refused(monkeypatch) -> None:
    monkeypatch.setattr("nearer.training._samplers.world_size", lambda: 2)
    batches = iter(UniformSampler(5, batch_size=2))
    assert len([next(batches), next(batches)]) == 2
    with pytest.raises(ParameterError, match=r"each of the 2 processes, got 1\. .*drop_last=True"):
        next(batches)


def _encoder() -> torch.nn.Linear:
    torch.manual_seed(0)
    return torch.nn.Linear(5, 3)


def _process(number: int, port: int, folder: str) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=number, world_size=2)
    model, loss = DistributedDataParallel(_encoder()), joint_loss(SupConLoss())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rows = []
    for _ in range(2):
        for x, y, row in DataLoader(Items(), batch_sampler=SAMPLERS["classes"](), num_workers=1):
            optimizer.zero_grad()
            loss(model(x), y).backward()
            optimizer.step()
            rows.append(row)
    torch.save((rows, model.module.weight.detach()), f"{folder}/{number}.pt")
    dist.destroy_process_group()


def test_two_processes_take_the_steps_of_one(tmp_path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(_process, (port, str(tmp_path)), nprocs=2)
    (first, weight), (second, same) = (torch.load(tmp_path / f"{number}.pt") for number in range(2))
    joint = [torch.cat(both).tolist() for both in zip(first, second, strict=True)]
    assert joint == [rows.tolist() for rows in SAMPLERS["classes"]().epoch(0)] * 2
    model, loss = _encoder(), SupConLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for rows in joint:
        optimizer.zero_grad()
        loss(model(ROWS[rows]), LABELS[rows]).backward()
        optimizer.step()
    torch.testing.assert_close(weight, same)
    torch.testing.assert_close(weight, model.weight.detach(), rtol=1e-5, atol=1e-6)
