"""Names come from the data, and what a terminal would obey in them is shown and not sent."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from nearer.app.cli import app
from nearer.app.cli._output import plain

# A title, a colour, a link, the 8-bit form of the same, a bell, and letters that run backwards.
EVIL = "\x1b]0;owned\x07\x1b[31m\x1b]8;;http://evil.example\x1b\\\x9b2J\x85\u202e[bold]x[/bold]"
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table whose classes, ids, columns and file name hold them; one label is wrong, two rows are twins."""
    rng = np.random.default_rng(0)
    label = np.repeat([0, 1, 2], 40)
    x = rng.normal(size=(120, 4)) + 6 * np.eye(4)[label]
    x[1], x[41] = x[0], x[40]
    names = [f"class{one}{EVIL}" for one in label]
    names[5] = names[119]
    place = tmp_path_factory.mktemp("terminal") / f"data{EVIL.replace('/', '')}.csv"
    lines = [f"name{EVIL},a,b,c{EVIL},d,note{EVIL},target{EVIL}"]
    for row in range(120):
        lines.append(
            ",".join([f"id{row}{EVIL}", *(f"{one:.3f}" for one in x[row]), f"note{row}{EVIL}", names[row]])
        )
    place.write_text("\n".join(lines) + "\n", newline="")
    return place


def run(*words: object, code: int = 0, given: str | None = None) -> str:
    # With color=True the output is what a terminal would get.
    done = CliRunner().invoke(app, [str(word) for word in words], color=True, input=given)
    assert done.exit_code == code, done.output
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.output


@pytest.mark.parametrize(
    "words", [[EVIL], ["search", "a", "b", f"--no{EVIL}"], ["search", "a", "b", EVIL], ["fit", "--seed", EVIL]]
)
def test_a_command_that_is_not_understood_repeats_nothing_that_a_terminal_obeys(words: list[str]) -> None:
    told = run(*words, code=2)
    assert not OBEYED.search(told), told
    assert "x1b" in told or "--seed" in told


@pytest.mark.filterwarnings("ignore:Glyph")
def test_no_command_sends_what_came_with_the_data(data: Path, tmp_path: Path) -> None:
    label, ids, note = f"target{EVIL}", f"name{EVIL}", f"note{EVIL}"
    model, index = tmp_path / f"model{EVIL.replace('/', '')}", tmp_path / "index"
    about = ["-l", label, "--id", ids]
    # To be asked about, some rows must be without a label.
    holes = tmp_path / "holes.csv"
    lines = data.read_text().split("\n")
    holes.write_text(
        "\n".join(line.rpartition(",")[0] + "," if row % 9 == 8 else line for row, line in enumerate(lines))
    )
    outputs = {
        "audit": run("audit", data, *about),
        "audit json": run("audit", data, *about, "--json"),
        "fit": run("fit", data, *about, "--keep", note, "-o", model, "--method", "rca", "--no-refit"),
        "evaluate": run("evaluate", data, "-m", model, "-l", label),
        "neighbors": run("neighbors", 0, "-d", data, "-m", model, "-l", label, "-k", 3),
        "index": run("index", data, "-m", model, "-o", index),
        "search": run("search", index, data, "-m", model, "-k", 2),
        "search json": run("search", index, data, "-m", model, "-k", 2, "--json"),
        "dedupe": run("dedupe", data, "-l", label, "-o", tmp_path / f"twice{EVIL.replace('/', '')}.csv"),
        "ask list": run("ask", holes, *about, "--list", "-o", tmp_path / "answers.csv"),
        "ask": run("ask", holes, *about, "-o", tmp_path / "more.csv", given="q\n"),
        "missing": run("audit", tmp_path / f"nothing{EVIL}", code=1),
        "column": run("audit", data, "-l", f"other{EVIL}", code=1),
        "other data": run("evaluate", data, "-m", model, "-l", f"no{EVIL}", code=1),
    }
    for name, text in outputs.items():
        assert not OBEYED.search(text.replace("\r\n", "\n")), (name, OBEYED.findall(text), text[:500])
    for name in ("audit", "neighbors", "search", "ask list", "missing", "column"):
        assert "\\x1b" in outputs[name].replace("\n", ""), f"{name}: it is shown"
    found = json.loads(outputs["search json"])["results"][0][0]
    assert found["id"] in (f"id0{EVIL}", f"id1{EVIL}"), "JSON loses nothing"


def test_a_real_terminal_gets_none_of_it(data: Path) -> None:
    """As the command is really run: a process whose output is a terminal."""
    ours, its = pty.openpty()
    command = [sys.executable, "-m", "nearer", "audit", str(data), "-l", f"target{EVIL}"]
    with subprocess.Popen(command, stdout=its, stderr=its, stdin=subprocess.DEVNULL) as process:
        os.close(its)
        came = b""
        # A terminal whose other end has gone is an error, not an end.
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:
                break
            if not piece:
                break
            came += piece
        os.close(ours)
    text = came.decode()
    assert process.returncode == 0, text
    assert "class0" in text
    assert "owned" in text
    # Colours, and hiding the cursor while it is busy, are rich's own.
    left = re.sub(r"\x1b\[(?:\?25[lh]|\d*[AK]|\d+(?:;\d+)*m|0m)|\r", "", text)
    assert not OBEYED.search(left), OBEYED.findall(left)
    for one in ("\x1b]0;", "\x1b]8;", "\x1b[31m\x1b]", "\x9b", "\u202e"):
        assert one not in text


def test_every_control_is_shown_and_nothing_else_is_touched() -> None:
    every = "".join(map(chr, range(0x3000)))
    shown = plain(every)
    assert not OBEYED.search(shown)
    assert plain("tab\tline\nä 日本 🐈") == "tab\tline\nä 日本 🐈"
    assert plain(EVIL).startswith(r"\x1b]0;owned\x07\x1b[31m")
