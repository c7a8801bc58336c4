"""The published experiments by name; each is loaded only when it is run."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nearer._validation import check_choice
from nearer.exceptions import ParameterError
from nearer.recipes._recipe import Outcome, Request

__all__ = ["RECIPES", "Recipe", "recipe_named"]


@dataclass(frozen=True)
class Recipe:
    """One experiment: its name on the command line, what it shows, and where its function is."""

    name: str
    about: str
    target: str
    takes_backbone: bool = False
    """Whether it can run on photos with a network of the user's."""

    def run(self, request: Request, *, backbone: Any = None) -> Outcome:
        """Run it; `backbone` is a `Backbone` of `nearer.recipes.unified_view._unseen_class_networks`."""
        if backbone is not None and not self.takes_backbone:
            others = ", ".join(recipe.name for recipe in RECIPES if recipe.takes_backbone)
            raise ParameterError(
                f"`--backbone` must come with one of {others}; {self.name} has networks of its own."
            )
        module, _, function = self.target.partition(":")
        call: Callable[..., Outcome] = getattr(importlib.import_module(module), function)
        return call(request, backbone=backbone) if backbone is not None else call(request)


RECIPES: tuple[Recipe, ...] = (
    Recipe(
        "semi-supervised",
        "few labels: MNIST, Fashion-MNIST, CIFAR-10; ours, five deep baselines, comparators",
        "nearer.recipes.semi_supervised._semi_supervised:reproduce_semi_supervised",
    ),
    Recipe(
        "relation-alignment",
        "class labels, label sets and label distributions: RAML, HRAML and their rivals",
        "nearer.recipes.relation_alignment._relation_alignment:reproduce_relation_alignment",
    ),
    Recipe(
        "asymmetric",
        "one map for queries, one for the database: two views of the same items, and k-NN on small sets",
        "nearer.recipes.asymmetric._asymmetric:reproduce_asymmetric",
    ),
    Recipe(
        "unified-view",
        "classes never seen: RAW, VTHM and the losses and systems they were compared with",
        "nearer.recipes.unified_view._unified_view:reproduce_unified_view",
        takes_backbone=True,
    ),
    Recipe(
        "jrd",
        "classes never seen: AMSoftmax, joint representation similarity, its variants and rivals",
        "nearer.recipes.joint_representations._jrd:reproduce_jrd",
        takes_backbone=True,
    ),
)


def recipe_named(name: str) -> Recipe:
    """One recipe by its name; a near miss is suggested.

    >>> recipe_named("asymmetric").about[:7]
    'one map'
    """
    check_choice(name, "NAME", [recipe.name for recipe in RECIPES])
    return next(recipe for recipe in RECIPES if recipe.name == name)
