"""Features on disk, one small file for each item, by what is in the item and which encoder saw it.

```
$NEARER_CACHE (else the cache folder of the user)/features/<encoder>/ab/ab12…   sha256 of the row, then the row
```

A file gets its name when it is whole, so any number of processes may read and write; what a killed one left is
swept by nobody and read by nobody. A damaged file is a miss. A folder that cannot be written is no error: nothing
is kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

VERSION = 2


def cache_folder() -> Path:
    """Where features are kept: `$NEARER_CACHE`, else `$XDG_CACHE_HOME/nearer`, else `~/.cache/nearer`."""
    own = os.environ.get("NEARER_CACHE")
    if own:
        return Path(own).expanduser() / "features"
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "nearer" / "features"


def content_key(item: Any) -> str:
    """A hash of what is in an item: the bytes of a file, a text, an array.

    >>> content_key("a") == content_key("a"), content_key("a") == content_key(np.array([97], np.uint8))
    (True, False)
    """
    if isinstance(item, Path):
        with item.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    if isinstance(item, str):
        return hashlib.sha256(b"text " + item.encode("utf-8", "surrogatepass")).hexdigest()
    array = np.ascontiguousarray(item)
    return hashlib.sha256(f"array {array.dtype.str} {array.shape} ".encode() + array.tobytes()).hexdigest()


class FeatureCache:
    """The rows that one encoder, by name and settings, has made.

    >>> cache = FeatureCache("mine", {"size": 8}, folder=Path(tempfile.mkdtemp()))
    >>> cache.put("0123", np.ones(2, np.float32))
    >>> cache.get("0123"), cache.get("4567")
    (array([1., 1.], dtype=float32), None)
    """

    def __init__(self, name: str, settings: Mapping[str, Any], *, folder: Path | None = None) -> None:
        about = json.dumps([VERSION, name, dict(settings)], sort_keys=True)
        self.folder = (folder or cache_folder()) / hashlib.sha256(about.encode()).hexdigest()[:32]
        self._off = False

    def _place(self, key: str) -> Path:
        return self.folder / key[:2] / key

    def get(self, key: str) -> NDArray[np.float32] | None:
        """The row of an item, None if it is not there or not whole."""
        try:
            data = self._place(key).read_bytes()
        except OSError:
            return None
        body = data[32:]
        if not body or len(body) % 4 or hashlib.sha256(body).digest() != data[:32]:
            return None
        return np.frombuffer(body, dtype="<f4").astype(np.float32)

    def put(self, key: str, row: NDArray[np.float32]) -> None:
        """Keep the row of an item; where that is impossible (a full or read-only disk) it is not kept."""
        if self._off:
            return
        body = np.ascontiguousarray(row, dtype="<f4").tobytes()
        place = self._place(key)
        new = None
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            handle, new = tempfile.mkstemp(dir=place.parent, prefix=".new-")
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(body).digest() + body)
            os.replace(new, place)
        except OSError:
            self._off = True
            if new is not None:
                with contextlib.suppress(OSError):
                    os.unlink(new)
