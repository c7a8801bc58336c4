"""Metric learning: say what should be near; nearer learns the distance that makes it so.

The folders stand in the order that data flows: `datasets`, `relations`, `geometry`, `pairwise`, `mining`,
`losses`, `training`, `evaluation`, `index`, `estimators`, `reports`, `models`, `recipes`; `neighbors` and
`graph` stand between `geometry` and `pairwise`. `nearer.load(folder)` brings back a saved model. Importing `nearer`
loads none of them; each is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nearer import (
        datasets,
        evaluation,
        exceptions,
        geometry,
        graph,
        index,
        losses,
        mining,
        models,
        neighbors,
        pairwise,
        relations,
        reports,
        training,
    )
    from nearer.models import load

__version__ = "0.1.0"

# In the order of the README table, which is the order that data flows.
__all__ = [  # noqa: RUF022
    "datasets",
    "relations",
    "geometry",
    "neighbors",
    "graph",
    "pairwise",
    "mining",
    "losses",
    "training",
    "evaluation",
    "index",
    "estimators",
    "reports",
    "models",
    "recipes",
    "exceptions",
    "load",
]


def __getattr__(name: str) -> Any:
    if name == "load":
        return importlib.import_module("nearer.models").load
    if name in __all__:
        return importlib.import_module(f"nearer.{name}")
    raise AttributeError(f"module 'nearer' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
