"""Metric learning: say what should be near; nearer learns the distance that makes it so.

The folders stand in the order that data flows: `datasets`, `relations`, `geometry`, `pairwise`, `mining`,
`losses`, `evaluation`, `index`, `estimators`, `reports`, `recipes`.
Importing `nearer` loads none of them; each is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nearer import (
        datasets,
        evaluation,
        exceptions,
        geometry,
        index,
        losses,
        mining,
        pairwise,
        relations,
        reports,
    )

__version__ = "0.1.0"

# In the order of the README table, which is the order that data flows.
__all__ = [  # noqa: RUF022
    "datasets",
    "relations",
    "geometry",
    "pairwise",
    "mining",
    "losses",
    "evaluation",
    "index",
    "estimators",
    "reports",
    "recipes",
    "exceptions",
]


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return importlib.import_module(f"nearer.{name}")
    raise AttributeError(f"module 'nearer' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
