"""Frozen features of trained encoders and the metric that `nearer.fit` learns on them, raw beside learned.

`banking77-seen`: a random 3,080 of the questions are held out, their intents are known. `banking77-new`: 38 random
intents are held out. `banking77-39`: intents 0-38 seen and 39-76 held out, the documented protocol. `cars196`: the
features of classes 0-97 teach, those of 98-195 are searched. `cifar10`: 50 photos of each class teach, 2,000 test
photos, the same for every seed, are searched; all go through the encoder here. The two fixed splits have no seed to
vary: nothing in the method is random on them. All settings are chosen by `fit` on training rows.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nearer._checks import check_choice
from nearer.datasets import Dataset, Split, class_disjoint_split, load, stratified_split
from nearer.models._encoders import PACKAGED, FrozenEncoder, frozen
from nearer.models._fitting import fit_model
from nearer.models._reading import encode_dataset
from nearer.models._settings import FitSettings
from nearer.neighbors import search
from nearer.reports._page import Section, Table
from nearer_papers._recipe import Measured, Outcome, Request

__all__ = ["KEY", "SCORES", "SETS", "measure", "present", "result_file", "summary"]

KEY = ("set", "seed")
SCORES = ("recall@1", "recall@8", "map@r", "1-nn")
SETS: dict[str, str] = {
    "banking77-seen": "minilm",
    "banking77-new": "minilm",
    "banking77-39": "minilm",
    "cars196": "efficientnet-lite0",
    "cifar10": "efficientnet-lite0",
}
FIXED = ("banking77-39", "cars196")
PER_CLASS, TEST_PHOTOS = 50, 2000


def data_of(name: str, seed: int) -> Dataset:
    """The features of a data set with the parts `train` and `test`."""
    if name == "cars196":
        return replace(load("cars196_features"), encoder=_known("efficientnet-lite0"))
    if name == "cifar10":
        return _photos(seed)
    data = load("banking77")
    everything = data.all
    if name == "banking77-seen":
        train, test = stratified_split(everything.y, test=3080, seed=seed)
    else:
        shuffle = None if name == "banking77-39" else seed
        train, test = class_disjoint_split(everything.y, train_classes=39, seed=shuffle)
    parts = {"train": everything.take(train), "test": everything.take(test)}
    return replace(data, parts=parts, encoder=_known("minilm"))


def _known(name: str) -> FrozenEncoder:
    """The encoder of features that are in the file already."""
    return FrozenEncoder(name, PACKAGED[name].kind, None, PACKAGED[name].settings)


def _photos(seed: int) -> Dataset:
    data = load("cifar10")
    train, test = data.train, data.test
    rng = np.random.default_rng(seed)
    few = [rng.choice(np.flatnonzero(train.y == one), PER_CLASS, replace=False) for one in np.unique(train.y)]
    _, asked = stratified_split(test.y, test=TEST_PHOTOS, seed=0)
    parts: dict[str, Split] = {"train": train.take(np.sort(np.concatenate(few))), "test": test.take(asked)}
    return encode_dataset(replace(data, parts=parts), frozen("efficientnet-lite0", "photos"))


def _measure_row(name: str, seed: int) -> Measured:
    data = data_of(name, seed)
    begin = time.perf_counter()
    fitted = fit_model(data, FitSettings(seed=seed, pictures=False))
    seconds = time.perf_counter() - begin
    both = {"raw": dict(fitted.comparison.first), "learned": dict(fitted.comparison.second)}
    if not fitted.problem.new_classes:
        for side, encode in (("raw", fitted.raw), ("learned", fitted.learned)):
            near = search(encode(data.test.matrix()), encode(data.train.matrix()), 1).indices[:, 0].numpy()
            both[side]["1-nn"] = float((data.train.y[near] == data.test.y).mean())
    row = {
        "set": name,
        "seed": seed,
        "encoder": SETS[name],
        "train": len(data.train),
        "held_out": len(data.test),
        "classes_seen": len(np.unique(data.train.y)),
        "columns": int(data.train.x.shape[1]),
        **both,
        "intervals": {score: list(pair) for score, pair in fitted.comparison.intervals.items()},
        "chosen": fitted.notes[0],
        "seconds": round(seconds, 1),
    }
    return Measured(row, data.fingerprint())


def result_file(row: Mapping[str, Any]) -> str:
    """All data sets in one file."""
    return "encoders"


def measure(request: Request) -> Iterator[Measured]:
    """Rows of the data sets that `only` names; the quick form is one split of BANKING77."""
    for name in request.only:
        check_choice(name, "only", list(SETS))
    sets = [name for name in SETS if name in request.only] or (["banking77-39"] if request.quick else list(SETS))
    plan = [
        (name, seed)
        for name in sets
        for seed in range(1 if request.quick or name in FIXED else request.seeds)
        if (name, seed) not in request.done
    ]
    for number, (name, seed) in enumerate(plan):
        request.progress(f"{name}, seed {seed}", number / len(plan))
        yield _measure_row(name, seed)


def summary(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every data set: mean and deviation over its seeds in points, raw beside learned."""
    lines = []
    for name in [one for one in SETS if any(row["set"] == one for row in rows)]:
        mine = [row for row in rows if row["set"] == name]
        line: dict[str, Any] = {**{key: mine[0][key] for key in ("set", "encoder", "train", "held_out")}}
        line["runs"] = len(mine)
        for score in SCORES:
            for side in ("raw", "learned"):
                values = [100 * row[side][score] for row in mine if score in row[side]]
                if values:
                    spread = statistics.stdev(values) if len(values) > 1 else 0.0
                    line[f"{side} {score}"] = (statistics.mean(values), spread)
        lines.append(line)
    return lines


def cells(line: Mapping[str, Any]) -> list[str]:
    """The scores of a line, "raw → learned"."""
    shown = []
    for score in SCORES:
        if f"raw {score}" not in line:
            shown.append("")
            continue
        pair = [f"{mean:.1f}" + (f" ± {spread:.1f}" if line["runs"] > 1 else "")
                for mean, spread in (line[f"raw {score}"], line[f"learned {score}"])]  # fmt: skip
        shown.append(" → ".join(pair))
    return shown


def present(rows: Sequence[dict[str, Any]], request: Request) -> Outcome:
    """One line for each data set."""
    lines = [
        [line["set"], line["encoder"], f"{line['train']:,}", f"{line['held_out']:,}", *cells(line), line["runs"]]
        for line in summary(rows)
    ]
    header = ["data", "encoder", "train", "held out", *SCORES, "runs"]
    text = "Features of the encoder by cosine → the metric learned on them, in points."
    return Outcome("Photos and texts", [Section("Raw beside learned", [text, Table(header, lines)])], {})
