"""Parzen's density and pseudo-labels."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nearer.estimators.partial._isdml import parzen_density
from nearer.exceptions import NearerError, ParameterError
from nearer.graph import class_shares, nearest_neighbors, propagate
from nearer.graph._propagation import two_sided_affinity
from nearer.neighbors import Neighbors


def test_parzen_is_the_sum_of_kernels_and_does_not_underflow() -> None:
    x = np.random.default_rng(0).normal(size=(50, 3))
    kernel = np.exp(-((x[:, None] - x[None]) ** 2).sum(2) / (2 * 0.7**2)).sum(1)
    np.testing.assert_allclose(parzen_density(x, width=0.7, block=8), kernel / kernel.max(), rtol=1e-12)
    assert (parzen_density(x, width=1e-9) == 1).all()
    with pytest.raises(NearerError, match="`width` must be greater than 0"):
        parzen_density(x, width=0.0)


def test_one_label_per_cluster_spreads_over_it() -> None:
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(90) % 3
    x = 5 * torch.eye(3)[y] + 0.3 * torch.randn(90, 3, generator=generator)
    labels = torch.where(torch.arange(90) < 3, y, -1)
    spread = class_shares(nearest_neighbors(x, k=6), labels)
    lead = spread.lead
    assert (spread.pseudo_labels == y).all()
    assert ((lead >= 0) & (lead <= 1)).all()
    assert (lead[:3] == 1).all()


def test_a_thick_class_does_not_swallow_a_thin_one() -> None:
    """Nine labels of one class and one of the other: equal sums by default, the wish of the caller with `prior`."""
    near = Neighbors(torch.tensor([[1, 2], [0, 2], [0, 1]]), torch.ones(3, 2))
    assert class_shares(near, [0, 1, -1]).pseudo_labels.tolist()[:2] == [0, 1]
    assert class_shares(near, [0, 1, -1], prior=torch.tensor([0.1, 0.9])).pseudo_labels.tolist() == [0, 1, 1]


def test_what_no_label_reaches_stays_unknown() -> None:
    near = Neighbors(torch.tensor([[1], [0], [3], [2]]), torch.ones(4, 1))
    spread = class_shares(near, [7, -1, -1, -1])
    assert spread.pseudo_labels.tolist() == [7, 7, -1, -1]
    assert spread.lead.tolist() == [1, 1, 0, 0]


def test_class_shares_are_the_walk_with_balanced_columns() -> None:
    x = torch.randn(80, 4, generator=torch.Generator().manual_seed(0))
    labels = torch.full((80,), -1)
    labels[:9] = torch.arange(9) % 3 * 2
    near = nearest_neighbors(x, k=5)
    found = class_shares(near, labels, gamma=0.9)
    assert found.classes.tolist() == [0, 2, 4]
    q = torch.zeros(80, 80, dtype=torch.float64).scatter_(1, near.indices, 1 / 5)
    indicator = (labels[:, None] == found.classes).double()
    reach = 0.1 * torch.linalg.solve(torch.eye(80, dtype=torch.float64) - 0.9 * q, indicator)
    mass = reach / reach.sum(dim=0)
    expected = torch.where(reach.sum(dim=1, keepdim=True) > 1e-12, mass / mass.sum(dim=1, keepdim=True), 0.0)
    expected[:9] = indicator[:9]
    torch.testing.assert_close(found.shares, expected.nan_to_num(0), atol=1e-7, rtol=1e-6)
    best = expected.sort(dim=1).values
    torch.testing.assert_close(found.lead, best[:, -1] - best[:, -2], atol=1e-7, rtol=1e-6)
    assert torch.equal(found.pseudo_labels, found.classes[expected.argmax(dim=1)])


def test_class_shares_of_one_class_and_of_none() -> None:
    near = Neighbors(torch.tensor([[1], [0], [3], [2]]), torch.ones(4, 1))
    alone = class_shares(near, [7, -1, -1, -1])
    assert alone.shares.tolist() == [[1.0], [1.0], [0.0], [0.0]]
    assert alone.lead.tolist() == [1.0, 1.0, 0.0, 0.0]
    assert alone.pseudo_labels.tolist() == [7, 7, -1, -1]
    nothing = class_shares(near, [-1] * 4)
    assert nothing.shares.shape == (4, 0)
    assert nothing.lead.tolist() == [0.0] * 4
    assert nothing.pseudo_labels.tolist() == [-1] * 4


def blobs_graph(n: int) -> tuple[Neighbors, np.ndarray, np.ndarray]:
    chance = np.random.default_rng(5)
    centers, group = chance.normal(size=(6, 5)), chance.integers(0, 6, n)
    near = nearest_neighbors(centers[group] + 0.6 * chance.normal(size=(n, 5)), k=6)
    return near, group % 3, np.where(chance.random(n) < 0.05, group % 3, -1)


def test_shares_in_float32_have_three_digits_and_the_same_classes() -> None:
    near, truth, labels = blobs_graph(3000)
    exact, quick = class_shares(near, labels, rtol=1e-9), class_shares(near, labels, rtol=1e-3)
    assert quick.shares.dtype == torch.float32
    assert exact.shares.dtype == torch.float64
    assert float((quick.pseudo_labels == exact.pseudo_labels).double().mean()) > 0.995
    assert float((quick.shares - exact.shares).abs().quantile(0.999)) < 0.02
    np.testing.assert_allclose(quick.shares.sum(dim=1).numpy(), 1, atol=1e-5)
    # Between the two, float32 shares are no less right than float64 ones.
    right = [float((one.pseudo_labels.numpy() == truth).mean()) for one in (exact, quick)]
    assert abs(right[0] - right[1]) < 0.002


def test_many_items_are_solved_to_three_digits_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    near, _, labels = blobs_graph(400)
    assert class_shares(near, labels).shares.dtype == torch.float64
    monkeypatch.setattr("nearer.graph._propagation.QUICK_FROM", 400)
    assert class_shares(near, labels).shares.dtype == torch.float32
    assert class_shares(near, labels, rtol=1e-9).shares.dtype == torch.float64
    assert class_shares(near, labels).pseudo_labels.shape == (400,)


def test_what_no_label_reaches_stays_unreached_in_float32() -> None:
    # Two rings without an edge between them, a label in the first alone.
    ring = torch.tensor([[1, 2], [2, 0], [0, 1], [4, 5], [5, 3], [3, 4]])
    near = Neighbors(ring, torch.ones(6, 2))
    for rtol in (1e-9, 1e-3):
        found = class_shares(near, [4, -1, -1, -1, -1, -1], rtol=rtol)
        assert found.pseudo_labels.tolist() == [4, 4, 4, -1, -1, -1]
    with pytest.raises(ParameterError, match="rtol"):
        class_shares(near, [4, -1, -1, -1, -1, -1], rtol=0)


def test_two_sided_affinities_do_not_depend_on_the_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    near, _, labels = blobs_graph(300)
    whole = propagate(near, labels, two_sided=True)
    table = two_sided_affinity(whole.reach, whole.reach)
    np.testing.assert_allclose(whole.edges, table.gather(1, near.indices), atol=1e-12)
    monkeypatch.setattr("nearer.graph._propagation._GATHERED", 100)
    np.testing.assert_allclose(propagate(near, labels, two_sided=True).edges, whole.edges, atol=1e-15)
