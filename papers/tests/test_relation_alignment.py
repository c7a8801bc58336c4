"""The relation-alignment recipe: folds without leaks, choices on training rows, honest tables, a quick run."""

from __future__ import annotations

import numpy as np
import pytest

from nearer.datasets import Dataset, Split
from nearer.datasets._catalog import DIGITS
from nearer.exceptions import ParameterError
from nearer_papers._catalog import recipe_named
from nearer_papers._recipe import Request
from nearer_papers._runner import run_recipe
from nearer_papers.relation_alignment import _relation_alignment as recipe
from nearer_papers.relation_alignment import _relation_data
from nearer_papers.relation_alignment._relation_data import SETS, LabeledSet
from nearer_papers.relation_alignment._relation_methods import OURS, candidates


def small(kind: str, n: int = 120) -> Dataset:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 6)).astype(np.float32)
    X[:, 2:] *= 3
    y: np.ndarray = (X[:, 0] > 0).astype(np.int64) + 2 * (X[:, 1] > 0)
    if kind == "sets":
        y = np.column_stack([X[:, 0] > 0, X[:, 1] > 0, X[:, 0] > X[:, 1]]).astype(np.uint8)
    if kind == "distributions":
        shares = np.exp(np.column_stack([X[:, 0], X[:, 1], -X[:, 0]]))
        y = (shares / shares.sum(axis=1, keepdims=True)).astype(np.float32)
    return Dataset(DIGITS, {"train": Split(X[:80], y[:80]), "test": Split(X[80:], y[80:])}, ())


def labeled(kind: str, split: str = "folds") -> LabeledSet:
    return LabeledSet("small", kind, lambda: small(kind), "standardized", split)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["classes", "sets", "distributions"])
def test_folds_cover_every_row_once_and_are_prepared_on_training_rows(kind: str) -> None:
    parts = list(labeled(kind).parts())
    assert len(parts) == 10
    assert sum(len(part.X_test) for part in parts) == 120
    for part in parts:
        np.testing.assert_allclose(part.X.mean(axis=0), 0, atol=1e-6)
        np.testing.assert_allclose(part.X.std(axis=0), 1, atol=1e-5)
    (published,) = labeled(kind, "published").parts()
    assert (len(published.X), len(published.X_test)) == (80, 40)


@pytest.mark.parametrize("kind", ["classes", "sets", "distributions"])
def test_rows_of_a_quick_run(kind: str) -> None:
    rows = list(recipe.measure_set(labeled(kind), methods=("raw features", *OURS), folds=[0], quick=True))
    rows = recipe.with_choice(rows)
    assert rows.pop(0)["method"].startswith("raw, standardized, k = ")
    assert [row["method"] for row in rows] == ["raw features", *OURS, "chosen"]
    best = max(rows[1:4], key=lambda row: row["merit"])
    for score in recipe.SCORES[kind]:
        assert rows[4][score] == best[score]
        assert np.isfinite(rows[0][score])
    if kind == "distributions":
        assert {row["k"] for row in rows} == {4}


def test_what_is_done_is_left_out() -> None:
    done = {("raw features", fold, 0) for fold in range(10)} | {("GMML", 3, 0)}
    rows = recipe.measure_set(labeled("classes"), methods=("raw features", "GMML"), folds=[2, 3], done=done)
    assert [(row["method"], row["fold"]) for row in rows] == [("GMML", 2)]
    published = labeled("sets", "published")
    rows = recipe.measure_set(published, methods=["raw features"], seeds=3, done={("raw features", 0, 1)})
    assert [row["seed"] for row in rows if row["method"] == "raw features"] == [0, 2]
    assert list(recipe.measure_set(published, methods=["GMML"], done={("GMML", 0, 0)})) == []


def test_test_rows_do_not_touch_the_choice() -> None:
    """Scrambled test labels change the scores and nothing that was chosen."""
    (part,) = labeled("sets", "published").parts()
    found = candidates("sets", "RAML-KRR", rows=80, columns=6)
    chosen = recipe._choose("sets", part, found, 0, False)
    scrambled = type(part)(part.fold, part.X, part.y, part.X_test * 0, 1 - part.y_test)
    again = recipe._choose("sets", scrambled, found, 0, False)
    assert (chosen[0].name, *chosen[1:]) == (again[0].name, *again[1:])


def test_the_summary_says_who_is_not_better() -> None:
    rows = [
        {
            "dataset": "a",
            "kind": "classes",
            "method": method,
            "k": 1,
            "accuracy": value,
            "fold": 0,
            "seed": 0,
            "merit": 1,
        }
        | {"settings": ""}
        for method, value in (
            ("raw features", 0.5),
            ("raw features", 0.7),
            ("HRAML", 0.55),
            ("HRAML", 0.6),
            ("GMML", 0.9),
            ("GMML", 0.8),
        )
    ]
    raw, gmml, hraml, chosen = recipe.summary(rows)
    assert chosen["runs"] == 1
    assert raw["accuracy"] == pytest.approx(0.6)
    assert raw["accuracy error"] == pytest.approx(0.1)
    assert hraml["worse than raw"] == ["accuracy"]
    assert gmml["worse than raw"] == []


def test_every_method_has_candidates_and_learners() -> None:
    for kind, methods in recipe.METHODS.items():
        for method in methods:
            found = candidates(kind, method, rows=500, columns=6)
            assert len({one.name for one in found}) == len(found)
            for one in found:
                learner = one.learner(3, final=True)
                assert (learner is None) == (method == "raw features")
                if learner is not None:
                    seeds = [value for name, value in learner.get_params().items() if name.endswith("random_state")]
                    assert set(seeds) == {3}
                blends = {} if learner is None else learner.get_params()
                if "blend" in blends:
                    assert blends["blend"] == (0.0 if method.endswith(", as published") else "auto")


def test_an_outcome_in_the_house_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SETS, "sjaffe", labeled("distributions"))
    seen: list[tuple[str, float]] = []
    outcome = run_recipe(
        recipe_named("relation-alignment"),
        Request(quick=True, only=["sjaffe"], progress=lambda text, done: seen.append((text, done))),
    )
    assert outcome.sections[0].heading == "Table 3: small"
    assert seen[-1] == ("done", 1.0)
    methods = [line["method"] for line in outcome.record["summary"]]
    assert methods == ["raw, standardized, k = 4", "raw features", *OURS, "chosen"]
    with pytest.raises(ParameterError, match="must name tables"):
        run_recipe(recipe_named("relation-alignment"), Request(only=["nothing"]))
    assert {data.kind for data in recipe._chosen(Request(only=["table-2"]))} == {"sets"}
    assert len(recipe._chosen(Request())) == sum(not data.absent for data in SETS.values())


def test_folds_of_the_paper_are_blocks_of_every_class() -> None:
    y = np.array([0, 1] * 10 + [0] * 10)
    folds = [test for _, test in _relation_data._blocks(y)]
    assert np.array_equal(np.sort(np.concatenate(folds)), np.arange(30))
    assert folds[0].tolist() == [0, 1, 2]
    assert y[folds[0]].tolist() == [0, 1, 0]


def test_a_share_of_every_class_is_rounded_down() -> None:
    y = np.repeat([0, 1], [39, 60])
    assert np.bincount(y[_relation_data._share(y, 0.05)]).tolist() == [1, 3]
