"""Learning without labels: losses at the start, exact softmax against samples, planted clusters, views."""

from __future__ import annotations

import colorsys
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nearer.exceptions import NearerError
from nearer.training import UniformSampler, train
from nearer.training._photo_batches import jiggled
from nearer_papers.systems._comparators import (
    DeepClusterStep,
    ExemplarStep,
    InstanceStep,
    RotNetStep,
    SyntheticStep,
    balanced_rows,
)
from nearer_papers.systems._synthetic import SyntheticLoss
from nearer_papers.systems._views import exemplar_views, hsv_to_rgb, rgb_to_hsv, rotations


def network(width: int = 8) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 16), nn.ReLU(), nn.Linear(16, width))


def images(n: int = 40) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    base = torch.rand(4, 1, 6, 6, generator=generator)
    return (base[torch.arange(n) % 4] + 0.1 * torch.rand(n, 1, 6, 6, generator=generator)).clamp(0, 1)


def halves(features: Tensor) -> Tensor:
    return (features[:, 0] > 0).long()


MAKE: dict[str, Any] = {
    "exemplar": lambda e, o, x: ExemplarStep(e, o, x, 8),
    "exemplar sampled": lambda e, o, x: ExemplarStep(e, o, x, 8, sampled=10),
    "rotnet": lambda e, o, x: RotNetStep(e, o, x, 8),
    "instance": lambda e, o, x: InstanceStep(e, o, x, 8, negatives=10),
    "instance exact": lambda e, o, x: InstanceStep(e, o, x, 8),
    "deepcluster": lambda e, o, x: DeepClusterStep(e, o, x, 8, cluster=halves, every=5),
    "synthetic": lambda e, o, x: SyntheticStep(e, o, x, SyntheticLoss(8, 4), triplets=50),
}


@pytest.mark.parametrize("name", MAKE)
def test_they_train_in_the_loop_and_move_the_encoder(name: str) -> None:
    encoder = network()
    before = [one.detach().clone() for one in encoder.parameters()]
    adam = torch.optim.Adam(encoder.parameters(), lr=0.01)
    # Twins cannot be told apart, which is all that the instances are asked for.
    x = torch.randn(40, 1, 6, 6) if "instance" in name else images()
    step = MAKE[name](encoder, adam, x)
    history = train(step, UniformSampler(40, batch_size=20), epochs=20)
    losses = [epoch["loss"] for epoch in history.epochs]
    assert all(math.isfinite(one) for one in losses)
    assert sum(losses[-5:]) < sum(losses[:5])
    assert not torch.equal(before[0], next(iter(encoder.parameters())))
    again = network()
    other = MAKE[name](again, torch.optim.Adam(again.parameters(), lr=0.01), x)
    other.load_state_dict(step.state_dict())
    assert torch.equal(again[1].weight, encoder[1].weight)


def test_four_turns_are_the_identity() -> None:
    x = torch.rand(2, 3, 5, 5)
    once = rotations(x)[2:4]
    twice = rotations(once)[2:4]
    assert torch.equal(rotations(rotations(twice)[2:4])[2:4], x)
    assert torch.equal(rotations(x)[4:6], twice)
    with pytest.raises(NearerError, match="must be square"):
        rotations(torch.rand(2, 3, 5, 4))


def test_all_negatives_give_the_gradient_of_the_exact_softmax_and_the_memory_follows() -> None:
    encoder = network()
    step = InstanceStep(encoder, torch.optim.SGD(encoder.parameters(), lr=0.0), images(10), 8, negatives=9)
    rows = torch.arange(10)
    memory = step.head.memory.clone()
    z = nn.functional.normalize(encoder(images(10)), dim=1)
    expected = nn.functional.cross_entropy(z @ memory.T / 0.07, rows)
    assert step(rows) == pytest.approx(expected.item(), rel=1e-5)
    wanted = nn.functional.normalize((memory + z) / 2, dim=1)
    torch.testing.assert_close(step.head.memory, wanted.detach(), atol=1e-6, rtol=1e-5)


def test_the_normalizer_of_noise_contrast_is_fixed_by_the_first_batch() -> None:
    encoder = network()
    step = InstanceStep(encoder, torch.optim.SGD(encoder.parameters(), lr=0.1), images(40), 8, negatives=20)
    step(torch.arange(20))
    first = float(step.head.log_total)
    step(torch.arange(20, 40))
    assert float(step.head.log_total) == first
    assert math.isfinite(first)


def test_clusters_are_found_again_with_a_new_head() -> None:
    encoder = network()
    calls = []

    def cluster(features: Tensor) -> Tensor:
        calls.append(features)
        return torch.arange(40) % 4

    step = DeepClusterStep(
        encoder, torch.optim.SGD(encoder.parameters(), lr=0.1), images(), 8, cluster=cluster, every=2
    )
    step(torch.arange(20))
    head = step.head
    step(torch.arange(20))
    assert step.head is head
    step(torch.arange(20))
    assert step.head is not head
    assert len(calls) == 2
    torch.testing.assert_close(calls[0].norm(dim=1), torch.ones(40).double())
    assert len(step.optimizer.param_groups) == 2


def test_one_point_cannot_be_clustered() -> None:
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(36, 8))
    nn.init.zeros_(encoder[1].weight)
    step = DeepClusterStep(encoder, torch.optim.SGD(encoder.parameters(), lr=0.1), images(), 8, cluster=halves)
    with pytest.raises(NearerError, match="must differ to be clustered"):
        step(torch.arange(20))


def test_every_cluster_is_drawn_as_often() -> None:
    torch.manual_seed(0)
    rows = balanced_rows(torch.tensor([0] * 90 + [1] * 9 + [3]), 3000)
    shares = [int((rows < 90).sum()), int(((rows >= 90) & (rows < 99)).sum()), int((rows == 99).sum())]
    assert all(800 < share < 1200 for share in shares)


@pytest.mark.parametrize("channels", [1, 3])
def test_views_stay_in_range_and_differ(channels: int) -> None:
    x = torch.rand(5, channels, 8, 8)
    first, second = (exemplar_views(x, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))
    assert first.shape == x.shape
    assert float(first.min()) >= 0
    assert float(first.max()) <= 1
    assert not torch.equal(first, second)
    assert torch.equal(first, exemplar_views(x, generator=torch.Generator().manual_seed(0)))


def test_colors_there_and_back_again() -> None:
    x = torch.rand(3, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    x[0, :, 0, 0] = 0.5  # grey
    x[0, :, 0, 1] = 0.0  # black
    torch.testing.assert_close(hsv_to_rgb(rgb_to_hsv(x)), x, atol=1e-5, rtol=0)
    expected = colorsys.rgb_to_hsv(*x[1, :, 2, 2].tolist())
    assert rgb_to_hsv(x)[1, :, 2, 2].tolist() == pytest.approx(list(expected), abs=1e-5)


def test_jiggling_mirrors_only_when_asked_and_wants_images() -> None:
    x = torch.arange(6.0).reshape(1, 1, 1, 6).expand(50, 1, 1, 6)
    still = jiggled(x, shift=0, turn=0, stretch=0, flip=True, generator=torch.Generator().manual_seed(0))
    mirrored = (still[:, 0, 0, 0] > 3).sum()
    assert 10 < int(mirrored) < 40
    with pytest.raises(NearerError, match=r"\(n, channels, h, w\)"):
        jiggled(torch.rand(3, 4))
