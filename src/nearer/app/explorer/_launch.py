"""Serve a session on this machine until it is stopped, and open the page.

A tab that is still open finds a session that was started again: its port and word are kept in the state folder of
the user, by the path of the project. They are not beside the data: whoever gives away a data set could give the
word along, and would know it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import socket
import tempfile
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from nearer._checks import needed
from nearer._storage._disk import open_plain
from nearer.app.explorer._session import Session
from nearer.exceptions import MissingDataError, ParameterError


class ServedSession:
    """A page that is being served; `close()` or the end of a `with` stops it."""

    def __init__(self, session: Session, *, port: int = 0) -> None:
        try:
            check_installed()
        except MissingDataError:
            session.close()
            raise
        import uvicorn

        from nearer.app.explorer._server import application

        self.session = session
        self._at_the_end = contextlib.ExitStack()
        known = last_address(session.project.path) if session.is_kept else None
        last, word = known or (0, secrets.token_urlsafe(18))
        self._socket = _bound(port, last)
        number = self._socket.getsockname()[1]
        if session.is_kept:
            keep_address(session.project.path, number, word)
        self.url = f"http://127.0.0.1:{number}/{word}/"
        self._app = application(session, word)
        config = uvicorn.Config(self._app, log_level="warning", lifespan="on", timeout_graceful_shutdown=2)
        self._server = uvicorn.Server(config)

    def show(self) -> None:
        """Open the page in a browser."""
        webbrowser.open(self._at_the_end.enter_context(doorway(self.url)))

    def run(self) -> None:
        """Serve in this thread until Ctrl-C."""
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._at_the_end.close()
            self.session.close()

    def start(self) -> ServedSession:
        """Serve in a thread of its own; returns when the page can be opened."""
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)
        self._thread.start()
        limit = time.monotonic() + 30
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > limit:
                raise ParameterError("The page could not be served; the messages above say why.")
            time.sleep(0.01)
        return self

    def wait(self) -> None:
        """Wait until the page is closed by another thread, or Ctrl-C."""
        try:
            self._thread.join()
        except KeyboardInterrupt:
            self.close()

    def close(self) -> None:
        """Stop serving, and give the project back."""
        self._app.state.announcer.close()
        self._server.should_exit = True
        self._thread.join(timeout=10)
        self._at_the_end.close()
        self.session.close()

    def __enter__(self) -> ServedSession:
        return self

    def __exit__(self, *about: object) -> None:
        self.close()

    def _repr_html_(self) -> str:
        return f'<a href="{self.url}" target="_blank" rel="noreferrer">Open the map</a>'


def check_installed() -> None:
    """Refuse before anything is loaded where the page could not be served."""
    for package in ("starlette.applications", "uvicorn"):
        needed(package, f"The page needs {package.partition('.')[0]}", "explore")


def _bound(port: int, last: int) -> socket.socket:
    """A socket of this machine at the port that was asked for, at that of the last time, or at any."""
    for number in [port] if port else dict.fromkeys((last, 0)):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", number))
            # Whoever opens the page before the server runs waits for it and is not refused.
            listener.listen(128)
            return listener
        except OSError:
            listener.close()
    raise ParameterError(f"`port` must be free, and {port} is not. Leave it out to take any.")


def serve(
    session: Session,
    *,
    port: int = 0,
    browser: bool = True,
    say: Callable[[str], Any] = print,
    plain: bool = False,
) -> None:
    """Serve a session until Ctrl-C; `say` gets what people are told, or with `plain` the address alone."""
    served = ServedSession(session, port=port)
    if plain:
        say(served.url)
    else:
        say(f"{session.items.n:,} items: {served.url}")
        say(f"What you say is kept in {session.project.path}. Ctrl-C stops.")
    if browser:
        threading.Timer(0.5, served.show).start()
    served.run()


@contextlib.contextmanager
def doorway(url: str) -> Iterator[str]:
    """The address of a file that leads to the page: every user of the machine sees the words of a command.

    >>> with doorway("http://127.0.0.1:8000/word/") as door:
    ...     "word" in door, "word" in Path(door.removeprefix("file://")).read_text()
    (False, True)
    """
    with tempfile.TemporaryDirectory(prefix="nearer-") as folder:  # which only its owner may enter
        file = Path(folder) / "open.html"
        file.write_text(
            f'<!DOCTYPE html><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
            f'<meta http-equiv="refresh" content="0;url={url}"><a href="{url}">Open the map</a>\n'
        )
        yield file.as_uri()


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
            record = json.loads(file.read(1000))
            port, word = record["port"], record["word"]
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
