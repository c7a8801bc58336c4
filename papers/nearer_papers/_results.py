"""Result files: rows of measurements, each of which says by itself how it was made.

```
{"name": "unseen_omniglot", "key": ["data", "row", "seed"], "rows": [{..., "made": {"trees": {...}, ...}}, ...]}
```

`made` belongs to the row and not to the file, so a file that grows over days never claims that one command made
all of it: the git trees of the library, the experiments and the benchmarks, which `git log` turns back into a
commit; the fingerprint of the data, the command, every setting, versions, threads and seconds. Rows are kept only
where git knows the sources: a changed work tree is refused before anything is measured.
"""

from __future__ import annotations

import functools
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from nearer._storage import write_file
from nearer.exceptions import CorruptFileError, ParameterError

__all__ = ["Results", "check_committed", "stamp", "trees"]

ROOT = Path(__file__).resolve().parents[2]
# What a number depends on. Result files and tests lie outside: they change while rows are measured.
SOURCES = {"src": "src", "papers": "papers/nearer_papers", "benchmarks": "benchmarks/speed"}


@functools.cache
def trees() -> Mapping[str, str]:
    """The git trees of the sources as this process found them; empty where they are no checkout, or changed.

    >>> set(trees()) <= {"src", "papers", "benchmarks"}
    True
    """
    changed = _git("status", "--porcelain", "--", *SOURCES.values())
    if changed is None or changed:
        return {}
    found = {name: _git("rev-parse", f"HEAD:{folder}") for name, folder in SOURCES.items()}
    return {name: tree for name, tree in found.items() if tree}


def check_committed() -> None:
    """Refuse to keep rows of sources that git does not know."""
    if not trees():
        raise ParameterError(
            "Rows are kept only for committed sources, so that each can be made again: `git status` must be clean "
            f"in {', '.join(SOURCES.values())}. Commit first, or run without keeping rows."
        )


def _git(*words: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def stamp(
    *,
    data: str = "",
    seconds: float | None = None,
    packages: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """How the row that was just measured came about.

    `data` is the fingerprint of its data set, empty for made-up data (whose recipe is the script itself).
    """
    names = ("nearer", "torch", "numpy", "scikit-learn", "scipy", *packages)
    return {
        "trees": dict(trees()),
        "data": data[:12],
        "command": _command(),
        "versions": {"python": platform.python_version(), **{name: metadata.version(name) for name in names}},
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "seconds": None if seconds is None else round(seconds, 2),
        "settings": dict(settings or {}),
    }


def _command() -> str:
    """What was typed, without the folders of this machine."""
    program = Path(sys.argv[0])
    words = ["PATH" if Path(word).is_absolute() else word for word in sys.argv[1:]]
    if program.suffix != ".py" or program.name == "__main__.py":
        return " ".join(["nearer", *words])
    folders = program.resolve().parts
    inside = folders[folders.index("benchmarks") :] if "benchmarks" in folders else folders[-1:]
    return " ".join(["python", "/".join(inside), *words])


class Results:
    """The rows of one result file by their key columns; every `add` is on disk when it returns.

    >>> import tempfile
    >>> file = Results(Path(tempfile.mkdtemp()) / "speed.json", key=["loss", "batch"])
    >>> file.add({"loss": "raw", "batch": 32, "ms": 0.7}, stamp())
    >>> [row["ms"] for row in file.rows], ("raw", 32) in file
    ([0.7], True)
    """

    def __init__(self, path: Path, *, key: Sequence[str]) -> None:
        self.path, self.key = path, tuple(key)
        if not self.key:
            raise ParameterError("`key` must name the columns that tell rows apart, got none.")
        self._rows = self._read()

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All rows, the oldest place first."""
        return list(self._rows.values())

    def __contains__(self, key: tuple[Any, ...]) -> bool:
        return key in self._rows

    def key_of(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        """The values of the key columns."""
        return tuple(row[name] for name in self.key)

    def add(self, row: Mapping[str, Any], made: Mapping[str, Any]) -> None:
        """Write a row in the place of an older one of the same key, and keep what other processes have added."""
        self._rows = {**self._read(), self.key_of(row): {**row, "made": dict(made)}}
        head = {"name": self.path.stem, "key": list(self.key)}
        body = ",\n".join("  " + json.dumps(one) for one in self._rows.values())
        text = json.dumps(head)[:-1] + ', "rows": [\n' + body + "\n]}\n"
        write_file(self.path, text.encode())

    def _read(self) -> dict[tuple[Any, ...], dict[str, Any]]:
        if not self.path.exists():
            return {}
        try:
            rows = json.loads(self.path.read_text())["rows"]
            return {self.key_of(row): row for row in rows}
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptFileError(
                f"`{self.path.name}` must be a result file with rows that have {', '.join(self.key)}: {error!r}. "
                f"Move it away to begin anew."
            ) from error
