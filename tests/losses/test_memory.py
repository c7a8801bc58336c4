"""The cross-batch memory remembers, forgets the oldest, and survives being saved."""

from __future__ import annotations

import pytest
import torch

from every_loss import batch
from nearer.exceptions import ParameterError, ShapeError
from nearer.losses import ContrastiveLoss, CrossBatchMemory, RAWLoss
from nearer.mining import VTHM


def test_the_first_batch_is_the_plain_loss_and_the_second_meets_the_first() -> None:
    x, y = batch(12, 4)
    loss = RAWLoss(miner=VTHM())
    memory = CrossBatchMemory(loss, size=64, embedding_dim=8).double()
    torch.testing.assert_close(memory(x, y), loss(x, y))
    x2, y2 = batch(10, 4, seed=1)
    torch.testing.assert_close(memory(x2, y2), loss(x2, y2) + loss(x2, y2, database=x, database_labels=y))


def test_the_oldest_entries_are_overwritten() -> None:
    memory = CrossBatchMemory(ContrastiveLoss(), size=5, embedding_dim=2)
    for start in range(0, 9, 3):
        memory(torch.eye(2)[[0, 1, 0]], torch.arange(start, start + 3))
    assert sorted(memory.labels.tolist()) == [4, 5, 6, 7, 8]
    memory(torch.eye(2)[[0] * 7], torch.arange(100, 107))
    assert sorted(memory.labels.tolist()) == [102, 103, 104, 105, 106]


def test_saved_and_loaded_it_goes_on_where_it_was() -> None:
    x, y = batch(12, 4)
    memory = CrossBatchMemory(ContrastiveLoss(), size=20, embedding_dim=8).double()
    memory(x, y)
    twin = CrossBatchMemory(ContrastiveLoss(), size=20, embedding_dim=8).double()
    twin.load_state_dict(memory.state_dict())
    x2, y2 = batch(12, 4, seed=5)
    torch.testing.assert_close(twin(x2, y2), memory(x2, y2))
    assert twin.position == memory.position


def test_gradient_reaches_only_the_batch_and_warm_up_waits() -> None:
    x, y = batch(8, 3)
    memory = CrossBatchMemory(ContrastiveLoss(), size=20, embedding_dim=8, warm_up=2).double()
    for step in range(3):
        leaf = x.clone().requires_grad_()
        value = memory(leaf, y)
        value.backward()
        assert (value.item() == pytest.approx(ContrastiveLoss()(x, y).item())) == (step < 2)
    assert not memory.embeddings.requires_grad


def test_bad_settings() -> None:
    with pytest.raises(ParameterError, match="`loss` must be a pair loss"):
        CrossBatchMemory(torch.nn.MSELoss(), size=3, embedding_dim=2)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="`size` must be at least 1"):
        CrossBatchMemory(ContrastiveLoss(), size=0, embedding_dim=2)
    with pytest.raises(ShapeError, match="`embeddings` must have 2 columns, got 3"):
        CrossBatchMemory(ContrastiveLoss(), size=3, embedding_dim=2)(torch.ones(2, 3), torch.arange(2))
