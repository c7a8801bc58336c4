"""One JSON line for each request and event on standard error; never a payload, an id or a token."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from typing import Any, TextIO

import msgspec

FULL = 2_000


class Log:
    """Lines that are kept for a moment and written together: a system call for each would cost as much as a search.

    >>> import io
    >>> out = io.StringIO()
    >>> log = Log("all", out)
    >>> log.event("started", items=3)
    >>> log.flush()
    >>> msgspec.json.decode(out.getvalue())["event"]
    'started'
    """

    def __init__(self, level: str, out: TextIO | None = None) -> None:
        self._all, self._off = level == "all", level == "none"
        self._out = out or sys.stderr
        self._lines: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def request(
        self, number: str, method: str, route: str, status: int, seconds: float, size: int, who: str
    ) -> None:
        """One request has been answered."""
        if self._all or (status >= 400 and not self._off):
            self._lines.append(
                {
                    "time": round(time.time(), 3),
                    "event": "request",
                    "request": number,
                    "method": method,
                    "route": route,
                    "status": status,
                    "ms": round(1000 * seconds, 3),
                    "bytes": size,
                    "scope": who,
                }
            )
            if len(self._lines) >= FULL:
                self.flush()

    def event(self, event: str, **about: Any) -> None:
        """Something else has happened."""
        if not self._off:
            self._lines.append({"time": round(time.time(), 3), "event": event, **about})

    def defect(self, number: str, error: BaseException) -> None:
        """An error that nobody expected: where it happened, but not with which values."""
        if not self._off:
            frames = [
                f"{frame.name} {frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}"
                for frame in traceback.extract_tb(error.__traceback__)
            ]
            self.event("defect", request=number, kind=type(error).__name__, at=frames[-6:])

    def flush(self) -> None:
        """Write what is kept."""
        with self._lock:
            lines, self._lines = self._lines, []
            if not lines:
                return
            text = b"".join(msgspec.json.encode(line) + b"\n" for line in lines).decode()
            try:
                self._out.write(text)
                self._out.flush()
            except (OSError, ValueError):
                # Whoever read the log has gone; the service goes on.
                self._off = True
