"""Relation alignment: planted solutions, units, the affine form, hard pairs and partners."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from every_loss import value_and_gradient
from nearer.estimators.relation._hraml import draw_partners
from nearer.exceptions import NearerWarning, ParameterError
from nearer.losses import RelationAlignmentLoss
from nearer.losses.pairs._relation_alignment import best_line, moments
from nearer.mining import LargestErrors
from nearer.pairwise._panels import tile_size
from nearer.relations import LabelDistributions, MultiLabels, Numbers, Pairs, PartialLabels, Relation
from nearer_papers.systems import RandomPairs


def label_sets(n: int = 40, q: int = 6, seed: int = 0) -> Tensor:
    return (torch.rand(n, q, generator=torch.Generator().manual_seed(seed)) > 0.6).double()


def by_hand(x: Tensor, target: Tensor, known: Tensor) -> float:
    z = torch.nn.functional.normalize(x, dim=1)
    total, count = 0.0, 0
    for i in range(len(x)):
        for j in range(len(x)):
            if i != j and known[i, j]:
                total += (float((z[i] - z[j]).square().sum()) - float(target[i, j])) ** 2
                count += 1
    return total / max(count, 1)


def test_planted_embeddings_reach_zero() -> None:
    y = label_sets()
    f = (2 * y - 1) / math.sqrt(6)
    assert RelationAlignmentLoss()(f, MultiLabels(y, function="l1")).item() < 1e-12
    p = torch.softmax(torch.randn(20, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64), 1)
    assert RelationAlignmentLoss()(p.sqrt(), LabelDistributions(p, function="hellinger")).item() < 1e-12
    rotation = torch.linalg.qr(torch.randn(4, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64))[
        0
    ]
    x = torch.randn(20, 4, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    relation = LabelDistributions(p)
    torch.testing.assert_close(
        RelationAlignmentLoss()(x @ rotation, relation), RelationAlignmentLoss()(x, relation)
    )


def test_one_hot_needs_as_many_dimensions_as_classes() -> None:
    """In fewer dimensions than classes orthogonal directions do not exist: the best loss found stays above 0."""
    y = torch.arange(4)
    best = {}
    for d in (3, 4):
        x = torch.nn.Parameter(torch.randn(4, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64))
        optimizer = torch.optim.LBFGS([x], max_iter=200, tolerance_grad=1e-12)

        def closure(x: Tensor = x, optimizer: torch.optim.Optimizer = optimizer) -> Tensor:
            optimizer.zero_grad()
            value = RelationAlignmentLoss()(x, y)
            value.backward()
            return value

        optimizer.step(closure)
        best[d] = RelationAlignmentLoss()(x, y).item()
    assert best[4] < 1e-8
    assert best[3] > 0.1


@pytest.mark.parametrize("name", ["sets", "distributions", "numbers", "partial", "pairs"])
def test_against_a_loop(name: str) -> None:
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(12, 3, generator=generator, dtype=torch.float64)
    shares = torch.rand(12, 3, generator=generator, dtype=torch.float64)
    relation: Relation = {
        "sets": MultiLabels(label_sets(12, 5)),
        "distributions": LabelDistributions(shares / shares.sum(1, keepdim=True), function="jensen_shannon"),
        "numbers": Numbers(shares[:, 0]),
        "partial": PartialLabels([0, 1, -1, 0, 1, 2, -1, 2, 0, 1, 1, 2]),
        "pairs": Pairs(12, positive=[[0, 1], [2, 3]], negative=[[0, 5]]),
    }[name]
    degree, known = relation.degrees()
    expected = by_hand(x, relation.farthest * (1 - degree), known)
    for tile in (None, 5):
        with tile_size(tile):
            assert RelationAlignmentLoss()(x, relation).item() == pytest.approx(expected, rel=1e-6)


def test_units() -> None:
    """Six labels: 4/q·L1 by default, L1 itself with "none" (out of reach), 4 at most with "max"."""
    y, x = label_sets(), torch.randn(40, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    relation = MultiLabels(y, function="l1")
    count = (y[:, None] - y[None]).abs().sum(2)
    known = torch.ones(40, 40, dtype=torch.bool)
    for scale, factor in (("attainable", 4 / 6), ("max", 4 / 6), (0.25, 0.25)):
        expected = by_hand(x, count * factor, known)
        assert RelationAlignmentLoss(scale=scale)(x, relation).item() == pytest.approx(expected, rel=1e-5)
    loss = RelationAlignmentLoss(scale="none")
    with pytest.warns(NearerWarning, match="at most 4, and the relation asks for 6"):
        value = loss(x, relation)
    assert value.item() == pytest.approx(by_hand(x, count, known), rel=1e-5)
    assert loss(x, relation) == value, "said once"
    with pytest.raises(ParameterError, match="Did you mean 'affine'"):
        RelationAlignmentLoss(scale="afine")
    with pytest.raises(ParameterError, match="greater than 0"):
        RelationAlignmentLoss(scale=0.0)


def test_affine_forgives_a_shift_and_a_smaller_copy_but_not_a_collapse() -> None:
    y = label_sets()
    relation = MultiLabels(y, function="l1")
    # One more coordinate that all share makes D² a copy of g, 0.36 times as large.
    f = torch.cat([(2 * y - 1) / math.sqrt(6) * 0.6, torch.full((40, 1), 0.8)], 1)
    plain, affine = (RelationAlignmentLoss(scale=scale)(f, relation).item() for scale in ("attainable", "affine"))
    assert plain > 0.1
    assert affine < 1e-10
    assert RelationAlignmentLoss(scale="affine")(torch.ones(40, 3), relation).item() > 0.1
    line = best_line(moments(torch.rand(9), torch.zeros(9), torch.ones(9, dtype=torch.bool)))
    assert line.slope == 1.0


@pytest.mark.parametrize("scale", ["attainable", "affine"])
def test_largest_errors_are_the_largest(scale: str) -> None:
    y, x = label_sets(), torch.randn(40, 5, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    relation = MultiLabels(y, function="l1")
    z = torch.nn.functional.normalize(x, dim=1)
    error = ((2 - 2 * z @ z.T) - relation.farthest * (1 - relation.degrees()[0].double())).square()
    off = error[~torch.eye(40, dtype=torch.bool)]
    expected = off.sort(descending=True)[0][: math.ceil(0.25 * off.numel())].mean()
    loss = RelationAlignmentLoss(scale=scale, miner=LargestErrors(0.25))
    if scale == "attainable":
        assert loss(x, relation).item() == pytest.approx(expected.item(), rel=1e-6)
    found = value_and_gradient(loss, x, relation)
    with tile_size(6):
        tiled = value_and_gradient(loss, x, relation)
    dense = value_and_gradient(loss.dense, x, relation)
    for other in (tiled, dense):
        torch.testing.assert_close(other, found, rtol=1e-8, atol=1e-11)


def test_a_random_miner_draws_once_in_the_affine_form() -> None:
    y, x = label_sets(), torch.randn(40, 5, generator=torch.Generator().manual_seed(4), dtype=torch.float64)

    def value(tile: int | None) -> Tensor:
        miner = RandomPairs(positives=3, negatives=3, generator=torch.Generator().manual_seed(0))
        with tile_size(tile):
            return RelationAlignmentLoss(scale="affine", miner=miner)(x, MultiLabels(y))

    torch.testing.assert_close(value(7), value(None))


def test_partners_are_far_more_alike_than_chance() -> None:
    y = label_sets(300, 6)
    relation = MultiLabels(y, function="l1")
    target = relation.farthest * (1 - relation.degrees()[0])
    anchors = torch.arange(300)
    means = {}
    for sharpness in (0.0, 1.0, 4.0):
        partners = draw_partners(
            relation, anchors, count=3, sharpness=sharpness, generator=torch.Generator().manual_seed(0)
        )
        assert partners.shape == (300, 3)
        assert not (partners == anchors[:, None]).any()
        assert (partners.sort(1)[0].diff(dim=1) > 0).all(), "without replacement"
        means[sharpness] = float(target[anchors[:, None], partners].mean())
    uniform = float(target.sum() / (300 * 299))
    assert means[0.0] == pytest.approx(uniform, rel=0.1)
    assert means[1.0] < 0.1 * uniform
    assert means[4.0] <= means[1.0]


def test_partners_follow_their_probabilities() -> None:
    """g = 0.5, 1, 2 from the first item: shares 4/7, 2/7, 1/7 at sharpness 1."""
    relation = Numbers([0.0, 1.0, 2.0, 4.0])
    drawn = draw_partners(
        relation, torch.zeros(20_000, dtype=torch.int64), generator=torch.Generator().manual_seed(1)
    )
    share = torch.bincount(drawn[:, 0], minlength=4) / 20_000
    torch.testing.assert_close(share, torch.tensor([0.0, 4, 2, 1]) / 7, atol=0.015, rtol=0)


def test_partners_that_are_few_or_unknown() -> None:
    assert draw_partners(PartialLabels([0, 0, -1]), torch.tensor([0, 2]), count=2).tolist() == [[1, 1], [2, 2]]
    assert draw_partners(PartialLabels([0, 0]), torch.tensor([1]), count=3).tolist() == [[0, 0, 0]]
    with pytest.raises(ParameterError, match="`sharpness` must be at least 0"):
        draw_partners(PartialLabels([0, 0]), torch.tensor([1]), sharpness=-1.0)
