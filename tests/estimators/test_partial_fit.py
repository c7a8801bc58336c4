"""Rows that come in parts teach what all rows at once teach, to rounding, in memory that does not grow."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris

from nearer.estimators import GMML, KISSME, RCA, Covariance, MetricKNN, WithinClass
from nearer.estimators._moments import KEPT, Moments
from nearer.estimators._scatter import label_scatters, total_scatter
from nearer.exceptions import LabelError, LimitError, ParameterError

X, Y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[Y]
# Sorted by class, so that the first parts know one class alone, and of a mean far from 0.
X = X + 1e4
LEARNERS = [Covariance(), RCA(blend=0.0), KISSME(blend=0.0), GMML(blend=0.0), KISSME(n_components=2, blend=0.25)]


def in_parts(learner: Any, sizes: tuple[int, ...], x: Any = X, y: Any = NAMES) -> Any:
    for rows, classes in zip(np.split(x, sizes), np.split(y, sizes), strict=True):
        learner.partial_fit(rows, classes)
    return learner


@pytest.mark.parametrize("sizes", [(), (1, 2, 60, 61, 149), (75,)])
@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_parts_give_what_all_rows_give(learner: Any, sizes: tuple[int, ...]) -> None:
    whole = type(learner)(**learner.get_params()).fit(X, NAMES)
    parts = in_parts(type(learner)(**learner.get_params()), sizes)
    size = 1e-6 * np.abs(whole.mahalanobis_matrix()).max()
    np.testing.assert_allclose(parts.mahalanobis_matrix(), whole.mahalanobis_matrix(), rtol=1e-6, atol=size)
    np.testing.assert_allclose(parts.transform(X[:5]), whole.transform(X[:5]), rtol=1e-6, atol=1e-6)
    if not isinstance(learner, Covariance):
        assert parts.classes_.tolist() == whole.classes_.tolist()


def test_moments_are_the_scatters_of_all_rows() -> None:
    moments = Moments(4)
    order = np.random.default_rng(0).permutation(150)
    for part in np.array_split(order, 7):
        moments.add(X[part], NAMES[part], np.ones(len(part)))
    want = label_scatters(X, Y)
    for found, expected in zip(moments.pairs(), want, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-8)
    np.testing.assert_allclose(moments.total(), total_scatter(X), rtol=1e-8)


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_a_weight_is_so_many_equal_rows(learner: Any) -> None:
    weights = np.random.default_rng(0).integers(0, 4, size=len(X))
    weights[Y == 1] = np.maximum(weights[Y == 1], 1)
    # All that a learner is given before has weight 0, and a class of weight 0 is none.
    weights[Y == 2] = 0
    again = type(learner)(**learner.get_params()).fit(np.repeat(X, weights, axis=0), np.repeat(NAMES, weights))
    for cut in ((), (75,)):
        parts = type(learner)(**learner.get_params())
        for rows in np.split(np.arange(len(X))[weights > 0] if cut else np.arange(len(X)), cut):
            parts.partial_fit(X[rows], NAMES[rows], sample_weight=weights[rows])
        size = 1e-6 * np.abs(again.mahalanobis_matrix()).max()
        np.testing.assert_allclose(parts.mahalanobis_matrix(), again.mahalanobis_matrix(), rtol=1e-6, atol=size)
    with pytest.raises(ValueError, match=r"above 0 for at least one row|at least one non-zero"):
        parts.partial_fit(X, NAMES, sample_weight=np.zeros(len(X)))
    with pytest.raises(ValueError, match=r"(?i)negative"):
        parts.partial_fit(X, NAMES, sample_weight=-np.ones(len(X)))


@pytest.mark.parametrize("settings", [{}, {"root": True, "unit": False}, {"shrink": 0.2}])
def test_the_closed_form_learns_in_parts_where_it_follows_from_covariances(settings: dict[str, Any]) -> None:
    learner = WithinClass(power=0.7, floor=None, **settings)
    x = X - 1e4
    weights = np.random.default_rng(1).integers(1, 3, size=len(x))
    whole = WithinClass(power=0.7, floor=None, **settings).fit(np.repeat(x, weights, 0), np.repeat(NAMES, weights))
    for rows in np.array_split(np.arange(len(x)), 4):
        learner.partial_fit(x[rows], NAMES[rows], sample_weight=weights[rows])
    # A map is known up to the sign of its directions; distances are not.
    a, b = (made.transform(x) for made in (learner, whole))
    np.testing.assert_allclose(a @ a.T, b @ b.T, rtol=1e-6, atol=1e-6 * np.abs(b @ b.T).max())
    assert learner.classes_.tolist() == whole.classes_.tolist()
    learner.fit(x, NAMES)
    np.testing.assert_allclose(
        learner.transform(x), WithinClass(power=0.7, floor=None, **settings).fit(x, NAMES).transform(x)
    )


@pytest.mark.parametrize("settings", [{}, {"power": 0.5}, {"power": 0.5, "floor": None, "n_components": 2}])
def test_what_needs_all_rows_is_not_learned_in_parts(settings: dict[str, Any]) -> None:
    assert not hasattr(WithinClass(**settings), "partial_fit")
    with pytest.raises(AttributeError) as caught:
        WithinClass(**settings).partial_fit(X, NAMES)
    assert "to learn in parts" in str(caught.value.__cause__)


def test_the_blend_is_chosen_on_rows_drawn_from_all_parts() -> None:
    parts = in_parts(KISSME(random_state=0), (50, 100))
    assert parts.blend_ == KISSME(random_state=0).fit(X, NAMES).blend_


def test_a_fit_begins_anew() -> None:
    for learner in (KISSME(blend=0.0), Covariance()):
        again = type(learner)(**learner.get_params()).fit(X[:100], NAMES[:100])
        learner.partial_fit(X + 3, NAMES).fit(X[:100], NAMES[:100])
        np.testing.assert_array_equal(learner.components_, again.components_)
        # And what comes after a fit begins with itself.
        learner.partial_fit(X, NAMES)
        np.testing.assert_allclose(
            learner.components_, type(learner)(**learner.get_params()).fit(X, NAMES).components_, rtol=1e-6
        )


@pytest.mark.parametrize("kind", [KISSME, GMML, RCA])
def test_a_call_that_fails_counts_no_row(kind: Any) -> None:
    learner = kind(blend=0.0, n_components=99)
    with pytest.raises(ParameterError, match="n_components"):
        learner.partial_fit(X, NAMES)
    learner.set_params(n_components=None, ridge=-1.0)
    with pytest.raises(ParameterError, match="ridge"):
        learner.partial_fit(X, NAMES)
    in_parts(learner.set_params(ridge=kind().ridge), (75,))
    np.testing.assert_allclose(learner.components_, in_parts(kind(blend=0.0), (75,)).components_)


def test_a_stream_after_a_fit_may_begin_with_one_class() -> None:
    learner = KISSME(blend=0.0).fit(X, NAMES)
    learner.partial_fit(X[:50], NAMES[:50]).partial_fit(X[50:], NAMES[50:])
    np.testing.assert_allclose(learner.components_, in_parts(KISSME(blend=0.0), (50,)).components_)


@pytest.mark.parametrize("weight", [0.01, 1e300])
def test_weights_that_no_number_of_rows_has_are_refused(weight: float) -> None:
    with pytest.raises(ParameterError, match="`sample_weight` must be 0 or between 1 and"):
        KISSME(blend=0.0).partial_fit(X, NAMES, sample_weight=np.full(len(X), weight))


def test_rows_of_another_width_are_refused_and_change_nothing() -> None:
    learner = in_parts(KISSME(blend=0.0), (75,))
    before = learner.components_.copy()
    with pytest.raises(ValueError, match="4 features"):
        learner.partial_fit(X[:, :3], NAMES)
    np.testing.assert_array_equal(learner.components_, before)
    with pytest.raises(ParameterError, match="`ridge`"):
        KISSME(ridge=-1.0, blend=0.0).partial_fit(X, NAMES)


def test_neighbors_remember_what_comes_later() -> None:
    whole = MetricKNN(KISSME(blend=0.0).fit(X, NAMES)).fit(X, NAMES)
    parts = in_parts(MetricKNN(KISSME(blend=0.0).fit(X, NAMES)), (1, 60, 101))
    np.testing.assert_array_equal(parts.predict(X + 0.1), whole.predict(X + 0.1))
    np.testing.assert_array_equal(parts.classes_, whole.classes_)
    announced = MetricKNN().partial_fit(X[:50], NAMES[:50], classes=np.unique(NAMES))
    assert announced.predict_proba(X[:1]).tolist() == [[1.0, 0.0, 0.0]]
    assert (parts.k_, in_parts(MetricKNN(), (1,)).k_) == (3, 3)


@pytest.mark.parametrize("classes", [[["ash", "oak"]], [1, 2], [None, "ash"], np.array(["2020-01-01"], "M8[D]"), 3])
@pytest.mark.parametrize("before", [0, 50])
def test_classes_to_come_are_refused_before_anything_is_remembered(classes: object, before: int) -> None:
    learner = MetricKNN()
    if before:
        learner.fit(X[:before], NAMES[:before])
    with pytest.raises(ValueError, match="y"):
        learner.partial_fit(X, NAMES, classes=classes)
    assert len(getattr(learner, "rows_", [])) == before


def test_matrices_that_would_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearer.estimators._moments.MOST_BYTES", 2 * 8 * 16)
    learner = KISSME(blend=0.0).partial_fit(X[:100], NAMES[:100])
    with pytest.raises(LimitError, match=r"`y` must name fewer classes .* 3 matrices of 4 columns"):
        learner.partial_fit(X[100:], NAMES[100:])
    assert learner.transform(X[:2]).shape == (2, 4)


def test_memory_does_not_grow_with_the_rows() -> None:
    random = np.random.default_rng(0)

    def peak(parts: int) -> int:
        learner = KISSME(random_state=0)
        tracemalloc.start()
        for _ in range(parts):
            rows = random.normal(size=(2 * KEPT, 3)).astype(np.float32)
            learner.partial_fit(rows, (rows[:, 0] > 0).astype(int))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(1)
    assert peak(6) < 1.3 * peak(2)


@pytest.mark.parametrize("learner", [KISSME(), RCA(), WithinClass(power=0.5, floor=None), MetricKNN()])
def test_labels_of_two_kinds_in_two_parts(learner: Any) -> None:
    rows, codes = np.random.default_rng(0).normal(size=(60, 3)), np.arange(30) % 3
    learner.partial_fit(rows[:30], codes)
    for other in (codes.astype(str), np.array(list("abc" * 10), dtype=object)):
        with pytest.raises(LabelError, match="of one kind in all parts, got text after numbers"):
            learner.partial_fit(rows[30:], other)
    learner.partial_fit(rows[30:], codes)
    assert learner.classes_.tolist() == [0, 1, 2]
