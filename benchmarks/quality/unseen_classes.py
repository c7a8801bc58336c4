"""The rows of the tables of unseen classes, written after every run; runs in the result file are not repeated.

    python benchmarks/quality/unseen_classes.py --data omniglot --rows "RAW+VTHM;JRD" --seeds 0,1,2
    python benchmarks/quality/unseen_classes.py --data omniglot --tables ablation
    python benchmarks/quality/unseen_classes.py --data omniglot --rows Triplet --rates 0.5,1,2

With --rates nothing is scored on unseen classes: factors on the learning rate are compared on validation classes.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from nearer.recipes.joint_representations import _jrd as jrd
from nearer.recipes.unified_view import _unified_view as unified_view
from nearer.recipes.unified_view._unseen_class_data import DATASETS, load_unseen_classes
from nearer.recipes.unified_view._unseen_class_report import START, describe
from nearer.recipes.unified_view._unseen_classes import Row, run_row, untrained, validate_row
from record import RESULTS, save

TABLES = {**{f"{name}": rows for name, rows in unified_view.TABLES.items()}, **jrd.TABLES}
TABLES["baselines"] = (*unified_view.TABLES["baselines"], *jrd.TABLES["baselines"])
KNOWN: dict[str, Row | None] = {START: None} | {row.name: row for rows in TABLES.values() for row in rows}


def known(name: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    path = RESULTS / f"{name}.json"
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    return {(row["row"], row["seed"], row.get("rate")): row for row in rows}


def keep(name: str, row: dict[str, Any], **settings: Any) -> None:
    """Read again before writing: another process may have added rows."""
    rows = known(name) | {(row["row"], row["seed"], row.get("rate")): row}
    save(name, list(rows.values()), packages=("scikit-learn",), **settings)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default=",".join(DATASETS))
    parser.add_argument("--tables", default="")
    parser.add_argument("--rows", default="")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--rates", default="")
    parser.add_argument("--again", action="store_true", help="measure rows again that are there")
    options = parser.parse_args()
    torch.set_num_threads(1)
    wanted = [name for name in options.rows.split(";") if name]
    for table in filter(None, options.tables.split(",")):
        wanted += [row.name for row in TABLES[table]]
    wanted = list(dict.fromkeys(wanted)) or list(KNOWN)
    rates = [float(rate) for rate in options.rates.split(",") if rate]
    for data_name in options.data.split(","):
        result = f"unseen_rates_{data_name}" if rates else f"unseen_{data_name}"
        for seed in map(int, options.seeds.split(",")):
            data = None
            for name in wanted:
                for rate in rates or [None]:
                    if (name, seed, rate) in known(result) and not options.again:
                        continue
                    data = data or load_unseen_classes(data_name, seed)
                    row = KNOWN[name]
                    settings = {"protocol": dataclasses.asdict(data.protocol)}
                    if rate is not None and row is not None:
                        found = validate_row(row, data, seed, rate=rate)
                        record = {"row": name, "seed": seed, "rate": rate, "validation": found}
                    else:
                        run = untrained(data, seed) if row is None else run_row(row, data, seed)
                        record = describe(data_name, name, seed, run)
                    keep(result, record, **settings)
                    shown = record.get("scores", {}).get("recall@1")
                    print(
                        data_name, name, seed, rate, record["validation"], shown, record.get("seconds"), flush=True
                    )


if __name__ == "__main__":
    main()
