"""What a stranger does first with an installed nearer. Nothing of the repository is on the path.

    python -I deploy/smoke.py              the library, the commands and `nearer demo`
    python -I deploy/smoke.py --readme     the Python lines of the README, read from the installed package

Runs in the current folder, which should be empty.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import json
import re
import subprocess
import sys
from importlib.metadata import metadata, version
from pathlib import Path

import numpy as np
from sklearn.datasets import load_wine


def command(*words: str, code: int = 0) -> str:
    """The output of `nearer ...`, which must end with this exit code."""
    print("$ nearer", *words, flush=True)
    program = Path(sys.executable).with_name("nearer")
    done = subprocess.run([program, *words], capture_output=True, text=True)
    assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def library() -> None:
    """Every package opens, and the two faces give a number."""
    import torch

    import nearer
    from nearer.estimators import LMNN
    from nearer.losses import RAWLoss
    from nearer.mining import VTHM

    where = Path(nearer.__file__).resolve()
    assert "site-packages" in where.parts, f"nearer must come from the wheel, got {where}"
    assert nearer.__version__ == version("nearer")
    for name in nearer.__all__:
        assert getattr(nearer, name) is not None
    for package in ("explorer", "server", "client"):
        importlib.import_module(f"nearer.{package}")
    assert (where.parent / "explorer" / "assets" / "page.js").stat().st_size > 10_000
    assert (where.parent / "py.typed").exists()
    X, y = load_wine(return_X_y=True)
    assert LMNN(n_components=2, max_iter=5, random_state=0).fit(X, y).transform(X).shape == (178, 2)
    z = torch.randn(32, 16, requires_grad=True)
    RAWLoss(miner=VTHM(margin=0.1))(z, torch.arange(8).repeat(4)).backward()
    assert z.grad is not None
    assert bool(torch.isfinite(z.grad).all())


def commands(epochs: int) -> None:
    """From a CSV file to neighbors, and the demo."""
    wine = load_wine()
    with open("wine.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*wine.feature_names, "class"])
        writer.writerows(
            [*row, wine.target_names[label]] for row, label in zip(wine.data, wine.target, strict=True)
        )
    assert "learned" in command("fit", "wine.csv", "--label", "class", "--out", "model")
    scores = json.loads(command("evaluate", "wine.csv", "-m", "model", "-l", "class", "--json"))
    assert scores
    command("index", "wine.csv", "-m", "model", "-l", "class", "--out", "index")
    assert "class" in command("search", "index", "wine.csv", "-m", "model", "-k", "3", "--limit", "2")
    assert "nearer[serve]" in command("serve", "model", "index", code=1), "an absent extra must be named"
    print(command("demo", "--epochs", str(epochs), "--out", "demo.html"))
    assert Path("demo.html").stat().st_size > 100_000


def readme() -> None:
    """The blocks in one namespace, top to bottom; the README is the long description of the package."""
    described = metadata("nearer")
    text = described.get_payload() or described["Description"]  # type: ignore[attr-defined]
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert blocks, "the README must have Python lines"
    namespace: dict[str, object] = {"__name__": "readme"}
    for number, block in enumerate(blocks, start=1):
        print(f"README, block {number} of {len(blocks)}", flush=True)
        exec(compile(block, f"README block {number}", "exec"), namespace)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    options.add_argument("--epochs", type=int, default=100)
    options.add_argument("--readme", action="store_true")
    given = options.parse_args()
    np.random.seed(0)  # noqa: NPY002
    if given.readme:
        readme()
    else:
        library()
        commands(given.epochs)
    print("smoke test passed")


if __name__ == "__main__":
    main()
