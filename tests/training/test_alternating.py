"""Algorithm 1 as one loop: what each side sees, partitions, the best model, resuming, planted problems."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nearer.exceptions import NearerError, NearerWarning
from nearer.geometry import MLP, embed
from nearer.training import Checkpoints
from nearer.training._alternating import AlternatingStep, Plan, alternate
from nearer.training._neighborhood_angular import NeighborhoodAngular, PseudoLabelAngular


def rings(n: int = 240, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Three classes in three of twelve columns, the rest noise; six labels each."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(n) % 3
    x = torch.randn(n, 12, generator=generator) * torch.tensor([0.3] * 3 + [1.5] * 9)
    x[:, :3] += 2 * torch.eye(3)[y]
    return x, y, torch.where(torch.arange(n) < 18, y, -1)


def nearest_right(z: Tensor, y: Tensor) -> float:
    distance = torch.cdist(z, z).fill_diagonal_(torch.inf)
    return float((y[distance.argmin(1)] == y).double().mean())


LEARNERS = {
    "neighborhood": lambda d, l, g: NeighborhoodAngular(d, l, k=6, generator=g),
    "literal": lambda d, l, g: NeighborhoodAngular(d, l, k=6, literal=True, metric_steps=2, generator=g),
    "pseudo-labels": lambda d, l, g: PseudoLabelAngular(d, l, k=6, generator=g),
    "pseudo-labels free": lambda d, l, g: PseudoLabelAngular(d, l, k=6, orthogonal=False, generator=g),
}


def run(name: str, plan: Plan, rate: float = 0.003, **options: Any) -> tuple[nn.Module, Any, Any]:
    x, _, labels = rings()
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    encoder = MLP(12, 8, hidden=(32,), generator=generator)
    learner = LEARNERS[name](8, 4, generator)
    adam = torch.optim.Adam(encoder.parameters(), lr=rate)
    history = alternate(encoder, learner, adam, x, labels, plan=plan, **options)
    return encoder, learner, history


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_runs_and_the_projection_keeps_its_promise(name: str) -> None:
    encoder, learner, history = run(name, Plan(partitions=2, epochs=1, unlabeled=120, batch_size=40))
    assert len(history.epochs) == 2
    factor = learner.module.factor.detach()
    off = (factor.T @ factor - torch.eye(4)).abs().max()
    assert (off < 1e-6) == ("free" not in name)
    assert torch.isfinite(embed(encoder, rings()[0])).all()


@pytest.mark.parametrize("name", LEARNERS)
def test_an_encoder_that_maps_some_items_to_zero_does_not_end_the_run(name: str) -> None:
    x, _, labels = rings()
    # Random weights and a bias below zero: behind a last ReLU nothing is left of about every fifth item.
    layer = nn.Linear(12, 8)
    nn.init.normal_(layer.weight, generator=torch.Generator().manual_seed(0))
    nn.init.constant_(layer.bias, -6.0)
    encoder = nn.Sequential(layer, nn.ReLU())
    assert 10 < int((embed(encoder, x) == 0).all(1).sum()) < 120
    learner = LEARNERS[name](8, 4, torch.Generator().manual_seed(0))
    adam = torch.optim.Adam(encoder.parameters(), lr=0.003)
    plan = Plan(partitions=2, epochs=1, unlabeled=120, batch_size=40)
    assert len(alternate(encoder, learner, adam, x, labels, plan=plan).epochs) == 2
    assert torch.isfinite(learner.module(embed(encoder, x))).all()


def test_the_recommended_one_learns_what_the_labels_say() -> None:
    x, y, _ = rings(seed=5)
    train_x, truth, _ = rings()
    labels = torch.where(torch.arange(240) < 60, truth, -1)
    generator = torch.Generator().manual_seed(0)
    encoder = MLP(12, 8, hidden=(32,), generator=generator)
    learner = PseudoLabelAngular(8, 4, k=6, generator=generator)
    adam = torch.optim.Adam(encoder.parameters(), lr=0.01)
    before = nearest_right(embed(encoder, x), y)
    # First from the labels alone, then with everybody.
    for plan in (Plan(1, 60, unlabeled=0), Plan(3, 4, unlabeled=180, batch_size=60)):
        alternate(encoder, learner, adam, train_x, labels, plan=plan)
    with torch.no_grad():
        assert nearest_right(learner.module(embed(encoder, x)), y) > before + 0.15


def test_an_epoch_goes_through_all_triplets_of_the_partition() -> None:
    x, _, labels = rings()
    learner = NeighborhoodAngular(8, 4, k=7)
    encoder = MLP(12, 8)
    sgd = torch.optim.SGD(encoder.parameters(), lr=0.1)
    plan = Plan(partitions=2, epochs=3, unlabeled=100, batch_size=50)
    step = AlternatingStep(encoder, learner, sgd, x, labels, plan=plan)
    assert step.size == 118
    assert len(step.sampler()) == -(-118 * 3 // 50)
    first, again, second = step.partition(0), step.partition(0), step.partition(1)
    assert torch.equal(first, again)
    assert first[:18].tolist() == list(range(18))
    assert not torch.equal(first, second)
    assert len(torch.unique(first)) == 118


def test_the_metric_sees_fixed_embeddings_and_the_encoder_a_fixed_metric() -> None:
    calls: list[str] = []

    class Watching(NeighborhoodAngular):
        def prepare(self, embeddings: Tensor, labels: Tensor) -> None:
            assert not embeddings.requires_grad
            calls.append("prepare")
            super().prepare(embeddings, labels)

        def refine(self, embeddings: Tensor, content: Any) -> None:
            assert not embeddings.requires_grad
            calls.append("refine")
            super().refine(embeddings, content)

        def loss(self, embeddings: Tensor, content: Any) -> Tensor:
            assert embeddings.requires_grad
            assert not self.module.factor.requires_grad
            calls.append("loss")
            return super().loss(embeddings, content)

    x, _, labels = rings()
    encoder = nn.Sequential(nn.Linear(12, 8))  # any module will do
    sgd = torch.optim.SGD(encoder.parameters(), lr=0.01)
    plan = Plan(partitions=2, epochs=1, unlabeled=30, batch_size=72)
    alternate(encoder, Watching(8, 4, k=6), sgd, x, labels, plan=plan)
    assert calls == ["prepare", "refine", "loss", "refine", "loss"] * 2


def test_the_best_model_of_the_validation_is_kept() -> None:
    scores = iter([0.2, 0.9, 0.1])
    factors = []

    def validate() -> dict[str, float]:
        factors.append([one.detach().clone() for one in encoder.parameters()])
        return {"recall@1": next(scores)}

    x, _, labels = rings()
    encoder = MLP(12, 8)
    sgd = torch.optim.SGD(encoder.parameters(), lr=0.1)
    plan = Plan(partitions=1, epochs=3, unlabeled=60, batch_size=60)
    history = alternate(encoder, PseudoLabelAngular(8, 4, k=6), sgd, x, labels, plan=plan, validate=validate)
    assert history.best == 2
    assert all(torch.equal(a, b) for a, b in zip(encoder.parameters(), factors[1], strict=True))


@pytest.mark.parametrize("name", ["neighborhood", "pseudo-labels", "pseudo-labels free"])
def test_a_run_that_stops_in_a_partition_goes_on_to_the_same_bits(name: str, tmp_path: Path) -> None:
    plan = Plan(partitions=2, epochs=2, unlabeled=60, batch_size=30)
    whole, whole_learner, _ = run(name, plan)

    class Stop(Exception):
        pass

    def stop(moment: Any) -> None:
        if moment.kind == "step" and moment.step == 5:
            raise Stop

    checkpoints = Checkpoints(tmp_path, every=1)
    with pytest.raises(Stop):
        run(name, plan, callbacks=[stop], checkpoints=checkpoints)
    resumed, learner, history = run(name, plan, checkpoints=checkpoints)
    assert len(history.epochs) == 4
    if name == "neighborhood":  # the others draw positives from a generator of their own
        for a, b in zip(whole.parameters(), resumed.parameters(), strict=True):
            assert torch.equal(a, b)
        assert torch.equal(whole_learner.module.factor, learner.module.factor)


def test_all_the_same_without_any_label_but_with_a_warning() -> None:
    x, _, _ = rings()
    encoder = MLP(12, 8)
    sgd = torch.optim.SGD(encoder.parameters(), lr=0.01)
    plan = Plan(partitions=1, epochs=1, unlabeled=50, batch_size=50)
    with pytest.warns(NearerWarning, match="only -1"):
        alternate(encoder, NeighborhoodAngular(8, 4, k=6), sgd, x, [-1] * len(x), plan=plan)


def test_bad_input() -> None:
    x, _, labels = rings()
    encoder, learner = MLP(12, 8), PseudoLabelAngular(8, 4)
    sgd = torch.optim.SGD(encoder.parameters(), lr=0.01)
    with pytest.raises(NearerError, match="one entry for each of the 240 rows"):
        alternate(encoder, learner, sgd, x, [0])
    with pytest.raises(NearerError, match="at least three items, got 2"):
        alternate(encoder, learner, sgd, x[:2], [0, 1])
    with pytest.raises(NearerError, match="or -1 for unlabelled, got -7"):
        alternate(encoder, learner, sgd, x, torch.where(labels == 0, -7, labels))
    both = torch.optim.SGD([*encoder.parameters(), *learner.module.parameters()], lr=0.01)
    with pytest.raises(NearerError, match="must move the encoder only"):
        alternate(encoder, learner, both, x, labels)
    with pytest.raises(NearerError, match="`epochs` must be at least 1"):
        Plan(epochs=0)
    with pytest.raises(NearerError, match="`k` must be at least 2"):
        NeighborhoodAngular(8, 4, k=1)
    with pytest.raises(NearerError, match="`pseudo_labeled` must be at most 1"):
        PseudoLabelAngular(8, 4, pseudo_labeled=1.5)
    with torch.no_grad():
        encoder.layers[-1].weight.fill_(torch.nan)
    with pytest.raises(NearerError, match="must be finite"):
        alternate(encoder, learner, sgd, x, labels)
