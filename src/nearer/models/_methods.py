"""Everything that `nearer fit` can learn with: what each method needs, what it costs, and which rule picks it.

The table is plain data, so that it can be printed without loading PyTorch. docs/choose.md has the measurements
behind the rules.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from nearer._checks import check_choice
from nearer.exceptions import LabelError, ParameterError

if TYPE_CHECKING:
    from nearer.relations import Kind

__all__ = ["METHODS", "Method", "choose_method", "method_named"]


@dataclass(frozen=True)
class Method:
    """A way to learn: its name on the command line, the class behind it, what it needs and what it costs."""

    name: str
    kind: Literal["linear", "encoder"]
    target: str
    """The class in `nearer.estimators` (linear) or `nearer.losses` (encoder); behind a colon the learner in it."""
    supervision: tuple[Kind, ...]
    cost: str
    about: str


_CLASSES: tuple[Kind, ...] = ("classes",)
_OR_PAIRS: tuple[Kind, ...] = ("classes", "pairs")
_PARTLY: tuple[Kind, ...] = ("partial", "classes")
_TABLES: tuple[Kind, ...] = ("sets", "distributions", "classes")

METHODS: tuple[Method, ...] = (
    Method("euclidean", "linear", "Euclidean", _OR_PAIRS, "nothing", "the raw features, the baseline"),
    Method("covariance", "linear", "Covariance", _CLASSES, "p³", "whitening; a baseline, often worse than raw"),
    Method("rca", "linear", "RCA", _CLASSES, "n p² + p³", "whitens what varies inside classes"),
    Method(
        "within-class",
        "linear",
        "",
        _CLASSES,
        "n p² + p³",
        "closed form on features of an encoder; how much is chosen on blocks of the training rows",
    ),
    Method(
        "lfda", "linear", "LFDA", _CLASSES, "n² p", "Fisher's discriminant that keeps several clusters per class"
    ),
    Method(
        "kissme", "linear", "KISSME", _OR_PAIRS, "n p² + p³", "closed form from likelihood ratios of differences"
    ),
    Method("gmml", "linear", "GMML", _OR_PAIRS, "n p² + p³", "closed form, geometric mean of two scatters"),
    Method("itml", "linear", "ITML", _OR_PAIRS, "pairs · p² · sweeps", "bounds on pairs, near a prior"),
    Method("ldml", "linear", "LDML", _OR_PAIRS, "pairs · p² · steps", "logistic regression on near pairs"),
    Method("mmc", "linear", "MMC", _OR_PAIRS, "n p² + p³", "pulls similar pairs, keeps dissimilar ones apart"),
    Method("dml-eig", "linear", "DMLEig", _OR_PAIRS, "pairs · p² · steps", "the worst dissimilar pair first"),
    Method("doublet-svm", "linear", "DoubletSVM", _OR_PAIRS, "pairs² · p", "a support vector machine on pairs"),
    Method("triplet-svm", "linear", "TripletSVM", _CLASSES, "triplets · p² · steps", "the same on triplets"),
    Method("lsml", "linear", "LSML", _CLASSES, "quadruplets · p² · steps", "relative distances"),
    Method("lmnn", "linear", "LMNN", _CLASSES, "n · k · p² · steps", "made for k-NN; in mini-batches of many rows"),
    Method(
        "nca",
        "linear",
        "NCA",
        _CLASSES,
        "n² p · steps",
        "made for k-NN, often the best; in mini-batches of many rows",
    ),
    Method("raml-krr", "linear", "RAMLKRR", _TABLES, "pairs · p² · steps", "distances follow a relation of labels"),
    Method("raml-svr", "linear", "RAMLSVR", _TABLES, "pairs² · p", "the same by support vector regression"),
    Method(
        "hraml",
        "linear",
        "HRAML",
        ("sets", "distributions", "classes", "numbers"),
        "epochs · n · networks",
        "the same by small networks side by side: distances that a matrix cannot follow",
    ),
    Method(
        "kernel-gmml",
        "linear",
        "KernelLearner:GMML",
        _CLASSES,
        "n³",
        "GMML in the space of a kernel, up to 5,000 rows",
    ),
    Method(
        "kernel-lmnn",
        "linear",
        "KernelLearner:LMNN",
        _CLASSES,
        "n³",
        "LMNN in the space of a kernel, up to 5,000 rows",
    ),
    Method("kernel-nca", "linear", "KernelLearner:NCA", _CLASSES, "n³ · steps", "NCA in the space of a kernel"),
    Method(
        "asymmetric-knn",
        "linear",
        "AsymmetricKNN",
        _CLASSES,
        "n² p · steps",
        "one map for queries, one for the database, trained for the k-NN vote",
    ),
    Method("lrml", "linear", "LRML", _PARTLY, "n k p + p³", "closed form, smooth on a graph of neighbours"),
    Method("seraph", "linear", "SERAPH", _PARTLY, "pairs · p² · steps", "few labels, little entropy elsewhere"),
    Method("isdml", "linear", "ISDML", _PARTLY, "n k p + p³", "few labels, smooth where rows are dense"),
    Method("apllr", "linear", "APLLR", _PARTLY, "n k + p³", "near KISSME, smooth on propagated affinities"),
    Method("apit", "linear", "APIT", _PARTLY, "n k + p³", "near ITML, smooth on propagated affinities"),
    Method(
        "semi-supervised",
        "linear",
        "SemiSupervisedMetric",
        _PARTLY,
        "n k p · steps",
        "triplets from propagated affinities, angular loss, orthogonal map",
    ),
    Method(
        "deep-semi-supervised",
        "encoder",
        "",
        _PARTLY,
        "epochs · n + n k",
        "a network on images with few labels: labels spread over a graph, angular loss, orthogonal map",
    ),
    Method("network", "encoder", "", ("classes", "partial"), "epochs · n", "a network with the loss of --loss"),
    Method(
        "mlkr", "linear", "MLKR", ("numbers",), "n² p · steps", "kernel regression: neighbours predict a number"
    ),
    Method(
        "raw-vthm",
        "encoder",
        "RAWLoss",
        _CLASSES,
        "epochs · n",
        "a network, RAW weights and valid-triplet hard mining",
    ),
    Method(
        "multi-similarity",
        "encoder",
        "MultiSimilarityLoss",
        _CLASSES,
        "epochs · n",
        "a network, soft weights on pairs",
    ),
    Method("supcon", "encoder", "SupConLoss", _CLASSES, "epochs · n", "a network, supervised contrastive softmax"),
    Method("triplet", "encoder", "BatchHardTripletLoss", _CLASSES, "epochs · n", "a network, the hardest triplets"),
    Method("contrastive", "encoder", "ContrastiveLoss", _CLASSES, "epochs · n", "a network, pull and push pairs"),
    Method(
        "circle", "encoder", "CircleLoss", _CLASSES, "epochs · n", "a network, pairs weighted by how wrong they are"
    ),
    Method(
        "alignment",
        "encoder",
        "RelationAlignmentLoss",
        _TABLES,
        "epochs · n",
        "a network, distances follow a relation",
    ),
)


def method_named(name: str) -> Method:
    """One method by its name; a near miss is suggested.

    >>> method_named("lmnn").target
    'LMNN'
    """
    check_choice(name, "method", [method.name for method in METHODS])
    return next(method for method in METHODS if method.name == name)


# Learners whose time grows with the square of the rows, and what to take instead of each.
SLOW = {"mlkr": "hraml", "asymmetric-knn": "nca"}


def cost(name: str, n: int, p: int) -> float:
    """About how long a linear learner takes on n labelled rows of p features, on one core.

    From the measurements in docs/choose.md (`benchmarks/speed/estimators.py`): an upper line through its rows.

    >>> cost("nca", 1000, 50) < 1 < 60 < cost("nca", 6000, 784)
    True
    """
    each = {"lmnn": 1e-5 * n * p} | dict.fromkeys(("nca", *SLOW), 1e-8 * n * n * p)
    closed = 2e-8 * n * p * p + 2e-9 * p**3 + 0.1
    return each.get(name, 1e-8 * n * p * p + 0.5 if name == "ldml" else closed)


def memory(n: int, p: int) -> float:
    """About how many bytes a linear learner takes beyond the data: one and a half copies in float64, and (p, p).

    From `benchmarks/speed/million.py`: the learners at a million rows of 128 features took 1.0 to 1.5 GB.

    >>> 1.0e9 < memory(10**6, 128) < 2e9 < 60e9 < memory(10, 40_000)
    True
    """
    return 12.0 * n * p + 40.0 * p * p


def machine_memory() -> float:
    """Bytes of memory of this machine; infinite where the system does not say."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return math.inf


# What `fit` learns these with where all rows would take too long, and the share of the time for learning.
BATCH = 1024
IN_BATCHES = ("nca", "lmnn", "mlkr")
SHARE = 1 / 3


def batch_cost(name: str, n: int, p: int) -> float:
    """The same for NCA, MLKR and LMNN in batches of 1,024 rows: beyond 70,000 rows it does not grow.

    >>> batch_cost("nca", 10**6, 128) == batch_cost("nca", 10**5, 128) < 20
    True
    """
    steps = min(max(15 * n / BATCH, 300), 1_000)
    each = 0.006 + 1.35e-11 * (4 * BATCH * p * p + 6 * BATCH * BATCH * p)
    return steps * each * (4 if name == "lmnn" else 1) + 0.5


def batch_size_for(name: str, n: int, p: int, seconds: float) -> int | None:
    """How many rows at a time a learner should take: None for all, where that fits a third of the seconds.

    >>> batch_size_for("nca", 1000, 20, 60.0), batch_size_for("nca", 10**5, 100, 60.0)
    (None, 1024)
    >>> batch_size_for("kissme", 10**6, 128, 60.0) is None
    True
    """
    if name not in IN_BATCHES or n <= BATCH or cost(name, n, p) <= SHARE * seconds:
        return None
    return BATCH if batch_cost(name, n, p) < cost(name, n, p) else None


def choose_method(
    kind: Kind,
    *,
    n: int,
    p: int = 1,
    few: bool = True,
    images: bool = False,
    encoded: bool = False,
    new_classes: bool = False,
    seconds: float = 60.0,
) -> tuple[Method, str]:
    """The method for this kind of labels, number of labelled rows and features, and the rule that chose it.

    The most accurate learner that takes no more than a third of `seconds`, so that scoring has time too. `few`
    says of partial labels whether less than half of the rows have one, `encoded` that the features come from a
    trained encoder, `new_classes` that the classes to come are others.

    >>> method, rule = choose_method("classes", n=1000, p=20)
    >>> method.name, rule
    ('nca', 'class labels, 1,000 rows of 20 features: nca, about 0.2 s')
    >>> choose_method("classes", n=6000, p=784)[0].name
    'kissme'
    """
    if images:
        if kind not in ("classes", "partial"):
            raise LabelError(f"Images must come in one folder per class, got {kind}.")
        if kind == "partial" and few:
            rule = "images, less than half of them with a label: deep-semi-supervised"
            return method_named("deep-semi-supervised"), rule
        return method_named("raw-vthm"), "images in folders by class: a network with raw-vthm"
    if encoded and kind in ("classes", "partial"):
        return method_named("within-class"), f"features of a trained encoder, {n:,} labelled rows: within-class"
    if new_classes and kind == "classes":
        # What is learned for k-NN among some classes can hurt among others; this one is chosen on other classes.
        return method_named("within-class"), f"classes to come are new, {n:,} rows: within-class"
    rules: Sequence[tuple[bool, str, str]] = [
        (kind == "sets", "alignment", "several 0/1 label columns: alignment"),
        (kind == "distributions", "raml-krr", "label distributions: raml-krr"),
        (kind == "numbers", "mlkr", "numbers to predict: mlkr"),
        (kind == "partial" and few, "semi-supervised", "labels for less than half of the rows: semi-supervised"),
    ]
    for holds, name, rule in rules:
        if holds:
            return method_named(name), rule
    head = f"class labels, {n:,} rows of {p:,} features"
    allowed = SHARE * seconds
    name = next((one for one in ("nca", "lmnn") if cost(one, n, p) <= allowed), "")
    if not name and batch_size_for("nca", n, p, seconds) and batch_cost("nca", n, p) <= allowed:
        about = f"about {batch_cost('nca', n, p):.1g} s"
        return method_named("nca"), f"{head}: nca in batches of {BATCH:,} rows, {about}"
    if not name:
        name = "ldml" if cost("ldml", n, p) <= allowed else "kissme"
    return method_named(name), f"{head}: {name}, about {max(0.1, cost(name, n, p)):.1g} s"


def check_fits(method: Method, kind: Kind) -> None:
    """Refuse a method that cannot use the labels that are there."""
    if kind == "partial" and "classes" in method.supervision:
        return
    if kind not in method.supervision:
        able = [other.name for other in METHODS if kind in other.supervision]
        raise ParameterError(
            f"`method` must be one that learns from {kind} ({', '.join(able)}), got {method.name!r}, which needs "
            f"{' or '.join(method.supervision)}."
        )
