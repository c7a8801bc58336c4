"""The model card: a page that says what the model is, how it scored beside the raw features, and how to use it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from nearer.models._fitting import Fitted
from nearer.models._model import Model
from nearer.models._problem import CLASSES
from nearer.reports import embedding_map, training_curve
from nearer.reports._style import as_png

MAPPED = 300


def save_fitted(fitted: Fitted, path: str | os.PathLike[str], *, logs: dict[str, bytes] | None = None) -> Path:
    """Write the model folder with its card, its pictures and the training logs; whole or not at all."""
    return fitted.model.save(path, pages={**(logs or {}), **card_pages(fitted, name=Path(path).name)})


def card_pages(fitted: Fitted, *, name: str) -> dict[str, bytes]:
    """The card and its pictures as files for people."""
    pages: dict[str, bytes] = {}
    pictures = _draw(fitted, pages) if fitted.model.parameters.get("pictures", True) else []
    pages["README.md"] = model_card(fitted, pictures=pictures, name=name).encode("utf-8")
    return pages


def model_card(fitted: Fitted, *, pictures: list[tuple[str, str]], name: str) -> str:
    """The card as Markdown."""
    model, comparison = fitted.model, fitted.comparison
    first, second, others = comparison.first, comparison.second, comparison.baselines
    rows = [
        "| "
        + " | ".join([score, *(f"{one[score]:.4f}" for one in (first, *others.values(), second))])
        + f" | {comparison.shown_gain(score)} |"
        for score in comparison.gains
    ]
    lower = sorted(first.lower_is_better)
    counts = ", ".join(f"{key} {value:,}" for key, value in fitted.problem.counts.items())
    lines = [
        f"# {name}: a metric learned with {model.method}",
        "",
        f"{comparison.verdict} {fitted.rule}",
        "",
        "## Scores on held-out rows",
        "",
        "| " + " | ".join(["score", "raw features", *others, "learned metric", "gain"]) + " |",
        "|---" * (4 + len(others)) + "|",
        *rows,
        "",
        f"Data: {model.data['name']} ({counts}; {model.data['split']} split). The held-out rows taught it nothing.",
    ]
    if lower:
        lines += ["", f"Lower is better for {', '.join(lower)}; gains are positive where the model is better."]
    for file, text in pictures:
        lines += ["", f"![{text}]({file})"]
    for note in fitted.notes:
        lines += ["", f"Note: {note}"]
    if fitted.trials:
        lines += ["", "## What was tried", "", "| method | validation score | seconds |", "|---|---|---|"]
        lines += [
            f"| {one.method} | {one.reason if one.score is None else f'{one.score:.4f}'} | {one.seconds:.1f} |"
            for one in fitted.trials
        ]
    lines += [
        "",
        "## Use",
        "",
        "```python",
        "import nearer",
        "",
        f'model = nearer.load("{name}")',
        _usage(model),
        "```",
    ]
    lines += ["", "## How it was made", "", f"{fitted.seconds:.1f} seconds. To make it again:", ""]
    lines += [
        "```",
        model.command or "nearer.fit(data, y, method=..., settings={...})  # the settings are in manifest.json",
        "```",
        "",
    ]
    return "\n".join(lines)


def _usage(model: Model) -> str:
    size = ", ".join(map(str, model.inputs.size))
    what = "rows" if model.inputs.kind == "features" else "images between 0 and 1"
    return f"embeddings = model.transform(items)  # {what} of shape (n, {size}); near is Euclidean"


def _draw(fitted: Fitted, pages: dict[str, bytes]) -> list[tuple[str, str]]:
    problem = fitted.problem
    pictures: list[tuple[str, str]] = []
    if problem.kind in CLASSES and len(problem.held_out) >= 5:
        # The map draws no more than this: the other rows need not be encoded again.
        shown = np.random.default_rng(0).permutation(problem.held_out)[:MAPPED]
        items = problem.items[shown]
        names = [problem.classes[code] for code in np.unique(problem.labels[shown])] if problem.classes else None
        figure = embedding_map(fitted.raw(items), fitted.learned(items), problem.labels[shown], class_names=names)
        pages["map.png"] = as_png(figure, dpi=100)
        pictures.append(("map.png", "Held-out rows by raw features and by the learned metric"))
    if fitted.history is not None and fitted.history.epochs:
        series: dict[str, Any] = {
            name: fitted.history.series(name)
            for name in fitted.history.epochs[0]
            if name not in ("rate", "seconds")
        }
        pages["training.png"] = as_png(training_curve(series), dpi=100)
        pictures.append(("training.png", "The loss and the validation score over the epochs"))
    return pictures
