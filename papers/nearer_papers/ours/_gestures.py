"""Thirty lassos beside three hundred labels, on Fashion-MNIST: MAP@R of items that taught nothing.

12,000 items without labels, 3,000 of them held out. The oracle draws lassos on the map of the explorer (t-SNE
of the raw features): for each class in turn it looks at 30 random items of it, takes the spot where most of the
600 items around it on the map (5 % of all) are of that class, and lassos them. "30 lassos": it takes those of
the class, and one in twenty of what it takes is wrong. "30 lassos, all inside": everything inside the circle
gets the name, so that about a third of the names are wrong. Beside them: 300 items drawn at random, each with
its right label. All are refitted by the explorer's own `Session.refit`. The size of the lassos and the rule of the
oracle were set on seeds 0 and 1, and the refit was changed (few labels spread to neighbors, stronger maps) after
its scores on seed 0 were seen: only seed 2 played no part.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearer.app.explorer._items import ShownItems
from nearer.app.explorer._session import Session
from nearer.datasets import load
from nearer.evaluation import evaluate
from nearer.reports._page import Section, Table
from nearer_papers._recipe import Measured, Outcome, Request

__all__ = ["KEY", "WAYS", "measure", "present", "result_file", "summary"]

KEY = ("way", "seed")
WAYS = ("raw", "300 random labels", "30 lassos", "30 lassos, all inside")
ITEMS, HELD_OUT = 12_000, 3_000
LASSOS, SIZE, LOOKS, MISTAKES, LABELS = 30, 600, 30, 0.05, 300

Array = NDArray[Any]


def _measure_seed(seed: int, ways: Sequence[str]) -> Iterator[Measured]:
    data = load("fashion_mnist")
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(data.train))[:ITEMS]
    part = data.train.take(rows)
    held = np.arange(ITEMS) < HELD_OUT
    classes = tuple(data.class_names)
    for way in ways:
        session = Session(ShownItems(part.matrix(), classes=classes, held_out=held))
        draw = np.random.default_rng(100 + seed)
        said = 0
        if way == "300 random labels":
            said = _labels(session, part.y, draw)
        elif way != "raw":
            said = _lassos(session, part.y, draw, careful=way == "30 lassos")
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


def _lassos(session: Session, y: Array, rng: np.random.Generator, *, careful: bool) -> int:
    session.spread()
    spots, classes = session.state.positions, session.items.classes
    fresh = np.ones(len(y), dtype=bool)
    for number in range(LASSOS):
        code = number % len(classes)
        members = np.flatnonzero(y == code)
        left = members[fresh[members]] if fresh[members].any() else members
        circles = [
            np.argsort(np.square(spots - spots[item]).sum(axis=1))[:SIZE] for item in rng.permutation(left)[:LOOKS]
        ]
        inside = max(circles, key=lambda circle: int((y[circle] == code).sum()))
        if careful:
            own, others = inside[y[inside] == code], inside[y[inside] != code]
            wrong = round(len(own) * MISTAKES / (1 - MISTAKES))
            inside = np.concatenate([own, rng.permutation(others)[:wrong]])
        session.say({"kind": "label", "items": inside.tolist(), "label": classes[code]})
        fresh[inside] = False
    return LASSOS


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
