"""What a client is told when something does not work: a status, a code, a sentence, and no path of the server."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from nearer.exceptions import (
    CorruptFileError,
    LabelError,
    LimitError,
    LockedError,
    MissingDataError,
    NearerError,
    NotFiniteError,
    ParameterError,
    ShapeError,
    WriteError,
)

# Two or more words joined by slashes are a path, wherever they come from.
_PATH = re.compile(r"`?(?:[A-Za-z]:)?(?:[\\/][\w.\-~+@%]+){2,}[\\/]?`?|\b\w+://[^\s`'\"]+")
_REFUSED = (ShapeError, NotFiniteError, ParameterError, LabelError, LimitError)


class Refusal(Exception):
    """An answer that is no success.

    >>> Refusal(404, "unknown_id", "There is no item 7.").status
    404
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        retry_after: int | None = None,
        headers: Sequence[tuple[bytes, bytes]] = (),
        **extra: Any,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.retry_after = retry_after
        self.headers = list(headers)
        if retry_after is not None:
            self.headers.append((b"retry-after", str(retry_after).encode()))
        self.extra = extra

    def body(self, request: str) -> bytes:
        """The JSON that the client gets."""
        error = {"code": self.code, "message": without_paths(self.message), "request": request}
        return msgspec.json.encode({"error": error, **self.extra})


def without_paths(text: str) -> str:
    """A message without the folders and addresses of this machine.

    >>> without_paths("`/srv/data/index` must be a folder")
    '(a path) must be a folder'
    """
    return _PATH.sub("(a path)", text)


def refusal_of(error: BaseException) -> Refusal:
    """The answer for an error of the library; anything unknown is a defect, and says nothing about itself.

    >>> refusal_of(ShapeError("`queries` must have 3 columns, got 2.")).status
    422
    """
    if isinstance(error, Refusal):
        return error
    if isinstance(error, WriteError):
        return Refusal(507, "not_written", "The change could not be written to disk, and is not made.")
    if isinstance(error, LockedError):
        return Refusal(503, "locked", "Another process writes the index at this moment.", retry_after=1)
    if isinstance(error, CorruptFileError | MissingDataError):
        return Refusal(503, "index_unavailable", "The index cannot be read now.", retry_after=5)
    if isinstance(error, _REFUSED):
        return Refusal(422, "refused", str(error))
    if isinstance(error, NearerError | ConnectionError | TimeoutError):
        return Refusal(
            503,
            "engine_unavailable",
            "The engine behind the index does not answer. A change may have been made: look before you add again.",
            retry_after=5,
        )
    return Refusal(500, "defect", "An unexpected error; the log of the server has it under this request.")
