"""The client: one connection that is kept, and a request that is repeated where repeating does no harm."""

from __future__ import annotations

import http.client
import json
import mimetypes
import os
import random
import ssl
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, urlencode, urlsplit

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearer._checks import check_int, check_number
from nearer._plain import as_plain, table_rows
from nearer.exceptions import MissingDataError, NearerError, ParameterError

Id = int | str
BINARY = "application/octet-stream"
JSON = "application/json"
LONGEST_WAIT = 30.0
# Reasons of a 503 that a server gives before it has begun anything.
NOT_BEGUN = ("locked", "stopping")


class ServerError(NearerError):
    """The server refused a request, or cannot be reached; `status` is that of HTTP, 0 if nothing came back.

    Args:
        message: what the server said.
        status: of HTTP.
        code: the short name of the reason, such as "unknown_id".
        answer: the whole answer.
    """

    def __init__(self, message: str, *, status: int = 0, code: str = "", answer: Any = None) -> None:
        super().__init__(message)
        self.status, self.code, self.answer = status, code, answer


@dataclass(frozen=True)
class Found:
    """One found item; a smaller distance is nearer.

    >>> Found(17, distance=0.5, similarity=-0.5, metadata={"label": "b"}).id
    17
    """

    id: Id
    distance: float
    similarity: float
    metadata: Mapping[str, Any] = field(default_factory=dict)


class Client:
    """A server of `nearer serve`, as Python functions.

    A request that did not reach the server, or that it was too busy for (429, 503), is sent again after a growing
    pause, and after what Retry-After says. A write that may have been made, because the connection or the engine
    behind the server was lost, is repeated only where that changes nothing: `upsert` and `remove`; `add` then
    raises, and the caller decides. Not for several threads at once: give each its own client.

    Args:
        url: such as "http://127.0.0.1:8080".
        token: a bearer token; by default the variable NEARER_TOKEN.
        timeout: seconds to wait for an answer.
        retries: how often a request is repeated.
        verify: a PEM file with the certificate to trust, for servers with one of their own.

    >>> Client("http://127.0.0.1:8080", retries=0).url
    'http://127.0.0.1:8080'
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout: float = 30.0,
        retries: int = 5,
        verify: str | os.PathLike[str] | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ParameterError(f"`url` must be http://host:port or https://host:port, got {url!r}.")
        self.url = url.rstrip("/")
        self._base = parts.path.rstrip("/")
        self._token = token if token is not None else os.environ.get("NEARER_TOKEN")
        self._timeout = check_number(timeout, "timeout", above=0.0)
        self._retries = check_int(retries, "retries", minimum=0)
        if parts.scheme == "https":
            context = ssl.create_default_context(cafile=None if verify is None else os.fspath(verify))
            self._connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                parts.hostname, parts.port, timeout=self._timeout, context=context
            )
        else:
            self._connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=self._timeout)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *about: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connection back."""
        self._connection.close()

    def embed(self, items: Any) -> NDArray[np.float32]:
        """The embeddings of items, (n, d): rows of numbers (an array is sent as float32), table rows (a DataFrame
        or dictionaries), texts, or the paths of photos, each of which is a request.
        """
        photos = _photos(items)
        if photos is not None:
            return np.concatenate([self._embed(photo.read_bytes(), kind) for photo, kind in photos])
        return self._embed(*_items(items))

    def _embed(self, body: bytes, content: str) -> NDArray[np.float32]:
        answer = self._request("POST", "/embed", body, content, accept=BINARY)
        rows: NDArray[np.float32] = np.frombuffer(answer[0], dtype="<f4").astype(np.float32)
        return rows.reshape(tuple(int(size) for size in answer[1]["x-nearer-shape"].split(",")))

    def search(
        self,
        items: Any = None,
        *,
        vectors: ArrayLike | None = None,
        k: int = 10,
        where: Mapping[str, Any] | None = None,
    ) -> list[list[Found]]:
        """The k nearest items for each of `items`, which the model embeds first, or of `vectors`."""
        if (items is None) == (vectors is None):
            raise ParameterError("Give either `items` or `vectors`.")
        if items is not None and _photos(items) is not None:
            items, vectors = None, self.embed(items)
        if vectors is not None and where is None:
            rows = np.ascontiguousarray(vectors, dtype="<f4")
            answer = self._request("POST", "/search?" + urlencode({"k": k}), rows.tobytes(), BINARY)
        else:
            asked: dict[str, Any] = {"k": k, "where": as_plain(where)}
            asked |= {"items": _plain(items)} if vectors is None else {"vectors": np.asarray(vectors).tolist()}
            answer = self._request("POST", "/search", json.dumps(asked).encode(), JSON)
        return [[Found(**hit) for hit in row] for row in json.loads(answer[0])["results"]]

    def similar(self, id: Id, *, k: int = 10) -> list[Found]:
        """The k nearest other items of one that is in the index."""
        path = f"/similar/{quote(str(id), safe='')}?" + urlencode({"k": k})
        return [Found(**hit) for hit in json.loads(self._request("GET", path)[0])["results"]]

    def add(
        self, items: Any = None, *, vectors: ArrayLike | None = None, ids: Any = None, metadata: Any = None
    ) -> list[Id]:
        """Add items; they are on the disk of the server when this returns. Known ids are an error."""
        return self._keep("add", items, vectors, ids, metadata)

    def upsert(
        self, items: Any = None, *, ids: Any, vectors: ArrayLike | None = None, metadata: Any = None
    ) -> list[Id]:
        """Add items or put them in the place of those with these ids."""
        return self._keep("upsert", items, vectors, ids, metadata)

    def _keep(self, mode: Literal["add", "upsert"], items: Any, vectors: Any, ids: Any, metadata: Any) -> list[Id]:
        if (items is None) == (vectors is None):
            raise ParameterError("Give either `items` or `vectors`.")
        if items is not None and _photos(items) is not None:
            raise ParameterError(
                "`items` must be rows of numbers, table rows or texts. Embed photos first: "
                "add(vectors=client.embed(photos))."
            )
        asked: dict[str, Any] = {
            "mode": mode,
            "metadata": as_plain(metadata) if (rows := table_rows(metadata)) is None else rows,
        }
        asked["ids"] = None if ids is None else np.asarray(ids, dtype=object).tolist()
        asked |= {"items": _plain(items)} if vectors is None else {"vectors": np.asarray(vectors).tolist()}
        body = json.dumps(asked).encode()
        answer = self._request("POST", "/items", body, JSON, again=mode == "upsert")
        return json.loads(answer[0])["ids"]

    def remove(self, id: Id) -> bool:
        """Remove an item; False if an earlier try of this call had removed it."""
        try:
            self._request("DELETE", f"/items/{quote(str(id), safe='')}")
        except ServerError as error:
            if error.status == 404 and getattr(error, "repeated", False):
                return False
            raise
        return True

    def remove_many(self, ids: Iterable[Id]) -> int:
        """Remove items, and return how many of them were there."""
        body = json.dumps({"ids": np.asarray(list(ids), dtype=object).tolist()}).encode()
        return int(json.loads(self._request("POST", "/remove", body, JSON)[0])["removed"])

    def get(self, id: Id) -> dict[str, Any]:
        """An item as it is kept: its `id`, its `vector` and its `metadata`."""
        return json.loads(self._request("GET", f"/items/{quote(str(id), safe='')}")[0])

    def same(self, first: Any, second: Any) -> dict[str, Any]:
        """Whether two items are the same, by the calibration of the model; see `ServerError.answer` without one."""
        body = json.dumps({"items": [*_plain([first]), *_plain([second])]}).encode()
        return json.loads(self._request("POST", "/same", body, JSON)[0])

    def status(self) -> dict[str, Any]:
        """The load of the server."""
        return json.loads(self._request("GET", "/status")[0])

    def ready(self) -> bool:
        """Whether the server takes requests now."""
        try:
            self._send("GET", "/ready", b"", JSON, "")
        except (OSError, http.client.HTTPException, ServerError):
            self._connection.close()
            return False
        return True

    def reload(self) -> dict[str, Any]:
        """Let the server open its model and its index again."""
        return json.loads(self._request("POST", "/reload", b"{}", JSON)[0])

    def _request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        content: str = JSON,
        *,
        accept: str = "",
        again: bool = True,
    ) -> tuple[bytes, Mapping[str, str]]:
        """Send until there is an answer; `again` says whether a request that may have arrived can be repeated."""
        for attempt in range(self._retries + 1):
            try:
                return self._send(method, path, body, content, accept)
            except ServerError as error:
                error.repeated = attempt > 0  # type: ignore[attr-defined]
                if error.status not in (429, 503) or attempt == self._retries:
                    raise
                if not again and error.status == 503 and error.code not in NOT_BEGUN:
                    # The engine may have lost its answer, not the change: a second try could make it twice.
                    error.args = (f"{error} It may have been done; look before you repeat it.",)
                    raise
                pause = float((error.answer or {}).get("retry_after", 0))
            except (OSError, http.client.HTTPException) as error:
                self._connection.close()
                arrived = not isinstance(error, ConnectionRefusedError)
                if attempt == self._retries or (arrived and not again):
                    more = "" if again or not arrived else " It may have been done; look before you repeat it."
                    raise ServerError(
                        f"{self.url} does not answer: {error or type(error).__name__}.{more}"
                    ) from error
                pause = 0.0
            # Clients that were turned away together should not come back together.
            time.sleep(min(LONGEST_WAIT, max(pause, 0.05 * 2**attempt) * random.uniform(0.75, 1.25)))
        raise AssertionError("the last attempt returns or raises")

    def _send(
        self, method: str, path: str, body: bytes, content: str, accept: str
    ) -> tuple[bytes, Mapping[str, str]]:
        headers = {"content-type": content, "accept": accept or JSON}
        if self._token:
            headers["authorization"] = f"Bearer {self._token}"
        self._connection.request(method, self._base + path, body or None, headers)
        answer = self._connection.getresponse()
        data = answer.read()
        fields = {name.lower(): value for name, value in answer.getheaders()}
        if answer.status < 300:
            return data, fields
        try:
            document = json.loads(data)
            about = document["error"]
        except (ValueError, KeyError, TypeError):
            document, about = {}, {"code": "", "message": f"an answer with status {answer.status}"}
        if fields.get("retry-after", "").isdigit():
            document["retry_after"] = int(fields["retry-after"])
        raise ServerError(
            f"{about['message']} (HTTP {answer.status})", status=answer.status, code=about["code"], answer=document
        )


def _items(items: Any) -> tuple[bytes, str]:
    """The body of items: arrays of numbers as float32, anything else as JSON."""
    if isinstance(items, np.ndarray) and items.dtype.kind in "fiu" and items.ndim >= 2:
        return np.ascontiguousarray(items, dtype="<f4").tobytes(), BINARY
    return json.dumps({"items": _plain(items)}).encode(), JSON


def _photos(items: Any) -> list[tuple[Path, str]] | None:
    """The files and their kinds, where all items are paths of photos: paths, or texts that name such files."""
    if not isinstance(items, list | tuple) or not items or not all(isinstance(item, str | Path) for item in items):
        return None
    photos = []
    for item in items:
        kind = mimetypes.guess_type(os.fspath(item))[0] or ""
        path = Path(item).expanduser()
        if isinstance(item, Path) and not path.is_file():
            raise MissingDataError(f"`{item}` must be a photo, and there is no such file.")
        if not kind.startswith("image/") or not path.is_file():
            return None
        photos.append((path, kind))
    return photos


def _plain(items: Any) -> list[Any]:
    """Items as JSON writes them; what is missing (NaN, NaT, NA) is null."""
    if isinstance(items, str | Mapping):
        raise ParameterError("`items` must be a list of items, got one of them. Write [item].")
    rows = table_rows(items)
    if rows is not None:
        return rows
    return [as_plain(row) for row in (items.tolist() if hasattr(items, "tolist") else items)]
