"""Files with a few changed bytes end in data or in an error of ours: no other error, no dead process, no hang."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import mutated_files
import random_cases
from random_cases import LONG, OUTCOMES

# `make fuzz` tries as many as the audit that found a dead process.
FILES = 3_000 if LONG else 40
SECONDS = 3_600 if LONG else 300


def run(kind: str, first: int, count: int) -> subprocess.CompletedProcess[str]:
    """Some cases of a kind in a process of its own, which a reader may end."""
    paths = [str(Path(random_cases.__file__).parent), *sys.path]
    command = [sys.executable, mutated_files.__file__, kind, str(first), str(count)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "NEARER_MAX_PIXELS": "100000000"}
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=environment, check=False)


@pytest.mark.parametrize("kind", ["parquet", *(sorted(set(mutated_files.KINDS) - {"parquet"}) if LONG else [])])
def test_a_reader_that_could_end_the_process(kind: str) -> None:
    done = run(kind, 0, FILES)
    last = done.stderr.strip().splitlines()[-1:]
    assert done.returncode == 0, f"{kind}: the process ended with {done.returncode} in the case {last}"
    told = json.loads(done.stdout)
    for name in ("answered", "refused"):
        OUTCOMES[f"mutated {kind}", name] += told[name]
    assert told["raw"] == []
    assert told["answered"] > 0
    assert told["refused"] > 0


@pytest.mark.parametrize("kind", sorted(set(mutated_files.KINDS) - {"parquet"}))
def test_other_readers(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    mutated_files.main(kind, 0, FILES)
    assert json.loads(capsys.readouterr().out)["raw"] == []
    for key in [key for key in OUTCOMES if key[0] == kind]:
        del OUTCOMES[key]  # the long form counts the readers in processes of their own


def test_a_case_that_ends_the_process_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = Path(mutated_files.__file__).read_text(encoding="utf-8")
    broken = script.replace(
        "            for read in reads:", "            os.abort()\n            for read in reads:"
    )
    (tmp_path / "mutated_files.py").write_text(broken.replace("import json\n", "import json\nimport os\n"))
    monkeypatch.setattr(mutated_files, "__file__", str(tmp_path / "mutated_files.py"))
    done = run("csv", 7, 2)
    assert done.returncode < 0
    assert "7" in done.stderr.split()
    assert "8" not in done.stderr.split()
