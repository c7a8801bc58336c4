"""`nearer evaluate`: a model on other data, beside the raw features."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nearer.app.cli._loading import load_for, paired
from nearer.app.cli._output import check_new, print_json, say
from nearer.app.cli._pages import evaluation_page
from nearer.app.cli._screen import comparison_table, screen
from nearer.models._door import evaluate_dataset
from nearer.models._model import load

__all__ = ["run_evaluate"]


def run_evaluate(
    data: Path,
    *,
    model: Path,
    label: Sequence[str] | None,
    pairs: Path | None,
    report: Path | None,
    as_json: bool,
) -> None:
    """Score the model beside the raw features on other data."""
    check_new(report=report)
    machine = load(model)
    given = load_for(machine, data, label=label)
    if pairs is not None:
        given = paired(given, pairs)
    comparison = evaluate_dataset(machine, given)
    rows = comparison.first.counts.get("queries", comparison.first.counts.get("rows", len(given.all)))
    left_out = comparison.first.counts.get("trained on, left out", 0)
    notes = [f"{left_out:,} rows were left out: the model was trained on them."] if left_out else []
    if report is not None:
        evaluation_page(comparison, report, data=data.name, rows=rows, notes=notes)
    if as_json:
        print_json({"rows": rows, **comparison.to_dict()})
        return
    screen().print(comparison_table(comparison, title=f"{rows:,} rows of {data.name}"))
    for note in notes:
        say(note)
    say(comparison.verdict)
