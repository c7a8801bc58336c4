"""Near-duplicates against a loop, on planted copies, and where the candidates come from neighbors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearer.exceptions import ParameterError, ShapeError
from nearer.index import _duplicates as duplicates
from nearer.index import find_duplicates


def by_loop(rows: np.ndarray, limit: float) -> dict[int, int]:
    """For every item the one that is kept: the first that is not taken takes all near it that are left."""
    kept: dict[int, int] = {}
    for i in range(len(rows)):
        if i not in kept:
            for j in range(i, len(rows)):
                apart = np.float32(np.sqrt(((rows[i].astype(np.float64) - rows[j]) ** 2).sum()))
                if j not in kept and apart <= np.float32(limit):
                    kept[j] = i
    return kept


@given(st.integers(1, 40), st.integers(1, 3), st.integers(0, 10**6), st.sampled_from([0.0, 0.5, 1.0, 1.5]))
@settings(max_examples=60, deadline=None)
def test_kept_items_are_those_of_a_loop(n: int, d: int, seed: int, limit: float) -> None:
    rows = np.random.default_rng(seed).integers(0, 12, (n, d)).astype(np.float32) / 2
    found = find_duplicates(rows, threshold=limit)
    expected = by_loop(rows, limit)
    assert dict(enumerate(found.kept.tolist())) == expected
    assert np.flatnonzero(found.keep).tolist() == sorted(set(expected.values()))
    several = sorted({kept for item, kept in expected.items() if kept != item})
    for number, kept in enumerate(several):
        assert set(np.flatnonzero(found.groups == number).tolist()) == {
            i for i, of in expected.items() if of == kept
        }
    assert set(found.groups.tolist()) - {-1} == set(range(len(several)))
    assert (found.distances <= np.float32(limit)).all()
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
    assert "near-duplicates among 6,000 items" in str(found)


def test_the_best_is_kept() -> None:
    rows = np.array([[0.0], [0.1], [0.2], [7.0]])
    # The last of the chain is no duplicate of the first.
    assert find_duplicates(rows, threshold=0.15).kept.tolist() == [0, 0, 2, 3]
    middle = find_duplicates(rows, threshold=0.15, keep="best")
    assert middle.kept.tolist() == [1, 1, 1, 3]
    np.testing.assert_allclose(middle.distances, [0.1, 0, 0.1, 0], atol=1e-6)
    assert find_duplicates(rows, threshold=0.15, keep="best", scores=[1, 2, 9, 0]).kept.tolist() == [0, 2, 2, 3]
    # Of equal rows the best stands for all.
    equal = np.array([[0.0], [0.0], [0.1], [0.0]])
    assert find_duplicates(equal, threshold=0.15, keep="best", scores=[1, 5, 2, 3]).kept.tolist() == [1] * 4


def test_a_chain_is_no_group() -> None:
    found = find_duplicates(np.arange(24.0)[:, None], threshold=1.0, keep="best")
    assert found.distances.max() == 1
    assert np.bincount(found.groups[found.groups >= 0]).max() == 3


def test_listed_pairs_are_duplicates_whatever_their_distance() -> None:
    rows = [[0.0], [5.0], [0.0], [9.0]]
    found = find_duplicates(rows, threshold=0.1, pairs=[[3, 2], [2, 0], [2, 3]])
    assert found.kept.tolist() == [0, 1, 0, 0]
    assert found.pairs.tolist() == [[0, 3], [0, 2]]
    for wrong, words in (
        ([[0, 4]], "must point into the 4 rows"),
        ([0, 1], "must be integer row numbers of shape"),
    ):
        with pytest.raises(ShapeError, match=words):
            find_duplicates(rows, pairs=wrong)


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
