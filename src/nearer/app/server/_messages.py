"""What comes in and goes out, as msgspec structures: they parse, they check, and they are the schema of the API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from nearer.app.server._problems import Refusal
from nearer.exceptions import NotFiniteError, ShapeError

Message = TypeVar("Message")
Given = TypeVar("Given")
Cell = float | str | bool | None
Item = list[float] | str | dict[str, Cell]
Vectors = Annotated[list[list[float]], Meta(min_length=1, description="Embeddings, one row each.")]
ItemList = Annotated[
    list[Item],
    Meta(
        min_length=1,
        description="What the model takes: rows of numbers, objects with the columns of its table, or texts.",
    ),
]
Id = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | str
Where = Annotated[dict[str, Any], Meta(description="Only items with these metadata values.")]

BINARY = "application/octet-stream"
JSON = "application/json"
LONGEST_ID = 1000


class SearchQuery(Struct):
    """What the query string of a search with a binary body or an image says; JSON says it in the body."""

    k: Annotated[int, Meta(ge=1, description="For binary bodies and images: how many.")] = 10
    of: Annotated[
        Literal["vectors", "items"],
        Meta(description="For binary bodies: vectors, or items to embed first."),
    ] = "vectors"


class SimilarQuery(Struct):
    """What the query string of /similar says."""

    k: Annotated[int, Meta(ge=1, description="How many.")] = 10


class EmbedRequest(Struct, forbid_unknown_fields=True):
    """Items to embed."""

    items: ItemList


class SearchRequest(Struct, forbid_unknown_fields=True):
    """Queries: items that the model embeds first, or vectors as they are; one of the two."""

    items: ItemList | None = None
    vectors: Vectors | None = None
    k: Annotated[int, Meta(ge=1)] = 10
    where: Where | None = None

    def __post_init__(self) -> None:
        _check_either(self.items, self.vectors, "`items` or `vectors`")


class ItemsRequest(Struct, forbid_unknown_fields=True):
    """Items to keep: what the model embeds first, or vectors as they are; one of the two."""

    items: ItemList | None = None
    vectors: Vectors | None = None
    ids: list[Id] | None = None
    metadata: list[dict[str, Any]] | None = None
    mode: Literal["add", "upsert"] = "add"

    def __post_init__(self) -> None:
        rows = len(_check_either(self.items, self.vectors, "`items` or `vectors`"))
        for name, values in (("ids", self.ids), ("metadata", self.metadata)):
            if values is not None and len(values) != rows:
                raise ValueError(f"`{name}` must have one entry for each of the {rows} rows")
        if self.mode == "upsert" and self.ids is None:
            raise ValueError("`ids` must be given for mode upsert")


class RemoveRequest(Struct, forbid_unknown_fields=True):
    """The ids of items to remove; those that are not there are passed over."""

    ids: Annotated[list[Id], Meta(min_length=1)]


class SameRequest(Struct, forbid_unknown_fields=True):
    """Two items, or the ids of two that are in the index."""

    items: Annotated[list[Item], Meta(min_length=2, max_length=2)] | None = None
    ids: Annotated[list[Id], Meta(min_length=2, max_length=2)] | None = None

    def __post_init__(self) -> None:
        _check_either(self.items, self.ids, "`items` or `ids`, two of them")


def _check_either(first: list[Any] | None, second: list[Any] | None, names: str) -> list[Any]:
    """The one of two fields that is given; msgspec makes a refusal of the error."""
    if (first is None) == (second is None):
        raise ValueError(f"Give either {names}")
    return first or second or []


class EmbedAnswer(Struct):
    """One embedding per item."""

    vectors: list[list[float]]
    model: str


class SearchHit(Struct):
    """One found item; distance: smaller is nearer, similarity: larger is nearer."""

    id: int | str
    distance: float
    similarity: float
    metadata: dict[str, Any]


class SearchAnswer(Struct):
    """The nearest items of each query, nearest first."""

    results: list[list[SearchHit]]


class SimilarAnswer(Struct):
    """The nearest other items of one."""

    results: list[SearchHit]


class ItemsAnswer(Struct):
    """What is on disk now."""

    ids: list[int | str]
    count: int


class ItemAnswer(Struct):
    """One item as it is kept."""

    id: int | str
    vector: list[float]
    metadata: dict[str, Any]


class RemovedAnswer(Struct):
    """What is no longer there."""

    removed: int
    count: int


class SameAnswer(Struct):
    """The distance of two items and what the calibration says about it, with what promise."""

    answer: Literal["same", "different", "cannot say"]
    distance: float
    about: dict[str, Any]


class HealthAnswer(Struct):
    """The process runs, or is ready."""

    status: str


class ReloadAnswer(Struct):
    """What is served now."""

    model: str
    index: str
    count: int


class ErrorAbout(Struct):
    """Why a request was refused; `request` is its number in the log of the server."""

    code: str
    message: str
    request: str


class ErrorAnswer(Struct):
    """Any answer that is no success."""

    error: ErrorAbout


embed_decoder = msgspec.json.Decoder(EmbedRequest)
search_decoder = msgspec.json.Decoder(SearchRequest)
items_decoder = msgspec.json.Decoder(ItemsRequest)
remove_decoder = msgspec.json.Decoder(RemoveRequest)
same_decoder = msgspec.json.Decoder(SameRequest)


def decode(read: Callable[[Given], Message], given: Given) -> Message:
    """A message, as a decoder of msgspec reads it; text that is no JSON is a 400, JSON of another form a 422."""
    try:
        return read(given)
    except msgspec.ValidationError as error:
        raise Refusal(422, "invalid", f"{error}.") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal(400, "not_json", f"The body must be JSON: {error}.") from error


def matrix(rows: list[list[float]], name: str, columns: int | None = None) -> NDArray[np.float32]:
    """Rows of numbers as (n, d) float32, finite; `columns` is how long they must be.

    >>> matrix([[1.0, 2.0]], "vectors").shape
    (1, 2)
    """
    width = len(rows[0])
    for number, row in enumerate(rows):
        if len(row) != width:
            raise ShapeError(f"`{name}` must have rows of one length, got {width} and {len(row)} (row {number}).")
    return checked(np.array(rows, dtype=np.float64).reshape(len(rows), width), name, columns)


def checked(rows: NDArray[Any], name: str, columns: int | None = None) -> NDArray[np.float32]:
    """Rows (n, d) as finite float32 of `columns` columns."""
    if rows.shape[1] == 0 or (columns is not None and rows.shape[1] != columns):
        wanted = f"{columns} numbers" if columns is not None else "a number"
        raise ShapeError(f"`{name}` must have {wanted} in each row, got {rows.shape[1]}.")
    with np.errstate(over="ignore", invalid="ignore"):
        numbers = rows.astype(np.float32, copy=False)
        # One sum says whether all are finite; what overflows it is looked at again.
        if not np.isfinite(numbers.sum(dtype=np.float64)) and not np.isfinite(numbers).all():
            row = int(np.flatnonzero(~np.isfinite(numbers).all(axis=1))[0])
            raise NotFiniteError(f"`{name}` must be finite numbers within float32, row {row} is not.")
    return numbers


def binary(body: bytes, columns: int, name: str) -> NDArray[np.float32]:
    """Rows from little-endian float32, one after the other.

    >>> binary(np.ones(4, "<f4").tobytes(), 2, "vectors").tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    if not body or len(body) % (4 * columns):
        raise ShapeError(
            f"`{name}` as {BINARY} must be rows of {columns} little-endian float32 ({4 * columns} bytes each), got "
            f"{len(body)} bytes."
        )
    return checked(np.frombuffer(body, dtype="<f4").reshape(-1, columns), name)
