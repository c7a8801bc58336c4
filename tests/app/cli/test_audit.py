"""`nearer audit` prints, writes CSV and HTML, and gives JSON."""

from __future__ import annotations

import json
from pathlib import Path

from sklearn.datasets import load_wine
from typer.testing import CliRunner

from nearer.app.cli._application import app


def test_findings_are_printed_and_written(tmp_path: Path) -> None:
    table = load_wine(as_frame=True).frame
    table.loc[3, "target"] = 2
    data = tmp_path / "wine.csv"
    table.to_csv(data, index=False)
    out, page = tmp_path / "found.csv", tmp_path / "found.html"
    run = CliRunner().invoke(app, ["audit", str(data), "-l", "target", "-o", str(out), "--report", str(page)])
    assert run.exit_code == 0, run.output
    assert "row 3: labelled 2, looks like 0" in run.output
    assert out.read_text().splitlines()[1].startswith("3,label,2,0")
    assert "Likely wrong labels" in page.read_text()
    asked = CliRunner().invoke(app, ["audit", str(data), "-l", "target", "--json"])
    assert json.loads(asked.output)["findings"][0]["row"] == 3
    again = CliRunner().invoke(app, ["audit", str(data), "-l", "target", "-o", str(out)])
    assert again.exit_code == 1
    assert "must not exist yet" in again.output
