"""Running the application with uvicorn: signals, TLS, and clients that send their headers too slowly."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import multiprocessing
import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from nearer.app.server._gate import Gate, create_app
from nearer.app.server._problems import Refusal
from nearer.app.server._service import Call
from nearer.app.server._settings import Settings, Tokens
from nearer.app.server._state import place_of
from nearer.app.server._workers import address_of, bound, say_listening, supervise

# A request line and its headers are a few hundred bytes.
LONGEST_HEAD = 64 << 10
LINGER = 0.5
# Bytes that a client must take of its answer in half of the time that it has to send a request.
TAKEN = 16 << 10


class Guarded(HttpToolsProtocol):
    """uvicorn's own protocol, with limits to the time and the bytes of headers, and to waiting for a reader."""

    head_timeout = 30.0
    most = 1024

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._head, self._refused = 0, False
        self._alarm: asyncio.TimerHandle | None = None
        self._asked = 0
        self._pulse = self.loop.call_later(self.head_timeout / 2, self._look, 0, 0)
        if len(self.connections) > self.most:
            transport.close()
            return
        self._watch()

    def _watch(self) -> None:
        self._unwatch()
        self._head = 0
        self._alarm = self.loop.call_later(self.head_timeout, self._give_up)

    def _unwatch(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _give_up(self) -> None:
        self._alarm = None
        if not self.transport.is_closing():
            self.transport.close()

    def _look(self, left: int, asked: int) -> None:
        """Let a client go that takes nothing of what it asked for: `left` bytes waited for it the last time."""
        now = self.transport.get_write_buffer_size()
        if now and left - now < TAKEN and left and asked == self._asked:
            # Closing would wait for the client, who does not read.
            self.transport.abort()
        elif now or not self.transport.is_closing():
            self._pulse = self.loop.call_later(self.head_timeout / 2, self._look, now, self._asked)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if self._alarm is not None:
            self._head += len(data)
            # The body may come with the headers; only what is far too much without them is refused.
            if self._head > LONGEST_HEAD and b"\r\n\r\n" not in data:
                self.transport.write(b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n"
                                     b"content-length: 0\r\n\r\n")  # fmt: skip
                # Closing at once would throw the answer away with what is still on its way here.
                self._refused = True
                self._unwatch()
                self._alarm = self.loop.call_later(LINGER, self._give_up)
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        self._asked += 1
        if self._alarm is None:
            self._watch()
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        # What comes after the body is no header: a token there has been seen by nobody on the way.
        if self._alarm is not None:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._unwatch()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        self._pulse.cancel()
        super().connection_lost(exc)


class _Server(uvicorn.Server):
    """A server that a signal ends like any other request to stop: finished, and with exit code 0."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield


def serve(
    model: str | os.PathLike[str],
    index: str | os.PathLike[str],
    *,
    settings: Settings | None = None,
    create: bool = False,
    tokens_file: Path | None = None,
    announce: bool = True,
) -> None:
    """Serve a model and an index over HTTP until SIGTERM or Ctrl-C; SIGHUP opens both again, and the tokens.

    >>> serve("no-such-model", "index", settings=Settings(port=8080))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    nearer.exceptions.MissingDataError: ...

    Args:
        model: a folder that `nearer fit` or `Model.save` wrote.
        index: a folder, or a URL that `nearer.index.open_index` takes; made by this model.
        settings: where to listen, tokens, limits.
        create: make an empty index if there is none.
        tokens_file: read again on SIGHUP.
        announce: print the address on standard output when requests are taken.
    """
    settings = settings or Settings()
    if settings.workers > 1:
        with bound(settings) as (listener, address):
            served = place_of(model, index, settings, create=create).open()
            items = served.index.count()
            served.index.close()
            if announce:
                say_listening(address, items)
            supervise(
                settings.workers, _work, (os.fspath(model), os.fspath(index), settings, tokens_file, listener)
            )
        return
    gate = create_app(model, index, settings=settings, create=create)
    _run_gate(gate, settings, tokens_file, announce=announce)


def _work(model: str, index: str, settings: Settings, tokens_file: Path | None, listener: socket.socket) -> None:
    """One of several processes at one address."""
    _run_gate(create_app(model, index, settings=settings), settings, tokens_file, listener=listener)


def _run_gate(
    gate: Gate,
    settings: Settings,
    tokens_file: Path | None,
    *,
    announce: bool = False,
    listener: socket.socket | None = None,
) -> None:
    protocol = type("Protocol", (Guarded,), {"head_timeout": settings.timeout, "most": settings.connections})
    config = uvicorn.Config(
        gate,
        host=settings.host,
        port=settings.port,
        http=protocol,
        loop="auto",
        lifespan="on",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        date_header=True,
        ssl_certfile=settings.tls_certificate,
        ssl_keyfile=settings.tls_key,
        timeout_keep_alive=max(5, int(settings.timeout)),
        timeout_graceful_shutdown=max(1, int(settings.timeout)),
        backlog=2048,
    )
    # Threads take turns every 5 ms by default: a whole search could wait for the interpreter.
    sys.setswitchinterval(0.0005)
    asyncio.run(_run(gate, config, settings, tokens_file, announce=announce, listener=listener))


async def _run(
    gate: Gate,
    config: uvicorn.Config,
    settings: Settings,
    tokens_file: Path | None,
    *,
    announce: bool,
    listener: socket.socket | None,
) -> None:
    server = _Server(config)
    loop = asyncio.get_running_loop()

    async def reload() -> None:
        service = gate.service
        try:
            if tokens_file is not None:
                service.tokens = Tokens.read(tokens_file)
                service.settings = dataclasses.replace(service.settings, tokens=service.tokens)
            await service.reload(Call(quiet=True))
        except (Refusal, ValueError) as error:
            service.log.event("reload refused", kind=type(error).__name__)

    tasks: set[asyncio.Task[None]] = set()

    def hung_up() -> None:
        task = loop.create_task(reload())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    with contextlib.suppress(NotImplementedError, AttributeError):
        loop.add_signal_handler(signal.SIGHUP, hung_up)
    parent = multiprocessing.parent_process()
    if listener is not None and parent is not None:
        # Nobody would end a worker whose parent was killed.
        loop.add_reader(parent.sentinel, server.handle_exit, signal.SIGTERM, None)
    if announce:
        task = loop.create_task(_announce(server, settings, gate.service.served.index.count()))
        tasks.add(task)
    await server.serve(sockets=None if listener is None else [listener])


async def _announce(server: uvicorn.Server, settings: Settings, items: int) -> None:
    """Say where it listens as soon as it does."""
    while not server.started and not server.should_exit:
        await asyncio.sleep(0.02)
    for listener in server.servers:
        for one in listener.sockets:
            say_listening(address_of(one, settings), items)
