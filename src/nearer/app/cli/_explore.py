"""`nearer audit` and `nearer explore`: what a person should look at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nearer._storage import write_file
from nearer.app.cli._loading import load_data, load_for
from nearer.app.cli._output import as_utf8, check_new, print_json, say
from nearer.app.explorer._launch import check_installed, serve
from nearer.app.explorer._model import items_of
from nearer.app.explorer._session import Session
from nearer.datasets._anything import ColumnRoles
from nearer.datasets._items import item_name
from nearer.models._auditing import audit_dataset, audit_page
from nearer.models._reading import Reading
from nearer.models._saved import load


def run_audit(
    data: Path,
    *,
    label: Sequence[str] | None,
    text: str | None,
    encoder: str | None,
    id_: str | None,
    out: Path | None,
    report: Path | None,
    force: bool,
    seed: int,
    as_json: bool,
) -> None:
    """Look at a data set and print, or write, what is wrong with it."""
    check_new(out=out, report=report, force=force)
    how = Reading(encoder, text=text, unreadable="skip", progress=False if as_json else None)
    given = load_data(data, label, ColumnRoles(ids=id_), how)
    audit = audit_dataset(given, seed=seed)
    if out is not None:
        write_file(out, as_utf8(audit.to_csv()))
    if report is not None:
        audit_page(audit, given, report)
    if as_json:
        print_json({**audit.to_dict(), "skipped": list(given.skipped)})
        return
    say(str(audit))
    best = audit.suggested
    for row in audit.suspects[:10].tolist():
        name, other = audit.name(int(audit.labels[row])), audit.name(int(best[row]))
        say(f"  {item_name(given, row)}: labelled {name}, looks like {other}")
    for path in (out, report):
        if path is not None:
            say(f"Wrote {path}.")


def run_explore(
    data: Path,
    *,
    model: Path | None,
    label: Sequence[str] | None,
    text: str | None,
    encoder: str | None,
    id_: str | None,
    keep: Sequence[str] | None,
    project: Path | None,
    port: int,
    browser: bool,
    as_json: bool,
) -> None:
    """Serve the map of a data set until Ctrl-C."""
    check_installed()
    machine = None if model is None else load(model)
    if machine is None:
        how = Reading(encoder, text=text, unreadable="skip")
        given = load_data(data, label, ColumnRoles(ids=id_, keep=tuple(keep or ())), how)
    else:
        given = load_for(machine, data, label=label)
    items = items_of(given, machine, root=data if data.is_dir() else None)
    session = Session(items, project=Path(f"{data.stem or data.name}.explore") if project is None else project)
    if as_json:
        about = {"items": session.items.n, "notes": list(session.items.notes), "project": str(session.project.path)}
        serve(session, port=port, browser=browser, say=lambda url: print_json({**about, "url": url}), plain=True)
        return
    for note in session.items.notes:
        say(note)
    serve(session, port=port, browser=browser, say=say)
