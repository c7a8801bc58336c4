"""`nearer adapt`: a map of the queries in front of an index that stays as it is."""

from __future__ import annotations

from pathlib import Path

from nearer.app.cli._loading import reading
from nearer.app.cli._output import answer, check_new
from nearer.app.cli._use import opened_with_model
from nearer.datasets._anything import read_frame


def run_adapt(
    index: str, clicks: Path, *, document: str, model: Path | None, out: Path | None, as_json: bool
) -> None:
    """Say what a map of the queries gains, and keep the model that has it."""
    if out is not None:
        check_new(out=out)
    opened, machine = opened_with_model(index, model)
    with opened:
        ids = {str(name): name for name in opened.ids}
    with reading("clicks"):
        frame = read_frame(clicks, exact=None)
        named = frame[document].words()
        adaptation = machine.adapt(index, frame.without([document]), [ids.get(str(name)) for name in named])
    learned = adaptation.query_map
    lines = [adaptation.verdict]
    if out is not None:
        adaptation.model.save(out)
        lines.append(f"{out} is the model for these queries: nearer search {index} QUERIES --model {out}")
    about = {
        "pairs": adaptation.pairs,
        "power": learned.power_,
        "gain": learned.gain_,
        "gain_error": learned.gain_error_,
        "scores": {f"{power:g}": score for power, score in learned.scores_.items()},
        "verdict": adaptation.verdict,
        "out": None if out is None else str(out),
    }
    answer(as_json, about, "\n".join(lines))
