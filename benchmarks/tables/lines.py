"""The short tables of docs/lines: what a paper prints beside what was measured here, and where a line helps."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from page import load, markdown, measured, source, table
from scipy.stats import t as student

PHOTOS = {"cub200": "CUB", "cars196": "Cars", "sop": "SOP", "inshop": "In-shop"}
HERE = {"omniglot": "Omniglot", "cars196_features": "Cars features"}


def _verdict(gains: Sequence[float]) -> tuple[str, str]:
    """The mean gain over seeds with its standard error, and what the 95 % interval of Student's t says of it."""
    mean = statistics.mean(gains)
    if len(gains) < 2:
        return f"{mean:+.1f}", "one run"
    error = statistics.stdev(gains) / len(gains) ** 0.5
    word = (
        "no difference"
        if abs(mean) <= student.ppf(0.975, len(gains) - 1) * error
        else "helps"
        if mean > 0
        else "hurts"
    )
    return f"{mean:+.1f} ± {error:.1f}", word


@table("line-asymmetric")
def asymmetric() -> str:
    """Error of the vote beside the best other metric of the same problem, seed by seed."""
    from nearer_papers.asymmetric._two_views import METHODS, OURS

    ours = "trained for the vote"
    candidates = [name for name, method in METHODS.items() if method.kind == OURS]
    rivals = {
        "asymmetric_views": METHODS.keys() - set(candidates),
        "asymmetric_small": {"Euclidean", "ITML", "LMNN", "NCA"},
    }
    rows, shown = [], []
    for file, kind in (("asymmetric_views", "two views"), ("asymmetric_small", "one view")):
        record = load(file)
        for problem in dict.fromkeys(row["problem"] for row in record):
            found: dict[str, dict[int, float]] = {}
            tried: dict[int, list[tuple[float, float]]] = {}
            for row in record:
                if row["problem"] == problem:
                    found.setdefault(row["method"], {})[row["seed"]] = 100 * row["error"]
                    if row["method"] in candidates and row.get("tried"):
                        held_out = min(one["error"] for one in row["tried"])
                        tried.setdefault(row["seed"], []).append((held_out, 100 * row["error"]))
            if kind == "two views":
                # Whichever of ours has the fewest wrong votes on training items, split by split.
                found[ours] = {seed: min(some)[1] for seed, some in tried.items() if len(some) == len(candidates)}
            if not found.get(ours):
                continue
            others = {
                name: errors
                for name, errors in found.items()
                if name in rivals[file] and set(errors) >= set(found[ours])
            }
            best = min(others, key=lambda name: statistics.mean(others[name].values()))
            gain, word = _verdict([others[best][seed] - error for seed, error in found[ours].items()])
            means = [
                f"{statistics.mean(found[name][seed] for seed in found[ours]):.1f} %"
                for name in ("Euclidean", best, ours)
            ]
            rows.append((problem, kind, means[0], f"{means[1]} ({best})", means[2], gain, word))
        shown += record
    header = ("queries", "", "Euclidean", "best other metric", "trained for the vote", "gain in points", "")
    return markdown(header, rows) + source(shown)


def _unseen(rows: Sequence[Any], printed: Sequence[str]) -> str:
    """Recall@1 of the rows: as printed on photos, and as measured here."""
    from nearer_papers.unified_view._unseen_classes import summarize

    records = {name: load(f"unseen_{name}") for name in HERE if measured(f"unseen_{name}")}
    lines = {name: {one["row"]: one for one in summarize(record)} for name, record in records.items()}
    cells = []
    for row in rows:
        told = [f"{row.printed[name]:g}" if row.printed and name in row.printed else "" for name in printed]
        mine = []
        for name in records:
            one = lines[name].get(row.name)
            spread = f" ± {one['recall@1 error']:.1f}" if one and one["seeds"] > 1 else ""
            mine.append(f"{one['recall@1']:.1f}{spread}" if one else "–")
        if any(told) or any(cell != "–" for cell in mine):
            cells.append((row.name, *told, *mine))
    header = ("", *(f"{PHOTOS[name]}, printed" for name in printed), *(f"{HERE[name]}, here" for name in records))
    names = {row.name for row in rows}
    return markdown(header, cells) + source(
        row for record in records.values() for row in record if row["row"] in names
    )


@table("line-pair-weighting")
def pair_weighting() -> str:
    from nearer_papers.unified_view._unified_view import ABLATION

    return _unseen([row for row in ABLATION if row.printed], tuple(PHOTOS))


@table("line-joint-representations")
def joint_representations() -> str:
    from nearer_papers.joint_representations._jrd import VARIANTS

    return _unseen(VARIANTS, ("cub200", "cars196", "sop"))


@table("line-semi-supervised")
def semi_supervised() -> str:
    from nearer_papers.semi_supervised._semi_supervised import PRINTED, of_the_tables

    record = of_the_tables(load("semi_supervised"))
    rows = []
    for data, printed in PRINTED.items():
        found: dict[str, dict[int, dict[str, float]]] = {}
        for row in record:
            if row["data"] == data:
                found.setdefault(row["method"], {})[row["seed"]] = row["scores"]
        for score, name, best in (("nmi", "NMI", printed[0]), ("recall@1", "R@1", printed[1])):
            means = [
                statistics.mean(one[score] for one in found[method].values())
                for method in ("Initial", "labels alone", "ours")
            ]
            pixels = [one[score] for one in found.get("50 principal components", {}).values()]
            gain, word = _verdict(
                [one[score] - found["labels alone"][seed][score] for seed, one in found["ours"].items()]
            )
            plain = f"{statistics.mean(pixels):.1f}" if pixels else "–"
            rows.append((data, name, f"{best:.1f}", plain, *(f"{mean:.1f}" for mean in means), gain, word))
    header = (
        "data",
        "score",
        "best printed",
        "50 principal components",
        "untrained",
        "labels alone",
        "ours",
        "gain on labels alone",
        "",
    )
    return markdown(header, rows) + source(record)


@table("line-relation-alignment")
def relation_alignment() -> str:
    """The first score of the sets of the paper's tables: printed, raw and chosen on training rows."""
    from nearer_papers.relation_alignment._relation_alignment import SCORES, with_choice
    from nearer_papers.relation_alignment._relation_data import SETS

    rows, shown = [], []
    for name, data in SETS.items():
        file = "relation_alignment_" + name.replace("-", "_")
        if not data.printed or not measured(file):
            continue
        record, score = load(file), SCORES[data.kind][0]
        found: dict[str, dict[tuple[int, int], float]] = {}
        for row in with_choice(record):
            found.setdefault(row["method"], {})[row["fold"], row["seed"]] = row[score]
        if "chosen" not in found or "raw features" not in found:
            continue
        sign = -1 if data.kind == "distributions" else 1
        chosen, raw = found["chosen"], found["raw features"]
        both = [run for run in chosen if run in raw]
        gain, word = _verdict([100 * sign * (chosen[run] - raw[run]) for run in both])
        told = [data.printed.get(key, {}).get(score) for key in ("HRAML, printed", "best printed")]
        cells = [f"{value:.4f}" if value is not None else "" for value in told]
        means = [f"{statistics.mean(one[run] for run in both):.4f}" for one in (raw, chosen)]
        rows.append((name, score + (" (down)" if sign < 0 else ""), *cells, *means, gain, word))
        shown += record
    header = ("data", "score", "HRAML, printed", "best printed", "raw", "chosen", "gain in points", "")
    return markdown(header, rows) + source(shown)
