"""What the package and each extra bring to the disk: python benchmarks/speed/sizes.py

The files of every distribution that is needed, found from the metadata of the installed packages. The first row is
the library with what it needs; an extra counts what it adds to that. One that is not installed here is left out.
"""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import tomllib

from record import ROOT, save

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def closure(lines: list[str]) -> dict[str, metadata.Distribution]:
    """Every distribution that these requirements need, by name; raises where one is not installed."""
    found: dict[str, metadata.Distribution] = {}
    asked: set[tuple[str, str]] = set()
    todo = [(Requirement(line), "") for line in lines]
    while todo:
        need, extra = todo.pop()
        if need.marker is not None and not need.marker.evaluate({"extra": extra}):
            continue
        name = need.name.lower().replace("_", "-")
        if name == "nearer":
            todo += [
                (Requirement(line), "") for one in need.extras for line in PROJECT["optional-dependencies"][one]
            ]
            continue
        distribution = found.setdefault(name, metadata.distribution(need.name))
        for one in ("", *need.extras):
            if (name, one) not in asked:
                asked.add((name, one))
                todo += [(Requirement(line), one) for line in distribution.requires or []]
    return found


def megabytes(distributions: list[metadata.Distribution]) -> float:
    """The size of their files."""
    places = {Path(str(one.locate_file(file))) for one in distributions for file in one.files or []}
    return sum(place.stat().st_size for place in places if place.is_file()) / 1e6


def main() -> None:
    core = closure(PROJECT["dependencies"])
    torch = closure(["torch"])
    rows = [
        {"extra": "torch alone", "packages": len(torch), "megabytes": megabytes(list(torch.values()))},
        {"extra": "", "packages": len(core), "megabytes": megabytes(list(core.values()))},
    ]
    for extra, lines in PROJECT["optional-dependencies"].items():
        if extra == "dev":
            continue
        try:
            needed = closure(lines)
        except metadata.PackageNotFoundError as error:
            print(f"{extra}: {error} is not installed here", flush=True)
            continue
        more = [one for name, one in needed.items() if name not in core]
        rows.append({"extra": extra, "packages": len(more), "megabytes": megabytes(more)})
    for row in rows:
        print(row)
    save("sizes", rows, key=["extra"])


if __name__ == "__main__":
    main()
