"""CONTRIBUTING.md, followed: the code of its steps, and a copy of the package to which a step adds a file."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HOUSE = Path(__file__).resolve().parents[1]
PAGE = HOUSE / "CONTRIBUTING.md"


def steps(title: str) -> list[str]:
    """The numbered steps of a section, as they stand on the page."""
    section = PAGE.read_text(encoding="utf-8").partition(f"## {title}\n")[2].partition("\n## ")[0]
    return re.split(r"^\d\. ", section, flags=re.MULTILINE)[1:]


def code(title: str, step: int) -> str:
    """The code of a step, without the indentation of the list."""
    (block,) = re.findall(r"^   ```python\n(.*?)^   ```", steps(title)[step - 1], flags=re.MULTILINE | re.DOTALL)
    return "\n".join(line.removeprefix("   ") for line in block.splitlines()) + "\n"


def path_in(text: str, ending: str) -> Path:
    """The first path of a file in a step, relative to the repository."""
    found = re.search(rf"`(src/nearer/[\w/]+{re.escape(ending)})`", text)
    assert found is not None
    return Path(found[1])


def copy_of_the_package(folder: Path, title: str, *, written: list[int], exported: int) -> None:
    """The package with the file that some steps write and the export that another adds."""
    shutil.copytree(HOUSE / "src" / "nearer", folder / "nearer", ignore=shutil.ignore_patterns("__pycache__"))
    added = folder / path_in(steps(title)[0], ".py").relative_to("src")
    assert not added.exists()
    added.write_text("\n".join(code(title, step) for step in written), encoding="utf-8")
    stub = folder / path_in(steps(title)[exported - 1], "__init__.pyi").relative_to("src")
    line = code(title, exported)
    stub.write_text(line + stub.read_text(encoding="utf-8"), encoding="utf-8")


def run_on_the_copy(folder: Path, *arguments: str) -> int:
    """Run tests of this house against the copy; how many passed."""
    paths = os.pathsep.join(map(str, (folder, HOUSE / "papers")))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts="]
    done = subprocess.run(
        [*command, *arguments],
        cwd=HOUSE,
        env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    (passed,) = re.findall(r"(\d+) passed", done.stdout)
    return int(passed)
