"""k-means: planted clusters, the definition of its result, and scikit-learn's best of ten starts."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from nearer.evaluation import kmeans, nmi
from nearer.exceptions import NotFiniteError, ParameterError, ShapeError


def blobs(n: int, k: int, d: int, noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % k
    return rng.normal(size=(k, d))[labels] + noise * rng.normal(size=(n, d)), labels


def inertia(points: np.ndarray, assignments: np.ndarray, centers: np.ndarray) -> float:
    return float(((points - centers[assignments]) ** 2).sum())


@pytest.mark.parametrize(("n", "k", "d"), [(60, 3, 2), (500, 10, 16), (900, 60, 8), (3000, 150, 12), (4000, 4, 3)])
def test_planted_clusters_are_found(n: int, k: int, d: int) -> None:
    points, labels = blobs(n, k, d, 0.02)
    result = kmeans(points, k)
    assert nmi(labels, result.assignments) == 1.0


def test_hundreds_of_clusters_are_found() -> None:
    points, labels = blobs(3000, 600, 16, 0.1)
    assert nmi(labels, kmeans(points, 600).assignments) > 0.99


@pytest.mark.parametrize(("k", "dtype"), [(1, np.float32), (7, np.float64), (30, np.float32)])
def test_the_result_is_what_it_says(k: int, dtype: Any) -> None:
    points, _ = blobs(400, 12, 5, 1.0)
    points = points.astype(dtype)
    result = kmeans(points, k)
    assert result.centers.shape == (k, 5)
    assert result.centers.dtype == dtype
    assert result.assignments.shape == (400,)
    assert set(result.assignments.tolist()) == set(range(k))
    for j in range(k):
        assert result.centers[j] == pytest.approx(points[result.assignments == j].mean(axis=0), abs=1e-5)
    assert result.inertia == pytest.approx(inertia(points, result.assignments, result.centers), rel=1e-5)
    # Almost every point is with its nearest centre: steps stop when the centres hardly move any more.
    distance = ((points[:, None] - result.centers[None]) ** 2).sum(axis=2)
    assert np.mean(distance.argmin(axis=1) == result.assignments) > 0.98


def test_the_seed_decides_everything() -> None:
    points, _ = blobs(2500, 25, 6, 0.8)
    first = kmeans(points, 25, seed=3)
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            again = kmeans(points, 25, seed=3)
            assert again.assignments.tolist() == first.assignments.tolist()
            assert again.inertia == first.inertia
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert kmeans(points, 25, seed=4).assignments.tolist() != first.assignments.tolist()


@pytest.mark.parametrize(("n", "k", "d", "noise"), [(1500, 10, 20, 1.0), (1200, 40, 30, 1.0), (3000, 25, 4, 0.6)])
def test_close_to_the_best_of_ten_starts(n: int, k: int, d: int, noise: float) -> None:
    from sklearn.cluster import KMeans

    points, _ = blobs(n, k, d, noise)
    theirs = KMeans(k, init="k-means++", n_init=10, random_state=0).fit(points).inertia_
    ours = np.mean([kmeans(points, k, seed=seed).inertia for seed in range(3)])
    assert ours <= theirs * 1.03


def test_uneven_distances_do_not_mislead_the_starts() -> None:
    """Two centres in one cluster and one between two: Lloyd's steps cannot leave that, another start can."""
    rng = np.random.default_rng(0)
    middle = np.array([[0.0, 0.0], [10.0, 0.0], [30.0, 0.0]])
    points = np.repeat(middle, 200, axis=0) + rng.normal(size=(600, 2))
    for seed in range(10):
        assert kmeans(points, 3, seed=seed).inertia < 1400


def test_as_many_clusters_as_points() -> None:
    points = np.random.default_rng(0).normal(size=(30, 4))
    result = kmeans(points, 30)
    assert sorted(result.assignments.tolist()) == list(range(30))
    assert result.inertia == pytest.approx(0, abs=1e-9)


def test_fewer_different_points_than_clusters() -> None:
    points = np.repeat([[0.0, 1.0], [5.0, 5.0]], 10, axis=0)
    result = kmeans(points, 4)
    assert result.inertia == 0.0
    assert len(set(result.assignments[:10].tolist()) & set(result.assignments[10:].tolist())) == 0
    same = kmeans(np.full((9, 2), 3.0), 3)
    assert same.inertia == 0.0
    assert np.isfinite(same.centers).all()


@pytest.mark.parametrize(("scale", "shift"), [(1e30, 0.0), (1e-30, 0.0), (1.0, 1e6), (3.0, -50.0)])
def test_scale_and_position_do_not_matter(scale: float, shift: float) -> None:
    points, labels = blobs(300, 6, 4, 0.05)
    assert nmi(labels, kmeans(points * scale + shift, 6).assignments) == 1.0


def test_input_of_any_kind_stays_as_it_was() -> None:
    whole = np.random.default_rng(0).integers(-20, 20, size=(80, 3))
    expected = kmeans(whole.astype(np.float64), 5).assignments.tolist()
    locked = whole.astype(np.float32)
    locked.flags.writeable = False
    for kind in (
        whole,
        whole.tolist(),
        locked,
        whole.astype(np.float16),
        torch.tensor(whole),
        locked[:, ::-1][:, ::-1],
    ):
        before = copy.deepcopy(kind)
        assert kmeans(kind, 5).assignments.tolist() == expected
        assert np.array_equal(before, kind)


def test_bad_input_is_refused() -> None:
    points = np.zeros((5, 2))
    with pytest.raises(ParameterError, match="`k` must be between 1 and 5, got 6"):
        kmeans(points, 6)
    with pytest.raises(ParameterError, match="between 1 and 5, got 0"):
        kmeans(points, 0)
    with pytest.raises(ParameterError, match="`seed` must be at least 0"):
        kmeans(points, 2, seed=-1)
    with pytest.raises(ShapeError, match=r"shape \(n, d\)"):
        kmeans([1.0, 2.0], 1)
    with pytest.raises(ShapeError, match="at least 1 row"):
        kmeans(np.empty((0, 2)), 1)
    with pytest.raises(NotFiniteError, match="must be finite"):
        kmeans([[np.nan]], 1)


def test_very_many_clusters_start_at_random_points(monkeypatch: pytest.MonkeyPatch) -> None:
    points, labels = blobs(400, 20, 5, 0.05)
    monkeypatch.setattr("nearer.evaluation._clustering.SEEDED", 400 * 20 - 1)
    first = kmeans(points, 20, seed=1)
    assert 0.8 < nmi(labels, first.assignments) < 1.0
    assert kmeans(points, 20, seed=1).assignments.tolist() == first.assignments.tolist()


def plain_rounds(points: np.ndarray, k: int, seed: int) -> np.ndarray:
    """Lloyd's rounds as they are printed, from the points that the quick form starts at."""
    random = np.random.RandomState(np.random.PCG64(seed))
    centers = points[random.permutation(len(points))[:k]]
    for _ in range(20):
        owner = ((points[:, None] - centers[None]) ** 2).sum(2).argmin(1)
        assert len(np.unique(owner)) == k  # or the two would go different ways
        centers = np.stack([points[owner == cluster].mean(0) for cluster in range(k)])
    return owner


@pytest.mark.parametrize(("n", "k", "seed"), [(300, 4, 0), (300, 4, 1), (500, 40, 2), (2500, 12, 3)])
def test_the_quick_form_makes_the_rounds_that_it_says(n: int, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(k, 6))[np.arange(n) % k] * 2 + rng.normal(size=(n, 6))
    found = kmeans(points, k, seed=seed, effort="quick").assignments
    # Single precision and another order of sums may bring a few points on a border to the other side.
    assert np.mean(found == plain_rounds(points, k, seed)) > 0.98


def test_the_quick_form_fills_empty_clusters_and_takes_equal_points() -> None:
    points = np.concatenate([np.zeros((50, 2)), [[9.0, 9.0], [-9.0, 9.0], [9.0, -9.0]]])
    result = kmeans(points, 4, effort="quick")
    assert result.inertia == pytest.approx(0, abs=1e-9)
    assert sorted(np.bincount(result.assignments).tolist()) == [1, 1, 1, 50]
    assert kmeans(np.full((9, 2), 3.0), 3, effort="quick").inertia == 0.0
    assert sorted(kmeans(np.arange(30.0)[:, None], 30, effort="quick").assignments.tolist()) == list(range(30))


def test_the_quick_form_is_the_same_for_the_same_seed_on_any_number_of_threads() -> None:
    points = np.random.default_rng(0).normal(size=(3000, 16))
    first = kmeans(points, 25, seed=3, effort="quick").assignments
    threads = torch.get_num_threads()
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            assert np.array_equal(kmeans(points, 25, seed=3, effort="quick").assignments, first)
    finally:
        torch.set_num_threads(threads)
    assert not np.array_equal(kmeans(points, 25, seed=4, effort="quick").assignments, first)
