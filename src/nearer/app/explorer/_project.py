"""A session on disk: every gesture is written before it is confirmed, whole or not at all.

```
name.explore/
  gestures.json    what was said, what is undone, of which data
  metric/          the metric of the last refit, checksummed
  lock             held while a session runs
```
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch

from nearer._limits import check_limit, parse_json
from nearer._storage import read_folder, remove_folder, write_file, write_folder
from nearer._storage._disk import open_plain
from nearer.app.explorer._gestures import GestureHistory
from nearer.app.explorer._metric import Metric
from nearer.exceptions import CorruptFileError, NearerError, ParameterError

FORMAT, VERSION = "nearer.explore", 1


class Project:
    """The folder of a session; one session at a time may have it open."""

    def __init__(self, path: str | os.PathLike[str], *, fingerprint: str, n: int) -> None:
        self.path, self.fingerprint, self.n = Path(path), fingerprint, n
        if self.path.is_symlink():
            # It may have come with the data, and what is said would be written elsewhere.
            raise ParameterError(f"`project` must be a folder or free, `{self.path}` is a link. Name the folder.")
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = self._locked()
        try:
            self.history = self._read()
        except NearerError:
            self.close()
            raise

    def save(self, history: GestureHistory) -> None:
        """Write what was said; when it returns it is on disk."""
        document = {"format": FORMAT, "version": VERSION, "data": self.fingerprint, "items": self.n}
        write_file(self.path / "gestures.json", json.dumps({**document, **history.to_dict()}).encode())

    def save_metric(self, metric: Metric | None) -> None:
        """Keep the metric of the last refit; None forgets it."""
        folder = self.path / "metric"
        if metric is None:
            if os.path.lexists(folder):
                remove_folder(folder)
            return
        if folder.is_symlink():
            os.unlink(folder)
        tensors = {"metric": {name: torch.from_numpy(getattr(metric, name)) for name in ("matrix", "mean")}}
        about = {"data": self.fingerprint, "unit": metric.unit}
        write_folder(folder, format=FORMAT, version=VERSION, tensors=tensors, metadata=about)

    def metric(self) -> Metric | None:
        """The metric of the last refit, None without one."""
        metric_folder = self.path / "metric"
        if not os.path.lexists(metric_folder):
            return None
        if metric_folder.is_symlink():
            raise CorruptFileError(
                f"`{metric_folder}` must be a folder of this project, and is a link. Move it away."
            )
        folder = read_folder(metric_folder, format=FORMAT, version=VERSION)
        parts = {name: tensor.numpy() for name, tensor in folder.tensors["metric"].items()}
        if set(parts) != {"matrix", "mean"}:
            return None  # of an older version; the next refit replaces it
        return Metric(parts["matrix"], parts["mean"], bool(folder.metadata.get("unit")), "From the project.")

    def close(self) -> None:
        """Let another session have it."""
        os.close(self._lock)

    def _read(self) -> GestureHistory:
        file = self.path / "gestures.json"
        if not os.path.lexists(file):
            return GestureHistory()
        try:
            with os.fdopen(open_plain(file, os.O_RDONLY), "rb") as opened:
                check_limit("NEARER_MAX_TEXT", os.fstat(opened.fileno()).st_size, f"`{file}`")
                given = parse_json(opened.read(), f"`{file}`")
            if given["format"] != FORMAT or given["version"] != VERSION:
                raise ParameterError(f"format {given['format']} {given['version']}")
            data, items = given["data"], given["items"]
            if (data, items) != (self.fingerprint, self.n):
                raise _OtherData(items)
            return GestureHistory.from_dict(given, n=self.n)
        except _OtherData as other:
            raise ParameterError(
                f"`{self.path}` must be a project of this data, and it is of other data, {other.items:,} items. "
                f"Name another project."
            ) from None
        except OSError as error:
            raise CorruptFileError(f"`{file}` cannot be opened: {error.strerror}. Move it away.") from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise CorruptFileError(
                f"`{file}` must hold the gestures of a session: {error}. Move it away to begin anew."
            ) from error

    def _locked(self) -> int:
        import fcntl

        try:
            handle = open_plain(self.path / "lock", os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise CorruptFileError(
                f"`{self.path / 'lock'}` must be the lock of a session: {error.strerror}. Move it away."
            ) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise ParameterError(
                f"`{self.path}` must be open in one session only, and another one has it. Open its page in a "
                f"second tab, or name another project."
            ) from None
        return handle


class _OtherData(Exception):
    def __init__(self, items: Any) -> None:
        super().__init__()
        self.items = items
