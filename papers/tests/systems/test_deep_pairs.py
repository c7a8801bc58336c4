"""The deep baselines in Algorithm 1: they run, keep their metric in range, and lower what they say they lower."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from nearer.exceptions import NearerWarning, StoppedEarlyWarning
from nearer.geometry import MLP, normalize
from nearer.training._alternating import Plan, alternate
from nearer_papers import systems as E

KINDS = [E.DeepLRML, E.DeepSERAPH, E.DeepISDML, E.DeepAPLLR, E.DeepAPIT]


def data(n: int = 150, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(n) % 3
    x = torch.randn(n, 6, generator=generator)
    x[:, :3] += 2 * torch.eye(3)[y]
    return x, torch.where(torch.arange(n) < 30, y, -1)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_they_run_in_the_one_loop_and_the_loss_falls(kind: Any) -> None:
    x, labels = data()
    torch.manual_seed(0)
    encoder = MLP(6, 5, hidden=(16,), generator=torch.Generator().manual_seed(0))
    learner = kind(5)
    before = [one.detach().clone() for one in encoder.parameters()]
    adam = torch.optim.Adam(encoder.parameters(), lr=0.005)
    plan = Plan(partitions=1, epochs=12, unlabeled=120, batch_size=75)
    history = alternate(encoder, learner, adam, x, labels, plan=plan)
    losses = [epoch["loss"] for epoch in history.epochs]
    assert min(losses[-3:]) < losses[0]
    assert not all(torch.equal(a, b) for a, b in zip(before, encoder.parameters(), strict=True))
    assert float((learner.module.factor**2).sum()) == pytest.approx(5, rel=1e-4)  # trace M = d
    state = learner.state_dict()
    again = kind(5)
    again.load_state_dict(state)
    numbers = torch.arange(75)
    assert torch.equal(again.batch(numbers)[0], learner.batch(numbers)[0])


def test_the_cost_is_that_of_the_pairs_and_edges_of_the_batch() -> None:
    x, labels = data(60)
    learner = E.DeepLRML(6, k=3)
    learner.prepare(x, labels)
    places, content = learner.batch(torch.arange(50))
    z = normalize(x)[places]
    K = learner.module.factor
    total, counts = [0.0, 0.0], [0, 0]
    for a in range(len(content.labeled)):
        for b in range(a + 1, len(content.labeled)):
            i, j = int(content.labeled[a]), int(content.labeled[b])
            side = int(content.classes[a] != content.classes[b])
            total[side] += float(((z[i] - z[j]) @ K).square().sum())
            counts[side] += 1
    edges = [
        float(((z[i] - z[j]) @ K).square().sum())
        for i, j in zip(content.left.tolist(), content.right.tolist(), strict=True)
    ]
    expected = total[0] / counts[0] - total[1] / counts[1] + sum(edges) / len(edges)
    assert float(learner.loss(x[places], content)) == pytest.approx(expected, rel=1e-4)
    assert (labels[places[content.labeled]] == content.classes).all()


def test_without_labels_or_edges_a_batch_is_a_zero_on_the_graph() -> None:
    x = torch.randn(20, 4, requires_grad=True)
    learner = E.DeepSERAPH(4, mu=0.0)
    with pytest.warns(NearerWarning, match="should name the class"):
        learner.prepare(x.detach(), torch.full((20,), -1))
    places, content = learner.batch(torch.arange(10))
    value = learner.loss(x[places], content)
    value.backward()
    assert value.item() == 0


def test_a_metric_that_stopped_early_is_not_hidden() -> None:
    x, labels = data()
    learner = E.DeepAPIT(6)
    learner.prepare(x, labels)
    assert learner.learner.converged_
    learner.learner.set_params(max_iter=1)
    with pytest.warns(StoppedEarlyWarning, match="ITML stopped before it converged"):
        learner.prepare(x, labels)
    assert not learner.learner.converged_
