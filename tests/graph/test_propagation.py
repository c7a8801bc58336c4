"""Propagation: the printed fixed point, closed forms, every mode against the inverse, certificates, bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nearer.exceptions import NearerError, NearerWarning
from nearer.graph import _propagation as P
from nearer.graph import _transition as transition
from nearer.graph import nearest_neighbors, propagate
from nearer.graph._entries import certify
from nearer.graph._local_lowrank import local_lowrank_entries
from nearer.graph._propagation import label_reach, two_sided_affinity
from nearer.graph._solvers import dense_walk
from nearer.graph._transition import Transition, solve
from nearer.mining._neighborhood import mine_neighborhood
from nearer.neighbors import Neighbors


def clusters(n: int, classes: int = 10, d: int = 32, spread: float = 0.7, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(n) % classes
    centers = torch.nn.functional.normalize(torch.randn(classes, d, generator=generator), dim=1)
    return centers[y] + spread * torch.randn(n, d, generator=generator) / d**0.5, y


def few(y: Tensor, per_class: int) -> Tensor:
    labels = torch.full_like(y, -1)
    for c in torch.unique(y).tolist():
        labels[(y == c).nonzero()[:per_class, 0]] = c
    return labels


def printed(near: Neighbors, labels: Tensor, gamma: float, nu: float) -> Tensor:
    """W by the iteration W ← γQW + (1 − γ)W⁰ on whole matrices, symmetrised."""
    n = near.n
    Q = torch.zeros(n, n, dtype=torch.float64).scatter_(1, near.indices, 1 / near.k)
    known = labels != -1
    both = known[:, None] & known
    start = torch.where(both, torch.where(labels[:, None] == labels, 1.0, -nu), 0.0).double()
    start.fill_diagonal_(1)
    W = start.clone()
    for _ in range(300):
        W = gamma * Q @ W + (1 - gamma) * start
    return (W + W.T) / 2


MODES = ["dense", "sparse_lu", "blocked", "local_lowrank", "auto"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("nu", [1.0, None])
def test_every_mode_is_the_printed_fixed_point(mode: Any, nu: float | None) -> None:
    x, y = clusters(120, classes=4)
    near, labels = nearest_neighbors(x, k=6), few(y, 3)
    found = propagate(near, labels, gamma=0.9, negative_weight=nu, mode=mode)
    expected = printed(near, labels, 0.9, 1 / 3 if nu is None else nu).gather(1, near.indices)
    tight = 1e-8 if mode in ("dense", "sparse_lu", "auto") else 2e-4
    torch.testing.assert_close(found.edges, expected, atol=tight, rtol=0)
    assert found.certificate is not None
    assert found.certificate.mean < (1e-6 if tight == 1e-8 else 0.01)
    assert found.classes.tolist() == [0, 1, 2, 3]
    assert (found.edges.abs() <= 1 + 1e-9).all()


@pytest.mark.parametrize(("mode", "n"), [("local_lowrank", 300), ("local_lowrank", 3000), ("blocked", 300)])
def test_modes_against_the_inverse_and_the_triplets_they_give(mode: Any, n: int) -> None:
    x, y = clusters(n)
    near, labels = nearest_neighbors(x, k=10), few(y, 10)
    exact, found = (propagate(near, labels, mode=one) for one in ("dense", mode))
    relative = ((found.edges - exact.edges).abs() / exact.edges.abs().clamp_min(1e-4)).mean()
    assert relative < 0.03
    half = [mine_neighborhood(near, one.edges)[:, 1].reshape(n, 5).sort(1).values for one in (exact, found)]
    agree = torch.tensor([len(set(a) & set(b)) for a, b in zip(half[0].tolist(), half[1].tolist(), strict=True)])
    assert agree.double().mean() / 5 > 0.98


def test_the_closed_form_on_a_directed_cycle() -> None:
    n, gamma = 7, 0.8
    walk = Transition((torch.arange(n)[:, None] + 1) % n)
    distance = (torch.arange(n) - torch.arange(n)[:, None]) % n
    expected = (1 - gamma) * gamma ** distance.double() / (1 - gamma**n)
    torch.testing.assert_close(dense_walk(walk, gamma), expected, atol=1e-14, rtol=0)
    torch.testing.assert_close(solve(walk, torch.eye(n).double(), gamma, rtol=1e-12), expected, atol=1e-10, rtol=0)


def test_rows_of_the_walk_sum_to_one_and_nothing_is_negative() -> None:
    x, _ = clusters(200)
    R = dense_walk(Transition(nearest_neighbors(x, k=5).indices), 0.99)
    torch.testing.assert_close(R.sum(1), torch.ones(200).double())
    assert (R >= 0).all()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(3, 40), st.sampled_from([0.3, 0.9, 0.99]), st.booleans())
def test_solves_are_exact_on_random_graphs(seed: int, n: int, gamma: float, transposed: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    k = int(torch.randint(1, min(n, 6), (), generator=generator))
    walk = Transition(torch.stack([torch.randperm(n, generator=generator)[:k] for _ in range(n)]))
    right = torch.randn(n, 3, dtype=torch.float64, generator=generator)
    right[:, 1] = 0
    whole = dense_walk(walk, gamma)
    expected = (whole.T if transposed else whole) @ right
    found = solve(walk, right, gamma, transposed=transposed, rtol=1e-10)
    torch.testing.assert_close(found, expected, atol=1e-7, rtol=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transition, "REFINED_ABOVE", 0)
        refined = solve(walk, right, gamma, transposed=transposed, rtol=1e-10)
    torch.testing.assert_close(refined, expected, atol=1e-7, rtol=0)
    rough = solve(walk, right.float(), gamma, transposed=transposed, rtol=1e-5)
    torch.testing.assert_close(rough.double(), expected, atol=2e-3, rtol=0)


def test_two_unlabeled_items_know_nothing_of_labels_but_two_sided_does() -> None:
    x, y = clusters(150, classes=3, spread=2.0)
    near = nearest_neighbors(x, k=6)
    labels = few(y, 5)
    other = torch.where(labels >= 0, (labels + 1) % 3, -1)
    other[labels == 0] = 0  # now a wrong labelling, not just other names
    free = labels == -1
    both = free[:, None] & free[near.indices]
    a, b = (propagate(near, one, mode="dense").edges for one in (labels, other))
    assert torch.equal(a[both], b[both])
    assert not torch.equal(a[~both], b[~both])
    a, b = (propagate(near, one, two_sided=True).edges for one in (labels, other))
    assert (a[both] - b[both]).abs().max() > 1e-4


def test_a_labeled_neighbor_is_a_friend_by_majority_or_by_balance() -> None:
    """ν = 1: W*_ij > 0 iff the class of j holds more than half of the label mass that i reaches."""
    x, y = clusters(400, classes=8, spread=2.0)
    near, labels = nearest_neighbors(x, k=8), few(y, 6)
    reach, _ = label_reach(near, labels)
    i, c = torch.arange(400)[:, None].expand(400, 8), near.indices
    chosen = (labels[c] >= 0) & (labels[i] == -1)
    own, total = reach.gather(1, labels[c].clamp_min(0)), reach.sum(1, keepdim=True)
    R = dense_walk(Transition(near.indices), 0.99)
    for nu in (1.0, 1 / 7):
        edges = propagate(near, labels, negative_weight=nu, mode="dense").edges
        forward = 2 * edges - R[c, i]  # W*_ij; W*_ji = R_ji for an unlabelled i
        torch.testing.assert_close((forward > 0)[chosen], (own > total * nu / (1 + nu))[chosen])


def test_two_sided_edges_are_the_matrix_of_pairs() -> None:
    x, y = clusters(60, classes=3)
    near, labels = nearest_neighbors(x, k=5), few(y, 4)
    found = propagate(near, labels, two_sided=True)
    K = 1.5 * torch.eye(3).double() - 0.5
    whole = found.reach @ K @ found.reach.T
    torch.testing.assert_close(found.edges, whole.gather(1, near.indices))
    torch.testing.assert_close(two_sided_affinity(found.reach, found.reach), whole)
    assert found.mode == "two_sided"


def grid(side: int) -> Tensor:
    a = torch.arange(side, dtype=torch.float64)
    noise = torch.Generator().manual_seed(0)
    points = torch.cartesian_prod(a, a)
    return points + 0.1 * torch.randn(points.shape, generator=noise, dtype=torch.float64)


def test_on_a_plane_the_certificate_refuses_the_low_rank_and_another_mode_takes_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(P, "RANKS", (4, 16))
    near = nearest_neighbors(grid(40), k=6, normalized=False)
    labels = torch.full((near.n,), -1)
    labels[[0, near.n - 1]] = torch.tensor([0, 1])
    found = propagate(near, labels, mode="local_lowrank")
    assert found.mode == "dense"
    assert [note.split(":")[0] for note in found.notes] == ["rank 4", "rank 16", "mode 'dense' took over"]
    monkeypatch.setattr(P, "DENSE_UP_TO", 100)
    assert propagate(near, labels, mode="local_lowrank").mode == "blocked"
    monkeypatch.setattr(P, "AUTO_BLOCKED_UP_TO", 100)
    with pytest.warns(NearerWarning, match="certificate of mode 'local_lowrank' should be at most"):
        assert propagate(near, labels, mode="local_lowrank").mode == "local_lowrank"


def test_the_certificate_accepts_by_its_99th_percentile() -> None:
    near = nearest_neighbors(clusters(800, spread=3.0)[0], k=10)
    labels = torch.full((near.n,), -1)
    labels[0] = 0
    found = certify(Transition(near.indices), 0.99, local_lowrank_entries(Transition(near.indices), 0.99))
    between = (found.mean + found.percentile_99) / 2
    # The mean alone would have been let through.
    assert found.mean < between < found.percentile_99
    refused = propagate(near, labels, mode="local_lowrank", tolerance=between)
    assert "at the 99th percentile" in refused.notes[0]
    assert propagate(near, labels, mode="local_lowrank", tolerance=1.01 * found.percentile_99).notes == ()


def test_a_higher_rank_helps_and_the_certificate_sees_it() -> None:
    walk = Transition(nearest_neighbors(clusters(800, spread=3.0)[0], k=10).indices)
    means = [certify(walk, 0.99, local_lowrank_entries(walk, 0.99, rank=r)).mean for r in (2, 64)]
    assert means[1] < means[0] / 1.5
    assert "exact columns" in str(certify(walk, 0.99, local_lowrank_entries(walk, 0.99)))


def test_without_labels_it_is_the_graph_alone_and_says_so() -> None:
    near = nearest_neighbors(clusters(50)[0], k=4)
    R = dense_walk(Transition(near.indices), 0.99)
    with pytest.warns(NearerWarning, match="should name at least one item"):
        found = propagate(near, [-1] * 50)
    torch.testing.assert_close(found.edges, ((R + R.T) / 2).gather(1, near.indices))
    assert found.reach.shape == (50, 0)


def test_one_class_alone_and_isolated_parts_are_harmless() -> None:
    x = torch.cat([torch.randn(20, 3) + 50, torch.randn(20, 3) - 50])
    near = nearest_neighbors(x, k=3, normalized=False)
    labels = torch.full((40,), -1)
    labels[0] = 4
    found = propagate(near, labels)
    assert torch.isfinite(found.edges).all()
    assert (found.reach[20:] == 0).all()
    assert found.classes.tolist() == [4]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gamma": 1.0}, "`gamma` must be below 1"),
        ({"gamma": 0.0}, "`gamma` must be greater than 0"),
        ({"negative_weight": 0.0}, "`negative_weight` must be greater than 0"),
        ({"mode": "sparse"}, "`mode` must be one of"),
        ({"tolerance": 0.0}, "`tolerance` must be greater"),
    ],
)
def test_bad_settings(options: dict[str, Any], message: str) -> None:
    near = nearest_neighbors(clusters(30)[0], k=3)
    with pytest.raises(NearerError, match=message):
        propagate(near, [0, 1] * 15, **options)


def test_bad_graphs_and_labels() -> None:
    near = nearest_neighbors(clusters(30)[0], k=3)
    with pytest.raises(NearerError, match="one entry for each of the 30 rows"):
        propagate(near, [0, 1])
    with pytest.raises(NearerError, match=r"integers of shape \(n, k\)"):
        Transition([0.5])
    with pytest.raises(NearerError, match="must lie between 0 and 1"):
        Transition([[0], [2]])
    with pytest.raises(NearerError, match=r"at most 15,000 items, got 15,001"):
        dense_walk(Transition(np.zeros((15_001, 1), dtype=np.int64)), 0.5)
