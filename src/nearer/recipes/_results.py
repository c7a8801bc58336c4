"""Result files: rows of measurements, each of which says by itself how it was made.

```
{"name": "unseen_omniglot", "key": ["data", "row", "seed"], "rows": [{..., "made": {"source": "…", ...}}, ...]}
```

`made` belongs to the row and not to the file, so a file that grows over days never claims that one command made
all of it: the hash of the library's source and of the script or recipe, the fingerprint of the data, the command,
versions, threads and seconds. The hashes are of contents, so it does not matter what was committed when.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from nearer._storage import write_file
from nearer.exceptions import CorruptFileError, ParameterError

__all__ = ["Results", "source_hash", "stamp"]

PACKAGE = Path(__file__).resolve().parents[1]


def source_hash(*files: Path) -> str:
    """Twelve hexadecimal digits over names and contents of Python files; those of the whole library by default.

    >>> len(source_hash()), source_hash() == source_hash()
    (12, True)
    """
    return _hash_of(tuple(files) or tuple(sorted(PACKAGE.rglob("*.py"))))


@functools.lru_cache
def _hash_of(files: tuple[Path, ...]) -> str:
    digest = hashlib.sha256()
    for file in files:
        name = file.relative_to(PACKAGE).as_posix() if file.is_relative_to(PACKAGE) else file.name
        digest.update(f"{name}\n".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def stamp(
    *,
    script: Iterable[Path],
    data: str = "",
    seconds: float | None = None,
    packages: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """How the row that was just measured came about.

    `script` are the files of the recipe or benchmark, `data` is the fingerprint of its data set, empty for made-up
    data (whose recipe is the script itself).
    """
    names = ("nearer", "torch", "numpy", "scikit-learn", "scipy", *packages)
    return {
        "source": source_hash(),
        "script": source_hash(*sorted(script)),
        "data": data[:12],
        "command": _command(),
        "versions": {"python": platform.python_version(), **{name: metadata.version(name) for name in names}},
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "seconds": None if seconds is None else round(seconds, 2),
        "settings": dict(settings or {}),
    }


def _command() -> str:
    """What was typed; where this machine keeps its files is nobody's business."""
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
    >>> file.add({"loss": "raw", "batch": 32, "ms": 0.7}, stamp(script=[Path(__file__)]))
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
