"""`nearer evaluate`, `calibrate` and `same`: how good a model is, and what it answers about two items."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nearer._checks import check_int
from nearer._plain import counted
from nearer.app.cli._loading import load_for, paired
from nearer.app.cli._output import answer, check_drawable, check_new, print_json, say
from nearer.app.cli._pages import evaluation_page
from nearer.app.cli._screen import comparison_table, screen
from nearer.exceptions import NearerWarning, ParameterError
from nearer.models._door import evaluate_dataset
from nearer.models._saved import load
from nearer.reports._curves import error_curves
from nearer.reports._page import Code, Picture, Section, html_report


def run_evaluate(
    data: Path,
    *,
    model: Path,
    label: Sequence[str] | None,
    pairs: Path | None,
    report: Path | None,
    force: bool,
    unreadable: str,
    as_json: bool,
) -> None:
    """Score the model beside the raw features on other data."""
    check_new(report=report, force=force)
    machine = load(model)
    given = load_for(machine, data, label=label, unreadable=unreadable)
    if pairs is not None:
        given = paired(given, pairs)
    comparison = evaluate_dataset(machine, given)
    rows = comparison.first.counts.get("queries", comparison.first.counts.get("rows", len(given.all)))
    left_out = comparison.first.counts.get("trained on, left out", 0)
    notes = [f"Left out: {counted(left_out, 'row')} that the model was trained on."] if left_out else []
    if report is not None:
        evaluation_page(comparison, report, data=data.name, rows=rows, notes=notes)
    if as_json:
        print_json({"rows": rows, **comparison.to_dict()})
        return
    screen().print(comparison_table(comparison, title=f"{counted(rows, 'row')} of {data.name}"))
    for note in notes:
        say(note)
    say(comparison.verdict)


HEADING = "## Same or not"


def run_calibrate(
    data: Path,
    *,
    model: Path,
    label: Sequence[str] | None,
    error: float,
    miss: float | None,
    guarantee: str,
    copies: Path | None,
    report: Path | None,
    force: bool,
    unreadable: str,
    as_json: bool,
) -> None:
    """Calibrate on other classes, or on items without labels, and write the result into the model folder."""
    check_new(report=report, force=force)
    check_drawable(report)
    machine = load(model)
    if machine.place is None:
        raise ParameterError("`--model` must be a folder of this machine, which keeps the thresholds.")
    given = load_for(machine, data, label=label, unreadable=unreadable)
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always", NearerWarning)
        beside = None if copies is None else load_for(machine, copies, option="copies")
        calibration = machine.calibrate(
            given,
            error=error,
            miss=miss,
            guarantee=guarantee,  # type: ignore[arg-type]
            copies=beside,
        )
    notes = [str(warning.message) for warning in raised]
    # The pages stay as they are; the card gets, or changes, its part about same or not.
    pages = {file.name: file.read_bytes() for file in model.iterdir() if _is_page(file)}
    card = pages.get("README.md", b"").decode("utf-8").split(f"\n{HEADING}")[0].rstrip()
    text = "\n".join([str(calibration), *(f"Note: {note}" for note in notes)])
    pages["README.md"] = f"{card}\n\n{HEADING}\n\n```\n{text}\n```\n".encode()
    picture = None
    if report is not None:
        picture = Picture(
            error_curves(calibration), "False matches and misses over the distance, and one against the other"
        )
    machine.save(model, pages=pages)
    if report is not None and picture is not None:
        html_report("Same or not", [Section("Thresholds", [Code(text), picture])], report)
    if as_json:
        record = {key: value for key, value in calibration.to_dict().items() if key not in ("curve_", "likeness_")}
        print_json({**record, "notes": notes, "model": str(model)})
    else:
        say(text)
        say(f"Kept in {model}. Ask: nearer same 0 1 --data {data} --model {model}")


def _is_page(file: Path) -> bool:
    return file.is_file() and file.name != "manifest.json" and file.suffix != ".safetensors"


def run_same(first: str, second: str, *, model: Path, data: Path | None, unreadable: str, as_json: bool) -> None:
    """Whether two rows of a data set, two photos or two texts are the same."""
    machine = load(model)
    if machine.calibration is None:
        raise ParameterError(
            f"The model must be calibrated first: nearer calibrate DATA --model {model} --label COLUMN, with items "
            f"of classes that it did not learn from."
        )
    rows = [_embedded(word, machine, data, unreadable) for word in (first, second)]
    distance = float(np.linalg.norm(rows[0].astype(np.float64) - rows[1]))
    verdict = str(machine.calibration.answers([distance])[0])
    record = {"answer": verdict, "distance": distance, "error": machine.calibration.error}
    answer(as_json, record, f"{verdict} (distance {distance:.4g})")


def _embedded(word: str, machine: Any, data: Path | None, unreadable: str) -> Any:
    if data is not None:
        rows = machine.inputs.of(load_for(machine, data, unreadable=unreadable))
        if not word.isdigit():
            raise ParameterError(f"An item must be a row number with --data, got {word!r}.")
        row = check_int(int(word), "row", minimum=0, maximum=len(rows) - 1)
        return machine.transform(rows[row : row + 1])[0]
    if machine.inputs.encoder is not None and machine.inputs.encoder.kind == "texts":
        return machine.transform([word])[0]
    if Path(word).is_file():
        from nearer.app.cli._use import _image

        return machine.transform(_image(Path(word), machine))[0]
    raise ParameterError(f"`{word}` must be a photo or, with --data, a row number: there is no such file.")
