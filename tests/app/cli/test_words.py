"""What commands and errors advise exists, and one word stands for one thing on the command line and in Python."""

from __future__ import annotations

import ast
import functools
import gzip
import html
import inspect
import json
import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.main import get_command
from typer.testing import CliRunner

import nearer
from nearer import _names as names
from nearer import losses
from nearer.app.cli import app
from nearer.app.cli._application import FACES
from nearer.app.cli._command import in_options
from nearer.exceptions import CorruptFileError, LimitError, NearerError, ParameterError

SOURCE = Path(nearer.__file__).parent
OPTION = r"(?<![\w-])--[a-z][a-z-]*|(?<![\w-])-[a-z](?![\w-])"
# Options of other programs that a text names.
FOREIGN = {"--nproc_per_node", "--nproc", "-m"}


COMMANDS = get_command(app).commands  # type: ignore[attr-defined]


@functools.cache
def options(command: str) -> frozenset[str]:
    parameters = COMMANDS[command].params
    return frozenset({"--help"}.union(*({*one.opts, *one.secondary_opts} for one in parameters)))


def advised(text: str, own: AbstractSet[str]) -> Iterator[tuple[str, AbstractSet[str]]]:
    """Every option in a text, and those it may be: of the command named before it in its line, else `own`."""
    for line in text.splitlines():
        known = own
        for word in re.finditer(rf"nearer ([a-z]+)|{OPTION}", line):
            if word[1] is None:
                yield word[0], known
            elif word[1] in COMMANDS:
                known = options(word[1])


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.__name__)
def test_help_names_options_that_there_are(face) -> None:
    command = COMMANDS[face.__name__]
    texts = [inspect.getdoc(face) or "", *(one.help or "" for one in command.params)]
    for option, known in advised("\n".join(texts), options(face.__name__)):
        assert option in known | FOREIGN, (face.__name__, option)


def texts_in(file: Path) -> Iterator[str]:
    """The strings of a file but for its docstrings, f-strings in one piece."""
    tree = ast.parse(file.read_text())
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings | inside:
            yield node.value


def test_messages_name_options_of_the_command_that_says_them() -> None:
    every: set[str] = set().union(*(options(face.__name__) for face in FACES))
    of_module: dict[str, set[str]] = {}
    for face in FACES:
        of_module.setdefault(face.runner.split(".")[0], set()).update(options(face.__name__))
    of_module["_config"] |= options("fit")  # which reads the file
    found = 0
    for file in SOURCE.rglob("*.py"):
        place = file.relative_to(SOURCE).as_posix()
        if place.startswith(("app/cli/_command", "app/explorer", "reports/")):
            continue
        # The library does not know whether a command called it: it says `name=value`, and the command translates.
        inside = place.startswith("app/cli/")
        known: AbstractSet[str] = of_module.get(file.stem, every) if inside else set()
        for text in texts_in(file):
            if " " not in text or "pip install" in text or "python -c" in text:
                continue
            for option, allowed in advised(text, known):
                found += 1
                assert option in allowed, (place, option, text)
    assert found > 30


def test_a_message_speaks_to_whoever_asked() -> None:
    faces = {face.__name__: face for face in FACES}
    error = NearerError("`y` must be given. Pass `y='kind'`, or `ignore=['kind']`. (`read_only=True`)")
    assert in_options(faces["fit"], error) == (
        "`--label` must be given. Pass `--label kind`, or `--ignore kind`. (`nearer serve --read-only`)"
    )
    told = in_options(faces["evaluate"], NearerError("Fit with `refit=False`."))
    assert told == "Fit with `nearer fit --no-refit`."


def test_what_both_faces_have_has_one_name() -> None:
    python = set(inspect.signature(nearer.fit).parameters)
    python -= {"data", "y", "encoder_settings", "settings", "verbose"}
    assert python <= {one.name.rstrip("_") for one in COMMANDS["fit"].params}


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    kind = np.arange(60) % 2
    frame = pd.DataFrame({"a": rng.normal(size=60) + 3 * kind, "b": rng.normal(size=60), "kind": kind})
    frame["kind"] = np.where(kind, "cat", "dog")
    frame.to_csv("data.csv", index=False)
    return frame


def test_packed_tables(table: pd.DataFrame) -> None:
    table.to_csv("data.csv.gz", index=False)
    table.to_csv("data.tsv.gz", index=False, sep="\t")
    plain = nearer.fit("data.csv", "kind", method="lfda").transform(table)
    for file in ("data.csv.gz", "data.tsv.gz"):
        np.testing.assert_array_equal(nearer.fit(file, "kind", method="lfda").transform(table), plain)
        assert len(nearer.fit(file, "kind", rows=30, method="lfda").transform(file)) == 60
    run("fit", "data.csv.gz", "-l", "kind", "--method", "lfda", "-q")
    run("embed", "data.csv.gz", "-m", "model", "-o", "rows.npy")
    assert len(np.load("rows.npy")) == 60
    whole = Path("data.csv.gz").read_bytes()
    Path("cut.csv.gz").write_bytes(whole[:-20])
    with pytest.raises(CorruptFileError, match="must be packed by gzip"):
        nearer.fit("cut.csv.gz", "kind")
    Path("bomb.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"0,0\n" * (300 << 20 >> 2)))
    with pytest.MonkeyPatch.context() as smaller:
        smaller.setenv("NEARER_MAX_BYTES", str(100 << 20))
        with pytest.raises(LimitError, match=r"bomb\.csv\.gz"):
            nearer.fit("bomb.csv.gz", "a")


def test_force_writes_over_what_is_there_and_nothing_else_does(table: pd.DataFrame) -> None:
    run("fit", "data.csv", "-l", "kind", "--method", "lfda", "-q")
    first = Path("model/README.md").read_text()
    assert "add `--force`" in run("fit", "data.csv", "-l", "kind", "--method", "kissme", "-q", code=1)
    assert Path("model/README.md").read_text() == first
    run("fit", "data.csv", "-l", "kind", "--method", "kissme", "-q", "--force")
    assert Path("model/README.md").read_text() != first
    Path("mine").mkdir()
    Path("mine/notes.txt").write_text("kept")
    assert "must be free, an empty folder, or" in run(
        "fit", "data.csv", "-l", "kind", "-o", "mine", "--force", code=1
    )
    assert Path("mine/notes.txt").read_text() == "kept"
    run("index", "data.csv", "-m", "model", "-l", "kind", "-q")
    for words in (
        ["embed", "data.csv", "-m", "model", "-o", "out.npy"],
        ["embed", "data.csv", "-m", "model", "-o", "out.parquet"],
        ["search", "index", "data.csv", "-o", "hits.csv", "--report", "hits.html"],
        ["evaluate", "data.csv", "-m", "model", "-l", "kind", "--report", "scores.html"],
        ["export", "model", "-o", "model.safetensors"],
        ["audit", "data.csv", "-l", "kind", "-o", "audit.csv"],
        ["dedupe", "data.csv", "-l", "kind"],
        ["init"],
    ):
        if words[0] == "evaluate":
            table.iloc[:40].to_csv("data.csv", index=False)
            run("fit", "data.csv", "-l", "kind", "--method", "lfda", "-q", "--force")
            table.to_csv("data.csv", index=False)
        run(*words)
        assert "--force" in run(*words, code=1)
        run(*words, "--force")


def test_json_may_stand_before_the_command(table: pd.DataFrame) -> None:
    before = json.loads(run("--json", "methods", "lmnn"))
    assert before == json.loads(run("methods", "lmnn", "--json"))


def test_a_damaged_photo_is_answered_with_an_option_that_helps(tmp_path, monkeypatch) -> None:
    pillow = pytest.importorskip("PIL.Image", reason="needs pillow")
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate(("blue", "red")):
        Path("photos", name).mkdir(parents=True)
        for one in range(12):
            colors = np.random.default_rng(one).integers(0, 90, (12, 12, 3), dtype=np.uint8)
            colors[..., 2 - 2 * number] += 120
            pillow.fromarray(colors).save(f"photos/{name}/{one:02d}.png")
    run("fit", "photos", "--encoder", "none", "--epochs", "1", "-q", "--no-pictures")
    run("index", "photos", "-m", "model", "-o", "whole", "-q")
    Path("photos/red/broken.jpg").write_bytes(b"no photo")
    for words in (
        ["embed", "photos", "-m", "model", "-o", "rows.npy"],
        ["index", "photos", "-m", "model"],
        ["search", "whole", "photos", "-k", "1"],
        ["neighbors", "3", "--data", "photos", "-m", "model"],
        ["dedupe", "photos"],
        ["ask", "photos", "--list"],
    ):
        told = " ".join(run(*words, code=1).split())
        assert "--unreadable skip" in told, words
        run(*words, "--unreadable", "skip")
    assert len(np.load("rows.npy")) == 24


@pytest.mark.parametrize("name", names.ELSEWHERE.values())
def test_names_of_other_libraries_lead_to_names_of_ours(name: str) -> None:
    package, _, ours = name.partition(".")
    assert ours in getattr(nearer, package).__all__


def test_a_name_that_was_meant_is_named() -> None:
    for typed, said in {
        "TripletMarginLoss": "It is nearer.losses.TripletLoss here.",
        "MultiSimilarityMiner": "It is nearer.mining.VTHM here.",
        "RawLoss": "Did you mean 'RAWLoss'?",
    }.items():
        with pytest.raises(AttributeError, match=re.escape(said)):
            getattr(losses, typed)
        # Python has words of its own for an import that fails, and ours stand in their place.
        with pytest.raises(ImportError, match=re.escape(said)):
            exec(f"from nearer.losses import {typed}")
        assert not hasattr(losses, typed)
    with pytest.raises(ImportError, match="cannot import name 'zzzz'"):
        exec("from nearer.losses import zzzz")
    with pytest.raises(ParameterError, match=r"one of \d\d names, got 'RawLoss'. Did you mean 'RAWLoss'\?$"):
        nearer.fit(np.eye(20), [0, 1] * 10, loss="RawLoss")
    with pytest.raises(ParameterError, match="Did you mean 'lda'"):
        nearer.fit(np.eye(20), [0, 1] * 10, method="LinearDiscriminantAnalysis")
    assert "Did you mean 'TripletLoss'" in run("methods", "TripletMarginLoss", code=1)


def test_an_address_is_no_folder(table: pd.DataFrame) -> None:
    for words in (
        ("fit", "data.csv", "-l", "kind"),
        ("adapt", "index", "clicks.csv", "--document", "clicked"),
        ("migrate", "index", "data.csv", "--model", "model", "--apply"),
    ):
        told = " ".join(run(*words, "-o", "hf://me/model", code=1).split())
        assert "nearer export FOLDER --out hf://owner/name" in told
    assert not Path("hf:").exists()


def test_the_page_of_a_search_shows_what_was_asked(table: pd.DataFrame) -> None:
    run("fit", "data.csv", "-l", "kind", "--method", "lfda", "-q")
    run("index", "data.csv", "-m", "model", "-l", "kind", "-q")
    table.iloc[:1].to_csv("one.csv", index=False)
    told = run("search", "index", "one.csv", "-k", "1", "--report", "page.html")
    assert told.startswith("1 query, 1 hit each")
    page = Path("page.html").read_text()
    assert "row 0 of one.csv" in page
    assert f"a {table['a'][0]}"[:8] in page
    assert "1 query of one.csv in index. The nearest item is" in page
    assert " away." in page
    run("search", "index", "data.csv", "-k", "1", "--report", "many.html")
    assert "<nav" not in Path("many.html").read_text(), "a list of forty rows would stand before the first"
    assert "│ row 0 │" in run("search", "index", "one.csv", "-k", "1")


def test_the_snippet_of_a_report_runs(table: pd.DataFrame) -> None:
    run("fit", "data.csv", "-l", "kind", "--method", "lfda", "-o", "mine", "-q", "--report", "fit.html")
    page = Path("fit.html").read_text()
    snippet = html.unescape(re.findall(r"<pre><code>(import.*?)</code></pre>", page, re.DOTALL)[0])
    assert 'nearer.load("mine")' in snippet
    table.iloc[:5].to_csv("new.csv", index=False)
    exec(snippet, {})
    assert page.count("held-out rows (") == 0, "the scores stand there once, as a table"
    assert page.count("<td>map@r</td>") == 1
