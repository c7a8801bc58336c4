"""The command line: help, exit codes, JSON, and nothing half-written."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from nearer import __version__
from nearer.app.cli import _about as doctor_module
from nearer.app.cli import _demo as demo_module
from nearer.app.cli import app
from nearer.app.cli._application import FACES, GROUPS
from nearer.app.cli._demo import digits_pictures, learn_digits
from nearer.app.cli._pages import evaluation_page
from nearer.exceptions import NearerError

COMMANDS = [*(face.__name__ for face in FACES), "reproduce"]


@pytest.fixture
def runner() -> CliRunner:
    return CliRunner()


@pytest.fixture
def quick_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearer.app.cli._demo.digits_pictures", lambda learned, seed: [])


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom nearer.app.cli import app\n"
        "try:\n    app(['--help'])\nexcept SystemExit as end:\n    assert not end.code\n"
        "heavy = {'torch', 'numpy', 'sklearn', 'scipy', 'matplotlib', 'faiss', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("face", [face for face in app.registered_commands if hasattr(face.callback, "runner")])
def test_what_a_command_declares_is_what_its_runner_takes(face) -> None:
    module, name = face.callback.runner.split(".")
    taken = inspect.signature(getattr(import_module(f"nearer.app.cli.{module}"), name)).parameters
    declared = set(inspect.signature(face.callback).parameters)
    assert set(taken) == declared or ("options" in taken and set(taken) - {"options"} <= declared)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples_and_json(runner: CliRunner, command: str) -> None:
    result = runner.invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert f"  nearer {command}" in result.output
    assert "--json" in result.output


def test_every_command_is_listed_here(runner: CliRunner) -> None:
    text = runner.invoke(app, ["--help"]).output
    assert re.findall(r"^  ([a-z]+)  +[A-Z]", text.partition("Learn:")[2], re.MULTILINE) == COMMANDS
    assert re.findall(r"^([A-Z][a-z ]+):$", text, re.MULTILINE) == ["Options", *GROUPS]
    assert "…" not in text


def test_version(runner: CliRunner) -> None:
    assert runner.invoke(app, ["--version"]).output == f"nearer {__version__}\n"
    assert json.loads(runner.invoke(app, ["--json", "--version"]).output) == {"nearer": __version__}


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--json"],
        ["dmeo"],
        ["demo", "--sede", "1"],
        ["demo", "--seed", "x"],
        ["demo", "--seed", "-1"],
        ["demo", "--epochs", "0"],
        ["demo", "extra"],
        ["doctor", "--out", "x"],
    ],
    ids=" ".join,
)
def test_usage_errors_are_exit_code_2(runner: CliRunner, arguments: list[str]) -> None:
    result = runner.invoke(app, arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_demo_prints_the_scores_and_writes_the_report(
    runner: CliRunner, tmp_path: Path, quick_pictures: None
) -> None:
    out = tmp_path / "new folder" / "page.html"
    result = runner.invoke(app, ["demo", "--report", str(out), "--epochs", "2"])
    assert result.exit_code == 0, result.output
    assert re.search(r"recall@8 │ +0\.\d{4} │ +0\.\d{4} │ +[+-]0\.\d{4}", result.output)
    assert "The learned metric is better than raw features on" in result.output
    assert "539 held out" in result.output
    assert "━━ " not in result.stderr  # no progress bar where nobody watches
    assert re.search(r"https?://", out.read_text()) is None


def test_demo_as_json(
    runner: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick_pictures: None
) -> None:
    monkeypatch.chdir(tmp_path)
    result = runner.invoke(app, ["demo", "--json", "--quiet", "--epochs", "1", "--seed", "5"])
    record = json.loads(result.stdout)
    assert result.stderr == ""
    assert record["settings"]["seed"] == 5
    assert Path(record["report"]) == tmp_path / "demo-report.html"
    assert (tmp_path / "demo-report.html").read_text().startswith("<!DOCTYPE html>")


def test_a_process_of_its_own() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "nearer", "doctor", "--json"], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["healthy"] is True
    assert done.stderr == ""


@pytest.mark.parametrize("place", ["a-file/page.html", ""])
@pytest.mark.parametrize("as_json", [False, True])
def test_an_output_that_cannot_be_written_is_refused_at_once(
    runner: CliRunner, tmp_path: Path, place: str, as_json: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a-file").write_text("kept")
    monkeypatch.setattr("nearer.app.cli._demo.load", lambda name: pytest.fail("work began"))
    result = runner.invoke(app, ["demo", "--report", str(tmp_path / place), *(["--json"] if as_json else [])])
    assert result.exit_code == 1
    assert ("`--report` must be" in result.stderr) is not as_json
    assert "Traceback" not in result.output
    assert [file.name for file in tmp_path.iterdir()] == ["a-file"]
    assert (tmp_path / "a-file").read_text() == "kept"
    if as_json:
        assert "`--report` must be" in json.loads(result.stdout)["error"]
        assert result.stderr == "", "once is enough"


def test_a_full_disk_leaves_nothing_behind(
    runner: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick_pictures: None
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    result = runner.invoke(app, ["demo", "--report", str(tmp_path / "page.html"), "--epochs", "1"])
    assert result.exit_code == 1
    assert "No space left on device" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_the_library_is_one_line(
    runner: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: object) -> None:
        raise NearerError("`x` must be so, got otherwise. Do this.")

    monkeypatch.setattr("nearer.app.cli._demo.learn_digits", refuse)
    result = runner.invoke(app, ["demo", "--report", str(tmp_path / "page.html")])
    assert result.exit_code == 1
    assert result.stderr == "nearer: `x` must be so, got otherwise. Do this.\n"


def test_doctor_finds_a_healthy_installation(runner: CliRunner) -> None:
    result = runner.invoke(app, ["doctor"])
    assert result.exit_code == 0, result.output
    assert "Everything works." in result.output
    record = json.loads(runner.invoke(app, ["doctor", "--json"]).output)
    assert record["healthy"] is True
    assert set(record["checks"]) == {"threads", "loss", "index", "evaluation"}
    assert record["packages"]["torch"].startswith("2.")


def test_doctor_names_what_is_broken(runner: CliRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> str:
        raise ImportError("libgomp.so.1: cannot open shared object file")

    monkeypatch.setitem(doctor_module.CHECKS, "index", broken)
    result = runner.invoke(app, ["doctor"])
    assert result.exit_code == 1
    assert re.search(r"BROKEN +index +ImportError: libgomp", result.output)
    assert "Something is broken" in result.output
    record = json.loads(runner.invoke(app, ["doctor", "--json"]).output)
    assert record["healthy"] is False


def test_doctor_notices_an_absent_package(runner: CliRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_module, "PACKAGES", ("no-such-package",))
    assert "no-such-package absent" in runner.invoke(app, ["doctor"]).output


def test_a_reader_that_has_seen_enough_gets_no_message() -> None:
    """`nearer ... | head`: the pipe is closed before the command writes."""
    with subprocess.Popen(
        [sys.executable, "-m", "nearer", "methods", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        told = child.stderr.read()
    assert told == b""
    assert child.returncode == 141


def test_the_demo_says_the_same_twice_and_draws_its_pictures(tmp_path: Path) -> None:
    torch.manual_seed(1)
    first = learn_digits(seed=3, epochs=1)
    torch.manual_seed(2)
    again = learn_digits(seed=3, epochs=1)
    assert first.comparison.to_dict() == again.comparison.to_dict()
    page = evaluation_page(
        first.comparison, tmp_path / "page.html", data="digits", rows=539, more=digits_pictures(first, 0)
    ).read_text()
    assert page.count("<img ") == 4
    assert not re.search(r"https?://|<(script|link|iframe)\b", page)


def test_held_out_digits_never_reach_the_training_of_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the held-out digits look like, the network learns the same."""
    whole = demo_module.load("digits")
    expected = learn_digits(seed=0, epochs=1)
    rows = demo_module.stratified_split(whole.all.y, test=demo_module.HELD_OUT, seed=0)[1]
    x = whole.all.x.copy()
    x[rows] = np.random.default_rng(0).random(x[rows].shape)
    spoilt = dataclasses.replace(whole, parts={"all": dataclasses.replace(whole.all, x=x)})
    monkeypatch.setattr(demo_module, "load", lambda name: spoilt)
    came = learn_digits(seed=0, epochs=1)
    assert came.losses == expected.losses
    assert came.comparison.second["recall@1"] < 0.5
