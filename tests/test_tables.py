"""The tables of the documents are what the result files say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_no_table_is_stale_or_typed_by_hand() -> None:
    done = subprocess.run(
        [sys.executable, "benchmarks/tables", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"run 'make tables' for: {done.stdout}{done.stderr}"


def test_no_figure_is_older_than_its_rows() -> None:
    done = subprocess.run(
        [sys.executable, "benchmarks/figures", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"run 'make tables' for: {done.stdout}{done.stderr}"


def test_no_long_table_stands_in_prose() -> None:
    """Long tables are pages of docs/benchmarks, where they can be sorted and filtered."""
    for page in (ROOT / "docs").glob("*.md"):
        for table in re.findall(r"<!-- table: [\w-]+ -->\n(.*?)<!-- end -->", page.read_text(), flags=re.DOTALL):
            rows = [line for line in table.splitlines() if line.startswith("|")]
            assert len(rows) <= 22, f"{page.name}: a table of {len(rows) - 2} rows belongs to docs/benchmarks"
