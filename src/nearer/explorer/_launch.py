"""Serve a session on this machine until it is stopped, and open the page."""

from __future__ import annotations

import secrets
import socket
import threading
import time
import webbrowser
from collections.abc import Callable
from types import TracebackType
from typing import Any

from nearer.exceptions import MissingDataError, ParameterError
from nearer.explorer._session import Session

__all__ = ["Served", "check_installed", "serve"]


class Served:
    """A page that is being served; `close()` or the end of a `with` stops it."""

    def __init__(self, session: Session, *, port: int = 0) -> None:
        try:
            check_installed()
        except MissingDataError:
            session.close()
            raise
        import uvicorn

        from nearer.explorer._server import application

        self.session = session
        last = session.project.address()
        word = str(last.get("token", secrets.token_urlsafe(18)))
        self._socket = _bound(port, int(last.get("port", 0)))
        number = self._socket.getsockname()[1]
        session.project.save_address(number, word)
        self.url = f"http://127.0.0.1:{number}/{word}/"
        self._app = application(session, word)
        config = uvicorn.Config(self._app, log_level="warning", lifespan="on", timeout_graceful_shutdown=2)
        self._server = uvicorn.Server(config)

    def run(self) -> None:
        """Serve in this thread until Ctrl-C."""
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self.session.close()

    def start(self) -> Served:
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
        self.session.close()

    def __enter__(self) -> Served:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _repr_html_(self) -> str:
        return f'<a href="{self.url}" target="_blank" rel="noreferrer">Open the map</a>'


def check_installed() -> None:
    """Refuse before anything is loaded where the page could not be served."""
    try:
        import starlette.applications  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        told = "The page needs starlette and uvicorn. Run: pip install 'nearer[explore]'"
        raise MissingDataError(told) from error


def _bound(port: int, last: int) -> socket.socket:
    """A socket of this machine at the port that was asked for, at that of the last time, or at any."""
    for number in [port] if port else dict.fromkeys((last, 0)):
        found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind(("127.0.0.1", number))
            # Whoever opens the page before the server runs waits for it and is not refused.
            found.listen(128)
            return found
        except OSError:
            found.close()
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
    served = Served(session, port=port)
    if plain:
        say(served.url)
    else:
        say(f"{session.items.n:,} items: {served.url}")
        say(f"What you say is kept in {session.project.path}. Ctrl-C stops.")
    if browser:
        threading.Timer(0.5, webbrowser.open, [served.url]).start()
    served.run()
