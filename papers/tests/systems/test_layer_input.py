"""What went into a layer: taken once, with its graph, in full precision, also behind a half-precision encoder."""

from __future__ import annotations

import gc

import pytest
import torch
from torch import nn

from nearer.exceptions import ParameterError, ShapeError
from nearer.geometry import UnitLength
from nearer.losses import ContrastiveLoss
from nearer.training import EncoderStep, TensorBatches
from nearer_papers.systems import ABIERLoss, BoostedHeads, EnergyConfusionLoss, HDMLLoss
from nearer_papers.systems._layer_input import LayerInput

LABELS = torch.arange(4).repeat_interleave(3)


def test_the_input_is_on_its_graph_and_taken_once():
    first, layer = nn.Linear(3, 2), nn.Linear(2, 2)
    seen = LayerInput(layer)
    layer(first(torch.ones(4, 3)))
    seen.take(4).sum().backward()
    assert first.weight.grad.abs().sum() > 0
    assert layer.weight.grad is None
    with pytest.raises(ParameterError, match="must run before each call"):
        seen.take(4)
    layer(torch.ones(5, 2))
    with pytest.raises(ShapeError, match="the 4 items of the embeddings in its last pass, got 5"):
        seen.take(4)


def test_half_precision_is_widened():
    layer = nn.Identity()
    seen = LayerInput(layer)
    for dtype, wide in ((torch.bfloat16, torch.float32), (torch.float64, torch.float64)):
        layer(torch.ones(2, 3, dtype=dtype))
        assert seen.take(2).dtype == wide


def test_the_hook_goes_with_its_owner():
    layer = nn.Linear(2, 2)
    seen = LayerInput(layer)
    assert len(layer._forward_pre_hooks) == 1
    del seen
    gc.collect()
    assert not layer._forward_pre_hooks
    with pytest.raises(ParameterError, match="must be a torch module, got a str"):
        LayerInput("layer")


SYSTEMS = {
    "ABIER": lambda: (head := BoostedHeads(6, (2, 3)), ABIERLoss(head)),
    "ECAML": lambda: (
        head := nn.Sequential(nn.Linear(6, 4), UnitLength()),
        EnergyConfusionLoss(ContrastiveLoss(), head),
    ),
    "HDML": lambda: (head := nn.Linear(6, 4), HDMLLoss(head, 6, 4, 4, epoch_steps=2)),
}


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_step_in_each_precision(name, precision):
    torch.manual_seed(0)
    head, loss = SYSTEMS[name]()
    encoder = nn.Sequential(nn.Linear(5, 6), nn.ReLU(), head)
    before = [one.detach().clone() for one in encoder.parameters()]
    adam = torch.optim.Adam([*encoder.parameters(), *loss.parameters()], lr=0.01)
    step = EncoderStep(encoder, loss, adam, TensorBatches(torch.randn(12, 5), LABELS), precision=precision)
    for _ in range(3):
        assert abs(step(torch.arange(12))) < 1e6
    assert all(not torch.equal(a, b) for a, b in zip(before, encoder.parameters(), strict=True))


@pytest.mark.parametrize("name", SYSTEMS)
def test_chunks_are_refused(name):
    head, loss = SYSTEMS[name]()
    encoder = nn.Sequential(nn.Linear(5, 6), nn.ReLU(), head)
    adam = torch.optim.Adam([*encoder.parameters(), *loss.parameters()])
    step = EncoderStep(encoder, loss, adam, TensorBatches(torch.randn(12, 5), LABELS), chunk=4)
    with pytest.raises(ShapeError, match=r"in one piece \(no `chunk`\)"):
        step(torch.arange(12))
