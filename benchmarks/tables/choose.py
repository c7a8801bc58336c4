"""The decision table of docs/choose.md: what you know, what to take, and the measured reason."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from page import load, markdown, table

from nearer.models._methods import choose_methods

# What a fit may be given; the rule itself says what it takes.
GIVEN: tuple[tuple[str, dict[str, Any]], ...] = (
    ("classes, 1,000 rows of 20 features", {"kind": "classes", "n": 1_000, "p": 20, "classes": 5}),
    ("two classes, 1,000 rows of 20 features", {"kind": "classes", "n": 1_000, "p": 20, "classes": 2}),
    ("classes, 100,000 rows of 20 features", {"kind": "classes", "n": 100_000, "p": 20, "classes": 5}),
    ("classes, 6,000 rows of 784 features", {"kind": "classes", "n": 6_000, "p": 784}),
    ("classes, a million rows of 128 features", {"kind": "classes", "n": 1_000_000, "p": 128}),
    ('classes, others to come (`split="classes"`)', {"kind": "classes", "n": 1_000, "p": 20, "new_classes": True}),
    ("classes, features of a trained encoder", {"kind": "classes", "n": 1_000, "p": 384, "encoded": True}),
    ("labels on less than half of the rows", {"kind": "partial", "n": 100, "p": 200}),
    ("the same, of images", {"kind": "partial", "n": 100, "images": True}),
    ("images in folders by class, without an encoder", {"kind": "classes", "n": 1_000, "images": True}),
    ("several labels for each row", {"kind": "sets", "n": 1_000}),
    ("a distribution over labels", {"kind": "distributions", "n": 1_000}),
    ("numbers to predict", {"kind": "numbers", "n": 1_000}),
    ("near and far pairs", {"kind": "pairs", "n": 1_000}),
)


def _mean(name: str, value: Callable[[dict[str, Any]], float], **where: Any) -> float:
    """The mean of a value over the rows of a result file that match."""
    rows = [row for row in load(name) if all(row.get(key) == wanted for key, wanted in where.items())]
    return statistics.mean(value(row) for row in rows)


def _gain(estimator: str) -> str:
    rows = load("estimators")
    base = {(row["dataset"], row["seed"]): row["accuracy"] for row in rows if row["estimator"] == "Euclidean"}
    gains: dict[str, list[float]] = {}
    for row in rows:
        if row["estimator"] == estimator:
            gains.setdefault(row["dataset"], []).append(row["accuracy"] - base[row["dataset"], row["seed"]])
    return f"{statistics.mean(statistics.mean(some) for some in gains.values()):+.3f}"


def _partial(learner: str) -> str:
    gains = [
        100 * (row["learned"]["recall@1"] - row["raw"]["recall@1"])
        for row in load("partial_labels")
        if row["learner"] == learner
    ]
    return f"{statistics.mean(gains):+.1f} points of R@1 in the mean, {min(gains):+.1f} at worst, {len(gains)} runs"


def _error(method: str) -> str:
    return f"{100 * _mean('asymmetric_views', lambda row: row['error'], problem='halves', method=method):.1f} %"


def _relation(data: str, score: str, method: str) -> str:
    return f"{_mean('relation_alignment_' + data, lambda row: row[score], method=method):.3f}"


def _unseen(data: str, row: str) -> str:
    return f"{_mean('unseen_' + data, lambda one: one['scores']['recall@1'], row=row):.1f}"


def _above(rule: str) -> str:
    rows = [row["above"] for row in load("decisions") if row["rule"] == rule and "above" in row]
    return f"{100 * statistics.mean(rows):.0f} %"


@table("choose")
def choose() -> str:
    kissme = _mean("estimators", lambda row: row["seconds"], estimator="KISSME", dataset="20k")
    million = next(row for row in load("million") if row["part"] == "nca" and row["rows"] == 1_000_000)
    cars = {
        key: _mean("encoders", lambda row, key=key: row[key]["recall@1"], set="cars196")
        for key in ("raw", "learned")
    }
    audit = {
        key: _mean("audit", lambda row, key=key: row[key])
        for key in ("nearer", "cleanlab normalized_margin", "knn")
    }
    codes = load("codes_speed")[0]
    cached = next(row for row in load("training") if row["what"] == "caching")
    hnsw = next(row for row in load("index") if row["what"].startswith("HNSW") and row["rows"] == 1_000_000)
    memory = max(row["extra_megabytes"] for row in load("losses_memory") if row["batch"] == 16384)
    rows = [
        (
            "a table, and no wish to choose",
            '`nearer.fit(df, "label")`',
            "picks by a rule that it names, and says when it is not better than the raw columns",
            "[csv](start/csv.md)",
        ),
        (
            "class labels, up to some 20,000 rows",
            "`NCA`, `LMNN`",
            f"3-NN accuracy {_gain('NCA')} and {_gain('LMNN')} on Euclidean, mean of the sets",
            "[learners](benchmarks/learners.md)",
        ),
        (
            "class labels, many rows",
            "`NCA(batch_size=1024)`",
            f"a million rows in {million['cpu_seconds']:.0f} CPU s: accuracy {million['raw_accuracy']:.3f} → "
            f"{million['accuracy']:.3f}",
            "[scale](benchmarks/scale.md)",
        ),
        (
            "class labels, no time",
            "`KISSME`, `GMML`",
            f"closed form; KISSME {_gain('KISSME')} in {kissme:.1f} CPU s on 14,000 × 100",
            "[learners](benchmarks/learners.md)",
        ),
        (
            "pairs, triplets, quadruplets, groups",
            "`nearer.fit(X, Pairs(...))`; `ITML`, `LDML`, `TripletSVM`, `LSML`, `RCA`",
            "`fit_pairs`, `fit_triplets`, `fit_quadruplets`, `fit_chunks`",
            "[estimators](estimators.md)",
        ),
        ("numbers to predict", "`MLKR`", "the only learner for regression", "[estimators](estimators.md)"),
        (
            "labels on a few rows (−1 elsewhere)",
            "`APLLR`, `LRML`, `SemiSupervisedMetric`",
            f"APLLR {_partial('APLLR')}",
            "[few labels](how-to/few-labels.md)",
        ),
        (
            "several labels for each row",
            "`RAMLKRR`",
            f"emotions, average precision {_relation('emotions', 'average precision', 'raw features')} → "
            f"{_relation('emotions', 'average precision', 'RAML-KRR')}",
            "[label sets](how-to/label-sets.md)",
        ),
        (
            "a distribution over labels",
            "`HRAML`, `RAMLKRR`",
            f"natural scenes, Chebyshev {_relation('natural_scene', 'chebyshev', 'raw features')} → "
            f"{_relation('natural_scene', 'chebyshev', 'HRAML')}",
            "[distributions](how-to/distributions.md)",
        ),
        (
            "queries that do not look like the database",
            "`AsymmetricKNN`, `TwoEncoders`",
            f"halves of digits, 3-NN error {_error('Euclidean')} → {_error('AsymmetricKNN')}",
            "[two views](how-to/two-views.md)",
        ),
        (
            "classes that no linear map separates",
            "`KernelLearner(NCA())`, or around any learner",
            "n² memory, or `n_landmarks`",
            "[estimators](estimators.md#kernels)",
        ),
        (
            "no labels",
            "`Euclidean`",
            f"the inverse covariance (`Covariance`) is worse than nothing: {_gain('Covariance')}",
            "[learners](benchmarks/learners.md)",
        ),
        (
            "photos or texts",
            "`nearer.fit` on a frozen encoder",
            f"Cars-196, classes never seen: R@1 {cars['raw']:.3f} → {cars['learned']:.3f}",
            "[photos](start/photos.md), [texts](start/texts.md)",
        ),
        (
            "a network, new classes at the end",
            "`RAWLoss`, or `JRDLoss` with class vectors",
            f"Omniglot R@1: binomial deviance {_unseen('omniglot', 'Binomial')}, RAW {_unseen('omniglot', 'RAW')}; "
            f"AMSoftmax {_unseen('omniglot', 'AMSoftmax')}, JRD {_unseen('omniglot', 'JRD')}",
            "[unseen classes](how-to/unseen-classes.md)",
        ),
        (
            "batches larger than memory",
            "any pair loss; `backward_in_chunks`",
            f"losses at B = 16,384 take {memory:.0f} MB at most; parts of {cached['chunk']} take "
            f"{cached['cached']['extra MB']:.0f} MB instead of {cached['plain']['extra MB']:.0f} MB for a batch of "
            f"{cached['batch']:,}",
            "[huge batches](how-to/huge-batches.md)",
        ),
        (
            '"are these two the same?"',
            "`SamePair`",
            f"error above the level on new classes in {_above('estimated')} of the splits, by the usual threshold "
            f"in {_above('plug-in')}",
            "[decisions](decisions.md)",
        ),
        (
            "time for a few more labels",
            "`suggest_items`",
            "by influence; fewer answers than random for the same score on every set tried",
            "[questions](questions.md)",
        ),
        (
            "labels that may be wrong",
            "`find_issues`",
            f"average precision {audit['nearer']:.3f}; cleanlab {audit['cleanlab normalized_margin']:.3f}, "
            f"k-NN {audit['knn']:.3f}",
            "[audit](how-to/audit-labels.md)",
        ),
        (
            "a million items to search",
            "`Index` with `HNSW`",
            f"{hnsw['times_exact']:.0f} times as fast as exact at recall@10 {hnsw['recall_at_10']:.3f}",
            "[search](how-to/search-at-scale.md)",
        ),
        (
            "too little memory for the items",
            "`itq`, `BinaryLoss`, `BitIndex`",
            f"a million items in {codes['megabytes of bits']:.0f} MB instead of "
            f"{codes['megabytes of floats']:.0f} MB; on new classes do not train the bits",
            "[codes](codes.md)",
        ),
    ]
    return markdown(("you have", "take", "measured", "more"), rows)


@table("choose-rule")
def choose_rule() -> str:
    rows = []
    for given, settings in GIVEN:
        *simpler, last = (f"`{method.name}`" for method in choose_methods(**settings)[0])
        rows.append((given, last, ", ".join(simpler) or "–"))
    return markdown(("`nearer.fit` is given", "it takes", "or, where as good on folds of the training rows"), rows)
