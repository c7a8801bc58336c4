"""The description of the API (OpenAPI 3.1), from the table of endpoints and the msgspec structures in it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from nearer import __version__
from nearer.app.server._messages import JSON, LONGEST_ID, ErrorAnswer

if TYPE_CHECKING:
    from nearer.app.server._endpoints import Endpoint

REFUSALS = {
    400: "The body is no JSON, or broke off.",
    401: "The token is missing or unknown.",
    403: "The token or the server may only read, or a page of another site asks for a change.",
    408: "The request took too long to arrive.",
    413: "The body or the number of rows is above the limit.",
    421: "The host is not this machine.",
    422: "The request does not fit: wrong dimension, not finite, unknown field.",
    429: "The queue is full; Retry-After says when to come back.",
    503: "The engine does not answer, or the server is stopping.",
}
ID = {
    "name": "id",
    "in": "path",
    "required": True,
    "description": "The id of an item.",
    "example": "0",
    "schema": {"type": "string", "minLength": 1, "maxLength": LONGEST_ID},
}


def describe(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """The OpenAPI document of all endpoints."""
    components: dict[str, Any] = {}
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, components)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "nearer",
            "version": __version__,
            "description": "A learned metric and an index of items: embed, search, add, remove, compare.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def _operation(endpoint: Endpoint, components: dict[str, Any]) -> dict[str, Any]:
    refusals = {**REFUSALS, **endpoint.refusals}
    if endpoint.request:
        refusals[415] = "The body must be of another type."
    operation: dict[str, Any] = {
        "operationId": endpoint.handler.__name__,
        "description": inspect.getdoc(endpoint.handler),
        "parameters": [ID] * endpoint.path.endswith("{id}") + _parameters(endpoint.query),
        "responses": {
            str(endpoint.status): {"description": "Done.", "content": _content(endpoint.answer, components)},
            **{
                str(status): {"description": reason, "content": _content({JSON: ErrorAnswer}, components)}
                for status, reason in refusals.items()
            },
        },
    }
    if endpoint.access == "write":
        operation["x-changes"] = True
    if endpoint.request:
        operation["requestBody"] = {"required": True, "content": _content(endpoint.request, components)}
        if endpoint.example is not None:
            operation["requestBody"]["content"][JSON]["example"] = endpoint.example
    return operation


def _content(kinds: Mapping[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    """The schema of each media type; those of the structures are added to the components."""
    content: dict[str, Any] = {}
    for media_type, kind in kinds.items():
        schema: dict[str, Any] = {"type": "string", "format": "binary"}
        if kind is not bytes:
            (schema,), parts = msgspec.json.schema_components([kind], ref_template="#/components/schemas/{name}")
            components.update(parts)
        content[media_type] = {"schema": schema}
    return content


def _parameters(query: type[msgspec.Struct] | None) -> list[dict[str, Any]]:
    """The fields of a structure as parameters of the query string."""
    if query is None:
        return []
    _, parts = msgspec.json.schema_components([query])
    properties = parts[query.__name__]["properties"]
    return [{"name": name, "in": "query", "schema": schema} for name, schema in properties.items()]
