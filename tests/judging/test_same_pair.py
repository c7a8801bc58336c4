"""SamePair and ClassSets as people use them."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import nearer
from nearer.app.cli import app
from nearer.estimators import RCA
from nearer.exceptions import LabelError, NearerWarning, ParameterError, ShapeError
from nearer.judging import ClassSets, SamePair
from nearer.reports._curves import error_curves


def classes(m: int, seed: int = 0, each: int = 6, spread: float = 0.6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(m), each)
    return rng.normal(size=(m, 6))[y] + spread * rng.normal(size=(len(y), 6)), y


def false_matches(same: SamePair, X: np.ndarray, y: np.ndarray) -> float:
    a, b = np.triu_indices(len(X), 1)
    different = y[a] != y[b]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NearerWarning)
        return float((same.decide(X[a[different]], X[b[different]]) == "same").mean())


@pytest.mark.parametrize("guarantee", ["estimated", "average", "high-probability"])
def test_the_level_holds_on_new_classes(guarantee: Any) -> None:
    rates = []
    for seed in range(6):
        same = SamePair(0.05, guarantee=guarantee).calibrate(*classes(140, seed))
        rates.append(false_matches(same, *classes(40, 100 + seed)))
    assert np.mean(rates) <= 0.05
    assert np.mean(rates) > (0.02 if guarantee != "high-probability" else 0.001)


def test_the_three_answers_and_their_order() -> None:
    same = SamePair(0.05).calibrate(*classes(60))
    low, high = same.same_within_, same.different_beyond_
    assert 0 < low < high < np.inf
    found = same.answers([0.0, low, (low + high) / 2, high, 2 * high])
    assert found.tolist() == ["same", "same", "cannot say", "cannot say", "different"]
    assert "cannot say" in str(same)
    assert "estimated, 90 %" in str(same)
    assert "not calibrated" in str(SamePair())


def test_bounds_that_overlap_leave_nothing_unsaid() -> None:
    same = SamePair(0.05).calibrate(*classes(60, spread=0.05))
    assert same.same_within_ > same.different_beyond_
    assert set(same.answers(np.linspace(0, 9, 50)).tolist()) == {"same", "different"}


def test_it_is_the_class_that_counts_not_the_item() -> None:
    X, y = classes(30)
    few, many = (SamePair(0.05).calibrate(np.repeat(X, times, axis=0), np.repeat(y, times)) for times in (1, 3))
    # The same items three times are no more evidence.
    assert many.same_within_ == pytest.approx(few.same_within_, rel=0.15)


def test_too_few_classes_are_refused_with_the_number_that_is_missing() -> None:
    X, y = classes(30)
    with pytest.raises(LabelError, match=r"39 classes for error=0\.05, got 30: 9 are missing"):
        SamePair(0.05, guarantee="average").calibrate(X, y)
    with pytest.raises(LabelError, match="high-probability"):
        SamePair(0.05, guarantee="high-probability").calibrate(X, y)
    with pytest.warns(NearerWarning, match="about 40 classes for error=0.01, got 30: 10 are missing"):
        SamePair(0.01).calibrate(X, y)
    with pytest.raises(LabelError, match="at least five classes"):
        SamePair().calibrate(*classes(4))


def test_a_search_bounds_queries_with_any_match_and_belongs_to_its_database() -> None:
    X, y = classes(80)
    database, _ = classes(20, seed=9)
    same = SamePair(0.1, per="search", guarantee="average").calibrate(X, y, database=database)
    strangers, _ = classes(80, seed=50)
    found = same.matches(strangers, database)
    assert np.mean([bool(rows) for rows in found]) <= 0.12
    known = database + 0.01
    assert np.mean([number in rows for number, rows in enumerate(same.matches(known, database))]) > 0.9
    with pytest.raises(ParameterError, match="calibrate again"):
        same.matches(strangers, np.concatenate([database, database]))
    with pytest.raises(ParameterError, match="`database` must be given"):
        SamePair(per="search").calibrate(X, y)
    with pytest.raises(ParameterError, match="Call `matches`"):
        same.decide(X[:1], X[:1])


def test_items_unlike_the_calibration_are_named() -> None:
    X, y = classes(40)
    same = SamePair().calibrate(X, y)
    fresh, _ = classes(20, seed=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same.decide(fresh[::2], fresh[1::2])
    with pytest.warns(NearerWarning, match="do not look like"):
        same.decide(fresh[::2] + 5, fresh[1::2] + 5)


def test_a_metric_in_front() -> None:
    X, y = classes(60)
    learned = RCA().fit(*classes(30, seed=7))
    with_it = SamePair(metric=learned).calibrate(X, y)
    by_hand = SamePair().calibrate(learned.transform(X), y)
    assert with_it.same_within_ == pytest.approx(by_hand.same_within_)
    a_function = SamePair(metric=lambda rows: learned.transform(rows)).calibrate(X, y)
    assert a_function.same_within_ == pytest.approx(by_hand.same_within_)
    np.testing.assert_allclose(
        with_it.distance(X[:3], X[3:6]), by_hand.distance(*map(learned.transform, (X[:3], X[3:6])))
    )


def test_the_cosine_ignores_lengths() -> None:
    X, y = classes(40)
    one, two = (SamePair(similarity="cosine").calibrate(X * factor, y) for factor in (1.0, 1000.0))
    assert one.same_within_ == pytest.approx(two.same_within_, rel=1e-5)


def test_it_comes_back_from_json() -> None:
    X, y = classes(40)
    same = SamePair(0.1, miss=0.2).calibrate(X, y)
    again = SamePair.from_dict(json.loads(json.dumps(same.to_dict())))
    assert again.answers([0.5, 1.5, 9.0]).tolist() == same.answers([0.5, 1.5, 9.0]).tolist()
    assert str(again) == str(same)
    with pytest.raises(ParameterError, match=r"SamePair\.to_dict"):
        SamePair.from_dict({"error": 0.1})


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda X, y: SamePair(0.0), ParameterError, "error"),
        (lambda X, y: SamePair(guarantee="sure"), ParameterError, "guarantee"),
        (lambda X, y: SamePair().calibrate(X, y[:3]), ShapeError, "one class for each"),
        (lambda X, y: SamePair().decide(X, X), ParameterError, "calibrate"),
        (lambda X, y: SamePair().calibrate(X, y).decide(X[:2], X[:3]), ShapeError, "same number of rows"),
        (lambda X, y: SamePair(similarity="cosine").calibrate(X * 0, y), ParameterError, "direction"),
    ],
)
def test_what_cannot_be_is_said(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(*classes(30))


def test_sets_hold_the_class_as_often_as_promised() -> None:
    X, y = classes(8, each=90, spread=0.9)
    order = np.random.default_rng(0).permutation(len(y))
    first, second, third = np.array_split(order, 3)
    sets = ClassSets(0.1).fit(X[first], y[first]).calibrate(X[second], y[second])
    found = sets.predict(X[third])
    covered = np.mean([label in one for label, one in zip(y[third].tolist(), found, strict=True)])
    assert 0.85 <= covered <= 0.97
    assert all(len(set(one)) == len(one) for one in found)
    with pytest.raises(LabelError, match="at least 9 calibration items"):
        ClassSets(0.1).fit(X, y).calibrate(X[:5], y[:5])
    with pytest.raises(LabelError, match="classes that `fit` knows"):
        ClassSets().fit(X, y).calibrate(X[:20], y[:20] + 100)
    with pytest.raises(ParameterError, match="calibrate"):
        ClassSets().fit(X, y).predict(X)


def people(tmp_path: Path) -> tuple[Path, Path]:
    X, y = classes(60)
    table = pd.DataFrame(X, columns=list("abcdef")).assign(person=[f"p{code}" for code in y])
    table[y < 20].to_csv(tmp_path / "known.csv", index=False)
    table[y >= 20].to_csv(tmp_path / "others.csv", index=False)
    return tmp_path / "known.csv", tmp_path / "others.csv"


def test_a_model_keeps_its_calibration(tmp_path: Path) -> None:
    known, others = (pd.read_csv(file) for file in people(tmp_path))
    model = nearer.fit(known, "person", method="rca")
    with pytest.raises(ParameterError, match="calibrate"):
        model.same(others[:2], others[2:4])
    with pytest.raises(LabelError, match="trained on"):
        model.calibrate(known, "person")
    model.calibrate(others, "person")
    again = nearer.load(model.save(tmp_path / "model"))
    assert again.same(others[:3], others[1:4]).tolist() == model.same(others[:3], others[1:4]).tolist()
    assert error_curves(again.calibration).axes


def test_the_command_line(tmp_path: Path) -> None:
    known, others = people(tmp_path)
    run = CliRunner().invoke
    folder, page = str(tmp_path / "model"), str(tmp_path / "same.html")
    assert run(app, ["fit", str(known), "-l", "person", "-o", folder, "--method", "rca", "-q"]).exit_code == 0
    early = run(app, ["same", "0", "1", "-m", folder, "-d", str(others)])
    assert early.exit_code == 1
    assert "calibrated first" in early.output
    done = run(app, ["calibrate", str(others), "-m", folder, "-l", "person", "--report", page])
    assert done.exit_code == 0, done.output
    assert "at most 0.05" in done.output
    card = (tmp_path / "model" / "README.md").read_text()
    assert card.count("## Same or not") == 1
    assert "## Use" in card
    assert run(app, ["calibrate", str(others), "-m", folder, "-l", "person", "--error", "0.1"]).exit_code == 0
    assert (tmp_path / "model" / "README.md").read_text().count("## Same or not") == 1
    assert (tmp_path / "model" / "map.png").exists()
    answer = run(app, ["same", "0", "1", "-m", folder, "-d", str(others), "--json"])
    assert json.loads(answer.output)["answer"] in ("same", "different", "cannot say")
    assert "Thresholds" in Path(page).read_text()
    wrong = run(app, ["same", "0", "nobody", "-m", folder, "-d", str(others)])
    assert wrong.exit_code == 1
    assert "row number" in wrong.output
