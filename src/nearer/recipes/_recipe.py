"""What every published experiment has in common: how it is asked for and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from nearer.reports import Section

__all__ = ["Outcome", "Request"]


def _silent(text: str, done: float) -> None:
    """The progress of nobody."""


@dataclass(frozen=True)
class Request:
    """How to run a recipe: the whole protocol or a quick one, how many seeds, and which of its parts."""

    quick: bool = False
    seeds: int = 3
    only: Sequence[str] = ()
    """Names of tables or data sets of the recipe; none means all."""
    progress: Callable[[str, float], None] = field(default=_silent)
    """Called as progress(what runs now, the share 0..1 that is done)."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a recipe found: sections for people, and the same numbers as JSON for programs."""

    title: str
    sections: Sequence[Section]
    record: dict[str, Any]
