"""`nearer explore` serves a page until Ctrl-C, and gives the project back."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest
from sklearn.datasets import load_wine
from typer.testing import CliRunner

from nearer.app.cli._application import app

needs_server = pytest.mark.skipif(
    importlib.util.find_spec("starlette") is None or importlib.util.find_spec("uvicorn") is None,
    reason="needs starlette and uvicorn: pip install 'nearer[explore]'",
)


@needs_server
def test_it_serves_until_it_is_stopped(tmp_path: Path) -> None:
    load_wine(as_frame=True).frame.to_csv(tmp_path / "wine.csv", index=False)
    command = [
        sys.executable,
        "-u",
        "-m",
        "nearer",
        "explore",
        "wine.csv",
        "-l",
        "target",
        "--no-browser",
        "--json",
    ]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path)},
    ) as run:
        assert run.stdout is not None
        text = ""
        while "}" not in text:
            text += run.stdout.readline()
        about = json.loads(text)
        assert about["items"] == 178
        assert about["project"] == "wine.explore"
        try:
            # The answer comes when the server runs, and then it listens to signals.
            with urlopen(about["url"], timeout=60) as answer:
                assert b"page.js" in answer.read()
            run.send_signal(signal.SIGTERM)
            run.communicate(timeout=60)
        finally:
            run.kill()
    assert run.returncode == 143
    assert (tmp_path / "wine.explore" / "lock").exists()


def test_a_wrong_path_is_one_line() -> None:
    run = CliRunner().invoke(app, ["explore", "nowhere.csv", "--no-browser"])
    assert run.exit_code == 1
    assert "nowhere.csv" in run.output
