"""Triplets in neighbourhoods: hand-made affinities, counts, ties, permutations; and triplets by sign."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nearer.exceptions import NearerError
from nearer.graph import nearest_neighbors
from nearer.mining._neighborhood import mine_neighborhood, mine_signed
from nearer.neighbors import Neighbors


def test_five_items_by_hand() -> None:
    near = Neighbors(torch.tensor([[1, 2, 3, 4]] * 1 + [[0, 2, 3, 4]] + [[0, 1, 3, 4]] * 3), torch.ones(5, 4))
    affinity = torch.tensor([[0.1, 0.4, -0.2, 0.3]] * 5)
    found = mine_neighborhood(near, affinity)[:4]
    # Falling order of anchor 0: 2, 4 | 1, 3, paired by rank.
    assert found.tolist() == [[0, 2, 1], [0, 4, 3], [1, 2, 0], [1, 4, 3]]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.integers(5, 30), st.integers(1, 12), st.booleans())
def test_counts_places_and_determinism_under_ties(seed: int, n: int, k: int, ties: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    near = nearest_neighbors(torch.randn(n, 3, generator=generator), k=k)
    affinity = torch.randint(0, 3, (n, near.k), generator=generator).double() if ties else torch.rand(n, near.k)
    found = mine_neighborhood(near, affinity)
    h = near.k // 2
    assert found.shape == (n * h, 3)
    assert torch.equal(found, mine_neighborhood(near, affinity))
    value = {(i, j): float(affinity[i, c]) for i in range(n) for c, j in enumerate(near.indices[i].tolist())}
    for a, p, q in found.tolist():
        assert len({a, p, q}) == 3
        assert value[a, p] >= value[a, q]


def test_equal_affinities_are_ordered_by_distance_whatever_the_columns() -> None:
    near = Neighbors(torch.tensor([[1, 2, 3, 4]] * 5), torch.arange(4.0).expand(5, 4))
    assert mine_neighborhood(near, torch.zeros(5, 4))[:2].tolist() == [[0, 1, 3], [0, 2, 4]]


def test_an_odd_k_leaves_the_middle_out() -> None:
    near = Neighbors(torch.tensor([[1, 2, 3]] * 4), torch.ones(4, 3))
    assert mine_neighborhood(near, [[3, 2, 1]] * 4)[:1].tolist() == [[0, 1, 3]]


@pytest.mark.parametrize(
    ("affinity", "message"),
    [
        (torch.zeros(3, 2), r"`affinity` must have the shape \(4, 3\)"),
        (torch.full((4, 3), torch.nan), "must be finite"),
    ],
)
def test_bad_input(affinity: Any, message: str) -> None:
    with pytest.raises(NearerError, match=message):
        mine_neighborhood(Neighbors(torch.tensor([[1, 2, 3]] * 4), torch.ones(4, 3)), affinity)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.integers(2, 20), st.integers(1, 4))
def test_signed_triplets_keep_their_sides(seed: int, n: int, h: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 3, (n,), generator=generator)
    affinity = torch.where(labels[:, None] == labels, 1.0, -0.5)
    distance = torch.rand(n, n, generator=generator)
    found = mine_signed(distance, affinity, per_anchor=h, generator=generator)
    for a, p, q in found.tolist():
        assert a != p
        assert labels[a] == labels[p]
        assert labels[a] != labels[q]
    for a in range(n):
        positives, negatives = int((labels == labels[a]).sum()) - 1, int((labels != labels[a]).sum())
        mine = found[found[:, 0] == a]
        assert len(mine) == min(h, positives, negatives)
        near = distance[a][mine[:, 2]]
        assert (near.diff() >= 0).all()
        assert (distance[a][mine[:, 1]].diff() <= 0).all()


def test_pairs_of_no_clear_sign_are_left_out() -> None:
    assert len(mine_signed(torch.ones(4, 4), torch.full((4, 4), 0.1))) == 0
