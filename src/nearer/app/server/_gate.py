"""The ASGI application: who may come in, how much they may bring, which endpoint answers, and what is noted of it.

A path is looked up in a dictionary: the router and the middlewares of a framework cost more than a search of a
hundred thousand vectors.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from nearer.app._local import PRIVATE, is_local
from nearer.app.server._endpoints import Endpoint, endpoints_of
from nearer.app.server._logs import Log
from nearer.app.server._messages import JSON
from nearer.app.server._problems import Refusal, refusal_of
from nearer.app.server._service import Answer, Call, Service
from nearer.app.server._settings import Settings
from nearer.app.server._state import place_of

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Headers = dict[bytes, bytes]

# Of two, a proxy in front may have looked at the other one.
SINGLE = frozenset((b"host", b"authorization", b"origin", b"content-type", b"content-length"))
# What a form of any page can send without asking first.
FORMS = frozenset((b"application/x-www-form-urlencoded", b"multipart/form-data", b"text/plain"))


class Gate:
    """Checks, limits and notes; then the endpoint."""

    def __init__(self, service: Service, endpoints: Sequence[Endpoint]) -> None:
        self.service = service
        self._endpoints = {(endpoint.method, endpoint.path): endpoint for endpoint in endpoints}
        paths = {endpoint.path for endpoint in endpoints}
        self._stems = tuple(path.removesuffix("{id}") for path in paths if path.endswith("{id}"))
        self._paths = frozenset(path for path in paths if not path.endswith("{id}"))
        self._numbers = itertools.count(1)
        self._start = os.urandom(3).hex()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1000})
            return
        began = time.perf_counter()
        number = f"{self._start}-{next(self._numbers)}"
        method = scope["method"]
        route, item = self._route(scope["path"].removeprefix(scope.get("root_path", "")))
        headers = dict(scope["headers"])
        body, read, who, answer = b"", False, "-", None
        try:
            try:
                if len(headers) < len(scope["headers"]):
                    _check_single(scope["headers"])
                endpoint = self._endpoints.get((method, route))
                who = self._admit(endpoint, headers)
                if endpoint is None:
                    raise self._unknown(route)
                content = headers.get(b"content-type", b"").split(b";", 1)[0].strip().lower()
                if endpoint.access == "write":
                    _check_site(headers, content)
                if method == "POST":
                    body = await self._body(headers, receive)
                    read = True
                accept = headers.get(b"accept", b"").decode("latin-1")
                call = Call(body, content.decode("latin-1"), scope["query_string"], accept, item)
                answer = await endpoint.handler(call)
            except Exception as error:
                answer = self._refusal(error, number)
            # Whoever sends a body that is not read is answered without it, and let go.
            await _send(send, answer, number, close=not read and _has_body(headers))
        finally:
            seconds, status = time.perf_counter() - began, 500 if answer is None else answer.status
            self.service.figures.count(route, status, seconds, len(body))
            self.service.log.request(number, method, route, status, seconds, len(body), who)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        async with self.service.running():
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    def _route(self, path: str) -> tuple[str, str]:
        """The path of the table that a path belongs to, and the id in it."""
        if path in self._paths:
            return path, ""
        for stem in self._stems:
            if path.startswith(stem):
                return stem + "{id}", path.removeprefix(stem)
        return "other", ""

    def _unknown(self, route: str) -> Refusal:
        methods = [method for method, path in self._endpoints if path == route]
        if not methods:
            return Refusal(404, "unknown_path", "There is no such path.")
        allow = (b"allow", ", ".join(methods).encode())
        return Refusal(405, "method", "The path has other methods.", headers=[allow])

    def _refusal(self, error: Exception, number: str) -> Answer:
        problem = refusal_of(error)
        if problem.status == 500:
            self.service.log.defect(number, error)
        return Answer(problem.body(number), JSON, problem.status, problem.headers)

    def _admit(self, endpoint: Endpoint | None, headers: Headers) -> str:
        """The scope of whoever asks."""
        tokens = self.service.tokens
        if tokens is None:
            if not is_local(headers.get(b"host", b"localhost")) and self.service.settings.loopback:
                raise Refusal(421, "misdirected", "This server answers to localhost only.")
            return "local"
        if endpoint is not None and endpoint.access == "open":
            return "open"
        kind, _, secret = headers.get(b"authorization", b"").partition(b" ")
        if kind.lower() != b"bearer" or not secret:
            raise _unauthorized("no_token", "A token is needed: Authorization: Bearer <token>.")
        scope = tokens.scope(secret.strip().decode("latin-1"))
        if scope is None:
            raise _unauthorized("wrong_token", "The token is not known.")
        if scope == "read" and endpoint is not None and endpoint.access == "write":
            raise Refusal(403, "wrong_scope", "The token may read, and this needs one that may write.")
        return scope

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        most = self.service.settings.max_body
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length[:20]) > most:
            raise _too_large(most)
        parts: list[bytes] = []
        size, more = 0, True
        try:
            async with asyncio.timeout(self.service.settings.timeout):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refusal(400, "gone", "The client has gone.")
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > most:
                        raise _too_large(most)
                    more = message.get("more_body", False)
        except TimeoutError:
            raise Refusal(408, "slow", "The request did not arrive in time.") from None
        return parts[0] if len(parts) == 1 else b"".join(parts)


def _unauthorized(code: str, message: str) -> Refusal:
    return Refusal(401, code, message, headers=[(b"www-authenticate", b"Bearer")])


def _too_large(most: int) -> Refusal:
    return Refusal(413, "too_large", f"A request may have {most} bytes. Send less at a time.")


def _check_single(headers: list[tuple[bytes, bytes]]) -> None:
    """Refuse two headers where one decides who asks, where, and for what."""
    seen = set()
    for name, _ in headers:
        if name in SINGLE and name in seen:
            raise Refusal(400, "two_headers", f"There must be one {name.decode('latin-1')} header, got two.")
        seen.add(name)


def _check_site(headers: Headers, content: bytes) -> None:
    """Refuse a change that a page of another site lets a browser send: the user did not ask for it."""
    host = headers.get(b"host", b"").lower()
    origin = headers.get(b"origin")
    if headers.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin") or (
        origin is not None and origin.lower() not in (b"http://" + host, b"https://" + host)
    ):
        raise Refusal(403, "cross_site", "A page of another site may change nothing here.")
    if content in FORMS:
        raise Refusal(415, "media_type", f"The body must be {JSON}.")


def _has_body(headers: Headers) -> bool:
    return b"transfer-encoding" in headers or bool(headers.get(b"content-length", b"").strip(b"0 "))


async def _send(send: Send, answer: Answer, number: str, *, close: bool) -> None:
    headers = [
        (b"content-type", answer.content.encode()),
        (b"content-length", str(len(answer.body)).encode()),
        (b"x-request-id", number.encode()),
        *PRIVATE,
        *answer.headers,
    ]
    if close:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


def create_app(
    model: str | os.PathLike[str],
    index: str | os.PathLike[str],
    *,
    settings: Settings | None = None,
    create: bool = False,
) -> Gate:
    """An ASGI application that serves a model and an index, for any ASGI server; `serve` runs it with uvicorn.

    Run it in one process: an index in a folder has one writer.

    >>> import tempfile
    >>> import nearer
    >>> rows, labels = [[0.0, 1.0], [0.1, 0.9], [5.0, 5.0], [5.1, 4.9]] * 8, [0, 0, 1, 1] * 8
    >>> model = nearer.fit(rows, labels, method="lfda")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     saved = model.save(f"{folder}/model")
    ...     app = create_app(saved, f"{folder}/index", create=True)  # for uvicorn.run, or mounted in an application

    Args:
        model: a folder that `nearer fit` or `Model.save` wrote.
        index: a folder, or a URL that `nearer.index.open_index` takes; made by this model.
        settings: limits and tokens.
        create: make an empty index if there is none.
    """
    settings = settings or Settings()
    service = Service(place_of(model, index, settings, create=create), settings, Log(settings.log))
    return Gate(service, endpoints_of(service))
