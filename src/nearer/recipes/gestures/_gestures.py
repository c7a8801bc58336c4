"""Thirty lassos beside three hundred labels, on Fashion-MNIST: MAP@R of items that taught nothing.

12,000 items without labels, 3,000 of them held out. The oracle draws lassos on the map of the explorer (t-SNE of
the raw features): it takes a random spot, circles the 60 items nearest to it on the map, and names all of them after
the class that most of them have. A spot where no class has four fifths is not lassoed, as a person would see. Every
twentieth lasso gets the name of a wrong class, and whatever else is inside a circle gets the wrong name too. Beside
it: 300 items drawn at random, each with its right label. Both are refitted by the explorer's own `Session.refit`.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearer.datasets import load
from nearer.evaluation import evaluate
from nearer.explorer import Items, Session
from nearer.recipes._recipe import Measured, Outcome, Request
from nearer.reports import Section, Table

__all__ = ["KEY", "WAYS", "measure", "present", "result_file", "summary"]

KEY = ("way", "seed")
WAYS = ("raw", "300 random labels", "30 lassos")
ITEMS, HELD_OUT = 12_000, 3_000
LASSOS, SIZE, PURE, MISTAKES, LABELS = 30, 60, 0.8, 0.05, 300

Array = NDArray[Any]


def _measure_seed(seed: int, ways: Sequence[str]) -> Iterator[Measured]:
    data = load("fashion_mnist")
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(data.train))[:ITEMS]
    part = data.train.take(rows)
    held = np.arange(ITEMS) < HELD_OUT
    classes = tuple(data.class_names)
    for way in ways:
        session = Session(Items(part.matrix(), classes=classes, held_out=held))
        said = {"raw": lambda *_: 0, "300 random labels": _labels, "30 lassos": _lassos}[way](
            session, part.y, np.random.default_rng(100 + seed)
        )
        if said:
            session.refit()
        found = evaluate(
            session.state.rows[held], part.y[held], scores=["map@r", "recall@1"], similarity="euclidean"
        )
        labelled = session.supervision.labels
        known = (labelled >= 0) & ~held
        wrong = float((labelled[known] != part.y[known]).mean()) if known.any() else 0.0
        session.close()
        row = {"way": way, "seed": seed, "gestures": said, "labelled": int(known.sum()), "wrong": round(wrong, 4),
               "map@r": round(found["map@r"], 5), "recall@1": round(found["recall@1"], 5)}  # fmt: skip
        yield Measured(row, data.fingerprint())


def _labels(session: Session, y: Array, rng: np.random.Generator) -> int:
    for item in rng.permutation(np.flatnonzero(~session.items.held_out))[:LABELS].tolist():
        session.say({"kind": "label", "items": [item], "label": session.items.classes[y[item]]})
    return LABELS


def _lassos(session: Session, y: Array, rng: np.random.Generator) -> int:
    session.spread("tsne")
    spots = session.state.positions
    classes = session.items.classes
    fresh = np.ones(len(y), dtype=bool)
    drawn = 0
    for item in rng.permutation(len(y)).tolist():
        if drawn == LASSOS:
            break
        if not fresh[item]:
            continue
        inside = np.argsort(np.square(spots - spots[item]).sum(axis=1))[:SIZE]
        counts = np.bincount(y[inside], minlength=len(classes))
        if counts.max() < PURE * SIZE:
            continue
        name = int(counts.argmax())
        if drawn % round(1 / MISTAKES) == round(1 / MISTAKES) - 1:
            name = (name + int(rng.integers(1, len(classes)))) % len(classes)
        session.say({"kind": "label", "items": inside.tolist(), "label": classes[name]})
        fresh[inside] = False
        drawn += 1
    return drawn


def result_file(row: Mapping[str, Any]) -> str:
    """One file."""
    return "gestures"


def measure(request: Request) -> Iterator[Measured]:
    """Every way for every seed; the quick form is one seed."""
    seeds = range(1 if request.quick else request.seeds)
    for number, seed in enumerate(seeds):
        request.progress(f"seed {seed}", number / len(seeds))
        ways = [way for way in WAYS if (way, seed) not in request.done]
        if ways:
            yield from _measure_seed(seed, ways)


def summary(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every way: means over the seeds, and by how many seeds it beats random labels."""
    lines = []
    random = {row["seed"]: row["map@r"] for row in rows if row["way"] == WAYS[1]}
    for way in WAYS:
        mine = [row for row in rows if row["way"] == way]
        if not mine:
            continue
        line: dict[str, Any] = {"way": way, "runs": len(mine)}
        for name in ("labelled", "wrong", "map@r", "recall@1"):
            line[name] = statistics.mean(row[name] for row in mine)
        line["better"] = sum(row["map@r"] > random.get(row["seed"], np.inf) for row in mine)
        lines.append(line)
    return lines


def present(rows: Sequence[dict[str, Any]], request: Request) -> Outcome:
    """One line for each way."""
    lines = [
        [line["way"], round(line["labelled"]), f"{line['wrong']:.1%}", line["map@r"], line["recall@1"],
         line["better"], line["runs"]]
        for line in summary(rows)
    ]  # fmt: skip
    header = ["what was said", "items labelled", "of them wrong", "map@r", "recall@1", "seeds above random", "runs"]
    text = "Fashion-MNIST, 3,000 held-out items."
    return Outcome("Lassos", [Section("Lassos and labels", [text, Table(header, lines, digits=4)])], {})
