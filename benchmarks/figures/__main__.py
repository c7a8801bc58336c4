"""Draw the figures of docs/benchmarks from the result files: `python benchmarks/figures [--check] [NAME ...]`.

With --check nothing is drawn: a figure that was drawn from other rows is an error.
"""

from __future__ import annotations

import sys

import costs  # noqa: F401
import quality  # noqa: F401  each file registers its figures
from style import FIGURES, IMAGES, draw, stamp


def main() -> int:
    wanted = [name for name in sys.argv[1:] if not name.startswith("-")] or list(FIGURES)
    stale = [
        name
        for name in wanted
        if not (file := IMAGES / f"{name}.svg").exists() or f"results {stamp(name)}" not in file.read_text()
    ]
    if "--check" in sys.argv:
        print("\n".join(stale) or "all figures are up to date")
        return 1 if stale else 0
    for name in wanted if len(wanted) < len(FIGURES) or "--all" in sys.argv else stale:
        draw(name)
        print(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
