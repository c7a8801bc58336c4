"""One page about a model: the verdict first, the scores, the map, what was done to the columns, how to use it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nearer.reports import embedding_map
from nearer.reports._page import Code, Picture, Section, Table, html_report

if TYPE_CHECKING:
    from nearer.models._model import Model

__all__ = ["scores_section", "write_report"]

MAPPED = 500


def write_report(model: Model, path: str | os.PathLike[str]) -> Path:
    """The page as one HTML file; a loaded model has no data any more and therefore no map."""
    scores = model.scores
    sections = []
    if scores:
        sections.append(scores_section(scores))
    if model.reference is not None and model.reference.all.y.ndim == 1 and model.reference.class_names:
        sections.append(_map(model))
    if model.inputs.cleaning is not None:
        rows = [(one.name, one.rule, one.why or "as it is") for one in model.inputs.cleaning.columns]
        sections.append(Section("The columns", [Table(["column", "becomes", "what was done"], rows)]))
    sections.append(Section("How it came about", [Code(model.summary)]))
    use = 'import nearer\n\nmodel = nearer.load("model")\nmodel.transform(new)\nmodel.neighbors(new, database=old)'
    sections.append(Section("Use", [Code(use)]))
    verdict = str(scores.get("verdict", "")) if scores else ""
    name = model.data.get("name", "")
    title = "A metric for your data" if name in ("", "table", "array") else f"A metric for {name}"
    return html_report(title, sections, path, summary=verdict[:1].upper() + verdict[1:])


def scores_section(scores: Mapping[str, Any]) -> Section:
    """Raw, baselines and learned, score by score, with the intervals of the gains."""
    first, second = (name for name in scores if name not in ("gains", "intervals", "verdict", "baselines"))
    lower = set(scores[first]["lower_is_better"])
    intervals, others = scores.get("intervals", {}), scores.get("baselines", {})
    rows = []
    for name, gain in scores["gains"].items():
        pair = intervals.get(name)
        shown = "" if pair is None else f"{pair[0]:+.3f} to {pair[1]:+.3f}"
        label = f"{name} (lower is better)" if name in lower else name
        found = [one["scores"][name] for one in (scores[first], *others.values(), scores[second])]
        rows.append((label, *found, f"{gain:+.3f}", shown))
    table = Table(["score", first, *others, second, "gain", "95 %"], rows)
    text = "On rows that taught it nothing. An interval that holds zero is a difference these rows cannot show."
    return Section("Raw features beside the learned metric", [text, table])


def _map(model: Model) -> Section:
    assert model.reference is not None
    given = model.reference
    items, labels = model.inputs.of(given), given.all.y
    fresh = np.flatnonzero(~model.seen(items) & (labels >= 0))
    rows = fresh if len(fresh) >= 5 else np.flatnonzero(labels >= 0)
    shown = np.random.default_rng(0).permutation(rows)[:MAPPED]
    names = [given.class_names[code] for code in np.unique(labels[shown])]
    figure = embedding_map(model.raw(items[shown]), model.transform(items[shown]), labels[shown], class_names=names)
    what = "held-out" if len(fresh) >= 5 else "labelled"
    caption = f"{len(shown):,} {what} rows: raw features on the left, the learned metric on the right."
    return Section("The map", [Picture(figure, caption)])
