"""HDML: the synthesis by hand, the terms and who moves whom, running means, a held-out problem."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from held_out import learn, recall, rows
from nearer.exceptions import LabelError, ParameterError
from nearer.geometry import MLP
from nearer_papers.systems import HDMLLoss
from nearer_papers.systems._hdml import _triplets, harder_negatives

LABELS = torch.tensor([0, 0, 0, 1, 1, 2, 2, 3])


def make(**settings):
    torch.manual_seed(0)
    trunk, head = nn.Linear(5, 6).double(), nn.Linear(6, 3).double()
    loss = HDMLLoss(head, 6, 3, 4, **{"epoch_steps": 2, "generator": torch.Generator().manual_seed(1), **settings})
    return trunk, head, loss.double(), torch.randn(8, 5, dtype=torch.float64)


def test_negatives_by_hand():
    g = torch.Generator().manual_seed(0)
    a, p, n = (torch.randn(20, 3, generator=g, dtype=torch.float64) for _ in range(3))
    found = harder_negatives(a, p, n, pull=0.3)
    for k in range(20):
        near, far = math.dist(a[k], p[k]), math.dist(a[k], n[k])
        expected = a[k] + (n[k] - a[k]) * (near + (far - near) * 0.3) / far if far > near else n[k]
        torch.testing.assert_close(found[k], expected)
    assert torch.equal(
        harder_negatives(a, p, n, pull=1.0).sub(n).abs() < 1e-12, torch.ones(20, 3, dtype=torch.bool)
    )
    reach = (harder_negatives(a, p, n, pull=0.0) - a).norm(dim=1)
    torch.testing.assert_close(reach, torch.minimum((p - a).norm(dim=1), (n - a).norm(dim=1)))


def test_gradcheck_of_the_synthesis_and_coincident_points():
    g = torch.Generator().manual_seed(3)
    rows3 = [torch.randn(6, 2, generator=g, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    assert torch.autograd.gradcheck(lambda a, p, n: harder_negatives(a, p, n, pull=0.4), rows3)
    same = torch.zeros(2, 2, dtype=torch.float64, requires_grad=True)
    harder_negatives(same, same, same, pull=0.5).sum().backward()
    assert same.grad.isfinite().all()


def test_triplets_are_all_positive_pairs_with_a_negative():
    triplets = _triplets(LABELS, torch.Generator().manual_seed(0))
    pairs = {(i, j) for i in range(8) for j in range(8) if i != j and LABELS[i] == LABELS[j]}
    assert {(a, p) for a, p, _ in triplets.tolist()} == pairs
    assert all(LABELS[a] != LABELS[n] for a, _, n in triplets.tolist())
    drawn = torch.cat([_triplets(LABELS, torch.Generator().manual_seed(s))[:1, 2] for s in range(300)])
    assert set(drawn.tolist()) == {3, 4, 5, 6, 7}
    assert not len(_triplets(torch.zeros(4, dtype=torch.int64), None))
    assert not len(_triplets(torch.arange(4), None))


def test_the_terms_by_hand():
    trunk, head, loss, x = make(alpha=0.7, beta=2.0, balance=0.25, margin=0.5)
    loss.eval()  # batch normalisation by its running statistics, so that rows can be checked one by one
    loss.means.copy_(torch.tensor([1.5, 3.0]))
    features = trunk(x).detach()
    z = head(features)
    loss.random = torch.Generator().manual_seed(9)
    value = loss(z, LABELS)
    triplets = _triplets(LABELS, torch.Generator().manual_seed(9))

    def cost(a, p, n):
        return torch.clamp((a - p).square().sum() - (a - n).square().sum() + 0.5, min=0)

    real, made, labels, codes = [], [], [], []
    for a, p, n in triplets.tolist():
        real.append(cost(z[a], z[p], z[n]))
        hard = harder_negatives(z[a : a + 1], z[p : p + 1], z[n : n + 1], pull=math.exp(-0.7 / 1.5))
        new = [loss.generator(row)[0] for row in (z[a : a + 1], z[p : p + 1], hard)]
        made.append(cost(*(head(row) for row in new)))
        codes += new
        labels += [LABELS[a], LABELS[p], LABELS[n]]
    weight = math.exp(-2.0 / 3.0)
    torch.testing.assert_close(value, weight * sum(real) / len(real) + (1 - weight) * sum(made) / len(made))
    logits = loss.classifier(torch.stack(codes))
    wrong = -torch.log_softmax(logits, 1)[torch.arange(len(logits)), torch.stack(labels)].mean()
    j_gen = 0.75 * (features - loss.generator(z)).square().sum() + 0.25 * 1e4 * wrong
    found = loss._helpers(
        torch.cat(
            [
                z,
                *(z[c] for c in triplets.T[:2]),
                harder_negatives(*(z[c] for c in triplets.T), pull=math.exp(-0.7 / 1.5)),
            ]
        ),
        features,
        LABELS,
        LABELS[triplets.T.reshape(-1)],
    )
    torch.testing.assert_close(found[0], j_gen)
    expected = -torch.log_softmax(loss.classifier(features), 1)[torch.arange(8), LABELS].mean()
    torch.testing.assert_close(found[1], expected)


def test_who_moves_whom():
    trunk, head, loss, x = make()
    loss.means.copy_(torch.tensor([90.0, 1e4]))
    for part in ("encoder", "generator", "classifier"):
        for module in (trunk, head, loss):
            module.zero_grad()
        loss.random = torch.Generator().manual_seed(9)
        features = trunk(x)
        z = head(features)
        if part == "encoder":
            loss(z, LABELS).backward()
            encoder = [one.grad.clone() for one in (*trunk.parameters(), *head.parameters())]
            generator = [one.grad.clone() for one in loss.generator.parameters()]
            classifier = [one.grad.clone() for one in loss.classifier.parameters()]
            continue
        triplets = _triplets(LABELS, torch.Generator().manual_seed(9))
        pull = math.exp(-90.0 / 90.0)
        a, p, n = (z[column] for column in triplets.T)
        whole = torch.cat([z, a, p, harder_negatives(a, p, n, pull=pull)])
        j_gen, j_class = loss._helpers(whole.detach(), features.detach(), LABELS, LABELS[triplets.T.reshape(-1)])
        if part == "generator":
            j_gen.backward()
            for found, one in zip(generator, loss.generator.parameters(), strict=True):
                torch.testing.assert_close(found, one.grad, rtol=1e-6, atol=1e-8)
            assert all(one.grad is None or not one.grad.any() for one in loss.classifier.parameters())
        else:
            j_class.backward()
            for found, one in zip(classifier, loss.classifier.parameters(), strict=True):
                torch.testing.assert_close(found, one.grad)
    assert all(one.abs().sum() > 0 for one in encoder)


def test_running_means_are_those_of_the_epoch_before():
    trunk, head, loss, x = make(epoch_steps=3)
    assert loss.pull == pytest.approx(1, abs=1e-3)
    assert loss.synthetic_share == pytest.approx(1e4 / 1e6, rel=0.01)
    for _ in range(2):
        loss(head(trunk(x)), LABELS)
    assert loss.means.tolist() == [1e6, 1e6]
    kept = loss.course.clone()
    assert kept[2] == 2
    loss(head(trunk(x)), LABELS)
    assert loss.course.tolist() == [0, 0, 0]
    assert loss.means[0] < 1e3
    assert loss.means[1] > kept[1] / 3
    assert 0 < loss.pull < 1
    again = make(epoch_steps=3)[2]
    again.load_state_dict(loss.state_dict())
    assert torch.equal(again.means, loss.means)
    loss.eval()
    loss(head(trunk(x)), LABELS)
    assert loss.course[2] == 0
    loss.means.zero_()
    assert (loss.pull, loss.synthetic_share) == (0.0, 1.0)


@pytest.mark.parametrize("labels", [[0], [0, 0, 0], [0, 1, 2]], ids=["one item", "one class", "singletons"])
def test_no_triplet_is_zero_on_the_graph(labels):
    trunk, head, loss, x = make()
    value = loss(head(trunk(x[: len(labels)])), torch.tensor(labels))
    value.backward()
    assert value.item() == 0
    assert not head.weight.grad.any()


def test_bad_input():
    trunk, head, loss, x = make()
    with pytest.raises(LabelError, match="`labels` must be 0 to 3, got 0 to 5"):
        loss(head(trunk(x)), LABELS + 2 * (LABELS == 3))
    with pytest.raises(ParameterError, match="`epoch_steps` must be at least 1, got 0"):
        make(epoch_steps=0)
    with pytest.raises(ParameterError, match="`balance` must be at most 1"):
        make(balance=2.0)
    fresh = make()[2]
    with pytest.raises(ParameterError, match="must run before each call"):
        fresh(torch.rand(8, 3), LABELS)


def test_unseen_classes_and_harder_negatives_as_training_goes():
    x, y, unseen, other = rows()
    head = MLP(32, 16, hidden=(), generator=torch.Generator().manual_seed(1))
    trunk = MLP(16, 32, hidden=(), normalized=False, generator=torch.Generator().manual_seed(0))
    encoder = nn.Sequential(trunk, nn.ReLU(), head)
    loss = HDMLLoss(
        head, 32, 16, 40, epoch_steps=12, alpha=0.5, margin=0.5, generator=torch.Generator().manual_seed(2)
    )
    before, pull, share = recall(encoder, unseen, other), loss.pull, loss.synthetic_share
    learn(encoder, loss, x, y, epochs=15)
    assert recall(encoder, unseen, other) > before + 0.3
    assert loss.pull < 0.2 < pull
    assert loss.synthetic_share > 10 * share
