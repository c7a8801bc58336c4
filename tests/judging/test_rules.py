"""The rules where they are tight, and against the plainest form of their formulas."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from nearer.judging._class_losses import (
    Calibration,
    bets,
    database_losses,
    distances,
    fewest_classes,
    matched_losses,
    mean_bound,
    missed,
    pair_bound,
    thresholds,
    within,
)


def drawn(seed: int = 0, m: int = 7) -> Calibration:
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 6, m)
    y = np.repeat(np.arange(m), counts)
    return Calibration.of(rng.normal(size=(m, 3))[y] + 0.5 * rng.normal(size=(len(y), 3)), y)


def naive_share(data: Calibration, a: int, b: int, t: float) -> float:
    pairs = [
        np.linalg.norm(x.astype(float) - z) <= t
        for x in data.rows[data.codes == a]
        for z in data.rows[data.codes == b]
    ]
    return float(np.mean(pairs))


def test_losses_are_shares_inside_classes_first() -> None:
    data = drawn()
    grid = thresholds(data)[::40]
    sums, own = within(data, grid), missed(data, grid)
    for place, t in enumerate(grid):
        if place and t == 0:
            continue
        for a in range(data.m):
            expected = sum(naive_share(data, a, b, t + 1e-9) for b in range(data.m) if b != a)
            assert sums[a, place] == pytest.approx(expected, abs=1e-9)
            rows = data.rows[data.codes == a].astype(float)
            apart = [np.linalg.norm(x - z) > t + 1e-9 for x, z in itertools.combinations(rows, 2)]
            assert own[a, place] == pytest.approx(np.mean(apart), abs=1e-9)


def test_classes_of_one_item_are_left_out_and_large_ones_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    data = Calibration.of(np.eye(5), ["a", "a", "b", "c", "c"])
    assert data.m == 2
    assert data.counts.tolist() == [2, 2]
    monkeypatch.setattr("nearer.judging._class_losses.MOST_ITEMS", 30)
    large = Calibration.of(np.random.default_rng(0).normal(size=(300, 2)), np.arange(300) % 3)
    assert large.counts.tolist() == [10, 10, 10]


def test_losses_against_a_database() -> None:
    data, base = drawn(3), np.random.default_rng(5).normal(size=(9, 3)).astype(np.float32)
    grid = thresholds(data, database=base)[::30]
    pairs, anyone = (database_losses(data, base, grid, any_match=one) for one in (False, True))
    apart = distances(data.rows, base)
    for code in range(data.m):
        mine = apart[data.codes == code]
        np.testing.assert_allclose(pairs[code], [(mine <= t + 1e-9).mean() for t in grid], atol=1e-9)
        np.testing.assert_allclose(anyone[code], [(mine <= t + 1e-9).any(axis=1).mean() for t in grid], atol=1e-9)


def test_the_jackknife_is_that_of_leaving_each_class_out() -> None:
    rng = np.random.default_rng(1)
    m = 9
    h = np.triu(rng.random((m, m)), 1)
    h = h + h.T

    def mean_of(kept: list[int]) -> float:
        return float(np.mean([h[a, b] for a, b in itertools.combinations(kept, 2)]))

    without = np.array([mean_of([a for a in range(m) if a != c]) for c in range(m)])
    error = np.sqrt((m - 1) / m * ((without - without.mean()) ** 2).sum())
    expected = mean_of(list(range(m))) + stats.t.ppf(0.9, m - 1) * error
    assert pair_bound(h.sum(axis=1)[:, None], "estimated")[0] == pytest.approx(expected)
    assert pair_bound(h.sum(axis=1)[:, None], "average")[0] == pytest.approx(
        ((m - 1) * mean_of(list(range(m))) + 2) / (m + 1)
    )


def first_failure(bound: np.ndarray, level: float) -> int:
    wrong = np.flatnonzero(bound > level)
    return int(wrong[0]) - 1 if len(wrong) else len(bound) - 1


def test_the_mean_loss_of_a_new_class_is_below_the_level_and_near_it() -> None:
    # Class c matches everything beyond a threshold of its own: the hardest case, where the correction is tight.
    level, m, rng = 0.1, 39, np.random.default_rng(0)
    grid = np.linspace(0, 1, 401)
    found = []
    for _ in range(1500):
        own = rng.random(m + 1)
        h = (grid[None, None, :] >= np.maximum(1 - own[:, None], 1 - own[None, :])[:, :, None]).astype(float)
        h[np.arange(m + 1), np.arange(m + 1)] = 0
        place = first_failure(pair_bound(h[:m, :m].sum(axis=1), "average"), level)
        found.append(h[m, :m, place].mean() if place >= 0 else 0.0)
    assert np.mean(found) <= level
    assert np.mean(found) > 0.4 * level


def test_the_mean_loss_with_a_database_is_tight() -> None:
    level, m, rng = 0.1, 39, np.random.default_rng(1)
    grid = np.linspace(0, 1, 401)
    found = []
    for _ in range(4000):
        losses = (grid[None, :] >= 1 - rng.random(m + 1)[:, None]).astype(float)
        place = first_failure(mean_bound(losses[:m], "average"), level)
        found.append(losses[m, place] if place >= 0 else 0.0)
    standard = np.std(found) / np.sqrt(len(found))
    assert np.mean(found) <= level + 3 * standard
    assert np.mean(found) > 0.75 * level


def test_bets_are_lost_when_the_level_does_not_hold() -> None:
    level, rng = 0.1, np.random.default_rng(2)
    draws = (rng.random((4000, 120)) < level).astype(float)  # the mean loss is the level itself
    wins = np.array([bets(row[:, None], level)[0] >= 10 for row in draws])
    assert wins.mean() <= 0.1 + 3 * np.sqrt(0.09 / len(wins))
    assert bets(np.zeros((120, 1)), level)[0] > 10
    averages = [bets(row[:, None], level)[0] for row in draws]
    assert np.mean(averages) < 1 + 4 * np.std(averages) / np.sqrt(len(averages))


def test_matchings_are_disjoint_pairs_of_classes() -> None:
    data = drawn(4, m=9)
    grid = thresholds(data)[::60]
    losses = matched_losses(data, grid, matchings=3)
    assert losses.shape == (3, data.m // 2, len(grid))
    assert ((losses >= 0) & (losses <= 1 + 1e-12)).all()
    assert (np.diff(losses, axis=2) >= -1e-12).all()


@pytest.mark.parametrize("pairs", [True, False])
def test_the_fewest_classes_are_those_at_which_a_rule_can_hold(pairs: bool) -> None:
    for level in (0.05, 0.01, 0.2):
        m = fewest_classes(level, "average", pairs=pairs)
        bound = pair_bound if pairs else mean_bound
        assert bound(np.zeros((m, 1)), "average")[0] <= level + 1e-12
        assert bound(np.zeros((m - 1, 1)), "average")[0] > level
    n = fewest_classes(0.05, "high-probability", pairs=pairs)
    n = n // 2 if pairs else n
    assert bets(np.zeros((n, 1)), 0.05)[0] >= 10 > bets(np.zeros((n - 1, 1)), 0.05)[0]
