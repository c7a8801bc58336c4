"""The closed form within classes: against loops over the printed formula, on planted rows, and its pairs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nearer.estimators import WithinClass
from nearer.estimators.linear._within_class import Form, _Block, _Pairs
from nearer.evaluation import evaluate
from nearer.exceptions import LabelError, ParameterError, ShapeError
from nearer.models._maps import as_module


def planted(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Classes that noise hides in one direction: undoing it is what the map is for."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(12), 12)
    return rng.normal(size=(12, 6))[y] + rng.normal(size=(144, 6)) * np.array([12, 0.3, 0.3, 0.3, 0.3, 0.3]), y


def printed(x: np.ndarray, y: np.ndarray, form: Form) -> np.ndarray:
    """The formula of the docstring, row by row and class by class."""
    g = np.sign(x) * np.sqrt(np.abs(x)) if form.root else x
    n, p = g.shape
    W = np.zeros((p, p))
    for name in np.unique(y):
        rows = g[y == name]
        for row in rows:
            W += np.outer(row - rows.mean(axis=0), row - rows.mean(axis=0)) / n
    C = (1 - form.shrink) * W + form.shrink * np.trace(W) / p * np.eye(p)
    values, vectors = np.linalg.eigh(C / (np.trace(W) / p))
    z = (g - g.mean(axis=0)) @ vectors @ np.diag(values**-form.power)
    if form.floor is not None:
        unit = z / np.linalg.norm(z, axis=1, keepdims=True)
        means = np.stack([unit[y == name].mean(axis=0) for name in np.unique(y)])
        spread, axes = np.linalg.eigh(np.cov(means.T, bias=True))
        shares = []
        for between, axis in zip(spread, axes.T, strict=True):
            within = np.mean([((row - means[np.unique(y) == name][0]) @ axis) ** 2
                              for row, name in zip(unit, y, strict=True)])  # fmt: skip
            shares.append(max(between, 0.0) / (max(between, 0.0) + within))
        kept = spread > 1e-15
        q = np.where(kept, shares, 0.0)
        z = form.floor * q.max() * z + (z @ axes * q) @ axes.T
    return np.asarray(z / np.linalg.norm(z, axis=1, keepdims=True))


@pytest.mark.parametrize(
    "form", [Form(0.5, 0.2, 1.4), Form(0.7, 0.5, None), Form(0.3, 0.8, 0.1, root=True), Form(0.9, 0.5, 0.0)]
)
def test_it_is_the_printed_formula(form: Form) -> None:
    x, y = planted()
    learner = WithinClass(power=form.power, shrink=form.shrink, floor=form.floor, root=form.root).fit(x, y)
    mapped, expected = learner.transform(x), printed(x, y, form)
    # A rotation of the embedding is no difference.
    np.testing.assert_allclose(mapped @ mapped.T, expected @ expected.T, atol=1e-9)
    module = as_module(learner)(torch.from_numpy(x).float()).detach().numpy()
    np.testing.assert_allclose(module, mapped, atol=2e-6)


@pytest.mark.parametrize("new_classes", [True, False])
def test_it_undoes_noise_that_hides_the_classes(new_classes: bool) -> None:
    x, y = planted()
    learner = WithinClass(3, new_classes=new_classes, random_state=0).fit(x, y)
    assert not learner.form_.is_raw
    assert learner.scores_[learner.form_] > learner.scores_[Form()] + 0.02
    assert learner.transform(x).shape == (144, 3)


def test_it_steps_back_to_the_features() -> None:
    # Classes on the axes with equal noise everywhere: nothing beats the features, and they stay as they are.
    y = np.repeat(np.arange(12), 12)
    even = np.eye(12)[y] * 50 + np.random.default_rng(0).normal(size=(144, 12))
    learner = WithinClass(new_classes=True).fit(even, y)
    assert learner.form_.is_raw
    assert str(learner.form_) == "the features as they are"
    np.testing.assert_allclose(learner.transform(even), even / np.linalg.norm(even, axis=1, keepdims=True))
    euclidean = WithinClass(new_classes=True, unit=None).fit(even, y)
    np.testing.assert_array_equal(euclidean.transform(even), even)
    np.testing.assert_allclose(as_module(euclidean)(torch.from_numpy(even).float()).detach(), even, rtol=1e-6)
    # Too little to choose on: two classes of one row each.
    assert WithinClass(new_classes=True).fit(even[::12][:2], y[::12][:2]).form_.is_raw


@pytest.mark.parametrize("form", [Form(), Form(unit=False), Form(0.7, 0.5, 0.7), Form(0.5, 0.2, None, unit=False)])
def test_maps_are_compared_by_the_scores_of_the_evaluation(form: Form) -> None:
    x, y = planted()
    y[-1] = 99  # alone in its class: it is searched in, and not asked
    taught, asked = y % 2 == 0, y % 2 == 1
    none = _Pairs(x, np.zeros((0, 2), dtype=np.int64), np.zeros((0, 2), dtype=np.int64))
    score = _Block(x[taught], y[taught], x[asked], y[asked], none).scores([form])[form]
    settings = {"power": form.power, "shrink": form.shrink, "floor": form.floor, "unit": form.unit}
    mapped = WithinClass(**settings).fit(x[taught], y[taught]).transform(x[asked])
    expected = evaluate(mapped, y[asked], scores=["recall@1", "map@r"])
    assert score == pytest.approx((expected["recall@1"] + expected["map@r"]) / 2, abs=1e-6)


def test_a_map_is_learned_where_the_nearest_is_right_already() -> None:
    # Near pairs inside wide classes: Recall@1 is 1 under every map, and MAP@R is not.
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(12), 12)
    pairs = np.repeat(rng.normal(size=(72, 1)) * 30, 2, axis=0)
    x = np.concatenate([rng.normal(size=(12, 5))[y] + 0.1 * rng.normal(size=(144, 5)), pairs], axis=1)
    learner = WithinClass(new_classes=True, unit=None, random_state=0).fit(x[:72], y[:72])
    before, after = (
        evaluate(rows, y[72:], scores=["recall@1", "map@r"]) for rows in (x[72:], learner.transform(x[72:]))
    )
    assert before["recall@1"] == after["recall@1"] == 1
    assert after["map@r"] > before["map@r"] + 0.3


def test_fewer_rows_than_features() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 8)
    x = np.abs(rng.normal(size=(24, 600))) * (rng.random(600) < 0.5) + np.eye(3, 600)[y]
    learner = WithinClass(random_state=0).fit(x, y)
    assert np.isfinite(list(learner.scores_.values())).all()
    assert np.isfinite(learner.transform(x)).all()


def test_pairs_teach_beside_classes_and_alone() -> None:
    x, y = planted()
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, len(x), (2, 600))
    same = (y[a] == y[b]) & (a != b)
    together, apart = np.stack([a, b], axis=1)[same], np.stack([a, b], axis=1)[y[a] != y[b]]
    nothing = np.full(len(y), -1)
    alone = WithinClass().fit(x, nothing, together=together, apart=apart)
    weight = np.square(alone.components_).sum(axis=0)
    assert weight[0] < 0.5 * weight[1:].min()  # the noisy column counts least
    few = np.where(np.arange(len(y)) % 12 < 2, y, -1)
    taught = WithinClass(power=0.7).fit(x, few, together=together)
    known = few >= 0
    bare = WithinClass(power=0.7).fit(x[known], few[known])
    noise = [np.square(one.components_).sum(axis=0)[0] / np.square(one.components_).sum() for one in (taught, bare)]
    assert noise[0] < noise[1]  # more is known of what varies inside classes


def test_what_cannot_be_learned_from_is_said() -> None:
    x, y = planted()
    with pytest.raises(LabelError, match="at least two classes, got 1"):
        WithinClass().fit(x[:5], y[:5])
    with pytest.raises(ShapeError, match=r"`apart` must be integer row numbers of shape \(m, 2\)"):
        WithinClass().fit(x, y, apart=[1, 2])
    with pytest.raises(ShapeError, match="`together` must point into the 144 rows"):
        WithinClass().fit(x, y, together=[[0, 144]])
    with pytest.raises(ParameterError, match="`n_components` must be at most the 6 features, got 7"):
        WithinClass(7).fit(x, y)
    with pytest.raises(ParameterError, match="`power` must"):
        WithinClass(power=2.0).fit(x, y)
    with pytest.raises(ShapeError, match="as many rows"):
        WithinClass(power=0.5).fit(x, y).pair_distance(x[:2], x[:3])


@pytest.mark.parametrize(
    ("scale", "kind"), [(2.0**100, np.float32), (2.0**100, np.float64), (2.0**600, np.float64)]
)
@pytest.mark.parametrize("unit", [True, False])
def test_the_unit_of_the_features_does_not_matter(scale: float, kind: type, unit: bool) -> None:
    """Squares of 1e30 are beyond float32, those of 1e180 beyond float64."""
    random = np.random.default_rng(0)
    codes = np.repeat(np.arange(4), 12)
    rows = (random.standard_normal((4, 3))[codes] + random.standard_normal((48, 3)) * [0.1, 1, 5]).astype(kind)
    plain, large = (
        WithinClass(unit=unit, random_state=0).fit(rows * factor, codes) for factor in (kind(1), kind(scale))
    )
    assert large.form_ == plain.form_
    assert list(large.scores_.values()) == pytest.approx(list(plain.scores_.values()))
    mapped = large.transform(rows * kind(scale))
    np.testing.assert_allclose(mapped / (1 if unit else kind(scale)), plain.transform(rows), rtol=2e-3, atol=2e-4)
