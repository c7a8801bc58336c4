"""The routes and their description: FastAPI finds the endpoint, and says what there is in /openapi.json."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Annotated, Any

import msgspec
from fastapi import FastAPI, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from nearer import __version__
from nearer.app.server import _messages as messages
from nearer.app.server._gate import Gate
from nearer.app.server._logs import Log
from nearer.app.server._messages import BINARY, JSON
from nearer.app.server._pages import DOCS, STATUS, policy
from nearer.app.server._problems import Problem, problem_of
from nearer.app.server._service import Answer, Call, Service
from nearer.app.server._settings import Settings
from nearer.app.server._state import Place
from nearer.exceptions import ParameterError

__all__ = ["create_app"]

FLUSH_SECONDS = 0.25
ERRORS: dict[int, str] = {
    400: "The body is no JSON, or broke off.",
    401: "The token is missing or unknown.",
    403: "The token may only read, or a page of another site asks for a change.",
    408: "The request took too long to arrive.",
    413: "The body or the number of rows is above the limit.",
    421: "The host is not this machine.",
    422: "The request does not fit: wrong dimension, not finite, unknown field.",
    429: "The queue is full; Retry-After says when to come back.",
    503: "The engine does not answer, or the server is stopping.",
}
COMPONENTS = "#/components/schemas/{name}"
Id = Annotated[str, Path(min_length=1, max_length=1000, description="The id of an item.")]


def create_app(
    model: str | os.PathLike[str],
    index: str | os.PathLike[str],
    *,
    settings: Settings | None = None,
    create: bool = False,
) -> Gate:
    """An ASGI application that serves a model and an index, for any ASGI server; `serve` runs it with uvicorn.

    Run it in one process: the embedded index has one writer.

    >>> import tempfile
    >>> import nearer
    >>> rows, labels = [[0.0, 1.0], [0.1, 0.9], [5.0, 5.0], [5.1, 4.9]] * 8, [0, 0, 1, 1] * 8
    >>> model = nearer.fit(rows, labels, metric="lfda")
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
    if not str(index):
        raise ParameterError("`index` must be a folder or a URL, got nothing.")
    service = Service(Place(os.fspath(model), os.fspath(index), create), settings, Log(settings.log))
    return Gate(service, _routes(service))


def _routes(service: Service) -> FastAPI:
    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        async def flush() -> None:
            while True:
                await asyncio.sleep(FLUSH_SECONDS)
                service.log.flush()

        flushing = asyncio.create_task(flush())
        service.log.event("started", model=service.served.fingerprint, items=service.served.index.count())
        service.log.flush()
        yield
        await service.stop()
        flushing.cancel()
        service.log.event("stopped")
        service.log.flush()

    app = FastAPI(
        title="nearer",
        version=__version__,
        description="A learned metric and an index of items: embed, search, add, remove, compare.",
        lifespan=life,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )

    def call_of(request: Request) -> Call:
        call: Call = request.scope["nearer.call"]
        return call

    async def told(request: Request, work: Awaitable[Answer]) -> Response:
        try:
            answer = await work
        except Exception as error:
            return refused(request, error)
        given = {name.decode(): value.decode() for name, value in answer.headers}
        return Response(answer.body, answer.status, given, answer.content)

    def refused(request: Request, error: Exception) -> Response:
        problem = problem_of(error)
        number = request.scope["nearer.request"]
        if problem.status == 500:
            service.log.defect(number, error)
        headers = {} if problem.retry_after is None else {"retry-after": str(problem.retry_after)}
        return Response(problem.body(number), problem.status, headers, JSON)

    @app.exception_handler(HTTPException)
    async def unknown(request: Request, error: HTTPException) -> Response:
        words = {404: ("unknown_path", "There is no such path."), 405: ("method", "The path has other methods.")}
        code, message = words.get(error.status_code, ("refused", str(error.detail)))
        answer = refused(request, Problem(error.status_code, code, message))
        answer.headers.update(error.headers or {})
        return answer

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        one = error.errors()[0]
        return refused(request, Problem(422, "invalid", f"`{one['loc'][-1]}`: {one['msg']}."))

    @app.post("/search", **_about(messages.SearchAnswer, messages.SearchRequest, binary=True, image=True))
    async def search(
        request: Request,
        k: Annotated[int, Query(ge=1, description="For binary bodies and images: how many.")] = 10,
        of: Annotated[str, Query(description="For binary bodies: vectors, or items to embed first.")] = "vectors",
    ) -> Response:
        """The nearest items of each query."""
        return await told(request, service.search(call_of(request)))

    @app.post("/embed", **_about(messages.EmbedAnswer, messages.EmbedRequest, binary=True, image=True))
    async def embed(request: Request) -> Response:
        """The embedding of each item; with Accept: application/octet-stream as float32 rows."""
        return await told(request, service.embed(call_of(request)))

    @app.post("/items", status_code=201, **_about(messages.ItemsAnswer, messages.ItemsRequest, status=201, more={
        409: "An id is there already.", 507: "The disk is full: nothing was changed."}))  # fmt: skip
    async def items(request: Request) -> Response:
        """Add or upsert items. They are on disk when the answer comes."""
        return await told(request, service.items(call_of(request)))

    @app.delete("/items/{id:path}", **_about(messages.RemovedAnswer, more={
        404: "There is no such item.", 415: "The body must be JSON.",
        507: "The disk is full: nothing was changed."}))  # fmt: skip
    async def remove(request: Request, id: Id) -> Response:
        """Remove an item. That is on disk when the answer comes."""
        return await told(request, service.remove(id))

    @app.get("/similar/{id:path}", **_about(messages.SimilarAnswer, more={404: "There is no such item."}))
    async def similar(
        request: Request, id: Id, k: Annotated[int, Query(ge=1, description="How many.")] = 10
    ) -> Response:
        """The nearest other items of an item in the index."""
        return await told(request, service.similar(id, call_of(request)))

    @app.post("/same", **_about(messages.SameAnswer, messages.SameRequest, more={
        404: "There is no such item.", 409: "The model has no calibration; `distance` is there."}))  # fmt: skip
    async def same(request: Request) -> Response:
        """Whether two items are the same, by the calibration of the model."""
        return await told(request, service.same(call_of(request)))

    @app.post("/reload", **_about(messages.ReloadAnswer, more={
        409: "What is there now does not fit.", 415: "The body must be JSON."}))  # fmt: skip
    async def reload(request: Request) -> Response:
        """Open the model and the index at their places again, without dropping a request."""
        return await told(request, service.reload())

    @app.get("/health", **_about(messages.HealthAnswer))
    async def health(request: Request) -> Response:
        """The process runs."""
        return await told(request, service.health())

    @app.get("/ready", **_about(messages.HealthAnswer))
    async def ready(request: Request) -> Response:
        """Requests are taken, and the index answers."""
        return await told(request, service.ready())

    @app.get("/metrics", **_about(str, content="text/plain"))
    async def metrics(request: Request) -> Response:
        """The figures for Prometheus."""
        return await told(request, service.metrics())

    @app.get("/status", **_about(dict[str, Any]))
    async def status(request: Request) -> Response:
        """The figures of the status page."""
        return await told(request, service.status())

    described: list[bytes] = []

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi(request: Request) -> Response:
        if not described:
            described.append(msgspec.json.encode(_schema(app)))
        return Response(described[0], media_type=JSON)

    @app.get("/", include_in_schema=False)
    async def status_page(request: Request) -> Response:
        return Response(STATUS, media_type="text/html", headers=policy(STATUS))

    @app.get("/docs", include_in_schema=False)
    async def docs_page(request: Request) -> Response:
        return Response(DOCS, media_type="text/html", headers=policy(DOCS))

    return app


def _about(
    answer: Any,
    request: Any = None,
    *,
    status: int = 200,
    content: str = JSON,
    binary: bool = False,
    image: bool = False,
    more: dict[int, str] | None = None,
) -> dict[str, Any]:
    """What FastAPI is told of a route whose bodies are read and written by msgspec."""
    errors = (
        ERRORS if request is not None else {c: ERRORS[c] for c in (400, 401, 403, 408, 413, 421, 422, 429, 503)}
    )
    if request is not None:
        errors = {**errors, 415: "The body must be of another type."}
    told: dict[int | str, dict[str, Any]] = {
        code: {"description": text, "content": {JSON: {"schema": _reference(messages.ErrorAnswer)}}}
        for code, text in {**errors, **(more or {})}.items()
    }
    kinds = {content: {"schema": _reference(answer)}}
    if binary and answer is messages.EmbedAnswer:
        kinds[BINARY] = {"schema": {"type": "string", "format": "binary"}}
    told[status] = {"description": "Done.", "content": kinds}
    extra: dict[str, Any] = {}
    if request is not None:
        bodies: dict[str, Any] = {JSON: {"schema": _reference(request)}}
        if binary:
            bodies[BINARY] = {"schema": {"type": "string", "format": "binary", "description": "float32 rows"}}
        if image:
            bodies["image/png"] = {"schema": {"type": "string", "format": "binary"}}
        extra["requestBody"] = {"required": True, "content": bodies}
    return {"responses": told, "openapi_extra": extra, "response_model": None, "response_class": Response}


def _reference(kind: Any) -> dict[str, Any]:
    (found,), _ = msgspec.json.schema_components([kind], ref_template=COMPONENTS)
    return found


def _schema(app: FastAPI) -> dict[str, Any]:
    """The description of the API, with the structures of msgspec among its components."""
    schema = app.openapi()
    classes = [kind for kind in vars(messages).values() if isinstance(kind, type)]
    kinds = [kind for kind in classes if issubclass(kind, msgspec.Struct) and kind is not msgspec.Struct]
    _, components = msgspec.json.schema_components(kinds, ref_template=COMPONENTS)
    found = schema.setdefault("components", {}).setdefault("schemas", {})
    found.update(components)
    for unused in ("HTTPValidationError", "ValidationError"):
        found.pop(unused, None)
    schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    schema["security"] = [{"token": []}, {}]
    return schema
