"""`nearer ask`: the questions whose answers would help most, in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import typer

from nearer._plain import counted, csv_text
from nearer._storage import write_file
from nearer.app.cli._loading import load_data, load_for
from nearer.app.cli._output import check_new, plain, print_json, say
from nearer.datasets import Dataset
from nearer.datasets._anything import ColumnRoles
from nearer.exceptions import LabelError, ParameterError
from nearer.judging import suggest_items, suggest_pairs
from nearer.models._raw import raw_rows
from nearer.models._reading import Reading
from nearer.models._saved import load
from nearer.relations import Pairs

LONGEST = 100


def run_ask(
    data: Path,
    *,
    model: Path | None,
    label: Sequence[str] | None,
    id_: str | None,
    n: int,
    pairs: bool,
    out: Path,
    force: bool,
    unreadable: str,
    only_list: bool,
    as_json: bool,
) -> None:
    """Ask in batches of n until the person stops; every answer is on disk before the next question."""
    if out.suffix != ".csv":
        raise ParameterError(f"`--out` must end in .csv, got {out.name!r}.")
    # Answers are somebody's work: nothing is written over them.
    if not only_list and not as_json:
        check_new(out=out, force=force)
    machine = None if model is None else load(model)
    if machine is None:
        given = load_data(data, label, ColumnRoles(ids=id_), Reading(unreadable=unreadable))
    else:
        given = load_for(machine, data, label=label, unreadable=unreadable)
    if given.kind not in ("classes", "partial"):
        raise LabelError(f"`--label` must hold one class per row to ask about, got {given.kind}.")
    rows = machine.embed(given) if machine is not None else raw_rows(given)
    answers = _Answers(given, out, pairs=pairs)
    if only_list or as_json:
        questions = answers.questions(rows, n)
        if as_json:
            print_json({"questions": [[answers.name(row) for row in question] for question in questions]})
        else:
            for question in questions:
                say("  |  ".join(answers.shown(row) for row in question))
        return
    say(_GREETING_PAIRS if pairs else _GREETING.format(", ".join(given.class_names[:20]) or "none yet"))
    for question in answers.batches(rows, n):
        reply = typer.prompt(
            plain("\n".join(answers.shown(row) for row in question)), default="", show_default=False
        ).strip()
        if reply == "q":
            break
        if reply and not answers.take(question, reply):
            say("Not understood; the question is left out.")
    say(f"{counted(len(answers.said), 'answer')}: {out}")


_GREETING = "Type the class of each item, Enter to leave it out, q to stop. Known classes: {}."
_GREETING_PAIRS = "Type y if the two are the same, n if not, Enter to leave it out, q to stop."


class _Answers:
    """What has been said, as it is kept: a CSV of rows and classes, or of pairs and 1 or 0."""

    def __init__(self, given: Dataset, out: Path, *, pairs: bool) -> None:
        self.given, self.out, self.pairs = given, out, pairs
        self.labels = given.all.y.astype(np.int64).copy()
        self.classes = list(given.class_names)
        self.said: list[tuple[str, ...]] = []
        self.skipped: set[tuple[int, ...]] = set()
        self.near: list[tuple[int, int]] = []
        self.far: list[tuple[int, int]] = []

    def questions(self, rows: Any, n: int) -> list[tuple[int, ...]]:
        if self.pairs:
            known: Any = self.labels
            if self.near or self.far or not (self.labels >= 0).any():
                known = Pairs(len(rows), positive=self.near, negative=self.far) if self.near or self.far else None
            return [tuple(pair) for pair in suggest_pairs(None, rows, known, n).tolist()]
        allowed = np.array([(row,) not in self.skipped for row in range(len(rows))])
        return [(row,) for row in suggest_items(None, rows, self.labels, n, allowed=allowed).tolist()]

    def batches(self, rows: Any, n: int) -> Iterator[tuple[int, ...]]:
        while True:
            fresh = [question for question in self.questions(rows, n) if question not in self.skipped]
            if not fresh:
                return
            for question in fresh:
                self.skipped.add(question)
                yield question

    def take(self, question: tuple[int, ...], reply: str) -> bool:
        names = [self.name(row) for row in question]
        if self.pairs:
            if reply.lower() not in ("y", "yes", "n", "no"):
                return False
            same = reply.lower().startswith("y")
            (self.near if same else self.far).append((question[0], question[1]))
            self.said.append((*names, "1" if same else "0"))
        else:
            if reply not in self.classes:
                self.classes.append(reply)
            self.labels[question[0]] = self.classes.index(reply)
            self.said.append((*names, reply))
        head = ("first", "second", "same") if self.pairs else ("row", "class")
        rows = [dict(zip(head, said, strict=True)) for said in self.said]
        write_file(self.out, csv_text(head, rows).encode("utf-8"))
        return True

    def name(self, row: int) -> str:
        ids = self.given.all.extra.get("id")
        return str(row) if ids is None else str(ids[row])

    def shown(self, row: int) -> str:
        part = self.given.all
        for key in ("text", "file"):
            if key in part.extra:
                return f"{self.name(row)}: {str(part.extra[key][row])[:LONGEST]}"
        if part.x.dtype.kind == "U":
            return f"{self.name(row)}: {part.x[row]}"
        values = part.matrix()[row]
        names = self.given.feature_names or tuple(f"d{number}" for number in range(len(values)))
        text = ", ".join(f"{key}={value:.4g}" for key, value in zip(names, values, strict=True))
        return f"{self.name(row)}: {text[:LONGEST]}"
