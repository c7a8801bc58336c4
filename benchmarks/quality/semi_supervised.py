"""The rows of the semi-supervised tables on MNIST, Fashion-MNIST and CIFAR-10, written after every run.

    python benchmarks/quality/semi_supervised.py --data mnist --methods "ours;Deep-LRML" --seeds 0,1,2

Rows that are in the result file are kept, and replaced when they are measured again.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from nearer.recipes.semi_supervised._few_label_images import DATASETS, load_few_label_images
from nearer.recipes.semi_supervised._semi_supervised import LENGTHS
from nearer.recipes.semi_supervised._semi_supervised_runs import run_method, start_from_labels
from record import RESULTS, save

NAME = "semi_supervised"


def known() -> dict[tuple[str, str, int, float], dict[str, Any]]:
    path = RESULTS / f"{NAME}.json"
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    return {(row["data"], row["method"], row["seed"], row["alpha"]): row for row in rows}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default=",".join(DATASETS))
    parser.add_argument("--methods", default="Initial;labels alone;ours")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--alphas", default="40")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.data.split(","):
        for seed in map(int, options.seeds.split(",")):
            data = load_few_label_images(name, seed)
            length = LENGTHS[name]
            for alpha in map(float, options.alphas.split(",")):
                start = start_from_labels(data, seed, length, alpha=alpha)
                for method in options.methods.split(";"):
                    run = run_method(method, data, seed, length, start, alpha=alpha)
                    row = {"data": name, "method": method, "seed": seed, "alpha": alpha}
                    row |= {"scores": run.scores, "history": run.history, "seconds": round(run.seconds, 1)}
                    row |= {"length": asdict(length), "start_seconds": round(start.seconds, 1)}
                    rows = known() | {(name, method, seed, alpha): row}
                    save(NAME, list(rows.values()), packages=("scikit-learn", "scipy"))
                    shown = {key: round(value, 2) for key, value in run.scores.items()}
                    print(name, seed, alpha, method, shown, row["seconds"], flush=True)


if __name__ == "__main__":
    main()
