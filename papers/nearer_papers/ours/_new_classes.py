"""Does a metric that was learned on some classes hurt on others? The closed form of `nearer fit` against the
features.

Ten random halves of the classes of each set: the metric is learned, and how far it goes is chosen, on one half;
the other half is searched among itself. The choice is made on contiguous blocks of the training classes. Recall@1,
the gain with its paired 95 % interval over the queries, and beside it LFDA as it is, which nothing holds back.
Features are compared by cosine, as for `nearer fit` behind an encoder; COIL-20 are raw pixels. Omniglot has a
small network trained on 300 characters that take no part.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nearer._checks import check_choice
from nearer.datasets import load
from nearer.estimators import LFDA, WithinClass
from nearer.evaluation._paired import bootstrap_intervals, per_query_scores
from nearer.exceptions import NearerWarning
from nearer.geometry import normalize
from nearer.reports._page import Section, Table
from nearer_papers._recipe import Measured, Outcome, Request
from nearer_papers.ours._decisions import omniglot_features

__all__ = ["HEADER", "KEY", "SETS", "lines", "measure", "present", "result_file"]

KEY = ("data", "split")
SETS = ("cars196_features", "omniglot", "banking77", "coil20")
SPLITS = 10
MOST = 4_000


def _features(name: str) -> tuple[NDArray[np.float32], NDArray[np.int64], str]:
    data = load(name)
    if name == "omniglot":
        return *omniglot_features(data), data.fingerprint()
    part = data["test"] if name == "banking77" else data.all
    return part.matrix(), part.y, data.fingerprint()


def _measure(x: NDArray[np.float32], y: NDArray[np.int64], split: int) -> dict[str, Any]:
    classes = np.unique(y)
    taught = np.isin(y, np.random.default_rng(split).permutation(classes)[: len(classes) // 2])
    rng = np.random.default_rng(split)
    rows, asked = (np.sort(rng.permutation(np.flatnonzero(one))[:MOST]) for one in (taught, ~taught))
    head = WithinClass(new_classes=True, random_state=split).fit(x[rows], y[rows])
    raw = normalize(torch.from_numpy(x[asked])).numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NearerWarning)
        width = min(64, x.shape[1])
        rival = LFDA(n_components=width).fit(normalize(torch.from_numpy(x[rows])).numpy(), y[rows]).transform(raw)
    found = {
        name: per_query_scores(z, y[asked])["recall@1"]
        for name, z in (("raw", raw), ("head", head.transform(x[asked])), ("lfda", rival))
    }
    gains = {name: found[name] - found["raw"] for name in ("head", "lfda")}
    intervals = bootstrap_intervals(gains)
    return {
        "chosen": str(head.form_),
        "queries": len(found["raw"]),
        **{name: float(values.mean()) for name, values in found.items()},
        **{f"{name} interval": list(pair) for name, pair in intervals.items()},
    }


def result_file(row: Mapping[str, Any]) -> str:
    """All in one file."""
    return "new_classes"


def measure(request: Request) -> Iterator[Measured]:
    """Rows of the sets that `only` names; the quick form is two splits of COIL-20."""
    for name in request.only:
        check_choice(name, "only", list(SETS))
    sets = [name for name in SETS if name in request.only] or (["coil20"] if request.quick else list(SETS))
    for name in sets:
        plan = [split for split in range(2 if request.quick else SPLITS) if (name, split) not in request.done]
        if not plan:
            continue
        request.progress(f"{name}: features", sets.index(name) / len(sets))
        x, y, fingerprint = _features(name)
        for split in plan:
            request.progress(f"{name}, split {split}", (sets.index(name) + split / SPLITS) / len(sets))
            yield Measured({"data": name, "split": split, **_measure(x, y, split)}, fingerprint)


HEADER = (
    "data",
    "splits",
    "features",
    "head",
    "gain",
    "worst split",
    "above / below",
    "LFDA",
    "LFDA above / below",
)


def lines(rows: Sequence[Mapping[str, Any]]) -> list[tuple[object, ...]]:
    """One line for each set: means over the splits, and in how many the interval leaves zero out."""
    shown: list[tuple[object, ...]] = []
    for name in SETS:
        mine = [row for row in rows if row["data"] == name]
        if not mine:
            continue

        def clear(which: str, mine: list[Mapping[str, Any]] = mine) -> str:
            above = sum(row[f"{which} interval"][0] > 0 for row in mine)
            return f"{above} / {sum(row[f'{which} interval'][1] < 0 for row in mine)}"

        mean = {which: float(np.mean([row[which] for row in mine])) for which in ("raw", "head", "lfda")}
        worst = min(row["head"] - row["raw"] for row in mine)
        shown.append(
            (
                name,
                len(mine),
                f"{mean['raw']:.4f}",
                f"{mean['head']:.4f}",
                f"{mean['head'] - mean['raw']:+.4f}",
                f"{worst:+.4f}",
                clear("head"),
                f"{mean['lfda']:.4f}",
                clear("lfda"),
            )
        )
    return shown


def present(rows: Sequence[dict[str, Any]], request: Request) -> Outcome:
    """One table."""
    text = (
        "Recall@1 on the other half of the classes; above and below count splits whose paired interval leaves zero "
        "out."
    )
    return Outcome("Classes never seen, without harm", [Section("Heads", [text, Table(HEADER, lines(rows))])], {})
