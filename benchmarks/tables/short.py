"""The short tables that stand in prose: a row for each group of rows of the full tables of docs/benchmarks."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from page import load, markdown, measured, table


def _groups(rows: Sequence[dict[str, Any]], key: str) -> dict[Any, list[dict[str, Any]]]:
    found: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row[key], []).append(row)
    return found


def _range(values: Sequence[float], show: Callable[[float], str]) -> str:
    if not values:
        return "–"
    if len(values) == 1:
        return show(values[0])
    return f"{show(min(values))} to {show(max(values))}, median {show(statistics.median(values))}"


@table("losses-short")
def losses() -> str:
    rows = []
    for batch, some in sorted(_groups(load("losses"), "batch").items()):
        cells = [
            _range([row[key] for row in some if key in row], lambda value: f"{value:.1f}×")
            for key in ("faster_than_peer", "faster_than_dense")
        ]
        rows.append((f"{batch:,}", len(some), *cells))
    return markdown(("batch", "measured", "faster than pytorch-metric-learning", "than dense autograd"), rows)


@table("losses-memory-short")
def losses_memory() -> str:
    rows = []
    for batch, some in sorted(_groups(load("losses_memory"), "batch").items()):
        extra = _range([row["extra_megabytes"] for row in some], lambda value: f"{value:.0f} MB")
        rows.append((f"{batch:,}", len(some), extra, f"{4 * batch**2 / 2**20:,.0f} MB"))
    return markdown(("batch", "losses", "extra memory of a step", "one B × B float32 matrix"), rows)


@table("decisions-short")
def decisions() -> str:
    rows = []
    for rule, some in _groups(load("decisions"), "rule").items():
        known = [row for row in some if "above" in row]
        if not known:
            continue
        rows.append(
            (
                rule,
                len(known),
                len(some) - len(known),
                f"{statistics.mean(row['above'] for row in known):.2f}",
                f"{max(row['above'] for row in known):.2f}",
                f"{statistics.mean(row['of the oracle'] for row in known):.2f}",
            )
        )
    header = (
        "rule",
        "cases",
        "too few classes",
        "splits above the level",
        "worst case",
        "of the oracle's true matches",
    )
    return markdown(header, rows)


@table("questions-short")
def questions() -> str:
    from nearer_papers.ours._questions import HEADER, lines

    full = [list(map(str, line)) for line in lines(load("questions"))]
    kept = [line for line in full if line[1] in ("random", "influence")]
    return markdown(HEADER, kept)


@table("codes-short")
def codes() -> str:
    from nearer_papers.ours._codes import HEADER, lines

    shown = (("features", "384"), ("floats", "128"), ("ITQ", "128"), ("bits", "128"), ("bits, float query", "128"))
    kept = [line for line in lines(load("codes")) if (str(line[0]), str(line[1])) in shown]
    return markdown(HEADER, kept)


@table("learners-short")
def learners() -> str:
    """What each learner gains on Euclidean, over the data sets that it was run on."""
    record = load("estimators")
    base = {
        (data, row["seed"]): row["accuracy"]
        for data, some in _groups(record, "dataset").items()
        for row in some
        if row["estimator"] == "Euclidean"
    }
    rows = []
    for name, some in _groups(record, "estimator").items():
        if name == "Euclidean":
            continue
        gains = [
            statistics.mean(row["accuracy"] - base[data, row["seed"]] for row in runs)
            for data, runs in _groups(some, "dataset").items()
        ]
        seconds = {
            data: statistics.mean(row["seconds"] for row in runs) for data, runs in _groups(some, "dataset").items()
        }
        largest = list(seconds)[-1]
        rows.append(
            (
                statistics.mean(gains),
                (f"`{name}`", f"{statistics.mean(gains):+.3f}", f"{min(gains):+.3f}", f"{max(gains):+.3f}"),
                f"{seconds[largest]:.{0 if seconds[largest] >= 10 else 2}f} s ({largest})",
            )
        )
    rows.sort(key=lambda row: -row[0])
    return markdown(
        ("learner", "mean gain in 3-NN accuracy", "smallest", "largest", "CPU of fit, largest set"),
        [(*cells, seconds) for _, cells, seconds in rows],
    )


@table("relations-short")
def relations() -> str:
    """The first score of every set: raw features, and the learners of relation alignment at their defaults."""
    from nearer_papers.relation_alignment._relation_alignment import SCORES
    from nearer_papers.relation_alignment._relation_data import SETS

    methods = ("raw features", "RAML-SVR", "RAML-KRR", "HRAML")
    rows = []
    for name, data in SETS.items():
        file = "relation_alignment_" + name.replace("-", "_")
        if not measured(file):
            continue
        record, score = load(file), SCORES[data.kind][0]
        values = [[row[score] for row in record if row["method"] == method] for method in methods]
        if any(values[1:]):
            cells = [f"{statistics.mean(some):.4f}" if some else "" for some in values]
            rows.append((name, data.kind, score + (" (down)" if data.kind == "distributions" else ""), *cells))
    return markdown(("data", "labels", "score", *methods), rows)


@table("unseen-short")
def unseen() -> str:
    """Recall@1 of the rows that both papers are about."""
    sets = {"omniglot": "Omniglot", "cars196_features": "Cars-196 features"}
    rows = []
    for name in ("untrained", "Binomial", "VTHM", "RAW", "RAW+VTHM", "AMSoftmax", "JRD"):
        cells = []
        for data in sets:
            some = [row["scores"]["recall@1"] for row in load(f"unseen_{data}") if row["row"] == name]
            cells.append(f"{statistics.mean(some):.1f} ({len(some)})" if some else "")
        rows.append((name, *cells))
    return markdown(("R@1 (seeds)", *sets.values()), rows)


@table("semi-supervised-short")
def semi_supervised() -> str:
    from nearer_papers.semi_supervised._semi_supervised import of_the_tables

    record = of_the_tables(load("semi_supervised"))
    rows = []
    for data, some in _groups(record, "data").items():
        by_method = _groups(some, "method")
        rivals = {
            name: statistics.mean(row["scores"]["recall@1"] for row in runs)
            for name, runs in by_method.items()
            if name.startswith("Deep-")
        }
        cells = [
            f"{statistics.mean(row['scores']['recall@1'] for row in by_method[name]):.1f}"
            if name in by_method
            else ""
            for name in ("Initial", "labels alone", "ours")
        ]
        best = max(rivals, key=lambda name: rivals[name]) if rivals else ""
        rows.append((data, *cells, f"{rivals[best]:.1f} ({best})" if best else ""))
    return markdown(("R@1", "initial network", "labels alone", "ours", "best of the rivals"), rows)


@table("why")
def why() -> str:
    """Beside the two libraries that people know: what was measured, in the same run, on the same rows."""
    losses = [row for row in load("losses") if "faster_than_peer" in row]

    def median(batch: int) -> str:
        return f"{statistics.median(row['faster_than_peer'] for row in losses if row['batch'] == batch):.1f}×"

    slowest = min(losses, key=lambda row: row["faster_than_peer"])
    proxies = {row["what"]: row for row in load("proxies")}["am-softmax"]["extra MB"]
    scores = load("evaluation_peer")
    sizes = ", ".join(f"{n:,}" for n in dict.fromkeys(row["n"] for row in scores))
    fast = {
        clustered: ", ".join(f"{row['times_faster']:.1f}×" for row in scores if (row["nmi"] is None) != clustered)
        for clustered in (False, True)
    }
    equal = max(row["largest_difference"] for row in scores)
    peers = {(row["ours"], row["dataset"], row["peer"]): row for row in load("peer_learners")}

    def learner(name: str, data: str, peer: str) -> str:
        row = peers[name, data, peer]
        return f"{row['faster']:.1f}× faster; 3-NN {row['ours accuracy']:.3f}, theirs {row['peer accuracy']:.3f}"

    steps = ", ".join(f"{median(batch)} at B = {batch:,}" for batch in (128, 1024, 4096))
    rows = [
        ("pytorch-metric-learning", "one step of a pair loss, median of the losses", f"{steps} faster"),
        (
            "",
            f"the closest of {len(losses)} cases: {slowest['loss']}, B = {slowest['batch']}",
            f"{slowest['faster_than_peer']:.1f}× faster",
        ),
        ("", "memory of AM-softmax", f"{proxies['ours']:.0f} MB, theirs {proxies['peer']:.0f} MB"),
        (
            "",
            f"AccuracyCalculator, {sizes} rows, equal to {equal:.0e}",
            f"{fast[False]} as fast; with NMI {fast[True]}",
        ),
        ("metric-learn", "LMNN on digits", learner("LMNN", "digits", "metric-learn")),
        ("", "MLKR on digits", learner("MLKR", "digits", "metric-learn")),
        ("pylmnn", "LMNN, 3,500 × 50", learner("LMNN", "5k", "pylmnn")),
        ("scikit-learn", "NCA, 3,500 × 50", learner("NCA", "5k", "scikit-learn")),
    ]
    return markdown(("beside", "what", "nearer"), rows)
