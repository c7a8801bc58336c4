"""Environments for the peers, each of its own, under build/peers: `python benchmarks/environments.py [NAME ...]`.

The peers pin or need old versions of what nearer uses, so none of them can live beside it. torch is not installed
again: an environment that needs it looks into this one (a .pth file, behind its own packages). What cannot be
installed is noted in build/peers/NAME.failed, and the benchmark writes a row that says so.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "build" / "peers"
# What pip installs, and files of modules that a peer imports and does not use here.
PEERS: dict[str, tuple[list[str], list[str]]] = {
    "metric-learn": (["metric-learn==0.7.0", "scikit-learn==1.7.2"], []),
    "pylmnn": (
        ["pylmnn==1.6.4", "scikit-learn==1.2.2", "scipy==1.10.1", "numpy==1.26.4", "six"],
        ["GPyOpt/__init__.py", "GPyOpt/methods.py"],
    ),
    "scikit-multilearn": (["scikit-multilearn==0.2.0", "scikit-learn==1.7.2", "scipy"], []),
    "PyLDL": (["python-ldl==0.1.2"], []),
    "pytorch-metric-learning": (["pytorch-metric-learning==2.9.0"], []),
    # Its losses, miners and scores; what reads and changes pictures is not needed for them.
    "open-metric-learning": (
        ["--no-deps", "open-metric-learning==4.0.0"],
        [f"{name}.py" for name in ("gdown", "omegaconf", "validators", "torchvision/__init__", "torchvision/ops")],
    ),
}
WITH_TORCH = {"PyLDL", "pytorch-metric-learning", "open-metric-learning"}


def python_of(name: str) -> str | None:
    """The interpreter of a peer, None where it could not be installed; scikit-learn lives here."""
    if name == "scikit-learn":
        return sys.executable
    found = FOLDER / name / "bin" / "python"
    return str(found) if found.exists() and not (FOLDER / f"{name}.failed").exists() else None


def reason(name: str) -> str:
    """Why a peer is not there."""
    note = FOLDER / f"{name}.failed"
    return note.read_text().strip() if note.exists() else "not installed: run python benchmarks/environments.py"


def make(name: str) -> bool:
    """Install a peer unless it is there; whether it is."""
    needs, empty = PEERS[name]
    place, note = FOLDER / name, FOLDER / f"{name}.failed"
    if (place / ".done").exists():
        return True
    venv.create(place, with_pip=True)
    packages = next((place / "lib").glob("python3*")) / "site-packages"
    if name in WITH_TORCH:
        (packages / "torch.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    command = [place / "bin" / "python", "-m", "pip", "install", "--quiet", *needs]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=900)
        error = done.stderr if done.returncode else ""
    except subprocess.TimeoutExpired:
        error = "pip did not finish in 900 s"
    if error:
        lines = [line for line in error.splitlines() if line.lower().startswith("error")] or error.splitlines()
        note.write_text(f"does not install: {lines[-1][:160]}\n")
        return False
    for module in empty:
        (packages / module).parent.mkdir(exist_ok=True)
        # Any name may be imported from it.
        (packages / module).write_text("def __getattr__(name):\n    return None\n")
    note.unlink(missing_ok=True)
    (place / ".done").touch()
    return True


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("names", nargs="*", choices=[*PEERS, []], help="all by default")
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in options.parse_args().names or PEERS:
        print(f"{name}: {'installed' if make(name) else reason(name)}", flush=True)


if __name__ == "__main__":
    main()
