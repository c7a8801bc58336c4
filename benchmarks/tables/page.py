"""What the tables share: reading result files, Markdown, the line that says how a table was made, a registry."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
# Of the speed of the library, and of the published experiments.
RESULTS = (ROOT / "benchmarks" / "results", ROOT / "papers" / "results")
TABLES: dict[str, Callable[[], str]] = {}
READ: list[str] = []  # the result files that were read since the list was last cleared


def table(name: str) -> Callable[[Callable[[], str]], Callable[[], str]]:
    """Register the function that writes the table `<!-- table: NAME -->` of a page."""

    def register(function: Callable[[], str]) -> Callable[[], str]:
        TABLES[name] = function
        return function

    return register


def result_file(name: str) -> Path:
    """The file of some rows."""
    return next((folder / f"{name}.json" for folder in RESULTS if (folder / f"{name}.json").exists()), RESULTS[0])


def load(name: str) -> list[dict[str, Any]]:
    """The rows of a result file."""
    READ.append(name)
    rows: list[dict[str, Any]] = json.loads(result_file(name).read_text())["rows"]
    return rows


def measured(name: str) -> bool:
    """Whether there is such a file."""
    return result_file(name).is_file()


def markdown(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def source(rows: Iterable[Mapping[str, Any]]) -> str:
    """The line under a table that says by which commands, from which sources and with which torch its rows came."""
    made = [row["made"] for row in rows]
    commands = list(dict.fromkeys(one["command"] for one in made))
    # The whole command is in the rows, which the site offers as CSV.
    shown = ", ".join(f"`{command if len(command) < 90 else command[:80] + ' …'}`" for command in commands[:3])
    if len(commands) > 3:
        shown += f" and {len(commands) - 3} more"
    trees = list(dict.fromkeys(one["trees"]["src"][:10] for one in made if one.get("trees")))
    versions = ", ".join(dict.fromkeys(one["versions"]["torch"] for one in made))
    parts = [f"git tree of src {', '.join(trees)}"] if trees else []
    older = sum(not one.get("trees") for one in made)
    if older:
        parts.append(f"{older} of {len(made)} rows are older than stamps that git turns back into a commit")
    return f"\nMade by {shown}; {'; '.join(parts)}; torch {versions}.\n"
