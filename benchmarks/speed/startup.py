"""How long `import nearer` and `nearer --help` take, each in a fresh process, beside what they stand on.

    python benchmarks/speed/startup.py

All commands run in turn, so that a busy machine slows them alike; the limits of the project are 0.3 s for each.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from record import save

REPEATS = 15
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import nearer": [sys.executable, "-c", "import nearer"],
    "import typer": [sys.executable, "-c", "import typer"],
    "nearer --help": [sys.executable, "-m", "nearer", "--help"],
    "import torch": [sys.executable, "-c", "import torch"],
    "import torch, nearer.losses": [sys.executable, "-c", "import torch, nearer.losses"],
}


def main() -> None:
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for turn in range(REPEATS + 1):
        for name, command in COMMANDS.items():
            start = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            # The first turn fills the caches of the disk.
            if turn:
                times[name].append(time.perf_counter() - start)
    rows = [
        {"command": name, "median_seconds": statistics.median(values), "best_seconds": min(values)}
        for name, values in times.items()
    ]
    middle = {row["command"]: row["median_seconds"] for row in rows}
    ratios = {
        "import_nearer_beyond_python_seconds": middle["import nearer"] - middle["python -c pass"],
        "losses_beyond_torch_seconds": middle["import torch, nearer.losses"] - middle["import torch"],
        "help_over_import_typer": middle["nearer --help"] / middle["import typer"],
    }
    save("startup", rows, key=["command"], packages=("typer",), repeats=REPEATS, **ratios)
    for name, value in {**middle, **ratios}.items():
        print(f"{value:7.3f}  {name}")


if __name__ == "__main__":
    main()
