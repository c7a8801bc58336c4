"""What every published experiment has in common: how it is asked for, what it measures and what it shows.

A recipe is a module with four names: `KEY`, the columns that tell its rows apart; `result_file(row)`, the file that
a row belongs to; `measure(request)`, which yields rows as they come and leaves out what is done; and
`present(rows, request)`, which makes tables and pictures of rows whenever they were measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from nearer.reports._page import Section

__all__ = ["Experiment", "Measured", "Outcome", "Request"]

Key = tuple[Any, ...]


def _silent(text: str, done: float) -> None:
    """The progress of nobody."""


@dataclass(frozen=True)
class Request:
    """How to run a recipe: the whole protocol or a quick one, how many seeds, and which of its parts."""

    quick: bool = False
    seeds: int = 3
    only: Sequence[str] = ()
    """Names of tables, data sets or rows of the recipe; none means all."""
    done: Mapping[Key, Mapping[str, Any]] = field(default_factory=dict)
    """The rows that are there, by their keys: not to be measured again."""
    tune: bool = False
    """Choose settings on training and validation data instead of scoring; for recipes that have some to choose."""
    protocol: str = "ours"
    """"paper" for the published protocol of sets of photos; "ours" otherwise."""
    backbone: Any = None
    """A `Backbone` for recipes on photos."""
    allow_missing: bool = False
    """Whether sets of photos may lack some files; the rows say how many."""
    progress: Callable[[str, float], None] = field(default=_silent)
    """Called as progress(what runs now, the share 0..1 that is done)."""


@dataclass(frozen=True, eq=False)
class Measured:
    """One row, the fingerprint of its data, and what only the run itself can show, such as maps."""

    row: dict[str, Any]
    data: str
    sections: Sequence[Section] = ()


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a recipe found: sections for people, and the same numbers as JSON for programs."""

    title: str
    sections: Sequence[Section]
    record: dict[str, Any]


class Experiment(Protocol):
    """The module of a recipe."""

    __file__: str
    KEY: tuple[str, ...]

    def result_file(self, row: Mapping[str, Any]) -> str:
        """The name, without its ending, of the result file that the row belongs to."""

    def measure(self, request: Request) -> Iterator[Measured]:
        """Rows as they come."""

    def present(self, rows: Sequence[dict[str, Any]], request: Request) -> Outcome:
        """Tables and pictures of rows, and what else belongs into the record."""
