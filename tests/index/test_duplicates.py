"""Near-duplicates against a loop, on planted copies, and where the candidates come from neighbors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearer.exceptions import ParameterError, ShapeError
from nearer.index import _duplicates as duplicates
from nearer.index import find_duplicates


def by_loop(rows: np.ndarray, limit: float) -> list[set[int]]:
    groups = [{n} for n in range(len(rows))]
    for i in range(len(rows)):
        for j in range(i):
            apart = np.float32(np.sqrt(((rows[i].astype(np.float64) - rows[j]) ** 2).sum()))
            if apart <= np.float32(limit):
                one = next(group for group in groups if i in group)
                other = next(group for group in groups if j in group)
                if one is not other:
                    one |= other
                    groups.remove(other)
    return sorted((group for group in groups if len(group) > 1), key=min)


@given(st.integers(1, 40), st.integers(1, 3), st.integers(0, 10**6), st.sampled_from([0.0, 0.5, 1.0, 1.5]))
@settings(max_examples=60, deadline=None)
def test_groups_are_those_of_a_loop(n: int, d: int, seed: int, limit: float) -> None:
    rows = np.random.default_rng(seed).integers(0, 12, (n, d)).astype(np.float32) / 2
    found = find_duplicates(rows, threshold=limit)
    expected = by_loop(rows, limit)
    assert [set(np.flatnonzero(found.groups == number).tolist()) for number in range(len(expected))] == expected
    assert (found.groups >= 0).sum() == sum(map(len, expected))
    assert np.flatnonzero(~found.keep).tolist() == sorted(i for group in expected for i in group - {min(group)})
    assert found.recall == 1
    for (one, other), apart in zip(found.pairs.tolist(), found.pair_distances.tolist(), strict=True):
        assert one < other
        assert apart <= limit
        assert apart == np.float32(np.linalg.norm(rows[one].astype(np.float64) - rows[other]))


def planted(n: int, copies: int, d: int = 16) -> tuple[np.ndarray, np.ndarray]:
    """Rows of which the last are copies with a little noise, and the row that each copies."""
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(n, d)).astype(np.float32)
    source = generator.permutation(n - copies)[:copies]
    rows[n - copies :] = rows[source] + 1e-3 * generator.normal(size=(copies, d))
    return rows, source


def test_planted_copies_are_found_among_neighbors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duplicates, "EXACT_UP_TO", 1000)
    rows, source = planted(6000, 300)
    rows[17] = rows[3]
    found = find_duplicates(rows)
    tenth = np.sort(np.linalg.norm(rows[:200, None] - rows[None], axis=2), axis=1)[:, 10]
    assert found.threshold == pytest.approx(0.1 * np.median(tenth), rel=0.05)
    assert found.recall is not None
    assert found.recall > 0.95
    assert "of the pairs of a sample were found" in found.rule
    assert np.mean(found.groups[5700:] == found.groups[source]) > 0.97
    assert found.groups[17] == found.groups[3] >= 0
    assert not found.keep[17]
    assert found.keep[source].mean() > 0.97
    assert "near-duplicates of others" in str(found)


def test_the_best_is_kept() -> None:
    rows = np.array([[0.0], [0.1], [0.2], [7.0]])
    assert find_duplicates(rows, threshold=0.15).kept.tolist() == [0, 0, 0, 3]
    middle = find_duplicates(rows, threshold=0.15, keep="best")
    assert middle.kept.tolist() == [1, 1, 1, 3]
    np.testing.assert_allclose(middle.distances, [0.1, 0, 0.1, 0], atol=1e-6)
    assert find_duplicates(rows, threshold=0.15, keep="best", scores=[1, 2, 9, 0]).kept.tolist() == [2, 2, 2, 3]


def test_nothing_and_all_the_same() -> None:
    alone = find_duplicates(np.eye(3), threshold=0.5)
    assert alone.keep.all()
    assert alone.pairs.shape == (0, 2)
    same = find_duplicates(np.ones((30_000, 2)))
    assert same.keep.sum() == 1
    assert len(same.pairs) == 29_999
    assert find_duplicates([[1.0]]).groups.tolist() == [-1]


def test_bad_input_is_named() -> None:
    with pytest.raises(ParameterError, match="`threshold` must be at least 0"):
        find_duplicates(np.eye(2), threshold=-1)
    with pytest.raises(ShapeError, match="`scores` must have one number for each of the 2 rows"):
        find_duplicates(np.eye(2), keep="best", scores=[1])
    with pytest.raises(ParameterError, match="`keep` must be one of"):
        find_duplicates(np.eye(2), keep="last")  # type: ignore[arg-type]
