"""The tables of relation alignment on one data set after the other; a result file per data set.

    python benchmarks/quality/relation_alignment.py emotions flags      some data sets, every method
    python benchmarks/quality/relation_alignment.py uspst --methods HRAML --folds 0 1 2
    python benchmarks/quality/relation_alignment.py uspst --missing      only what the result file does not have yet

Rows are written as they come; a method, fold and seed that is measured again replaces its older row.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from nearer.recipes.relation_alignment._relation_alignment import measure_set
from nearer.recipes.relation_alignment._relation_data import SETS
from record import RESULTS, save


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("sets", nargs="+", choices=list(SETS))
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--folds", type=int, nargs="+")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--missing", action="store_true", help="leave out what is measured already")
    options = parser.parse_args()
    for name in options.sets:
        file = "relation_alignment_" + name.replace("-", "_")
        path = RESULTS / f"{file}.json"
        old = json.loads(path.read_text())["rows"] if path.exists() else []
        rows: list[dict[str, object]] = []
        done = {(one["method"], one["fold"], one["seed"]) for one in old} if options.missing else ()
        for row in measure_set(
            SETS[name], methods=options.methods, folds=options.folds, seeds=options.seeds, done=done
        ):
            rows.append(row)
            fresh = {(one["method"], one["fold"], one["seed"]) for one in rows}
            kept = [one for one in old if (one["method"], one["fold"], one["seed"]) not in fresh]
            save(file, kept + rows, packages=("scikit-learn", "scipy"), threads=1, seeds=options.seeds)
            print(
                {key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()},
                flush=True,
            )


if __name__ == "__main__":
    main()
