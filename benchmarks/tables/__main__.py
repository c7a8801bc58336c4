"""Write the tables of the documents from the result files: `python benchmarks/tables [--check]`.

A page holds `<!-- table: NAME -->` … `<!-- end -->`; what stands between is replaced by the function of that name
in this folder, which reads `benchmarks/results/*.json`. With --check nothing is written: a stale table is an error.
"""

from __future__ import annotations

import json
import re
import sys

import choose  # noqa: F401
import experiments  # noqa: F401
import fit_tables  # noqa: F401
import guarantees  # noqa: F401
import lines  # noqa: F401
import search  # noqa: F401
import service  # noqa: F401
import short  # noqa: F401
import systems  # noqa: F401
from page import READ, ROOT, TABLES, load, measured

import estimators  # noqa: F401  each file registers its tables
import evaluation  # noqa: F401
import losses  # noqa: F401
from nearer_papers.unified_view._unseen_class_data import DATASETS
from nearer_papers.unified_view._unseen_class_settings import FILE, best_of_tried

MARK = re.compile(r"(<!-- table: (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def fill(text: str) -> str:
    """The page with its tables; a comment after each names the files behind it, which the site offers as CSV."""

    def made(match: re.Match[str]) -> str:
        READ.clear()
        table = TABLES[match["name"]]().rstrip("\n") + "\n"
        rows = f"<!-- rows: {' '.join(dict.fromkeys(READ))} -->\n" if READ else ""
        return match.group(1) + table + rows + match.group(3)

    return MARK.sub(made, text)


def tuned() -> str:
    """What was best on validation classes, as the recipes read it."""
    known = [name for name in DATASETS if measured(f"unseen_tuning_{name}")]
    return json.dumps({name: best_of_tried(load(f"unseen_tuning_{name}")) for name in known}, indent=1) + "\n"


def main() -> int:
    stale = []
    if not FILE.exists() or FILE.read_text() != tuned():
        stale.append(str(FILE.relative_to(ROOT)))
        if "--check" not in sys.argv:
            FILE.write_text(tuned())
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        old = page.read_text()
        new = fill(old)
        if new != old:
            stale.append(str(page.relative_to(ROOT)))
            if "--check" not in sys.argv:
                page.write_text(new)
    print("\n".join(stale) or "all tables are up to date")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
