"""Where the page of a project was, so that a tab that is still open finds a session that was started again.

Port and word are kept in the state folder of the user, by the path of the project. They are not beside the data:
whoever gives away a data set could give the word along, and would know it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import tempfile
from pathlib import Path

from nearer._storage._disk import open_plain

__all__ = ["keep_address", "last_address"]

WORD = re.compile(r"[A-Za-z0-9_-]{24}\Z")


def last_address(project: Path) -> tuple[int, str] | None:
    """Port and word of the last page of a project; None without one, or where others could have written it."""
    try:
        handle = open_plain(_file(project), os.O_RDONLY)
    except (OSError, RuntimeError):
        return None
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o077):
            return None
        try:
            found = json.loads(file.read(1000))
            port, word = found["port"], found["word"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
    good = type(port) is int and 0 < port < 1 << 16 and isinstance(word, str) and WORD.match(word)
    return (port, word) if good else None


def keep_address(project: Path, port: int, word: str) -> None:
    """Keep them for the next time, for the owner's eyes only; without a home there is no next time."""
    with contextlib.suppress(OSError, RuntimeError):
        file = _file(project)
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=file.parent)
        with os.fdopen(handle, "w") as fresh:
            json.dump({"port": port, "word": word}, fresh)
        os.replace(name, file)


def _file(project: Path) -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    name = hashlib.sha256(os.fsencode(os.path.realpath(project))).hexdigest()[:32]
    return Path(state) / "nearer" / "explore" / f"{name}.json"
