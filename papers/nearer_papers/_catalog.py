"""The published experiments by name; each is loaded only when it is run."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import cast

from nearer._checks import check_choice
from nearer_papers._recipe import Experiment

__all__ = ["RECIPES", "Recipe", "recipe_named"]


@dataclass(frozen=True)
class Recipe:
    """One experiment: its name on the command line, what it shows, its module and where its rows are kept."""

    name: str
    about: str
    module: str
    files: tuple[str, ...] = ()
    """Names of its result files, or how they begin where there is one for each data set (`unseen_*`)."""
    takes_backbone: bool = False
    """Whether it can run on photos with a network of the user's."""
    crop: int | None = None
    """The size of the photos in its paper, for recipes that have the published protocol."""
    tunes: bool = False
    """Whether it has settings to choose on validation data."""

    def load(self) -> Experiment:
        """The module that measures and presents it."""
        return cast(Experiment, importlib.import_module(f"nearer_papers.{self.module}"))


RECIPES: tuple[Recipe, ...] = (
    Recipe(
        "digits",
        "the demo on ten splits: a metric for handwritten digits from ten labels per class",
        "ours._digits",
        ("demo",),
    ),
    Recipe(
        "semi-supervised",
        "few labels: MNIST, Fashion-MNIST, CIFAR-10, Cars-196; ours, five deep baselines, comparators",
        "semi_supervised._semi_supervised",
        ("semi_supervised",),
        takes_backbone=True,
    ),
    Recipe(
        "partial-labels",
        "few labels, linear learners: six of them at their defaults against the features, eight data sets",
        "semi_supervised._linear",
        ("partial_labels",),
    ),
    Recipe(
        "encoders",
        "photos and texts behind trained encoders: BANKING77, Cars-196, CIFAR-10, raw beside learned",
        "ours._encoders",
        ("encoders",),
    ),
    Recipe(
        "migrating",
        "another encoder behind an index that stays: moved by a map from paired items, beside embedding again",
        "ours._migrating",
        ("migrating",),
    ),
    Recipe(
        "adapting",
        "queries adapted by clicks, the database untouched: BANKING77 and Cars-196 by frozen encoders",
        "ours._adapting",
        ("adapting",),
    ),
    Recipe(
        "taxonomy",
        "mistakes less severe at equal Recall@1: car models of makes behind a pair loss and behind RAML",
        "ours._taxonomy",
        ("taxonomy",),
    ),
    Recipe(
        "thresholds",
        "thresholds without labels: the share of random pairs within them, texts, photos and pixels",
        "ours._thresholds",
        ("thresholds",),
    ),
    Recipe(
        "decisions",
        "same or not on classes never seen: whether thresholds keep their level, and what they cost",
        "ours._decisions",
        ("decisions",),
    ),
    Recipe(
        "questions",
        "what to ask next: answers that a metric needs, by influence, at random, by margin; also for pairs",
        "ours._questions",
        ("questions",),
    ),
    Recipe(
        "codes",
        "small codes: nested widths and bits on BANKING77, classes seen and never seen",
        "ours._codes",
        ("codes",),
    ),
    Recipe(
        "new-classes",
        "heads for classes never seen, against the features: Cars-196, Omniglot, BANKING77, COIL-20",
        "ours._new_classes",
        ("new_classes",),
    ),
    Recipe(
        "audit",
        "which labels are wrong: a tenth of them flipped in four data sets, the audit beside cleanlab",
        "ours._audit",
        ("audit",),
    ),
    Recipe(
        "gestures",
        "30 lassos on the map of the explorer, with mistakes, beside 300 labels one by one: Fashion-MNIST",
        "ours._gestures",
        ("gestures",),
    ),
    Recipe(
        "relation-alignment",
        "class labels, label sets and label distributions: RAML, HRAML and their rivals",
        "relation_alignment._relation_alignment",
        ("relation_alignment_*",),
    ),
    Recipe(
        "asymmetric",
        "one map for queries, one for the database: two views of the same items, and k-NN on small sets",
        "asymmetric._asymmetric",
        ("asymmetric_views", "asymmetric_small"),
    ),
    Recipe(
        "unified-view",
        "classes never seen: RAW, VTHM and the losses and systems they were compared with",
        "unified_view._unified_view",
        ("unseen_*",),
        takes_backbone=True,
        crop=227,
        tunes=True,
    ),
    Recipe(
        "photographs",
        "CUB-200-2011 and Cars-196: the whole network behind its closed form, losses of both papers",
        "unified_view._photographs",
        ("photographs_*",),
    ),
    Recipe(
        "jrd",
        "classes never seen: AMSoftmax, joint representation similarity, its variants and rivals",
        "joint_representations._jrd",
        ("unseen_*",),
        takes_backbone=True,
        crop=224,
        tunes=True,
    ),
)


def recipe_named(name: str) -> Recipe:
    """One recipe by its name; a near miss is suggested.

    >>> recipe_named("asymmetric").about[:7]
    'one map'
    """
    check_choice(name, "NAME", [recipe.name for recipe in RECIPES])
    return next(recipe for recipe in RECIPES if recipe.name == name)
