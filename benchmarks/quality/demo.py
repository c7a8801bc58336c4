"""The digits demo on ten splits: raw features and learned metric on held-out digits, mean and spread.

    python benchmarks/quality/demo.py

The settings of the demo were chosen on the seeds 100 to 109; these are 0 to 9, other splits of the same digits.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from nearer.datasets import load_digits
from nearer.recipes import DigitsResult, learn_digits
from record import save

SEEDS = range(10)


def row(name: str, results: list[DigitsResult]) -> dict[str, Any]:
    raw, learned = (
        [one[name] for one in side] for side in zip(*((r.raw, r.learned) for r in results), strict=True)
    )
    return {
        "score": name,
        "raw": {"mean": statistics.mean(raw), "spread": statistics.stdev(raw), "values": raw},
        "learned": {"mean": statistics.mean(learned), "spread": statistics.stdev(learned), "values": learned},
        "seeds_better": sum(b > a for a, b in zip(raw, learned, strict=True)),
    }


def main() -> None:
    results = []
    for seed in SEEDS:
        results.append(learn_digits(seed=seed))
        print(seed, results[-1].verdict, flush=True)
    rows = [row(name, results) for name in results[0].raw]
    save(
        "demo",
        rows,
        packages=("scikit-learn", "scipy"),
        seeds=list(SEEDS),
        data={"name": "digits", "sha256": load_digits().fingerprint()},
        counts=[result.counts for result in results],
        seconds=[round(result.seconds, 1) for result in results],
        **{name: value for name, value in results[0].settings.items() if name != "seed"},
    )


if __name__ == "__main__":
    main()
