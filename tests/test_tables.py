"""The tables of the documents are what the result files say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_no_table_is_stale_or_typed_by_hand() -> None:
    done = subprocess.run(
        [sys.executable, "benchmarks/tables", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"run 'make tables' for: {done.stdout}{done.stderr}"
