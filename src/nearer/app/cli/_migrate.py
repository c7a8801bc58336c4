"""`nearer migrate` and `nearer adapt`: another encoder behind an index, or a map of the queries in front of it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from nearer.app.cli._loading import load_for, reading
from nearer.app.cli._output import answer, check_is_here, check_new
from nearer.app.cli._use import opened_with_model
from nearer.datasets._anything import read_frame
from nearer.exceptions import ParameterError
from nearer.index import open_index, switch_index
from nearer.models._migrating import beside
from nearer.models._saved import load


def run_migrate(
    index: str,
    *,
    data: Path | None,
    model: Path | None,
    label: Sequence[str] | None,
    unreadable: str,
    apply: bool,
    aside: str | None,
    back: bool,
    out: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Say what moving an index to another model keeps, move it, or go back."""
    kept = beside(index) if aside is None else aside
    if back:
        if data is not None or model is not None or apply:
            raise ParameterError("`--back` must come alone: it gives the index that is kept aside its name again.")
        switch_index(index, kept)
        now = open_index(index, read_only="://" not in index).fingerprint
        told = (
            f"{index} and {kept} have changed their names: {index} has the embeddings of model {now} now. The same"
        )
        answer(as_json, {"index": index, "aside": kept, "model": now}, f"{told} command again undoes this.")
        return
    if data is None or model is None:
        raise ParameterError("DATA and `--model` must be given: items of the index, and the model to move to.")
    if out is not None:
        check_is_here(out)
        check_new(out=out, force=force)
    machine = load(model)
    given = load_for(machine, data, label=label, unreadable=unreadable)
    missing = ParameterError(
        f"`out` must say where the model is saved that asks the moved index: with labels it may come to lie in the "
        f"whitened space of {model}.",
        argument="out",
    )
    # Before minutes of learning where the labels were asked for; the model may find some that nobody named.
    if apply and out is None and label is not None and not machine.asymmetric:
        raise missing
    migration = machine.align(index, given)
    if apply and out is None and migration.whitened:
        raise missing
    document = {
        "pairs": migration.pairs,
        "kept": migration.alignment.kept_,
        "before": migration.alignment.before_,
        "recall@1": {name: value for name, (value, _) in migration.recall.items()},
        "verdict": migration.verdict,
        "whitened": migration.whitened,
        "aside": None,
        "out": None,
    }
    lines = [migration.verdict]
    if apply:
        # The index remembers the model that asks it, which must therefore lie in its folder before.
        saved = migration.model.save(out) if migration.whitened and out is not None else None
        try:
            document["aside"] = migration.apply(aside=aside)
        except BaseException:
            if saved is not None and not force:
                shutil.rmtree(saved)
            raise
        if saved is not None:
            document["out"] = str(saved)
            lines.append(f"{out} is the model for this index: nearer search {index} QUERIES --model {out}")
        elif out is not None:
            lines.append(f"{out} was not written: {model} is the model for this index.")
        lines.append(
            f"{index} was moved; the old index is {document['aside']}. Back: nearer migrate {index} --back"
            if not index.startswith("milvus")
            else f"The moved index is {document['aside']}; {index} is as it was."
        )
    else:
        lines.append("Nothing was changed. --apply moves the index.")
    answer(as_json, document, "\n".join(lines))


def run_adapt(
    index: str, clicks: Path, *, document: str, model: Path | None, out: Path | None, force: bool, as_json: bool
) -> None:
    """Say what a map of the queries gains, and keep the model that has it."""
    if out is not None:
        check_is_here(out)
        check_new(out=out, force=force)
    opened, machine = opened_with_model(index, model)
    with opened:
        ids = {str(name): name for name in opened.ids}
    with reading("clicks"):
        frame = read_frame(clicks, exact=None)
        named = frame[document].words()
        adaptation = machine.adapt(index, frame.without([document]), [ids.get(str(name)) for name in named])
    learned = adaptation.query_map
    lines = [adaptation.verdict]
    unknown = len(frame) - adaptation.pairs
    if unknown:
        lines.append(f"{unknown:,} of {len(frame):,} clicks name items that are not in {index}, and were left out.")
    if out is not None and not learned.power_:
        lines.append(f"{out} was not written: the model stays as it is.")
        out = None
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
