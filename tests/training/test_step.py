"""One step: caching equals the plain step, half precision, limits, schedules, frozen parts."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from nearer.exceptions import NearerWarning, NotFiniteError, ParameterError, ShapeError
from nearer.geometry import MLP
from nearer.geometry._encoders import DigitsCNN
from nearer.losses import ContrastiveLoss, MarginLoss, RAWLoss, SupConLoss
from nearer.mining import VTHM
from nearer.training import EncoderStep, TensorBatches, backward_in_chunks, linear, parameter_groups

LABELS = torch.arange(6).repeat_interleave(5)
ITEMS = torch.randn(30, 8, generator=torch.Generator().manual_seed(0))


def make(loss=None, *, encoder=None, rate=0.1, **settings):
    encoder = encoder or MLP(8, 4, hidden=(12,), generator=torch.Generator().manual_seed(1))
    loss = loss or SupConLoss()
    optimizer = torch.optim.SGD([*encoder.parameters(), *loss.parameters()], lr=rate)
    return EncoderStep(encoder, loss, optimizer, TensorBatches(ITEMS, LABELS), **settings)


@pytest.mark.parametrize("loss", [SupConLoss, lambda: RAWLoss(miner=VTHM()), lambda: MarginLoss()])
@pytest.mark.parametrize("chunk", [1, 7, 29])
def test_caching_is_the_plain_step(loss, chunk):
    plain, cached = make(loss()), make(loss(), chunk=chunk)
    for _ in range(3):
        assert cached(torch.arange(30)) == pytest.approx(plain(torch.arange(30)), rel=1e-5)
    for a, b in zip(plain.module.parameters(), cached.module.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_caching_repeats_dropout_and_augmentation_exactly():
    encoder = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.Linear(16, 4)).double()
    items = ITEMS.double()
    drawn = []

    def chunk(part):
        def get():
            noise = torch.randn(len(part), 8, dtype=torch.float64)
            drawn.append(noise)
            return items[part] + noise

        return get

    torch.manual_seed(3)
    parts = torch.arange(30).split(10)
    value = backward_in_chunks(encoder, [chunk(part) for part in parts], lambda z: SupConLoss()(z, LABELS))
    after = torch.rand(1)
    for first, second in zip(drawn[:3], drawn[3:], strict=True):
        assert torch.equal(first, second)
    # The same numbers in the plain order.
    torch.manual_seed(3)
    twin = copy.deepcopy(encoder)
    twin.zero_grad()
    z = torch.cat([twin(chunk(part)()) for part in parts])
    expected = SupConLoss()(z, LABELS)
    expected.backward()
    assert torch.equal(torch.rand(1), after), "and the generator goes on as after the plain step"
    torch.testing.assert_close(value, expected.detach())
    for a, b in zip(encoder.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad)


def test_caching_moves_running_statistics_once_and_warns_of_batch_norm():
    encoder = DigitsCNN(8, batch_norm=True)
    images = torch.rand(12, 1, 28, 28)
    labels = torch.arange(4).repeat(3)
    sgd = torch.optim.SGD(encoder.parameters(), lr=0.0)
    with pytest.warns(NearerWarning, match="batch normalisation sees chunks of 6"):
        step = EncoderStep(encoder, SupConLoss(), sgd, TensorBatches(images, labels), chunk=6)
    step(torch.arange(12))
    counts = [int(value) for name, value in encoder.named_buffers() if name.endswith("num_batches_tracked")]
    assert set(counts) == {2}, "two chunks, each counted once"


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_half_precision_follows_single_precision(precision):
    plain, half = make(), make(precision=precision)
    for _ in range(30):
        a, b = plain(torch.arange(30)), half(torch.arange(30))
    # The scale of float16 is found by skipping steps that overflow, so it may lag a step or two behind.
    assert b == pytest.approx(a, rel=0.05)
    assert all(parameter.dtype == torch.float32 for parameter in half.module.parameters())


def test_the_norm_of_the_gradient_is_limited():
    step = make(rate=1.0, max_norm=1e-3)
    before = [parameter.clone() for parameter in step.module.parameters()]
    step(torch.arange(30))
    moved = torch.cat([(a - b).flatten() for a, b in zip(before, step.module.parameters(), strict=True)])
    assert moved.detach().norm() == pytest.approx(1e-3, rel=1e-3)


def test_the_schedule_moves_every_rate():
    encoder = MLP(8, 4)
    groups = parameter_groups({"a": encoder, "b": nn.Linear(2, 2)}, {"a": 1.0, "b": 0.1})
    sgd = torch.optim.SGD(groups)
    step = EncoderStep(encoder, SupConLoss(), sgd, TensorBatches(ITEMS, LABELS), schedule=linear(4))
    seen = []
    for _ in range(4):
        step(torch.arange(30))
        seen.append([group["lr"] for group in sgd.param_groups])
    assert seen == [[1.0, 0.1], [0.75, pytest.approx(0.075)], [0.5, 0.05], [0.25, 0.025]]


def test_a_loss_that_is_not_finite_ends_the_run():
    class Bad(nn.Module):
        def forward(self, embeddings, labels):
            return embeddings.sum() * float("nan")

    with pytest.raises(NotFiniteError, match=r"got nan in step 1\. Lower the learning rate"):
        make(Bad())(torch.arange(30))


def test_frozen_parts_do_not_move_and_their_normalization_neither():
    encoder = DigitsCNN(8, batch_norm=True)
    images = torch.rand(12, 1, 28, 28)
    sgd = torch.optim.SGD(encoder.parameters(), lr=0.1, momentum=0.9)
    step = EncoderStep(encoder, SupConLoss(), sgd, TensorBatches(images, torch.arange(4).repeat(3)))
    step(torch.arange(12))
    body = encoder.layers[:-2]
    body.requires_grad_(False)
    before = copy.deepcopy(body.state_dict())
    head = copy.deepcopy(encoder.layers[-1:].state_dict())
    step(torch.arange(12))
    for name, value in body.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert any(not torch.equal(value, head[name]) for name, value in encoder.layers[-1:].state_dict().items())
    body.requires_grad_(True)
    step(torch.arange(12))
    assert any(not torch.equal(value, before[name]) for name, value in body.state_dict().items())


def test_state_goes_round():
    step, other = make(MarginLoss()), make(MarginLoss(), rate=0.2)
    step(torch.arange(30))
    other.load_state_dict(step.state_dict())
    for a, b in zip(step.module.parameters(), other.module.parameters(), strict=True):
        assert torch.equal(a, b)


def test_weight_decay_spares_vectors():
    groups = parameter_groups({"encoder": nn.Linear(3, 2)}, {"encoder": 1e-3}, weight_decay=0.1)
    assert [(group["weight_decay"], group["params"][0].ndim) for group in groups] == [(0.1, 2), (0.0, 1)]


def test_bad_input():
    with pytest.raises(ParameterError, match="differ in metric"):
        parameter_groups({"encoder": nn.Linear(1, 1)}, {"encoder": 1.0, "metric": 1.0})
    with pytest.raises(ParameterError, match="at least one parameter"):
        parameter_groups({"encoder": nn.Identity()}, {"encoder": 1.0})
    with pytest.raises(ParameterError, match="`precision`"):
        make(precision="float8")
    with pytest.raises(ParameterError, match="`chunk`"):
        make(chunk=0)
    with pytest.raises(ShapeError, match="one entry for each of the 30 items, got 3"):
        TensorBatches(ITEMS, LABELS[:3])
    assert make(ContrastiveLoss())(torch.arange(30)) >= 0
