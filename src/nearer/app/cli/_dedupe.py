"""`nearer dedupe`: near-duplicates of a data set as a table, and a page of pairs to look at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nearer._plain import csv_text
from nearer._storage import write_file
from nearer.app.cli._loading import load_data, load_for
from nearer.app.cli._output import as_utf8, check_new, print_json, say
from nearer.datasets import Dataset, Split
from nearer.datasets._anything import ColumnRoles
from nearer.datasets._cleaning import ASKED
from nearer.datasets._items import item_name, item_picture, photos_of
from nearer.exceptions import ParameterError
from nearer.index import find_duplicates
from nearer.index._duplicates import Duplicates
from nearer.models._inputs import item_metadata
from nearer.models._raw import raw_rows
from nearer.models._reading import Reading
from nearer.models._saved import load
from nearer.reports._page import Gallery, Section, Table, Tile, html_report

# Pairs on the page: the farthest, where the rule is in doubt, and the nearest.
SHOWN = 30
# A photo in so many squares; the differences of neighboring ones are what is compared.
SQUARES = 12
# Of the usual distance, .23 for photos of birds. There copies of half the size, saved at a quality of 60, were at
# most .07 from the photo, of a quarter at 40 .14, brighter ones mostly within .24, and no two of 2,300 within .78.
PICTURE_SHARE = 0.2


def run_dedupe(
    data: Path,
    *,
    model: Path | None,
    out: Path,
    report: Path | None,
    force: bool,
    threshold: float | None,
    keep: str,
    score: str | None,
    label: Sequence[str] | None,
    ignore: Sequence[str] | None,
    unreadable: str,
    as_json: bool,
) -> None:
    """Find the groups, write the table and the page, and say what was found."""
    if out.suffix != ".csv":
        raise ParameterError(f"`--out` must end in .csv, got {out.name!r}.")
    check_new(out=out, report=report, force=force)
    if score is not None and keep != "best":
        raise ParameterError("`--score` must come with --keep best: it says which item of a group is the best.")
    embedded: NDArray[np.float32] | None = None
    if model is not None:
        machine = load(model)
        given = load_for(machine, data, label=label, unreadable=unreadable)
        embedded = machine.embed(given)
    else:
        # Photos are compared as pictures, which needs no encoder.
        columns = ColumnRoles(keep=() if score is None else (score,), ignore=tuple(ignore or ()))
        how = Reading("none", unreadable=unreadable, progress=False if as_json else None)
        given = load_data(data, label, columns, how)
    scores = None if score is None else _scores(given, score)
    plan = given.cleaning if embedded is None else None
    unread = [] if plan is None else [one for one in plan.columns if one.rule == "left out" and one.why != ASKED]
    photos, alike = photos_of(given), None
    # First, since it checks every file that is opened.
    codes = None if photos is None else _codes(photos)
    if keep == "best" and scores is None and photos is not None:
        scores = _pixels(photos)
    choice: dict[str, Any] = {"keep": keep, "scores": scores}
    if codes is not None:
        alike = find_duplicates(
            codes, **choice, threshold=threshold if embedded is None else None, share=PICTURE_SHARE
        )
    if embedded is None and alike is not None:
        duplicates = alike
    else:
        rows = raw_rows(given) if embedded is None else embedded
        duplicates = find_duplicates(
            rows, **choice, threshold=threshold, pairs=None if alike is None else alike.pairs
        )
    kinds = _kinds(duplicates, alike, photos)
    write_file(out, _as_csv(duplicates, given, kinds))
    if report is not None:
        _write_page(duplicates, given, report, data.name)
    if as_json:
        print_json(
            {
                "items": len(duplicates.groups),
                "groups": int(duplicates.groups.max(initial=-1)) + 1,
                "duplicates": int((~duplicates.keep).sum()),
                "kinds": {kind: kinds.count(kind) for kind in sorted(set(kinds) - {""})},
                "threshold": duplicates.threshold,
                "recall": duplicates.recall,
                "rule": duplicates.rule,
                "left_out": [column.name for column in unread],
                "out": str(out),
                "report": None if report is None else str(report),
            }
        )
        return
    counted = ", ".join(f"{kinds.count(kind):,} {kind}" for kind in sorted(set(kinds) - {""}))
    say(str(duplicates) + (f" Of the duplicates: {counted}." if counted else ""))
    if unread:
        say(f"Not compared: {', '.join(f'{column.name} ({column.why})' for column in unread)}.")
    say(f"Table: {out}" + ("" if report is None else f". Pairs to look at: {report}"))


def _codes(photos: Split) -> NDArray[np.float32]:
    """What two photos of one picture have in common: how each square differs from the next ones, at length one.

    Size, brightness and the quality of a JPEG leave it nearly as it is. A picture of one color has no differences:
    its color stands in three more columns, far from those of all others.
    """
    side = SQUARES + 1
    few = photos.images(size=(side, side)) if photos.x.dtype.kind == "U" else _small(photos.images(), side)
    # The shares of red, green and blue by which a picture becomes gray.
    gray = np.einsum("nchw,c->nhw", few, [0.299, 0.587, 0.114]) if few.shape[1] == 3 else few.mean(axis=1)
    steps = [gray[:, :-1, 1:] - gray[:, :-1, :-1], gray[:, 1:, :-1] - gray[:, :-1, :-1]]
    rows = np.concatenate([step.reshape(len(gray), -1) for step in steps], axis=1)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    flat = lengths <= 1e-3
    color = np.where(flat, 10 * few.mean(axis=(2, 3)) + 10, 0.0)
    return np.concatenate([rows / np.where(flat, np.inf, lengths), color], axis=1, dtype=np.float32)


def _pixels(photos: Split) -> NDArray[np.float64] | None:
    """How large every photo is: of copies the largest is the best. None for images of one size."""
    if photos.x.dtype.kind != "U":
        return None
    from PIL import Image

    sizes = []
    for name in photos.x:
        with Image.open((photos.root or Path()) / str(name)) as image:
            sizes.append(image.width * image.height)
    return np.array(sizes, dtype=np.float64)


def _small(images: NDArray[Any], side: int) -> NDArray[Any]:
    """Images (n, c, h, w) in memory at another size, each new pixel the mean of what it covers."""
    return np.asarray(torch.nn.functional.adaptive_avg_pool2d(torch.from_numpy(images).float(), side).numpy())


def _equal(photos: Split, item: int, other: int) -> bool:
    """Whether two photos are the same file, or the same bytes in memory."""
    if photos.x.dtype.kind != "U":
        return bool(np.array_equal(photos.x[item], photos.x[other]))
    first, second = ((photos.root or Path()) / str(photos.x[row]) for row in (item, other))
    return first.read_bytes() == second.read_bytes()


def _kinds(duplicates: Duplicates, alike: Duplicates | None, photos: Split | None) -> list[str]:
    """For every item what makes it a duplicate of the one that is kept: equal, the same picture, or near."""
    pictures = set() if alike is None else set(map(tuple, alike.pairs.tolist()))
    kinds = []
    for item, (kept, apart) in enumerate(zip(duplicates.kept.tolist(), duplicates.distances.tolist(), strict=True)):
        pair = (min(item, kept), max(item, kept))
        same = "same picture" if pair in pictures else "near"
        equal = apart == 0 and (photos is None or _equal(photos, item, kept))
        kinds.append("" if kept == item else "equal" if equal else same)
    return kinds


def _scores(given: Dataset, name: str) -> NDArray[np.float64]:
    if name not in given.all.extra:
        raise ParameterError(f"`--score` must name a column of the data, {name!r} is none.")
    try:
        return given.all.extra[name].astype(np.float64)
    except ValueError as error:
        raise ParameterError(f"`--score` must name a column of numbers, {name!r} is none: {error}.") from error


def _as_csv(duplicates: Duplicates, given: Dataset, kinds: Sequence[str]) -> bytes:
    names = [item_name(given, row).removeprefix("row ") for row in range(len(given.all))]
    sizes = np.bincount(duplicates.groups[duplicates.groups >= 0])
    rows = [
        {
            "row": row,
            "item": names[row],
            "keep": int(duplicates.keep[row]),
            "group": "" if group < 0 else group,
            "group_size": int(sizes[group]) if group >= 0 else 1,
            "kept_item": names[duplicates.kept[row]],
            "distance": f"{duplicates.distances[row]:.6g}",
            "kind": kinds[row],
        }
        for row, group in enumerate(duplicates.groups.tolist())
    ]
    return as_utf8(csv_text(rows[0], rows))


def _write_page(duplicates: Duplicates, given: Dataset, page: Path, name: str) -> None:
    order = np.argsort(-duplicates.pair_distances, kind="stable")
    near = order[::-1][:SHOWN]
    sections = [
        _pairs("The farthest pairs: is the threshold right?", duplicates, given, order[:SHOWN]),
        _pairs("The nearest pairs", duplicates, given, near),
    ]
    sizes = np.bincount(duplicates.groups[duplicates.groups >= 0])
    names = [item_name(given, row) for row in range(len(given.all))]
    largest = np.argsort(-sizes, kind="stable")[:SHOWN]
    rows = []
    for group in largest.tolist():
        members = np.flatnonzero(duplicates.groups == group)
        shown = ", ".join(str(names[member]) for member in members[:8].tolist())
        rows.append((group, int(sizes[group]), shown + (" …" if len(members) > 8 else "")))
    sections.append(Section("The largest groups", [Table(["group", "items", "which"], rows)]))
    html_report(f"Near-duplicates of {name}", sections, page, summary=str(duplicates))


def _pairs(heading: str, duplicates: Duplicates, given: Dataset, chosen: NDArray[Any]) -> Section:
    about = item_metadata(given)
    rows: list[tuple[Any, ...]] = []
    for number in chosen.tolist():
        first, second = duplicates.pairs[number].tolist()
        texts = [_about(about, item) for item in (first, second)]
        named = (item_name(given, first), item_name(given, second))
        rows.append((*named, float(duplicates.pair_distances[number]), *texts))
    photos = photos_of(given)
    if photos is None:
        columns = ["item", "near-duplicate", "distance", "about", "about the other"]
        return Section(heading, [Table(columns, rows, digits=5)])
    tiles = []
    for number, row in zip(chosen.tolist(), rows, strict=True):
        for side, item in enumerate(duplicates.pairs[number].tolist()):
            words = [f"distance {row[2]:.4g}", row[3 + side]]
            tiles.append(Tile(row[side], words, item_picture(photos, item), strong=side == 0))
    return Section(heading, ["Pair by pair: the first of each has a frame.", Gallery(tiles)])


def _about(about: list[dict[str, Any]] | None, item: int) -> str:
    """What is known of an item besides its file, which is its name."""
    return ", ".join(str(value) for name, value in about[item].items() if name != "file") if about else ""
