"""Result files: every row says how it was made, rows are kept and replaced, and recipes resume row by row."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nearer.app.cli import app
from nearer.exceptions import CorruptFileError, ParameterError
from nearer_papers import _reproduce, _results
from nearer_papers._catalog import RECIPES, recipe_named
from nearer_papers._recipe import Request
from nearer_papers._results import SOURCES, Results, check_committed, stamp, trees
from nearer_papers._runner import run_recipe
from nearer_papers.asymmetric import _asymmetric

ROOT = Path(__file__).resolve().parents[2]
MADE = stamp()


def test_a_row_says_how_it_was_made(tmp_path: Path) -> None:
    file = Results(tmp_path / "speed.json", key=["loss", "batch"])
    file.add({"loss": "raw", "batch": 8, "ms": 1.0}, stamp(data="ab" * 32, seconds=1.234))
    (row,) = json.loads((tmp_path / "speed.json").read_text())["rows"]
    made = row["made"]
    assert made["trees"] == dict(trees())
    assert (made["data"], made["seconds"]) == ("ab" * 6, 1.23)
    assert set(made["versions"]) >= {"python", "nearer", "torch", "numpy", "scikit-learn"}
    assert str(tmp_path) not in json.dumps(made)


def test_rows_are_replaced_by_their_key_and_others_are_kept(tmp_path: Path) -> None:
    first, second = (Results(tmp_path / "r.json", key=["a"]) for _ in range(2))
    first.add({"a": 1, "x": 1}, MADE)
    second.add({"a": 2, "x": 2}, MADE)  # opened before the first row was there
    first.add({"a": 1, "x": 3}, MADE)
    assert [(row["a"], row["x"]) for row in Results(tmp_path / "r.json", key=["a"]).rows] == [(1, 3), (2, 2)]
    assert (2,) in first


@pytest.mark.parametrize("text", ["", "[]", '{"rows": [{"b": 1}]}', '{"rows": 3}'])
def test_a_file_that_is_none_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(CorruptFileError, match=r"`r\.json` must be a result file"):
        Results(tmp_path / "r.json", key=["a"])
    with pytest.raises(ParameterError, match="`key` must name the columns"):
        Results(tmp_path / "new.json", key=[])


def test_rows_of_changed_sources_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a repository of its own: committed sources have trees, changed ones none."""
    monkeypatch.setattr(_results, "ROOT", tmp_path)
    for folder in SOURCES.values():
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.py").write_text("x = 1\n")
    trees.cache_clear()
    try:
        with pytest.raises(ParameterError, match="only for committed sources"):
            check_committed()
        for words in (
            ["init", "-q"],
            ["add", "."],
            ["-c", "user.name=a", "-c", "user.email=a", "commit", "-qm", "a"],
        ):
            subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
        trees.cache_clear()
        check_committed()
        assert set(trees()) == set(SOURCES)
        (tmp_path / "src" / "a.py").write_text("x = 2\n")
        trees.cache_clear()
        with pytest.raises(ParameterError, match="only for committed sources"):
            check_committed()
    finally:
        trees.cache_clear()


def stamps() -> set[tuple[tuple[str, str], ...]]:
    """The trees of every row that is kept."""
    files = [*ROOT.glob("benchmarks/results/*.json"), *ROOT.glob("papers/results/*.json")]
    rows = [row for file in files for row in json.loads(file.read_text())["rows"]]
    return {tuple(sorted(row["made"]["trees"].items())) for row in rows if row["made"].get("trees")}


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="the sources must be a checkout with its history")
def test_git_turns_every_stamp_back_into_a_commit() -> None:
    commits = subprocess.run(
        ["git", "-C", str(ROOT), "log", "--format=%H"], capture_output=True, text=True, check=True
    ).stdout.split()
    asked = [f"{commit}:{folder}" for commit in commits for folder in SOURCES.values()]
    answers = subprocess.run(
        ["git", "-C", str(ROOT), "cat-file", "--batch-check=%(objectname)"],
        input="\n".join(asked),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    width = len(SOURCES)
    known = [dict(zip(SOURCES, answers[at : at + width], strict=True)) for at in range(0, len(answers), width)]
    for stamp_ in stamps():
        assert any(all(commit[name] == tree for name, tree in stamp_) for commit in known), stamp_


def test_an_interrupted_recipe_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, str]] = []

    def error(problem: str, seed: int, method: str) -> dict[str, float]:
        calls.append((problem, method))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return {"error": 0.25}

    monkeypatch.setattr(_asymmetric, "measure_two_views", error)
    monkeypatch.setattr(_results, "trees", lambda: {"src": "0"})
    recipe, request = recipe_named("asymmetric"), Request(seeds=1, only=["halves"])
    with pytest.raises(KeyboardInterrupt):
        run_recipe(recipe, request, folder=tmp_path)
    assert len(json.loads((tmp_path / "asymmetric_views.json").read_text())["rows"]) == 2
    outcome = run_recipe(recipe, request, folder=tmp_path, missing=True)
    rows = json.loads((tmp_path / "asymmetric_views.json").read_text())["rows"]
    assert len(rows) == len(outcome.record["rows"]) == len({row["method"] for row in rows}) == 16
    assert len(calls) == 3 + 14
    assert {row["made"]["data"] for row in rows} == {_asymmetric.load("digits").fingerprint()[:12]}
    before = len(calls)
    run_recipe(recipe, request, folder=tmp_path, missing=True)
    assert len(calls) == before


def test_rows_of_unknown_sources_are_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(
        _asymmetric, "measure_two_views", lambda problem, seed, method: calls.append(method) or {"error": 0.25}
    )
    monkeypatch.setattr(_results, "trees", lambda: {"src": "0"})
    recipe, request = recipe_named("asymmetric"), Request(seeds=1, only=["halves"])
    run_recipe(recipe, request, folder=tmp_path)
    file = tmp_path / "asymmetric_views.json"
    written = json.loads(file.read_text())
    written["rows"][3]["made"] = {"source": "3ff25b7d69e7", "command": "python old.py"}
    file.write_text(json.dumps(written))
    calls.clear()
    run_recipe(recipe, request, folder=tmp_path, missing=True)
    assert calls == [written["rows"][3]["method"]]
    assert all(row["made"]["trees"] == {"src": "0"} for row in json.loads(file.read_text())["rows"])


def test_a_run_goes_on_in_its_own_folder_and_says_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anywhere, without a checkout, and in a log, where no bar can be drawn."""
    calls: list[str] = []

    def error(problem: str, seed: int, method: str) -> dict[str, float]:
        calls.append(method)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return {"error": 0.25}

    monkeypatch.setattr(_asymmetric, "measure_two_views", error)
    monkeypatch.setattr(_results, "trees", dict)
    words = ["reproduce", "asymmetric", "--only", "halves", "--seeds", "1", "--out", str(tmp_path / "here")]
    assert CliRunner().invoke(app, words).exit_code != 0
    refused = CliRunner().invoke(app, words)
    assert refused.exit_code == 1
    assert "`--missing` goes on with a run of this folder" in " ".join(refused.stderr.split())
    done = CliRunner().invoke(app, [*words, "--missing"])
    assert done.exit_code == 0, done.output
    assert len(calls) == 3 + 14
    assert "asymmetric:" in done.stderr
    assert "%" in done.stderr
    assert len(json.loads((tmp_path / "here" / "result.json").read_text())["rows"]) == 16


def test_what_does_not_go_together(tmp_path: Path) -> None:
    recipe = recipe_named("asymmetric")
    for request, settings, told in (
        (Request(), {"missing": True}, "`--missing` must come with a folder"),
        (Request(quick=True), {"folder": tmp_path}, "got `--quick`"),
        (Request(tune=True), {}, "`--tune` must come with one of unified-view, jrd"),
        (Request(backbone=object()), {}, "`--backbone` must come with one of semi-supervised, unified-view, jrd"),
    ):
        with pytest.raises(ParameterError, match=told):
            run_recipe(recipe, request, **settings)  # type: ignore[arg-type]


def test_record_needs_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_reproduce, "RESULTS", tmp_path / "none")
    result = CliRunner().invoke(app, ["reproduce", "asymmetric", "--record"])
    assert result.exit_code == 1
    assert "a checkout of nearer" in result.stderr


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_every_recipe_has_the_four_names(recipe) -> None:
    module = recipe.load()
    assert module.KEY
    assert callable(module.measure)
    assert callable(module.present)
    row = dict.fromkeys(module.KEY, "x") | {"rate": None}
    name = module.result_file(row)
    assert any(name == pattern or name.startswith(pattern.rstrip("*")) for pattern in recipe.files)
