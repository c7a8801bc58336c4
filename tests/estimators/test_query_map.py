"""The map of queries: the printed formula, a planted nuisance, the choice of the power, no map where none helps."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import fractional_matrix_power

from nearer.estimators import QueryMap
from nearer.exceptions import ParameterError, ShapeError
from nearer.neighbors import search

Rows = np.ndarray


def clicks(n: int, *, nuisance: float, seed: int = 0) -> tuple[Rows, Rows]:
    """Documents in eight columns, and queries that are documents with noise, most of it in four columns."""
    random = np.random.default_rng(seed)
    documents = random.normal(size=(n, 8))
    noise = random.normal(size=(n, 8)) * np.r_[np.full(4, 0.3), np.full(4, nuisance)]
    return documents + noise, documents


def found(queries: Rows, documents: Rows) -> float:
    nearest = search(queries, documents, 1).indices[:, 0].numpy()
    return float((nearest == np.arange(len(queries))).mean())


def unit(rows: Rows) -> Rows:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize(("power", "shrink"), [(0.5, 0.6), (1.0, 0.1), (0.3, 1.0), (0.0, 0.5)])
def test_the_map_is_the_printed_formula(power: float, shrink: float) -> None:
    X, Y = clicks(60, nuisance=2.0)
    scatter = sum(np.outer(q - d, q - d) for q, d in zip(X, Y, strict=True)) / len(X)
    inner = (1 - shrink) * scatter / (np.trace(scatter) / 8) + shrink * np.eye(8)
    expected = X @ fractional_matrix_power(inner, -power)
    learned = QueryMap(power=power, shrink=shrink, random_state=0).fit(X, Y)
    np.testing.assert_allclose(learned.transform(X), expected, atol=1e-9)


def test_a_planted_nuisance_counts_less_and_new_queries_find_more() -> None:
    X, Y = clicks(600, nuisance=2.0)
    X, Y = unit(X), unit(Y)
    learned = QueryMap(random_state=0).fit(X[:300], Y[:300])
    raw, mapped = found(X[300:], Y[300:]), found(learned.transform(X[300:]), Y[300:])
    assert mapped > raw + 0.05
    assert learned.power_ > 0
    assert learned.gain_ > 2 * learned.gain_error_ > 0
    assert learned.gain_ == pytest.approx(learned.scores_[learned.power_] - learned.scores_[0.0])
    np.testing.assert_allclose(np.linalg.norm(learned.transform(X), axis=1), 1, atol=1e-6)


def test_where_clicks_say_nothing_the_queries_stay_nearly_as_they_are() -> None:
    """Pairs drawn at random: what a map gains there is chance, and no map is far from no map."""
    random = np.random.default_rng(3)
    none = 0
    for _ in range(40):
        X, Y = unit(random.normal(size=(60, 12))), unit(random.normal(size=(60, 12)))
        learned = QueryMap(random_state=0).fit(X, Y)
        best = max(score for power, score in learned.scores_.items() if power)
        assert learned.scores_[learned.power_] >= learned.scores_[0.0]
        assert (X * learned.transform(X)).sum(axis=1).min() > 0.85
        if learned.power_ == 0:
            none += 1
            assert learned.scores_[0.3] <= learned.scores_[0.0]
            assert learned.gain_ == learned.gain_error_ == 0
            np.testing.assert_allclose(learned.transform(X), X, atol=1e-6)
        else:
            assert best >= learned.scores_[0.0]
    assert 0 < none < 40


def test_the_gain_is_that_of_pairs_whose_document_taught_nothing() -> None:
    """One document for all pairs of a fold: a map that knew it would find it, and the score would say so."""
    random = np.random.default_rng(1)
    documents = unit(random.normal(size=(10, 40)))
    rows = np.repeat(np.arange(10), 12)
    queries = unit(random.normal(size=(120, 40)))  # nothing to learn but which document is clicked often
    learned = QueryMap(power=1.0, shrink=0.0, random_state=0).fit(queries, documents[rows])
    chance = np.mean([k / 10 for k in (1, 2, 4, 8)])
    assert abs(learned.scores_[1.0] - chance) < 0.1


def test_the_database_makes_the_documents_harder_to_find() -> None:
    X, Y = clicks(100, nuisance=1.0)
    alone = QueryMap(random_state=0).fit(X, Y)
    others = np.random.default_rng(9).normal(size=(3_000, 8))
    among = QueryMap(random_state=0).fit(X, Y, database=np.r_[Y, others])
    assert among.scores_[0.0] < alone.scores_[0.0] - 0.1
    # The documents of the pairs are no rivals of themselves.
    same = QueryMap(random_state=0).fit(X, Y, database=Y)
    assert same.scores_ == alone.scores_


def test_few_pairs_take_the_careful_map_and_say_nothing() -> None:
    X, Y = clicks(12, nuisance=1.0)
    few = QueryMap(random_state=0).fit(X, Y)
    assert few.power_ == 0.3
    assert np.isnan([few.gain_, few.gain_error_]).all()
    assert few.transform(X.astype(np.float32)).dtype == np.float32


def test_equal_pairs_are_harmless() -> None:
    rows = np.random.default_rng(0).normal(size=(40, 5))
    np.testing.assert_allclose(QueryMap(power=0.7).fit(rows, rows).transform(rows), rows, atol=1e-9)


def test_what_does_not_fit_is_named() -> None:
    X, Y = clicks(30, nuisance=1.0)
    with pytest.raises(ShapeError, match=r"`y` must have the 8 columns of `X`, got 3\."):
        QueryMap().fit(X, Y[:, :3])
    with pytest.raises(ShapeError, match=r"`database` must have the 8 columns of `X`, got \(30, 2\)"):
        QueryMap().fit(X, Y, database=Y[:, :2])
    with pytest.raises(ParameterError, match="`power` must be at least 0"):
        QueryMap(power=-1.0).fit(X, Y)
    with pytest.raises(ParameterError, match="`shrink`"):
        QueryMap(shrink=1.5).fit(X, Y)


def test_clicks_on_one_document_teach_no_map() -> None:
    X = unit(np.random.default_rng(0).normal(size=(40, 5)))
    learned = QueryMap(random_state=0).fit(X, np.repeat(X[:1], 40, axis=0))
    assert learned.power_ == 0
    np.testing.assert_allclose(learned.transform(X), X, atol=1e-6)
