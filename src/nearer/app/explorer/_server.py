"""The page and its questions over HTTP: this machine only, a secret word in the address, nothing from elsewhere."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib import resources
from typing import TYPE_CHECKING, Any

from nearer._checks import check_int
from nearer._limits import parse_json
from nearer.app._local import PRIVATE, is_local
from nearer.app.explorer import _answers
from nearer.app.explorer._items import SIDES, photo
from nearer.app.explorer._session import Session
from nearer.app.explorer._suggestions import examples, suggestions
from nearer.exceptions import NearerError, ParameterError

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

# regl writes its drawing functions as text and needs eval for them; all code comes from this server, and nothing
# that a person typed is ever evaluated.
# The empty style element, which regl-scatterplot fills by script.
NO_STYLE = "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-eval'; "
    f"style-src 'self' '{NO_STYLE}'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = [
    *PRIVATE,
    (b"content-security-policy", POLICY.encode()),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
]
LARGEST_BODY = 20_000_000
# The longest path has an item number behind the word; the framework fails on numbers of thousands of digits.
LONGEST_PATH = 200
KINDS = {"page.js": "text/javascript; charset=utf-8", "page.css": "text/css; charset=utf-8"}


class Announcer:
    """What happens, to every open tab: a queue for each, filled from any thread."""

    def __init__(self) -> None:
        self._queues: set[asyncio.Queue[str | None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    def __call__(self, event: str, about: dict[str, Any]) -> None:
        text = f"event: {event}\ndata: {json.dumps(about)}\n\n"
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._put, text)

    def _put(self, text: str | None) -> None:
        for queue in list(self._queues):
            queue.put_nowait(text)

    def close(self) -> None:
        """End all streams, so that the server can stop."""
        self._closed = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._put, None)

    async def stream(self) -> AsyncIterator[str]:
        """Events as they come, a comment in silence so that a dead connection is noticed."""
        self._loop = asyncio.get_running_loop()
        queue: asyncio.Queue[str | None] = asyncio.Queue()
        self._queues.add(queue)
        try:
            yield "event: hello\ndata: {}\n\n"
            while not self._closed:
                try:
                    text = await asyncio.wait_for(queue.get(), timeout=10)
                except TimeoutError:
                    text = ": still here\n\n"
                if text is None:
                    return
                yield text
        finally:
            self._queues.discard(queue)


def application(session: Session, token: str) -> Starlette:
    """The app of one session; every address begins with the token."""
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import JSONResponse, Response, StreamingResponse
    from starlette.routing import Route

    announcer = Announcer()
    session.listener = announcer
    audits = threading.Lock()

    def answer(work: Callable[[Request, Any], Any]) -> Callable[[Request], Awaitable[Response]]:
        """JSON of what `work` returns, in a thread; what it refuses is a sentence with status 400."""

        async def endpoint(request: Request) -> Response:
            try:
                body = await _body(request) if request.method == "POST" else None
                reply = await run_in_threadpool(work, request, body)
            except NearerError as error:
                return JSONResponse({"error": str(error)}, status_code=400)
            except OSError as error:
                message = f"It could not be written down and does not count: {error.strerror or error}"
                return JSONResponse({"error": message}, status_code=507)
            return reply if isinstance(reply, Response) else JSONResponse(reply)

        return endpoint

    def asset(name: str) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            return Response(_asset(name), headers={"Content-Type": KINDS.get(name, "text/html; charset=utf-8")})

        return endpoint

    def after(change: Callable[[Any], Any]) -> Callable[[Request, Any], Any]:
        """The overview after a change."""

        def work(request: Request, body: Any) -> Any:
            change(body)
            return _answers.overview(session)

        return work

    def refit(request: Request, body: Any) -> Any:
        table = session.refit(lambda text, share: announcer("progress", {"text": text, "share": share}))
        return {**_answers.overview(session), "scores": table}

    def spread(request: Request, body: Any) -> Any:
        def work() -> None:
            try:
                session.spread()
            except (NearerError, ValueError, MemoryError) as error:
                announcer("failed", {"text": f"The map could not be made: {error}"})

        threading.Thread(target=work, daemon=True).start()
        return {}

    def colors(request: Request, body: Any) -> Response:
        legend, values = _answers.colors(session, request.query_params.get("by", "label"))
        head = json.dumps(legend).encode()
        head += b" " * (-len(head) % 4)
        packed = len(head).to_bytes(4, "little") + head + values
        return Response(packed, media_type="application/octet-stream")

    def positions(request: Request, body: Any) -> Response:
        reply = _answers.positions(session, request.query_params.get("map", "learned"))
        return Response(reply, media_type="application/octet-stream")

    def image(request: Request, body: Any) -> Response:
        item, side = request.path_params["item"], request.query_params.get("size", "")
        if session.items.images is None or item >= session.items.n:
            return Response(status_code=404)
        if side and side not in map(str, SIDES):
            raise ParameterError(
                f"`size` must be one of {', '.join(map(str, SIDES))}, or left out, got {side!r:.20}."
            )
        kind, content = photo(session.items, item, int(side) if side else None)
        return Response(content, media_type=f"image/{kind}", headers={"Cache-Control": "private, max-age=3600"})

    def card(request: Request, body: Any) -> Any:
        return session.card(_known(session, request.path_params["item"]))

    def edit(request: Request, body: Any) -> Any:
        said = session.history.gestures
        number = check_int(request.path_params["number"], "number", minimum=0, maximum=len(said) - 1)
        return {"items": list(said[number].items)}

    def beside(request: Request, body: Any) -> Any:
        item = _known(session, request.path_params["item"])
        return examples(session, item, request.query_params.get("label", ""))

    def queue(request: Request, body: Any) -> Any:
        with audits:
            return suggestions(session, lambda text, share: announcer("audit", {"text": text, "share": share}))

    def export(request: Request, body: Any) -> Response:
        name = 'attachment; filename="gestures.json"'
        return JSONResponse(session.export(), headers={"Content-Disposition": name})

    async def events(request: Request) -> Response:
        return StreamingResponse(announcer.stream(), media_type="text/event-stream")

    asked: dict[str, Callable[[Request, Any], Any]] = {
        "overview": lambda request, body: _answers.overview(session),
        "positions": positions,
        "colors": colors,
        "export": export,
        "suggestions": queue,
        "scores": lambda request, body: session.state.table or session.scores(session.state),
        "search": lambda request, body: {"items": session.find(request.query_params.get("q", ""))},
    }
    posted = {"say": after(session.say), "undo": after(lambda body: session.undo()),
              "redo": after(lambda body: session.redo()), "refit": refit, "spread": spread,
              "cards": lambda request, body: _answers.cards(session, body.get("items")),
              "similar": lambda request, body: _answers.similar(session, body)}  # fmt: skip
    base = f"/{token}"
    routes = [
        Route(f"{base}/", asset("index.html")),
        Route(f"{base}/page.js", asset("page.js")),
        Route(f"{base}/page.css", asset("page.css")),
        Route(f"{base}/api/events", events),
        Route(f"{base}/api/image/{{item:int}}", answer(image)),
        Route(f"{base}/api/edit/{{number:int}}", answer(edit)),
        Route(f"{base}/api/examples/{{item:int}}", answer(beside)),
        Route(f"{base}/api/item/{{item:int}}", answer(lambda r, b: session.item(r.path_params["item"]))),
        Route(
            f"{base}/api/card/{{item:int}}",
            answer(lambda r, b: session.card(_known(session, r.path_params["item"]))),
        ),
        *(Route(f"{base}/api/{name}", answer(work)) for name, work in asked.items()),
        *(Route(f"{base}/api/{name}", answer(work), methods=["POST"]) for name, work in posted.items()),
    ]

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        announcer.close()

    app = Starlette(routes=routes, lifespan=lifespan)
    app.state.announcer = announcer
    app.add_middleware(_Guard)
    return app


class _Guard:
    """The headers of every answer, and a refusal of hosts that are not this machine (DNS rebinding)."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        local = len(hosts) == 1 and is_local(hosts[0])

        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                there = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(pair for pair in HEADERS if pair[0] not in there)]
            await send(message)

        if not local or len(scope["path"]) > LONGEST_PATH:
            status = 414 if local else 403
            await guarded({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})
            return
        await self.app(scope, receive, guarded)


async def _body(request: Request) -> Any:
    if request.headers.get("content-type", "").split(";")[0] != "application/json":
        raise ParameterError("The body must be JSON.")
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > LARGEST_BODY:
            raise ParameterError(f"The body must have at most {LARGEST_BODY:,} bytes.")
    try:
        given = parse_json(bytes(data) or b"{}", "The body")
    except NearerError:
        raise
    except (ValueError, RecursionError) as error:
        raise ParameterError(f"The body must be JSON: {error}.") from error
    if given is None:
        return {}  # what the page sends where there is nothing to say
    if not isinstance(given, dict):
        raise ParameterError(f"The body must be a JSON object, got {type(given).__name__}.")
    return given


def _known(session: Session, item: int) -> int:
    return check_int(item, "item", minimum=0, maximum=session.items.n - 1)


def _asset(name: str) -> bytes:
    file = resources.files("nearer.app.explorer") / "assets" / name
    if not file.is_file():
        raise ParameterError(f"The page has not been built: {name} is missing. Run: make page")
    return file.read_bytes()
