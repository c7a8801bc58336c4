"""The tables of the documents are what the result files say."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

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


def test_a_row_whose_stamp_git_cannot_turn_back_gets_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    record = importlib.import_module("record")
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    monkeypatch.setattr(record, "check_committed", lambda: None)
    rows = [{"what": "old", "made": {"source": "3ff25b7d69e7"}}, {"what": "new", "made": {"trees": {"src": "1"}}}]
    (tmp_path / "some.json").write_text(json.dumps({"name": "some", "key": ["what"], "rows": rows}))
    monkeypatch.setattr(record, "stamp", lambda **_: {"trees": {"src": "2"}})
    record.save("some", [{"what": "old"}, {"what": "new"}], key=["what"])
    found = json.loads((tmp_path / "some.json").read_text())["rows"]
    assert {row["what"]: row["made"]["trees"]["src"] for row in found} == {"old": "2", "new": "1"}
