"""`nearer embed`, `evaluate`, `neighbors`, `index`, `search` and `export`: what a saved model is for."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from nearer._checks import check_int
from nearer._plain import counted, csv_text
from nearer._storage import write_file
from nearer.app.cli._loading import as_asked, as_where, load_for, reading
from nearer.app.cli._output import answer, check_new, print_json, say
from nearer.app.cli._screen import screen
from nearer.datasets import Dataset
from nearer.datasets._image_files import IMAGES, load_image
from nearer.exceptions import MissingDataError, ParameterError, ShapeError
from nearer.index import HNSW, IVF, IVFPQ, Exact, Index, open_index
from nearer.index._kinds import Wanted
from nearer.index._open import check_fits, model_of
from nearer.models import Model
from nearer.models._inputs import item_metadata
from nearer.models._saved import load
from nearer.models._sinks import stopped_before, work_folder

KINDS: dict[str, Any] = {"auto": None, "exact": Exact(), "hnsw": HNSW(), "ivf": IVF(), "ivfpq": IVFPQ()}


def run_embed(
    data: Path,
    *,
    model: Path,
    out: str,
    batch_size: int | None,
    unreadable: str,
    force: bool,
    ray: str | None,
    workers: int,
    quiet: bool,
    as_json: bool,
) -> None:
    """Write the embeddings of all rows, part by part."""
    from nearer.models import embed_stream
    from nearer.models._sinks import FILES

    to_file = "://" not in out and Path(out).suffix.lower() in FILES
    if not to_file and "://" not in out and Path(out).suffix:
        raise ParameterError(f"`--out` must end in {', '.join(FILES)}, or be a folder or a URL, got {out!r}.")
    if ray is not None:
        from nearer.models._bulk_ray import embed_with_ray

        done = embed_with_ray(model, data, out, address=ray, workers=workers, batch_size=batch_size)
    else:
        if to_file:
            check_new(out=Path(out), force=force)
        with reading():
            done = embed_stream(
                load(model),
                data,
                out,
                batch_size=batch_size,
                unreadable=unreadable,
                force=force,
                progress=_shown(quiet, as_json),
            )
    note = f" ({done.earlier:,} of them by an earlier run)" if done.earlier else ""
    answer(
        as_json,
        {"rows": done.rows, "dimensions": done.dimensions, "out": done.out, "earlier": done.earlier},
        f"{counted(done.rows, 'embedding')} of {done.dimensions} dimensions{note}: {done.out}",
    )


def _shown(quiet: bool, as_json: bool) -> bool:
    """Whether someone looks at a progress bar."""
    return not quiet and not as_json and sys.stderr.isatty()


def run_neighbors(
    query: str, *, model: Path, data: Path, label: Sequence[str] | None, k: int, unreadable: str, as_json: bool
) -> None:
    """The nearest rows of a data set to one of its rows, or to an image."""
    machine = load(model)
    given = load_for(machine, data, label=label, unreadable=unreadable)
    k = check_int(k, "k", maximum=len(given.all))
    embeddings = machine.embed(given)
    index = Index(embeddings.shape[1], similarity="euclidean")
    index.add(machine.embed(given, side="database"), metadata=item_metadata(given))
    if query.lstrip("-").isdigit():
        row = check_int(int(query), "QUERY", minimum=0, maximum=len(given.all) - 1)
        hits = [
            hit for hit in index.search(embeddings[row : row + 1], k=min(k + 1, len(given.all)))[0] if hit.id != row
        ]
    else:
        hits = index.search(machine.transform(_image(Path(query), machine)), k=k)[0]
    _print_hits([hits[:k]], as_json=as_json, queries=[query])


def run_index(
    data: str,
    *,
    model: Path | None,
    out: str,
    label: Sequence[str] | None,
    kind: str,
    batch_size: int | None,
    unreadable: str,
    quiet: bool,
    as_json: bool,
) -> None:
    """Embed a data set part by part into an index; without a model copy an index as it is."""
    if model is None:
        _copy(data, out=out, kind=kind, as_json=as_json)
        return
    folder = Path(out)
    unfinished = (work_folder(out) / "progress.json").exists()
    if (
        "://" not in out
        and folder.exists()
        and not unfinished
        and any(folder.iterdir() if folder.is_dir() else [folder])
    ):
        raise ParameterError(f"`--out` must be free or an empty folder, `{out}` is not.")
    machine = load(model)
    from nearer.models import embed_stream

    with reading():
        embed_stream(
            machine,
            Path(data),
            out,
            batch_size=batch_size,
            kind=KINDS[kind],
            labels=as_asked(label),
            unreadable=unreadable,
            progress=_shown(quiet, as_json),
        )
    index = open_index(out, fingerprint=machine.fingerprint, read_only="://" not in out)
    items, recall = index.count(), getattr(index, "recall", None)
    index.close()
    note = "" if recall is None else f"; measured recall {recall.value:.3f}"
    answer(
        as_json,
        {"items": items, "kind": kind, "out": out, "recall": None if recall is None else recall.value},
        f"{counted(items, 'item')} in {out} ({kind}{note}). Search it: nearer search {out} QUERIES",
    )


def _copy(source: str, *, out: str, kind: str, as_json: bool) -> None:
    """Copy an index as it is."""
    from nearer.models._sinks import FILES

    if "://" not in out and Path(out).suffix.lower() in set(FILES) - {".parquet"}:
        raise ParameterError(f"`--out` must be a folder, a URL or a .parquet file, got {out!r}.")
    if "://" not in source and Path(source).is_file() and Path(source).suffix.lower() != ".parquet":
        raise ParameterError(f"`--model` must be given: `{source}` is data, which a model must embed.")
    from nearer.index import copy_index

    say_unfinished(source)
    items = copy_index(source, out, kind=KINDS[kind])
    answer(as_json, {"items": items, "out": out}, f"{counted(items, 'item')} in {out}.")


def say_unfinished(index: str) -> None:
    """Tell of rows that are not there yet, on stderr: what is read by programs stays as it is."""
    if note := stopped_before(index):
        say(f"nearer: {note}", err=True)


def opened_with_model(index: str, model: Path | None) -> tuple[Any, Model]:
    """An index to search in, and the model that was named or that it remembers."""
    opened = open_existing(index)
    say_unfinished(index)
    machine = load(model_of(opened, index) if model is None else model)
    check_fits(opened, index, Wanted(fingerprint=machine.fingerprint))
    return opened, machine


def open_existing(index: str) -> Any:
    """An index to read, which must be there."""
    try:
        return open_index(index, read_only="://" not in index)
    except MissingDataError as error:
        if error.argument != "dimension":
            raise
        raise MissingDataError(
            f"There must be an index at `{index}`. Make one: nearer index DATA --model MODEL --out {index}."
        ) from error


def run_search(
    index: str,
    queries: Path,
    *,
    model: Path | None,
    k: int,
    where: Sequence[str] | None,
    out: Path | None,
    report: Path | None,
    photos: Path | None,
    force: bool,
    unreadable: str,
    limit: int,
    as_json: bool,
) -> None:
    """The nearest items of an index for every row of a file, or for one image."""
    if out is not None and out.suffix not in (".csv", ".jsonl"):
        raise ParameterError(f"`--out` must end in .csv or .jsonl, got {out.name!r}; a page is for `--report`.")
    check_new(out=out, report=report, force=force)
    opened, machine = opened_with_model(index, model)
    condition = {"$and": [as_where(text, opened.fields()) for text in where]} if where else None
    k = min(check_int(k, "k"), max(1, opened.count(condition)))
    given: Dataset | None = None
    if queries.suffix.lower() in IMAGES:
        rows = machine.transform(_image(queries, machine))
    else:
        given = load_for(machine, queries, option="queries", unreadable=unreadable)
        rows = machine.embed(given)
    results = list(opened.search(rows, k=k, where=condition))
    if not any(results):
        # On stderr: what is read by programs stays as it is.
        why = " that fit `--where`" if condition and opened.count() else ""
        say(f"There are no hits: {index} has no items{why}.", err=True)
    names = _query_names(queries, given, len(results))
    if out is not None:
        write_file(out, _hits_as_text(results, out.suffix, names))
    if report is not None:
        from nearer.app.cli._pages import asked_tiles, photos_folder, search_page

        search_page(
            results,
            report,
            index=Path(index).name,
            queries=queries.name,
            asked=asked_tiles(queries, given),
            photos=photos or photos_folder(queries, results),
        )
    if out is not None or report is not None:
        said = f"{counted(len(results), 'query', 'queries')}, {counted(k, 'hit')} each"
        say(f"{said}: {', '.join(str(file) for file in (out, report) if file)}")
        return
    shown = results if as_json else results[:limit]
    _print_hits(shown, as_json=as_json, queries=names)
    if len(shown) < len(results):
        left = counted(len(results) - len(shown), "more query", "more queries")
        say(f"... and {left}. --limit shows more, --out writes all.")


def run_export(model: Path, *, out: Path, force: bool, as_json: bool) -> None:
    """Write a model for programs without nearer, by the ending of the file, or to the hub."""
    from nearer.models._export import EXPORTED
    from nearer.models._hub import on_hub

    if on_hub(out):
        written = load(model).push_to_hub(os.fspath(out))
        answer(as_json, {"out": written}, written)
        return
    if out.suffix not in EXPORTED:
        raise ParameterError(
            f"`--out` must end in {' or '.join(EXPORTED)}, or be hf://owner/name, got {out.name!r}."
        )
    check_new(out=out, force=force)
    file = load(model).export(out)
    answer(as_json, {"out": str(file), "bytes": file.stat().st_size}, f"{file} ({file.stat().st_size:,} bytes)")


def _image(path: Path, machine: Model) -> Any:
    if machine.inputs.encoder is not None:
        return machine.features(path)
    if machine.inputs.kind != "images":
        raise ShapeError(f"QUERY must be a row number: the model takes features, got {path.name!r}.")
    from nearer.datasets import Split

    load_image(path)
    return machine.inputs.images(Split(np.array([path.name]), np.array([-1]), root=path.parent))


def _query_names(queries: Path, given: Dataset | None, n: int) -> list[str | int]:
    """What each query is called; those without a name have the number of their row."""
    from nearer.datasets._items import item_name

    if given is None:
        return [queries.name]
    names = [item_name(given, row) for row in range(n)]
    return [row if name == f"row {row}" else name for row, name in enumerate(names)]


def _hits_as_text(results: Sequence[Sequence[Any]], suffix: str, queries: Sequence[str | int]) -> bytes:
    """All hits as CSV or as JSON lines, one row for each."""
    rows = [
        {
            "query": queries[number],
            "rank": position,
            "id": hit.id,
            "distance": -hit.similarity,
            **(hit.metadata or {}),
        }
        for number, hits in enumerate(results)
        for position, hit in enumerate(hits, start=1)
    ]
    if suffix == ".jsonl":
        return ("\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n").encode()
    return csv_text(dict.fromkeys(name for row in rows for name in row), rows).encode()


def _print_hits(results: Sequence[Sequence[Any]], *, as_json: bool, queries: Sequence[str | int]) -> None:
    if as_json:
        rows = [
            [{"id": hit.id, "distance": -hit.similarity, **(hit.metadata or {})} for hit in hits]
            for hits in results
        ]
        print_json({"queries": list(queries[: len(rows)]), "results": rows})
        return
    table = Table()
    for name in ("query", "rank", "id", "distance", "about"):
        table.add_column(name, justify="left" if name == "about" else "right")
    for number, hits in enumerate(results):
        for position, hit in enumerate(hits, start=1):
            about = ", ".join(str(value) for value in (hit.metadata or {}).values())
            asked = queries[number]
            called = f"row {asked}" if isinstance(asked, int) else asked
            table.add_row(called, str(position), str(hit.id), f"{-hit.similarity:.4f}", about)
    screen().print(table)
