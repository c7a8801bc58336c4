"""Relation alignment: the three tables of the HRAML paper, with honest raw features in front.

Table 1 classifies by k-NN, Table 2 predicts label sets by ML-kNN (whose neighbours may weigh by distance, if the
training rows ask for it), Table 3 label distributions by AA-kNN. Folds are shuffled (and stratified where there are
classes), or the split is the published one. Features are prepared, and settings and k are chosen, on training rows
only: a method is tried on rows held out of the training rows, the best setting is fitted on all of them, and the
test rows are looked at once. "Chosen" is whichever of RAML-SVR, RAML-KRR and HRAML did best on held-out training
rows of its fold. Every linear learner but LMNN has two rows: with the share of the identity that the training rows
ask for, and "as published", without.
"""

from __future__ import annotations

import itertools
import statistics
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, StratifiedShuffleSplit

from nearer.estimators import AAKNN, MLKNN, MetricKNN
from nearer.evaluation import _distribution as distribution
from nearer.evaluation import _multilabel as multilabel
from nearer.exceptions import NearerWarning, ParameterError
from nearer.reports._page import Section, Table
from nearer_papers._recipe import Measured, Outcome, Request
from nearer_papers.relation_alignment._relation_data import FOLDS, SETS, Array, LabeledSet, Part
from nearer_papers.relation_alignment._relation_methods import AS_PUBLISHED, OURS, RIVALS, Candidate, candidates

__all__ = ["KEY", "LOWER_IS_BETTER", "METHODS", "measure", "measure_set", "present", "result_file", "summary"]

TABLES = {"classes": "Table 1", "sets": "Table 2", "distributions": "Table 3"}
_OURS_TWICE = tuple(one + more for one in OURS for more in (AS_PUBLISHED, ""))
METHODS = {
    "classes": ("raw features", *RIVALS, *_OURS_TWICE),
    "sets": ("raw features", *_OURS_TWICE),
    "distributions": ("raw features", *_OURS_TWICE),
}
_ALL_METHODS = frozenset(method for some in METHODS.values() for method in some)
SCORES = {
    "classes": ("accuracy",),
    "sets": ("average precision", "ranking loss", "hamming", "one-error", "coverage"),
    "distributions": ("chebyshev", "clark", "canberra", "cosine", "intersection"),
}
LOWER_IS_BETTER = {"ranking loss", "hamming", "one-error", "coverage", "chebyshev", "clark", "canberra"}
NEIGHBORS = {"classes": (1, 3, 4, 5, 7), "sets": (10, 15, 20, 30), "distributions": (4,)}
BY_DISTANCE = ", neighbours by distance"

Row = dict[str, Any]


def _scores(
    kind: str, Z: Array, y: Array, Z_test: Array, y_test: Array, k: int, weights: Any = "uniform"
) -> dict[str, float]:
    if kind == "classes":
        return {"accuracy": float((MetricKNN(n_neighbors=k).fit(Z, y).predict(Z_test) == y_test).mean())}
    if kind == "sets":
        values = MLKNN(n_neighbors=k, weights=weights).fit(Z, y).predict_scores(Z_test)
        return {
            "average precision": multilabel.average_precision(values, y_test),
            "ranking loss": multilabel.ranking_loss(values, y_test),
            "hamming": multilabel.hamming_loss((values >= 0.5).astype(int), y_test),
            "one-error": multilabel.one_error(values, y_test),
            "coverage": multilabel.coverage(values, y_test),
        }
    predicted = AAKNN(n_neighbors=k).fit(Z, y).predict(Z_test)
    return {name: getattr(distribution, name)(predicted, y_test) for name in SCORES["distributions"]}


def _merit(kind: str, scores: dict[str, float]) -> float:
    """One number to choose by, higher is better."""
    if kind == "classes":
        return scores["accuracy"]
    return scores["average precision"] - scores["ranking loss"] if kind == "sets" else scores["cosine"]


def _trials(kind: str, y: Array, seed: int, quick: bool) -> Iterator[tuple[Array, Array]]:
    """Rows to fit and rows to look at, both of the training rows."""
    if kind == "classes":
        yield from StratifiedShuffleSplit(1, test_size=0.2, random_state=seed).split(np.zeros(len(y)), y)
        return
    folds = list(KFold(5, shuffle=True, random_state=seed).split(y))
    yield from folds[: 1 if quick or kind == "distributions" or len(y) > 1500 else 5]


def _mapped(learner: Any, X: Array, y: Array, *others: Array) -> list[Array]:
    if learner is None:
        return [X, *others]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NearerWarning)  # a learner that stops early still has its row in the table
        learner.fit(X, y)
    return [np.asarray(learner.transform(rows)) for rows in (X, *others)]


def _choose(
    kind: str,
    part: Part,
    found: Sequence[Candidate],
    seed: int,
    quick: bool,
    weights: Sequence[str] = ("uniform",),
) -> tuple[Candidate, int, str, float]:
    """The candidate, k and weights of neighbours with the best merit on held-out training rows."""
    merits: dict[tuple[int, int, str], list[float]] = {}
    for inside, outside in _trials(kind, part.y, seed, quick):
        for number, one in enumerate(found):
            Z, Z_out = _mapped(one.learner(seed, final=False), part.X[inside], part.y[inside], part.X[outside])
            for k, weigh in itertools.product(NEIGHBORS[kind], weights):
                scores = _scores(kind, Z, part.y[inside], Z_out, part.y[outside], k, weigh)
                merits.setdefault((number, k, weigh), []).append(_merit(kind, scores))
    best = max(merits, key=lambda key: statistics.fmean(merits[key]))
    return found[best[0]], best[1], best[2], statistics.fmean(merits[best])


def measure_set(
    data: LabeledSet,
    *,
    methods: Sequence[str] | None = None,
    folds: Sequence[int] | None = None,
    seeds: int = 1,
    quick: bool = False,
    done: Collection[tuple[str, int, int]] = (),
    progress: Callable[[str], None] | None = None,
) -> Iterator[Row]:
    """One row per fold, seed and method, as they come: chosen settings, k, scores on the test rows, seconds.

    A data set with a published split is learned with `seeds` seeds, one with folds once per fold. What is `done`
    already (method, fold, seed) is left out.
    """
    kind = data.kind
    plain, plain_k = data.plain()
    numbers = range(seeds if data.split == "published" else 1)
    runs: dict[int, list[tuple[int, str]]] = {}
    for fold in range(FOLDS if data.split == "folds" else 1):
        for seed, method in itertools.product(numbers, methods or data.methods or METHODS[kind]):
            if (method, fold, seed) not in done and (folds is None or fold in folds):
                runs.setdefault(fold, []).append((seed, method))
    if not runs:
        return
    for part, raw in zip(data.parts(runs), plain.parts(runs), strict=True):
        for seed, method in runs[part.fold]:
            if (seed, method) == (0, "raw features"):
                shared = {"dataset": data.name, "kind": kind, "fold": part.fold, "seed": 0}
                scores = _scores(kind, raw.X, raw.y, raw.X_test, raw.y_test, plain_k)
                name = f"raw, {plain.features}, k = {plain_k}"
                yield {**shared, "settings": plain.features, "method": name, "k": plain_k, **scores}
            if progress is not None:
                progress(f"{data.name}, fold {part.fold + 1}, seed {seed}: {method}")
            start = time.perf_counter()
            labels = part.y.shape[1] if part.y.ndim == 2 else 0
            found = candidates(kind, method, rows=len(part.X), columns=part.X.shape[1], labels=labels, quick=quick)
            # What is as published counts neighbours, as ML-kNN does.
            weights = ("uniform",) if kind != "sets" or method.endswith(AS_PUBLISHED) else ("uniform", "distance")
            one, k, weigh, merit = _choose(kind, part, found, seed, quick, weights)
            Z, Z_test = _mapped(one.learner(seed, final=True), part.X, part.y, part.X_test)
            yield {
                "dataset": data.name,
                "kind": kind,
                "method": method,
                "fold": part.fold,
                "seed": seed,
                "settings": one.name + (BY_DISTANCE if weigh == "distance" else ""),
                "k": k,
                "merit": merit,
                **_scores(kind, Z, part.y, Z_test, part.y_test, k, weigh),
                "seconds": time.perf_counter() - start,
            }


def with_choice(rows: Sequence[Row]) -> list[Row]:
    """Rows "chosen" beside the others: of our methods the one that did best on held-out training rows."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if row["method"] in OURS:
            groups.setdefault((row["dataset"], row["fold"], row["seed"]), []).append(row)
    result = [row for row in rows if row["method"] != "chosen"]
    for ours in groups.values():
        best = max(ours, key=lambda row: float(row["merit"]))
        result.append({**best, "method": "chosen", "settings": f"{best['method']}, {best['settings']}"})
    return result


def summary(rows: Sequence[Row]) -> list[Row]:
    """Mean and standard error over folds and seeds for each data set and method, and who beats the raw features."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in with_choice(rows):
        groups.setdefault((row["dataset"], row["method"]), []).append(row)
    result = []
    for (name, method), members in groups.items():
        line: Row = {"dataset": name, "kind": members[0]["kind"], "method": method, "runs": len(members)}
        for score in SCORES[members[0]["kind"]]:
            values = [float(row[score]) for row in members]
            line[score] = statistics.fmean(values)
            line[f"{score} error"] = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
        line["k"] = sorted({row["k"] for row in members})
        result.append(line)
    for line in result:
        start = groups.get((line["dataset"], "raw features"))
        if start is not None and not line["method"].startswith("raw"):
            line["worse than raw"] = _behind(start, groups[line["dataset"], line["method"]])
    sets = list(dict.fromkeys(line["dataset"] for line in result))

    def place(line: Row) -> tuple[int, int]:
        order = (*METHODS[line["kind"]], "chosen")
        return sets.index(line["dataset"]), order.index(line["method"]) if line["method"] in order else -1

    return sorted(result, key=place)


def _behind(raw: Sequence[Row], rows: Sequence[Row]) -> list[str]:
    """The scores in which rows are not better on average than the raw features of the same folds and seeds."""
    start = {(row["fold"], row["seed"]): row for row in raw}
    pairs = [(row, start[row["fold"], row["seed"]]) for row in rows if (row["fold"], row["seed"]) in start]
    behind = []
    for score in SCORES[rows[0]["kind"]] if pairs else ():
        gain = statistics.fmean(float(row[score]) - float(other[score]) for row, other in pairs)
        if (-gain if score in LOWER_IS_BETTER else gain) <= 0:
            behind.append(score)
    return behind


def _section(data: LabeledSet, lines: Sequence[Row]) -> Section:
    columns = ("method", *SCORES[data.kind], "k", "not better than raw")
    rows: list[tuple[Any, ...]] = []
    for line in lines:
        cells = [
            f"{line[score]:.4f} ± {line[f'{score} error']:.4f}" if line["runs"] > 1 else f"{line[score]:.4f}"
            for score in SCORES[data.kind]
        ]
        behind = ", ".join(line.get("worse than raw", ())) or ("–" if "worse than raw" in line else "")
        rows.append((line["method"], *cells, ", ".join(map(str, line["k"])), behind))
    for name, printed in data.printed.items():
        cells = [f"{printed[score]:.4f}" if score in printed else "" for score in SCORES[data.kind]]
        rows.append((name, *cells, "", ""))
    return Section(f"{TABLES[data.kind]}: {data.name}", [data.differs, Table(columns, rows)])


KEY = ("dataset", "method", "fold", "seed")


def result_file(row: Mapping[str, Any]) -> str:
    """A file for each data set."""
    return "relation_alignment_" + str(row["dataset"]).replace("-", "_")


def measure(request: Request) -> Iterator[Measured]:
    """The three tables, or those of the data sets (or "table-1", "table-2", "table-3") in `request.only`, which may
    also name methods ("HRAML").

    Quick: one fold, one setting per method, a few epochs, the small sets. It shows that everything runs, not what
    the methods can do.
    """
    chosen = _chosen(request)
    named = [name for name in request.only if name in _ALL_METHODS]
    for number, data in enumerate(chosen):
        fingerprint = data.load().fingerprint()
        for row in measure_set(
            data,
            methods=named or (("raw features", *OURS) if request.quick else None),
            folds=[0] if request.quick else None,
            seeds=1 if request.quick else request.seeds,
            quick=request.quick,
            done={(method, fold, seed) for name, method, fold, seed in request.done if name == data.name},
            progress=lambda text, number=number: request.progress(text, number / len(chosen)),  # type: ignore[misc]
        ):
            yield Measured(row, fingerprint)


def present(rows: Sequence[Row], request: Request) -> Outcome:
    """One section for each data set that was asked for."""
    lines = summary(rows)
    mine = {data.name: [line for line in lines if line["dataset"] == data.name] for data in _chosen(request)}
    sections = [_section(data, mine[data.name]) for data in _chosen(request) if mine[data.name]]
    record = {"sets": list(mine), "summary": [line for some in mine.values() for line in some]}
    return Outcome("Relation alignment: classes, label sets, label distributions", sections, record)


def _chosen(request: Request) -> list[LabeledSet]:
    by_table = {TABLES[data.kind].lower().replace(" ", "-"): data.kind for data in SETS.values()}
    wanted = [name for name in request.only if name not in _ALL_METHODS]
    wanted = wanted or (["uspst", "emotions", "sjaffe"] if request.quick else list(by_table))
    result = []
    for name in wanted:
        if name in by_table:
            result += [data for data in SETS.values() if data.kind == by_table[name] and not data.absent]
        elif name in SETS:
            result.append(SETS[name])
        else:
            raise ParameterError(
                f"`only` must name tables ({', '.join(by_table)}) or data sets ({', '.join(SETS)}), got {name!r}."
            )
    return result
