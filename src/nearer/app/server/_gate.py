"""The door of the server: who may come in, how much they may bring, and what is noted of it.

`/search` and `/embed` are answered here, straight from the request; everything else goes on to FastAPI. The router
and the middlewares of a framework cost more than a search of a hundred thousand vectors.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

from nearer.app.server._problems import Problem, problem_of
from nearer.app.server._service import Answer, Call, Service

__all__ = ["Gate"]

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

OPEN = frozenset(("/", "/health", "/ready", "/docs", "/openapi.json"))
ROUTES = OPEN | {"/embed", "/search", "/items", "/same", "/metrics", "/status", "/reload"}
READING = frozenset(("/embed", "/search", "/same"))
SAFE = frozenset(("GET", "HEAD", "OPTIONS"))
BODIES = READING | {"/items", "/reload"}
# Of two, a proxy in front may have looked at the other one.
SINGLE = frozenset((b"host", b"authorization", b"origin", b"content-type", b"content-length"))
# What a form of any page can send without asking first.
FORMS = frozenset((b"application/x-www-form-urlencoded", b"multipart/form-data", b"text/plain"))
LOCAL = frozenset((b"localhost", b"127.0.0.1", b"[::1]"))
PLAIN = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]


class Gate:
    """The ASGI application: checks, limits, notes; then the endpoint."""

    def __init__(self, service: Service, inner: Any) -> None:
        self.service, self.inner = service, inner
        self._quick = {"/search": service.search, "/embed": service.embed}
        self._numbers = itertools.count(1)
        self._start = os.urandom(3).hex()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._other(scope, receive, send)
            return
        began = time.perf_counter()
        number = f"{self._start}-{next(self._numbers)}"
        method, path = scope["method"], scope["path"]
        headers = dict(scope["headers"])
        body, status, who = b"", 500, "-"
        try:
            if len(headers) < len(scope["headers"]):
                _check_single(scope["headers"])
            who = self._admit(method, path, headers)
            content = headers.get(b"content-type", b"").split(b";", 1)[0].strip().lower()
            if method not in SAFE and path not in READING:
                _check_site(headers, content)
            if method == "POST" and path in BODIES:
                body = await self._body(headers, receive)
            else:
                # Whoever sends a body where none belongs is answered without it, and let go.
                scope["nearer.unread"] = _has_body(headers)
            call = Call(
                body,
                content.decode("latin-1"),
                scope["query_string"],
                headers.get(b"accept", b"").decode("latin-1"),
            )
            quick = self._quick.get(path) if method == "POST" else None
            if quick is None:
                scope["nearer.call"] = call
                scope["nearer.request"] = number
                status = await self._hand_on(scope, send)
            else:
                answer = await quick(call)
                status = answer.status
                await _send(send, answer.status, answer.body, answer.content, number, answer.headers)
        except Exception as error:
            status = await self._refuse(error, number, send, drained=bool(body))
        finally:
            seconds = time.perf_counter() - began
            route = _route(path)
            self.service.figures.count(route, status, seconds, len(body))
            self.service.log.request(number, method, route, status, seconds, len(body), who)

    async def _refuse(self, error: Exception, number: str, send: Send, *, drained: bool) -> int:
        problem = problem_of(error)
        if problem.status == 500:
            self.service.log.defect(number, error)
        await send_problem(send, problem, number, close=not drained)
        return problem.status

    def _admit(self, method: str, path: str, headers: dict[bytes, bytes]) -> str:
        """The scope of whoever asks."""
        tokens = self.service.tokens
        if tokens is None:
            # A page of the web may name this machine as its own host, and would then be let in by the browser.
            host = headers.get(b"host", b"localhost").lower()
            name = host.rsplit(b":", 1)[0] if not host.endswith(b"]") else host
            if name not in LOCAL and self.service.settings.loopback:
                raise Problem(421, "misdirected", "This server answers to localhost only.")
            return "local"
        if path in OPEN and method in ("GET", "HEAD"):
            return "open"
        kind, _, secret = headers.get(b"authorization", b"").partition(b" ")
        if kind.lower() != b"bearer" or not secret:
            raise Problem(401, "no_token", "A token is needed: Authorization: Bearer <token>.")
        scope = tokens.scope(secret.strip().decode("latin-1"))
        if scope is None:
            raise Problem(401, "wrong_token", "The token is not known.")
        if scope == "read" and not (method in ("GET", "HEAD") or (method == "POST" and path in READING)):
            raise Problem(403, "wrong_scope", "The token may read, and this needs one that may write.")
        return scope

    async def _body(self, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        most = self.service.settings.max_body
        told = headers.get(b"content-length", b"0")
        if told.isdigit() and int(told[:20]) > most:
            raise Problem(413, "too_large", f"A request may have {most} bytes. Send less at a time.")
        try:
            async with asyncio.timeout(self.service.settings.timeout):
                message = await receive()
                body: bytes = message.get("body", b"")
                parts, size = [body], len(body)
                while message.get("more_body", False):
                    if size > most:
                        raise Problem(413, "too_large", f"A request may have {most} bytes. Send less at a time.")
                    message = await receive()
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                if message["type"] == "http.disconnect":
                    raise Problem(400, "gone", "The client has gone.")
                if size > most:
                    raise Problem(413, "too_large", f"A request may have {most} bytes. Send less at a time.")
                return body if len(parts) == 1 else b"".join(parts)
        except TimeoutError:
            raise Problem(408, "slow", "The request did not arrive in time.") from None

    async def _hand_on(self, scope: Scope, send: Send) -> int:
        """Let FastAPI answer; the body is already here."""
        status = [500]

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def noted(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                status[0] = message["status"]
                message["headers"] = [*message.get("headers", ()), *PLAIN,
                                      (b"x-request-id", scope["nearer.request"].encode())]  # fmt: skip
                if scope.get("nearer.unread"):
                    message["headers"].append((b"connection", b"close"))
            await send(message)

        await self.inner(scope, receive, noted)
        return status[0]

    async def _other(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.inner(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1000})


def _check_single(headers: list[tuple[bytes, bytes]]) -> None:
    """Refuse two headers where one decides who asks, where, and for what."""
    seen = set()
    for name, _ in headers:
        if name in SINGLE and name in seen:
            raise Problem(400, "two_headers", f"There must be one {name.decode('latin-1')} header, got two.")
        seen.add(name)


def _check_site(headers: dict[bytes, bytes], content: bytes) -> None:
    """Refuse a change that a page of another site lets a browser send: the user did not ask for it."""
    host = headers.get(b"host", b"").lower()
    origin = headers.get(b"origin")
    if headers.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin") or (
        origin is not None and origin.lower() not in (b"http://" + host, b"https://" + host)
    ):
        raise Problem(403, "cross_site", "A page of another site may change nothing here.")
    if content in FORMS:
        raise Problem(415, "media_type", "The body must be application/json.")


def _has_body(headers: dict[bytes, bytes]) -> bool:
    return b"transfer-encoding" in headers or bool(headers.get(b"content-length", b"").strip(b"0 "))


def _route(path: str) -> str:
    """The endpoint of a path, without what is special in it."""
    if path in ROUTES:
        return path
    if path.startswith("/items/"):
        return "/items/{id}"
    return "/similar/{id}" if path.startswith("/similar/") else "other"


async def _send(
    send: Send, status: int, body: bytes, content: str, number: str, more: list[tuple[bytes, bytes]]
) -> None:
    headers = [
        (b"content-type", content.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"x-request-id", number.encode()),
        *PLAIN,
        *more,
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def send_problem(send: Send, problem: Problem, number: str, *, close: bool) -> None:
    """An answer that is no success."""
    headers: list[tuple[bytes, bytes]] = []
    if problem.retry_after is not None:
        headers.append((b"retry-after", str(problem.retry_after).encode()))
    if problem.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if close and problem.status in (400, 401, 403, 408, 413, 415, 421):
        # What is left of the body is not read.
        headers.append((b"connection", b"close"))
    await _send(send, problem.status, problem.body(number), "application/json", number, headers)


def as_answer(answer: Answer) -> tuple[int, bytes, str, list[tuple[bytes, bytes]]]:
    """The parts of an answer."""
    return answer.status, answer.body, answer.content, answer.headers
