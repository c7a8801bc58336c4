"""Every script under examples/ runs from start to end; each ends in an assertion of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# The digits are the demo, which has tests of its own and takes longest.
EXAMPLES = sorted(file for file in (ROOT / "examples").glob("*.py") if file.stem != "digits")


def test_there_are_some() -> None:
    assert len(EXAMPLES) >= 7


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_an_example_runs_and_says_something(script: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip()
    assert script.read_text().startswith('"""')
