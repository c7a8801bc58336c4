"""What a step needs of the memory is counted, and the C library is told to keep pages."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from nearer.training import _memory as memory
from nearer.training._memory import activation_bytes, pages_kept


def test_each_item_counts_what_the_backward_pass_needs() -> None:
    layers = nn.Sequential(nn.Linear(10, 1000), nn.Tanh(), nn.Linear(1000, 1))
    for n in (2, 8):
        found = activation_bytes(layers, torch.rand(n, 10))
        assert found == 4 * (10 + 1000), "the items and what came out of the tangent; weights are there anyway"


def test_pages_are_kept_inside_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, int]] = []

    class Library:
        @staticmethod
        def mallopt(number: int, value: int) -> int:
            calls.append((number, value))
            return 1

        @staticmethod
        def malloc_trim(_: int) -> int:
            calls.append((0, 0))
            return 1

    monkeypatch.setattr(memory.ctypes, "CDLL", lambda _: Library)
    monkeypatch.setattr(memory.sys, "platform", "linux")
    with pages_kept() as able:
        assert able
        assert dict(calls) == memory.KEPT
    assert calls[3:] == [*memory.USUAL.items(), (0, 0)]
    monkeypatch.setattr(memory.sys, "platform", "darwin")
    with pages_kept() as able:
        assert not able
