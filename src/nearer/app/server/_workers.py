"""Several processes at one address: they take requests from one socket, and are told of signals together."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from nearer._plain import counted
from nearer.app.server._settings import Settings
from nearer.exceptions import NearerError

# A worker that ends sooner than this after its start is not started again: the next one would end too.
SETTLED = 5.0


def address_of(listener: socket.socket, settings: Settings) -> str:
    """The URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if settings.tls_certificate else 'http'}://{shown}:{port}"


def say_listening(address: str, items: int) -> None:
    """Say where it listens, and that it is not an empty index that was meant to be full."""
    print(f"Listening on {address} ({counted(items, 'item')}; API: /docs, status: /)", flush=True)


@contextmanager
def bound(settings: Settings) -> Iterator[tuple[socket.socket, str]]:
    """A listening socket for all workers, and its URL; who comes before they are there waits."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind)
    except OSError as error:
        raise NearerError(f"`host` must be an address of this machine, got {settings.host!r}: {error}.") from error
    with listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
        except OSError as error:
            raise NearerError(f"`port` {settings.port} cannot be listened on: {error.strerror}.") from error
        listener.listen(2048)
        yield listener, address_of(listener, settings)


def supervise(count: int, work: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    """Run `work(*arguments)` in so many processes until SIGTERM or Ctrl-C; one that dies is started again.

    SIGHUP is passed on. A worker that ends at once ends all.
    """
    # Not forked: torch has threads by now.
    processes = multiprocessing.get_context("spawn")
    workers: dict[Any, float] = {}
    told: list[int] = []

    def start() -> None:
        worker = processes.Process(target=work, args=arguments)
        worker.start()
        workers[worker] = time.monotonic()

    def pass_on(number: int, frame: object) -> None:
        if number != signal.SIGHUP:
            told.append(number)
        for worker in workers:
            if worker.is_alive():
                os.kill(worker.pid, signal.SIGHUP if number == signal.SIGHUP else signal.SIGTERM)

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    failed = False
    try:
        for _ in range(count):
            start()
        while workers:
            multiprocessing.connection.wait([worker.sentinel for worker in workers], timeout=1.0)
            for worker in [one for one in workers if not one.is_alive()]:
                began = workers.pop(worker)
                worker.join()
                if told or failed:
                    continue
                if time.monotonic() - began < SETTLED:
                    failed = True
                    pass_on(signal.SIGTERM, None)
                else:
                    start()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if failed:
        raise NearerError("A worker ended as soon as it was started; the messages above say why.")
