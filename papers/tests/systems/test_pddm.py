"""PDDM: the printed network and quadruplet by loops, gradients, edges, a planted problem."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from every_loss import batch, value_and_gradient
from nearer.exceptions import NotFiniteError, ParameterError, ShapeError
from nearer_papers.systems import PDDMLoss
from nearer_papers.systems._pddm import PairScore


def make(dimension: int = 8, **settings: object) -> PDDMLoss:
    return PDDMLoss(dimension, generator=torch.Generator().manual_seed(0), **settings).double()  # type: ignore[arg-type]


def printed_score(network: PairScore, a: Tensor, b: Tensor) -> Tensor:
    u, v = normalize((a - b).abs(), dim=0), normalize((a + b) / 2, dim=0)
    u = torch.relu(network.difference.weight @ u + network.difference.bias)
    v = torch.relu(network.middle.weight @ v + network.middle.bias)
    c = torch.relu(network.joint.weight @ torch.cat([u, v]) + network.joint.bias)
    return (network.score.weight @ c + network.score.bias)[0]


def printed(loss: PDDMLoss, x: Tensor, y: Tensor) -> Tensor:
    z, n = normalize(x, dim=1), len(x)
    score = torch.stack(
        [torch.stack([printed_score(loss.network, z[i], z[j]) for j in range(n)]) for i in range(n)]
    )
    positives = sorted((float(score[i, j].detach()), i, j) for j in range(n) for i in range(j) if y[i] == y[j])
    total = []
    for _, i, j in positives[: loss.quadruplets]:
        k = max(
            (other for other in range(n) if y[other] != y[i]), key=lambda other: float(score[i, other].detach())
        )
        l = max(
            (other for other in range(n) if y[other] != y[j]), key=lambda other: float(score[j, other].detach())
        )
        near, far, farther = ((z[a] - z[b]).norm() for a, b in ((i, j), (i, k), (j, l)))
        total.append(
            torch.relu(0.5 + score[i, k] - score[i, j])
            + torch.relu(0.5 + score[j, l] - score[i, j])
            + 0.5 * (torch.relu(1 + near - far) + torch.relu(1 + near - farther))
        )
    return torch.stack(total).mean()


@pytest.mark.parametrize("quadruplets", [1, 3, 1000])
def test_printed_formula(quadruplets: int) -> None:
    x, y = batch(13, 4)
    loss = make(quadruplets=quadruplets)
    expected = value_and_gradient(lambda e: printed(loss, e, y), x)
    found = value_and_gradient(loss, x, y)
    torch.testing.assert_close(found[0], expected[0])
    torch.testing.assert_close(found[1], expected[1])


def test_gradcheck_of_embeddings_and_network() -> None:
    x, y = batch(7, 3, dimension=4)
    loss = make(4, hidden=3, quadruplets=2)
    assert torch.autograd.gradcheck(lambda e: loss(e, y), x.requires_grad_(), eps=1e-7, atol=1e-5)
    loss(x, y).backward()
    assert all(one.grad is not None for one in loss.parameters())
    weight = loss.network.joint.weight

    def of_weight(w: Tensor) -> Tensor:
        return torch.func.functional_call(loss, {"network.joint.weight": w}, (x.detach(), y))

    assert torch.autograd.gradcheck(of_weight, weight.detach().clone().requires_grad_(), eps=1e-7, atol=1e-5)


def test_blocks_of_the_table_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x, _ = batch(20, 4)
    network = make().network
    whole = network.table(x)
    monkeypatch.setattr("nearer_papers.systems._pddm._BLOCK", 1000)
    torch.testing.assert_close(network.table(x), whole)
    assert torch.equal(whole, whole.T)


@pytest.mark.parametrize(
    ("name", "labels"), [("one item", [0]), ("one class", [0] * 6), ("singletons", [0, 1, 2, 3, 4, 5])]
)
def test_nothing_to_compare_is_zero_on_the_graph(name: str, labels: list[int]) -> None:
    loss = make()
    value, gradient = value_and_gradient(loss, batch(6, 3)[0][: len(labels)], torch.tensor(labels))
    assert value == 0
    assert gradient.abs().max() == 0


def test_equal_opposite_and_zero_rows_are_finite() -> None:
    x, _ = batch(6, 3)
    rows = torch.cat([x[:2], x[:2], -x[:1], torch.zeros(1, 8, dtype=torch.float64)])
    loss = make(quadruplets=10)
    value, gradient = value_and_gradient(loss, rows, torch.tensor([0, 1, 0, 1, 0, 1]))
    assert torch.isfinite(value)
    assert torch.isfinite(gradient).all()
    loss(rows.requires_grad_(), torch.tensor([0, 0, 0, 1, 1, 1])).backward()
    assert all(torch.isfinite(one.grad).all() for one in loss.parameters())  # type: ignore[arg-type]


def test_the_network_learns_which_pairs_are_alike() -> None:
    """Classes that differ in one of six coordinates: after training positives score above negatives."""
    generator = torch.Generator().manual_seed(1)
    y = torch.arange(60) % 3
    x = 0.6 * torch.randn(60, 6, generator=generator)
    x[:, 0] = y - 1.0 + 0.05 * torch.randn(60, generator=generator)
    loss = PDDMLoss(6, hidden=16, quadruplets=20, generator=generator)
    encoder = torch.nn.Linear(6, 6)
    with torch.no_grad():
        encoder.weight.copy_(torch.eye(6))
        encoder.bias.zero_()
    optimizer = torch.optim.Adam([*encoder.parameters(), *loss.parameters()], lr=0.01)

    def order() -> float:
        table = loss.network.table(normalize(encoder(x), dim=1).detach())
        same = y[:, None] == y[None, :]
        near, far = table[same & ~torch.eye(60, dtype=torch.bool)], table[~same]
        return float((near[:, None] > far[None, :]).float().mean())

    before = order()
    for _ in range(120):
        rows = torch.randperm(60, generator=generator)[:30]
        optimizer.zero_grad()
        loss(encoder(x[rows]), y[rows]).backward()
        optimizer.step()
    assert order() > max(0.9, before + 0.2)


def test_half_precision_is_widened() -> None:
    x, y = batch(12, 3)
    loss = PDDMLoss(8, generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = loss(x.to(torch.bfloat16), y)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, loss(x.to(torch.bfloat16).float(), y))


def test_bad_input() -> None:
    x, y = batch(6, 2)
    with pytest.raises(ShapeError, match="`embeddings` must have 5 columns, got 8"):
        make(5)(x, y)
    with pytest.raises(NotFiniteError, match="`embeddings` must be finite"):
        make()(x * float("nan"), y)
    with pytest.raises(ShapeError, match="one entry for each of the 6 rows, got 5"):
        make()(x, y[:5])
    with pytest.raises(ParameterError, match="`quadruplets` must be at least 1"):
        make(quadruplets=0)
    with pytest.raises(ParameterError, match="`score_margin` must be at least 0"):
        make(score_margin=-1.0)
