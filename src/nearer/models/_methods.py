"""Everything that `nearer fit` can learn with: what each method needs, what it costs, and the function that learns.

A method is a row of the table METHODS: `fit` asks the rows and compares no names. The functions load what they need
when they run, so that the table can be printed without PyTorch. docs/choose.md has the measurements behind the
rules.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from nearer._checks import check_choice
from nearer.exceptions import LabelError, ParameterError

if TYPE_CHECKING:
    from nearer.models._learning import Learned, Watch
    from nearer.models._problem import Problem
    from nearer.models._settings import FitSettings
    from nearer.relations._shared import Kind

# Rows at a time, where all at once would take too long, and the share of the time that is for learning.
BATCH = 1024
SHARE = 1 / 3
# The seconds of the trees are those of all fits, of trying too, and leave less to come.
TREES_SHARE = 2 / 3
# Principal directions in which the spread inside classes can be found from few labels.
LEADING = 50
# Of more training rows some are drawn to try methods on.
MOST_TRIED = 10_000


def closed_form(n: int, p: int) -> float:
    """Seconds of a learner that is solved at once, on n labelled rows of p features, on one core.

    This and the following are upper lines through the rows of `benchmarks/speed/estimators.py` (docs/choose.md).
    """
    return 2e-8 * n * p * p + 2e-9 * p**3 + 0.1


def all_pairs(n: int, p: int) -> float:
    """Seconds of a learner that looks at all pairs of rows in every step."""
    return 1e-8 * n * n * p


def by_batches(n: int, p: int) -> float:
    """The same in batches of 1,024 rows: beyond 70,000 rows it does not grow.

    >>> by_batches(10**6, 128) == by_batches(10**5, 128) < 20
    True
    """
    steps = min(max(15 * n / BATCH, 300), 1_000)
    return steps * (0.006 + 1.35e-11 * (4 * BATCH * p * p + 6 * BATCH * BATCH * p)) + 0.5


def by_trees(n: int, p: int, classes: int = 10) -> float:
    """Seconds of `ClassProbabilities`, tried, fitted and refitted; it boosts as many trees as rounds times classes.

    >>> by_trees(2_000, 20) < 20 < by_trees(6_000, 784)
    True
    """
    trees = 100 if classes == 2 else max(40 * classes, min(100 * classes, 1000))
    if n <= 500:
        trees = 40 * (1 if classes == 2 else classes)
    seen = min(n, 20_000)  # rows that trees learn from, at most
    once = trees * (4e-4 + 2e-6 * p + 1.2e-8 * seen * p) + 5e-6 * seen * p + 2e-5 * n + 0.1
    return (4 if n <= 10_000 else 2.5) * once


@dataclass(frozen=True)
class Method:
    """A way to learn: its name, what it needs and costs, when "auto" tries it, and the function that does it."""

    name: str
    about: str
    supervision: tuple[Kind, ...]
    cost: str
    learn: Callable[[Problem, FitSettings, Watch], Learned]
    target: str = ""
    """The class in `nearer.estimators` or `nearer.losses` whose documentation describes it."""
    network: bool = False
    """Whether it trains a network, and so uses the settings of networks and takes images."""
    for_images_only: bool = False
    tried: Callable[[Problem], bool] = lambda problem: False
    """Whether "auto" tries it on a problem."""
    seconds: Callable[[int, int], float] = closed_form
    seconds_in_batches: Callable[[int, int], float] | None = None
    """For a learner that can take some rows at a time."""
    instead: str = ""
    """What to take where its time, which grows with the square of the rows, is too long."""
    scales_itself: bool = False
    """Whether it has a setting of its own for the scale of the features."""
    scales_encoded: bool = False
    """Whether features of an encoder are not standardized before it."""
    chooses_once: bool = False
    """Whether settings that it found on some of the rows may be taken over for others."""

    def batch_size(self, n: int, p: int, seconds: float) -> int | None:
        """How many rows at a time it should take: None for all, where that fits a third of the seconds.

        >>> nca = method_named("nca")
        >>> nca.batch_size(1000, 20, 60.0), nca.batch_size(10**5, 100, 60.0)
        (None, 1024)
        """
        whole = self.seconds(n, p)
        if self.seconds_in_batches is None or n <= BATCH or whole <= SHARE * seconds:
            return None
        return BATCH if self.seconds_in_batches(n, p) < whole else None


def _network(name: str, target: str, supervision: tuple[Kind, ...], about: str, **more: Any) -> Method:
    """A network with a loss of `nearer.losses`; "" takes that of the settings."""

    def learn(problem: Problem, options: FitSettings, watch: Watch) -> Learned:
        from nearer.models._networks import train_network

        return train_network(problem, options, watch, target)

    return Method(name, about, supervision, "epochs · n", learn, target, network=True, **more)


def _few_labels(problem: Problem, options: FitSettings, watch: Watch) -> Learned:
    from nearer.models._few_labels import train_few_labels

    return train_few_labels(problem, options, watch)


def _within_class(problem: Problem, options: FitSettings, watch: Watch, *, leading: int | None = None) -> Learned:
    from nearer.models._learning import learn_within_class

    return learn_within_class(problem, options, leading=leading)


def _fine_tuned(problem: Problem, options: FitSettings, watch: Watch) -> Learned:
    from nearer.models._finetuning import learn_tuned

    return learn_tuned(problem)


def _of_classes(problem: Problem) -> bool:
    return not problem.images and problem.kind in ("classes", "partial")


def _of_classes_or_pairs(problem: Problem) -> bool:
    return problem.kind == "pairs" or _of_classes(problem)


def _anything(problem: Problem, options: FitSettings, watch: Watch) -> Learned:
    from nearer.models._learning import learn_nothing

    return learn_nothing(problem, options)


def _of_pairs(problem: Problem) -> bool:
    return problem.kind == "pairs"


def _of_few_labels(problem: Problem) -> bool:
    return not problem.images and problem.few


def _of_tables(problem: Problem) -> bool:
    return problem.kind in ("sets", "distributions")


_CLASSES: tuple[Kind, ...] = ("classes",)
_OR_PAIRS: tuple[Kind, ...] = ("classes", "pairs")
_PARTLY: tuple[Kind, ...] = ("partial", "classes")
_TABLES: tuple[Kind, ...] = ("sets", "distributions", "classes")


def _linear(
    name: str, target: str, supervision: tuple[Kind, ...], cost: str, about: str, *, inner: str = "", **more: Any
) -> Method:
    """A learner of `nearer.estimators`; `inner` is what a kernel learner learns with."""

    def learn(problem: Problem, options: FitSettings, watch: Watch) -> Learned:
        from nearer.models._learning import learn_estimator

        return learn_estimator(problem, options, method_named(name), inner)

    return Method(name, about, supervision, cost, learn, target, **more)


# Cheap first: "auto" tries them in this order, as long as the time lasts.
METHODS: tuple[Method, ...] = (
    Method(
        "euclidean", "the raw features, the baseline", (*_OR_PAIRS, "partial", "sets", "distributions", "numbers"),
        "nothing", _anything, "Euclidean",
    ),
    _linear("covariance", "Covariance", _CLASSES, "p³", "whitening; a baseline, often worse than raw"),
    _linear("rca", "RCA", _CLASSES, "n p² + p³", "whitens what varies inside classes"),
    Method(
        "within-class",
        "closed form on features of an encoder; how much is chosen on blocks of the training rows",
        _CLASSES,
        "n p² + p³",
        _within_class,
        "WithinClass",
        tried=_of_classes,
        scales_encoded=True,
    ),
    Method(
        "leading-directions",
        f"the same in the {LEADING} leading principal directions of all rows, labelled or not",
        _PARTLY,
        "n p² + p³",
        partial(_within_class, leading=LEADING),
        "WithinClass",
        tried=lambda problem: _of_few_labels(problem) and math.prod(problem.inputs.size) > LEADING,
        scales_encoded=True,
    ),
    _linear(
        "lda", "LDA", _CLASSES, "n p² + p³", "the directions that tell class means apart", tried=_of_classes
    ),
    _linear("lfda", "LFDA", _CLASSES, "n² p", "Fisher's discriminant that keeps several clusters per class"),
    _linear(
        "kissme", "KISSME", _OR_PAIRS, "n p² + p³", "closed form from likelihood ratios of differences",
        tried=_of_classes_or_pairs,
    ),
    _linear(
        "gmml", "GMML", _OR_PAIRS, "n p² + p³", "closed form, geometric mean of two scatters",
        tried=_of_classes_or_pairs,
    ),
    _linear(
        "lrml", "LRML", _PARTLY, "n k p + p³", "closed form, smooth on a graph of neighbours",
        tried=_of_few_labels,
    ),
    # On classes ITML draws pairs, and is slower than what it would have to beat.
    _linear("itml", "ITML", _OR_PAIRS, "pairs · p² · sweeps", "bounds on pairs, near a prior", tried=_of_pairs),
    _linear(
        "ldml", "LDML", _OR_PAIRS, "pairs · p² · steps", "logistic regression on near pairs",
        tried=_of_classes_or_pairs, seconds=lambda n, p: 1e-8 * n * p * p + 0.5,
    ),
    _linear("mmc", "MMC", _OR_PAIRS, "n p² + p³", "pulls similar pairs, keeps dissimilar ones apart"),
    _linear(
        "triplet-svm", "TripletSVM", _CLASSES, "triplets · p² · steps", "the same on triplets", tried=_of_classes
    ),
    _linear("lsml", "LSML", _CLASSES, "quadruplets · p² · steps", "relative distances"),
    _linear(
        "semi-supervised", "SemiSupervisedMetric", _PARTLY, "n k p · steps",
        "triplets from propagated affinities, angular loss, orthogonal map", tried=_of_few_labels,
    ),
    _linear("seraph", "SERAPH", _PARTLY, "pairs · p² · steps", "few labels, little entropy elsewhere"),
    _linear("isdml", "ISDML", _PARTLY, "n k p + p³", "few labels, smooth where rows are dense"),
    _linear("apllr", "APLLR", _PARTLY, "n k + p³", "near KISSME, smooth on propagated affinities"),
    _linear("apit", "APIT", _PARTLY, "n k + p³", "near ITML, smooth on propagated affinities"),
    _linear(
        "lmnn", "LMNN", _CLASSES, "n · k · p² · steps", "made for k-NN; in mini-batches of many rows",
        # In batches, so of many rows, it is slower than NCA and no better.
        tried=lambda problem: _of_classes(problem) and problem.labeled <= 20_000,
        seconds=lambda n, p: 1e-5 * n * p,
        seconds_in_batches=lambda n, p: 4 * by_batches(n, p) - 1.5,
    ),
    _linear(
        "nca", "NCA", _CLASSES, "n² p · steps", "made for k-NN, often the best; in mini-batches of many rows",
        tried=_of_classes, seconds=all_pairs, seconds_in_batches=by_batches,
    ),
    _linear(
        "class-probabilities", "ClassProbabilities", _CLASSES, "trees · n p",
        "for tables: trees and a network say the classes, the features the order inside them",
        tried=lambda problem: _of_classes(problem) and not problem.new_classes, seconds=by_trees,
        scales_itself=True, chooses_once=True,
    ),
    _linear("kernel-gmml", "KernelLearner", _CLASSES, "n³", "GMML in the space of a kernel", inner="GMML"),
    _linear("kernel-lmnn", "KernelLearner", _CLASSES, "n³", "LMNN in the space of a kernel", inner="LMNN"),
    _linear("kernel-nca", "KernelLearner", _CLASSES, "n³ · steps", "NCA in the space of a kernel", inner="NCA"),
    _linear(
        "asymmetric-knn", "AsymmetricKNN", _CLASSES, "n² p · steps",
        "one map for queries, one for the database, trained for the k-NN vote", seconds=all_pairs, instead="nca",
    ),
    _network(
        "raw-vthm", "RAWLoss", _CLASSES, "a network, RAW weights and valid-triplet hard mining",
        tried=lambda problem: problem.images or _of_classes(problem),
    ),
    Method(
        "deep-semi-supervised",
        "a network on images with few labels: labels spread over a graph, angular loss, orthogonal map",
        _PARTLY,
        "epochs · n + n k",
        _few_labels,
        network=True,
        for_images_only=True,
        tried=lambda problem: problem.images and problem.few,
    ),
    _network(
        "alignment", "RelationAlignmentLoss", _TABLES, "a network, distances follow a relation", tried=_of_tables
    ),
    _linear(
        "raml-krr", "RAMLKRR", _TABLES, "pairs · p² · steps", "distances follow a relation of labels",
        tried=_of_tables,
    ),
    _linear("raml-svr", "RAMLSVR", _TABLES, "pairs² · p", "the same by support vector regression"),
    _linear(
        "hraml", "HRAML", ("sets", "distributions", "classes", "numbers"), "epochs · n · networks",
        "the same by small networks side by side: distances that a matrix cannot follow",
    ),
    _linear(
        "mlkr", "MLKR", ("numbers",), "n² p · steps", "kernel regression: neighbours predict a number",
        tried=lambda problem: problem.kind == "numbers", seconds=all_pairs, seconds_in_batches=by_batches,
        instead="hraml",
    ),
    _network("multi-similarity", "MultiSimilarityLoss", _CLASSES, "a network, soft weights on pairs"),
    _network("supcon", "SupConLoss", _CLASSES, "a network, supervised contrastive softmax"),
    _network("triplet", "BatchHardTripletLoss", _CLASSES, "a network, the hardest triplets"),
    _network("contrastive", "ContrastiveLoss", _CLASSES, "a network, pull and push pairs"),
    _network("circle", "CircleLoss", _CLASSES, "a network, pairs weighted by how wrong they are"),
    _network("network", "", ("classes", "partial"), "a network with a loss of your choice"),
)  # fmt: skip


# Asked for by `finetune`, not by its name: there is nothing to learn any more when it comes to the method.
FINE_TUNED = Method(
    "fine-tuned",
    "the whole encoder of photos or texts, trained behind its closed form",
    _CLASSES,
    "epochs · n",
    _fine_tuned,
    network=True,
)


def method_named(name: str) -> Method:
    """One method by its name; a near miss is suggested.

    >>> method_named("lmnn").target
    'LMNN'
    """
    check_choice(name, "method", [method.name for method in METHODS])
    return next(method for method in METHODS if method.name == name)


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


def choose_methods(
    kind: Kind,
    *,
    n: int,
    p: int = 1,
    few: bool = True,
    images: bool = False,
    encoded: bool = False,
    new_classes: bool = False,
    classes: int = 10,
    seconds: float = 60.0,
) -> tuple[list[Method], str]:
    """The candidates for this kind of labels, number of labelled rows and features, and the rule that named them.

    The last is what the rule names: the most accurate learner that takes no more than a third of `seconds`, so that
    trying and scoring have time too. Those before it are simpler, the features as they are first, and one of them
    is taken where it is as good. `few` says of partial labels whether less than half of the rows have one,
    `encoded` that the features come from a trained encoder, `new_classes` that the classes to come are others,
    `classes` how many there are.

    >>> methods, rule = choose_methods("classes", n=1000, p=20)
    >>> [method.name for method in methods], rule
    (['euclidean', 'lda', 'nca', 'class-probabilities'], 'class labels, 1,000 rows of 20 features: \
class-probabilities, about 4 s')
    >>> choose_methods("classes", n=6000, p=784)[0][-1].name
    'kissme'
    """
    if images:
        if kind not in ("classes", "partial"):
            raise LabelError(f"Images must come in one folder per class, got {kind}.")
        if kind == "partial" and few:
            rule = "images, less than half of them with a label: deep-semi-supervised"
            return [method_named("deep-semi-supervised")], rule
        return [method_named("raw-vthm")], "images in folders by class: a network with raw-vthm"
    if encoded and kind in ("classes", "partial"):
        return [method_named("within-class")], f"features of a trained encoder, {n:,} labelled rows: within-class"
    if new_classes and kind == "classes":
        # What is learned for k-NN among some classes can hurt among others; this one is chosen on other classes,
        # the features as they are and the discriminant analysis among its maps.
        return [method_named("within-class")], f"classes to come are new, {n:,} rows: within-class"
    allowed = SHARE * seconds
    # Of two classes one direction is left by a discriminant analysis, and nothing of the rows inside them.
    simple = [
        one
        for one in map(method_named, ("euclidean", *(["lda"] if classes > 2 else []), "nca"))
        if one.name == "euclidean" or one.seconds(min(n, MOST_TRIED), p) <= allowed / 2
    ]
    of_pairs = [one.name for one in METHODS if one.tried in (_of_pairs, _of_classes_or_pairs)]
    rules: dict[str, tuple[Sequence[str], str]] = {
        "sets": (["raml-krr"], "several 0/1 label columns: raml-krr"),
        "distributions": (["raml-krr"], "label distributions: raml-krr"),
        "numbers": (["mlkr"], "numbers to predict: mlkr"),
        "pairs": (of_pairs, "near and far pairs: what does best on others"),
    }
    if kind in rules:
        others, rule = rules[kind]
        return [method_named(name) for name in ("euclidean", *others)], rule
    trees = by_trees(n, p, classes)
    able = trees <= TREES_SHARE * seconds
    if kind == "partial" and few:
        # Trees of so few rows raise MAP@R and cost nearest neighbors, and NCA and LDA fit the labelled rows alone:
        # they are for those who ask for them.
        names = ["euclidean", *(["leading-directions"] if p > LEADING else []), "within-class"]
        return [method_named(name) for name in names], "labels for less than half of the rows: what they prove"
    head = f"class labels, {n:,} rows of {p:,} features"
    if able:
        about = f"{trees:.1g}" if trees < 10 else f"{trees:.0f}"
        return [*simple, method_named("class-probabilities")], f"{head}: class-probabilities, about {about} s"
    nca, lmnn, ldml, kissme = (method_named(name) for name in ("nca", "lmnn", "ldml", "kissme"))
    method = next((method for method in (nca, lmnn) if method.seconds(n, p) <= allowed), None)
    cost = "" if method is None else f"about {max(0.1, method.seconds(n, p)):.1g} s"
    if method is None and nca.batch_size(n, p, seconds) and by_batches(n, p) <= allowed:
        method, cost = nca, f"in batches of {BATCH:,} rows, about {by_batches(n, p):.1g} s"
    if method is None:
        method = ldml if ldml.seconds(n, p) <= allowed else kissme
        cost = f"about {max(0.1, method.seconds(n, p)):.1g} s"
    rule = f"{head}: {method.name} {cost}" if cost.startswith("in") else f"{head}: {method.name}, {cost}"
    return [*(one for one in simple if one is not method), method], rule


def check_fits(method: Method, problem: Problem) -> None:
    """Refuse a method that cannot use the labels or the items that are there."""
    kind = problem.kind
    if kind not in method.supervision and not (kind == "partial" and "classes" in method.supervision):
        able = [other.name for other in METHODS if kind in other.supervision]
        raise ParameterError(
            f"`method` must be one that learns from {kind} ({', '.join(able)}), got {method.name!r}, which needs "
            f"{' or '.join(method.supervision)}."
        )
    if method.for_images_only and not problem.images:
        raise ParameterError(
            f"`method` must be one for features, got {method.name!r}, whose views move images. Try semi-supervised."
        )
    if problem.images and not method.network:
        raise ParameterError(f"`method` must be a network for images, got {method.name!r}. Try raw-vthm.")
