"""Pages for people: what `nearer evaluate` and `nearer search` found, as one HTML file each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from nearer._plain import counted
from nearer.datasets import Dataset
from nearer.datasets._anything import read_frame
from nearer.datasets._image_files import load_image
from nearer.datasets._items import item_name, item_picture, photos_of
from nearer.datasets._table import TABLES, ending
from nearer.evaluation import Comparison
from nearer.exceptions import NearerError
from nearer.models._report import scores_section
from nearer.reports._page import Gallery, Section, Table, Tile, html_report

# Queries that a page shows; the whole answer belongs into a .csv or .jsonl file.
MOST = 40


def evaluation_page(
    comparison: Comparison,
    path: Path,
    *,
    data: str,
    rows: int,
    notes: Sequence[str] = (),
    more: Sequence[Section] = (),
) -> Path:
    """The verdict, the scores with their intervals, and what was counted; then `more`."""
    sections = [scores_section(comparison.to_dict())]
    counts = [(name, f"{count:,}") for name, count in comparison.first.counts.items() if name != "dimension"]
    sections.append(Section("What was scored", [*notes, Table(["what", "how many"], counts)]))
    sections += more
    verdict = comparison.verdict
    return html_report(
        f"Raw features and learned metric on {rows:,} rows of {data}",
        sections,
        path,
        summary=verdict[:1].upper() + verdict[1:],
    )


def search_page(
    results: Sequence[Sequence[Any]],
    path: Path,
    *,
    index: str,
    queries: str,
    asked: Sequence[Tile],
    photos: Path | None = None,
) -> Path:
    """The hits of each query: beside it as tiles where there are photos, or as a table.

    `asked` are the queries themselves, and `photos` the folder that the files of the items lie in.
    """
    sections = []
    for number, hits in enumerate(results[:MOST]):
        query = asked[number]
        seen = [_photo(hit.metadata, photos) for hit in hits]
        if query.image is not None or any(image is not None for image in seen):
            tiles = [replace(query, words=["the query"], strong=True)]
            for hit, image in zip(hits, seen, strict=True):
                about = dict(hit.metadata or {})
                name = str(about.pop("file", hit.id))
                tiles.append(Tile(name, [f"distance {-hit.similarity:.4g}", *map(str, about.values())], image))
            sections.append(Section(query.name, [Gallery(tiles)]))
            continue
        names = list(dict.fromkeys(name for hit in hits for name in (hit.metadata or {})))
        rows = [
            (rank, str(hit.id), -hit.similarity, *(str((hit.metadata or {}).get(name, "")) for name in names))
            for rank, hit in enumerate(hits, start=1)
        ]
        hits_table = Table(["rank", "id", "distance", *names], rows, digits=4)
        sections.append(Section(query.name, [*query.words, hits_table]))
    nearest = sorted(round(-hits[0].similarity, 4) for hits in results if hits)
    summary = f"{counted(len(results), 'query', 'queries')} of {queries} in {index}."
    if nearest and nearest[0] < nearest[-1]:
        middle = nearest[len(nearest) // 2]
        summary += f" The nearest item is {nearest[0]:.4g} to {nearest[-1]:.4g} away, {middle:.4g} in the middle."
    elif nearest:
        summary += f" The nearest item is {nearest[0]:.4g} away."
    if len(results) > MOST:
        summary += f" The first {MOST} are shown; --out hits.csv has all."
    return html_report(f"What is near in {index}", sections, path, summary=summary)


def asked_tiles(queries: Path, given: Dataset | None) -> list[Tile]:
    """The queries as a page shows them: photos as they are, rows of a table by what is written there."""
    if given is None:
        return [Tile(queries.name, image=load_image(queries, enough=256))]
    seen = photos_of(given)
    rows = range(min(len(given.all), MOST))
    names = [item_name(given, row) for row in rows]
    words: list[list[str]] = [[] for _ in rows]
    if seen is None and ending(queries) in TABLES:
        frame = read_frame(queries, exact=None)
        cells = [(name, frame[name].words()) for name in frame.names]
        written = [[f"{name} {cell[row]}" for name, cell in cells if cell[row] is not None] for row in rows]
        words = [["; ".join(one)] for one in written]
    return [
        Tile(f"{name} of {queries.name}" if name == f"row {row}" else name, words[row], item_picture(seen, row))
        for row, name in zip(rows, names, strict=True)
    ]


def photos_folder(queries: Path, results: Sequence[Sequence[Any]]) -> Path | None:
    """The folder of the queries, the two above it, or this one: the first that has the file of the first hit."""
    file = next((name for hits in results for hit in hits if (name := (hit.metadata or {}).get("file"))), None)
    if not isinstance(file, str) or Path(file).is_absolute() or ".." in Path(file).parts:
        return None
    for place in (queries, *queries.resolve().parents[:2], Path()):
        # A name may be too long, or have a character that none has.
        with suppress(OSError, ValueError):
            if (place / file).is_file():
                return place
    return None


def _photo(metadata: Mapping[str, Any] | None, folder: Path | None) -> Any:
    """The photo of a hit, if its file is inside the folder."""
    name = (metadata or {}).get("file")
    if folder is None or not isinstance(name, str):
        return None
    with suppress(NearerError, OSError, ValueError):
        file = (folder / name).resolve()
        if file.is_relative_to(folder.resolve()):
            return load_image(file, enough=256, rough=True)
    return None
