"""The audit of a data set as people ask for it: by a model, or by data alone; and its page."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nearer._plain import counted
from nearer.datasets import Dataset
from nearer.datasets._items import item_name, item_picture, photos_of
from nearer.exceptions import LabelError
from nearer.judging import Audit, find_issues
from nearer.models._problem import CLASSES
from nearer.models._raw import raw_rows, rows_to_look_at
from nearer.reports._page import Gallery, Section, Table, Tile, html_report

if TYPE_CHECKING:
    from nearer.models._model import Model

# More would be a page that nobody reads to its end; the CSV has all.
SHOWN = 200


def audit_dataset(data: Dataset, *, seed: int = 0) -> Audit:
    """The audit of features as they come: columns at one scale, rows of an encoder at length one, pixels as they
    are.
    """
    codes = class_codes(data)
    return find_issues(raw_rows(data), codes, classes=data.class_names, seed=seed)


def audit_model(model: Model, data: Any, y: Any, *, seed: int) -> Audit:
    """The audit of the data of a fit, or of other data, in its raw features, scaled where its fit did."""
    given = model._database(None) if data is None else model.inputs.read(data, y)
    classes, rows = given.class_names or model.classes, rows_to_look_at(model, model.inputs.of(given))
    return find_issues(rows, class_codes(given), classes=classes, seed=seed)


def class_codes(data: Dataset) -> NDArray[np.int64]:
    """One code for each row; label sets, distributions and numbers have none."""
    if data.kind not in CLASSES:
        raise LabelError(
            f"The audit looks at class labels, got {data.kind}. Name one column of classes, or leave the label out "
            f"for duplicates and items unlike everything."
        )
    return data.all.y.astype(np.int64)


def audit_page(found: Audit, data: Dataset, path: str | os.PathLike[str]) -> Path:
    """One HTML page of the findings."""
    best = found.suggested
    sections = []
    suspects = [
        (item_name(data, row), found.name(int(found.labels[row])), found.name(int(best[row])), found.quality[row])
        for row in found.suspects[:SHOWN].tolist()
    ]
    if found.probabilities.shape[1]:
        text = f"{counted(len(found.suspects), 'label')} less likely than another one, the most doubtful first."
        table = Table(["item", "label", "looks like", "quality"], suspects)
        photos = photos_of(data)
        tiles = [
            Tile(name, [f"labelled {label}", f"looks like {other}"], item_picture(photos, row))
            for row, (name, label, other, _) in zip(found.suspects.tolist(), suspects, strict=False)
        ]
        shown = [table if photos is None else Gallery(tiles)] if suspects else []
        sections.append(Section("Likely wrong labels", [text, *shown]))
        overlaps = [(found.name(a), found.name(b), f"{share:.1%}") for a, b, share in found.overlaps[:20]]
        text = "The mean probability of the one for items labelled as the other."
        sections.append(Section("Classes that overlap", [text, Table(["class", "and class", "share"], overlaps)]))
    groups = [
        (", ".join(item_name(data, row) for row in part[:6].tolist()), len(part),
         ", ".join(found.name(int(code)) for code in np.unique(found.labels[part])))
        for part in found.duplicates[:SHOWN]
    ]  # fmt: skip
    text = f"{counted(len(found.duplicates), 'group')}; those whose labels differ come first."
    listed = [Table(["items", "count", "labels"], groups)] if groups else []
    sections.append(Section("Near-duplicates", [text, *listed]))
    far = [
        (item_name(data, row), found.name(int(found.labels[row])), float(found.strangeness[row]))
        for row in found.unlike[:SHOWN].tolist()
    ]
    text = "Far from all neighbors: the score is the deviation of the logarithm of the distance."
    if far:
        sections.append(Section("Unlike everything", [text, Table(["item", "label", "score"], far, digits=1)]))
    return html_report(f"Audit of {data.name}", sections, path, summary=str(found).split("\n", 1)[0])
