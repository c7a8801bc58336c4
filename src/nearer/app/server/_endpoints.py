"""The table of the API: each method of each path with its handler, who may ask, and what goes in and out."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Literal

import msgspec

from nearer.app.server import _messages as messages
from nearer.app.server._messages import BINARY, JSON
from nearer.app.server._openapi import describe
from nearer.app.server._service import Answer, Call, Service
from nearer.app.server._state import example_of

_ASSETS = resources.files("nearer.app.server") / "assets"


def page(name: str) -> str:
    """A page of this folder, with its style in it: it asks for nothing else.

    >>> page("status").startswith("<!doctype html>")
    True
    """
    style, html = ((_ASSETS / file).read_text(encoding="utf-8") for file in ("style.css", f"{name}.html"))
    return html.replace("STYLE", style)


def policy(html: str) -> dict[str, str]:
    """The header that keeps a page to itself: its own script and style, and requests to this server alone.

    >>> policy("<style>a{}</style><script>1</script>")["content-security-policy"][:18]
    "default-src 'none'"
    """

    def hashed(tag: str) -> str:
        contents = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.S)
        digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in contents]
        return " ".join(f"'sha256-{digest}'" for digest in digests)

    rules = (
        f"default-src 'none'; connect-src 'self'; script-src {hashed('script')}; "
        f"style-src {hashed('style')}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return {"content-security-policy": rules, "referrer-policy": "no-referrer"}


NO_ITEM = {404: "There is no such item."}
DISK_FULL = {507: "The disk is full: nothing was changed."}
NO_JSON = {415: "The body must be JSON."}


@dataclass(frozen=True)
class Endpoint:
    """What answers one method of one path.

    Args:
        method: of HTTP.
        path: may end with `{id}`, which is the rest of a path whatever is in it.
        handler: from a call to an answer; its docstring is the description.
        access: "open" to everybody, or to those whose token may "read" or "write".
        request: the structures of the body by media type; {} where there is none.
        answer: the structures of the answer by media type; {} for pages, which the description leaves out.
        query: the structure of the query string.
        status: of a success.
        refusals: reasons to refuse beside those that every endpoint has.
        example: a JSON body to show and to try; None where a photo is sent, or nothing.
    """

    method: str
    path: str
    handler: Callable[[Call], Awaitable[Answer]]
    access: Literal["open", "read", "write"]
    request: Mapping[str, Any] = field(default_factory=dict)
    answer: Mapping[str, Any] = field(default_factory=dict)
    query: type[msgspec.Struct] | None = None
    status: int = 200
    refusals: Mapping[int, str] = field(default_factory=dict)
    example: Any = None


def endpoints_of(service: Service) -> list[Endpoint]:
    """All that there is."""
    media = {BINARY: bytes, "image/png": bytes}
    item = example_of(service.served.model)
    asked: dict[str, Any] | None = None if item is None else {"items": [item]}
    kept = asked or {"vectors": [[0.0] * service.served.dimension]}
    endpoints = [
        Endpoint("POST", "/search", service.search, "read", {JSON: messages.SearchRequest, **media},
                 {JSON: messages.SearchAnswer}, query=messages.SearchQuery, example=asked and {**asked, "k": 3}),
        Endpoint("POST", "/embed", service.embed, "read", {JSON: messages.EmbedRequest, **media},
                 {JSON: messages.EmbedAnswer, BINARY: bytes}, example=asked),
        Endpoint("POST", "/items", service.items, "write", {JSON: messages.ItemsRequest},
                 {JSON: messages.ItemsAnswer}, status=201,
                 refusals={409: "An id is there already.", **DISK_FULL},
                 example={**kept, "metadata": [{"note": "an example"}]}),
        Endpoint("GET", "/items/{id}", service.item, "read", {}, {JSON: messages.ItemAnswer}, refusals=NO_ITEM),
        Endpoint("POST", "/remove", service.remove_many, "write", {JSON: messages.RemoveRequest},
                 {JSON: messages.RemovedAnswer}, refusals=DISK_FULL, example={"ids": [0]}),
        Endpoint("DELETE", "/items/{id}", service.remove, "write", {}, {JSON: messages.RemovedAnswer},
                 refusals={**NO_ITEM, **NO_JSON, **DISK_FULL}),
        Endpoint("GET", "/similar/{id}", service.similar, "read", {}, {JSON: messages.SimilarAnswer},
                 query=messages.SimilarQuery, refusals=NO_ITEM),
        Endpoint("POST", "/same", service.same, "read", {JSON: messages.SameRequest}, {JSON: messages.SameAnswer},
                 refusals={**NO_ITEM, 409: "The model has no calibration; `distance` is there."},
                 example={"ids": [0, 1]}),
        Endpoint("POST", "/reload", service.reload, "write", {}, {JSON: messages.ReloadAnswer},
                 refusals={409: "What is there now does not fit.", **NO_JSON}),
        Endpoint("GET", "/health", service.health, "open", {}, {JSON: messages.HealthAnswer}),
        Endpoint("GET", "/ready", service.ready, "open", {}, {JSON: messages.HealthAnswer}),
        Endpoint("GET", "/metrics", service.metrics, "read", {}, {"text/plain": str}),
        Endpoint("GET", "/status", service.status, "read", {}, {JSON: dict[str, Any]}),
    ]  # fmt: skip
    description = Answer(msgspec.json.encode(describe(endpoints)))
    pages = {"/": _page("status"), "/docs": _page("docs"), "/openapi.json": description}
    return [*endpoints, *(Endpoint("GET", path, _always(answer), "open") for path, answer in pages.items())]


def _page(name: str) -> Answer:
    html = page(name)
    headers = [(name.encode(), value.encode()) for name, value in policy(html).items()]
    return Answer(html.encode(), "text/html; charset=utf-8", headers=headers)


def _always(answer: Answer) -> Callable[[Call], Awaitable[Answer]]:
    async def handler(call: Call) -> Answer:
        return answer

    return handler
