"""Facility location: all subsets of tiny batches, printed scores, NMI against scikit-learn, planted clusters."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import normalized_mutual_info_score
from torch import Tensor

from every_loss import batch, value_and_gradient
from nearer.exceptions import LabelError, ParameterError, ShapeError
from nearer.pairwise._function import normalize_rows
from nearer.relations import ClassLabels
from nearer_papers.systems import FacilityLocationLoss
from nearer_papers.systems._facility_location import choose_medoids, distances_of, nmi


def augmented(d: Tensor, y: Tensor, medoids: list[int], gamma: float) -> float:
    """f(S) + γ(1 − NMI) as printed."""
    place = d[:, medoids].argmin(1).tolist()
    return -float(d[:, medoids].min(1)[0].sum()) + gamma * (1 - naive_nmi(place, y.tolist()))


def naive_nmi(a: list[int], b: list[int]) -> float:
    def entropy(items: list[object]) -> float:
        return -sum(count / len(items) * math.log(count / len(items)) for count in Counter(items).values())

    h_a, h_b, joint = entropy([*a]), entropy([*b]), entropy([*zip(a, b, strict=True)])
    return max(0.0, h_a + h_b - joint) / max(math.sqrt(h_a * h_b), 1e-10)


def distances(x: Tensor) -> Tensor:
    """As the loss has them: a cluster of two has two medoids, and which one depends on the last digit."""
    z = normalize_rows(x)[0]
    return distances_of(z @ z.T)


def oracle(d: Tensor, y: Tensor) -> float:
    return sum(max(-float(d[y == c][:, j].sum()) for j in (y == c).nonzero()[:, 0]) for c in y.unique())


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 1.0, 5.0]))
def test_inference_never_exceeds_all_subsets_and_the_value_is_that_of_its_set(seed: int, gamma: float) -> None:
    x, y = batch(8, 3, dimension=3, seed=seed)
    k = len(y.unique())
    d = distances(x)
    chosen = choose_medoids(d, y, gamma=gamma).tolist()
    assert len(set(chosen)) == k
    ours = augmented(d, y, chosen, gamma)
    best = max(augmented(d, y, list(subset), gamma) for subset in itertools.combinations(range(8), k))
    assert ours <= best + 1e-9
    if k > 1:
        value = FacilityLocationLoss(gamma=gamma)(x, y)
        assert float(value) == pytest.approx(max(0.0, ours - oracle(d, y)), abs=1e-6)
    # No exchange of one medoid for an item of its cluster is better: that is where the sweeps end.
    place = d[:, chosen].argmin(1)
    for at, item in itertools.product(range(k), range(8)):
        if place[item] == at and item not in chosen:
            other = [*chosen[:at], item, *chosen[at + 1 :]]
            assert augmented(d, y, other, gamma) <= ours + 1e-6


def test_inference_mostly_finds_the_best_of_all_subsets() -> None:
    found = 0
    for seed in range(60):
        x, y = batch(9, 3, dimension=3, seed=seed)
        d, k = distances(x), len(y.unique())
        best = max(augmented(d, y, list(subset), 1.0) for subset in itertools.combinations(range(9), k))
        found += augmented(d, y, choose_medoids(d, y).tolist(), 1.0) >= best - 1e-9
    assert found >= 50


def test_greedy_alone_takes_the_best_addition_each_time() -> None:
    x, y = batch(12, 4, seed=5)
    d = distances(x)
    chosen: list[int] = []
    for _ in range(len(y.unique())):
        left = [j for j in range(12) if j not in chosen]
        values = [augmented(d, y, [*chosen, j], 2.0) for j in left]
        chosen.append(left[values.index(max(values))])
    assert choose_medoids(d, y, gamma=2.0, sweeps=0).tolist() == chosen


def test_sweeps_improve_on_greedy() -> None:
    gains = []
    for seed in range(30):
        x, y = batch(30, 5, seed=seed)
        d = distances(x)
        greedy, swept = (augmented(d, y, choose_medoids(d, y, sweeps=n).tolist(), 1.0) for n in (0, 5))
        gains.append(swept - greedy)
    assert min(gains) >= -1e-9
    assert max(gains) > 0.01


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=20))
def test_nmi_is_the_geometric_one(pairs: list[tuple[int, int]]) -> None:
    a, b = torch.tensor(pairs).T
    expected = normalized_mutual_info_score(a.numpy(), b.numpy(), average_method="geometric")
    if len(a.unique()) > 1 and len(b.unique()) > 1:
        assert nmi(a, b) == pytest.approx(expected, abs=1e-9)
    else:  # an entropy of 0: the clamped denominator gives 0
        assert nmi(a, b) == 0


def test_tight_classes_cost_nothing_and_mixed_ones_learn() -> None:
    y = torch.arange(24) % 4
    tight = torch.eye(4, dtype=torch.float64)[y] + 0.02 * batch(24, 4, 4)[0]
    assert FacilityLocationLoss()(tight, y) == 0
    torch.manual_seed(0)
    x = torch.randn(24, 4, dtype=torch.float64, requires_grad=True)
    loss = FacilityLocationLoss(reduction="mean")
    first = loss(x, y).item()
    optimizer = torch.optim.Adam([x], lr=0.05)
    for _ in range(150):
        optimizer.zero_grad()
        value = loss(x, y)
        value.backward()
        optimizer.step()
    assert value.item() < 0.1 * first


def test_equal_items_have_no_gradient_and_no_nan() -> None:
    x = torch.eye(3, dtype=torch.float64)[[0, 0, 1, 1, 2, 2]]
    value, gradient = value_and_gradient(FacilityLocationLoss(), x, torch.tensor([0, 1, 0, 1, 0, 1]))
    assert value > 0
    assert torch.isfinite(gradient).all()


def test_bad_input() -> None:
    with pytest.raises(ParameterError, match="`gamma` must be at least 0"):
        FacilityLocationLoss(gamma=-1.0)
    with pytest.raises(ShapeError, match=r"`distance` must have shape \(n, n\), got \(2, 3\)"):
        choose_medoids(torch.zeros(2, 3), [0, 1])
    x, y = batch(6, 2)
    with pytest.raises(LabelError, match="FacilityLocationLoss needs class labels and takes no `database`"):
        FacilityLocationLoss().weights(torch.zeros(2, 3), ClassLabels(y[:2], y[:3]))
    with pytest.raises(LabelError, match="FacilityLocationLoss needs class labels"):
        FacilityLocationLoss()(x, y, database=x, database_labels=y)
