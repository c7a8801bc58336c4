"""An index with the model in front of it: the database map at `add`, the query map at `search`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from torch import nn

from nearer.exceptions import ParameterError
from nearer.index._items import Id
from nearer.index._vector_index import SearchResult, VectorIndex

# What is asked of the index itself, because it takes no item and gives none.
OWN = {
    "dimension",
    "similarity",
    "fingerprint",
    "made_by",
    "ids",
    "remove",
    "count",
    "embeddings",
    "metadata",
    "close",
}


@VectorIndex.register
class MappedIndex:
    """An index that takes items instead of embeddings; made by `open_index(..., model=...)`.

    A model with `transform_queries` and `transform_database` is asymmetric: each side has its own map, and a new
    map of queries needs no new index. Any other model maps both sides with `transform`.
    """

    def __init__(self, index: Any, model: Any) -> None:
        self.index = index
        self.model = model
        self._queries, self._database = maps_of(model)

    def __getattr__(self, name: str) -> Any:
        if name not in OWN:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.index, name)

    def __repr__(self) -> str:
        return f"{type(self.model).__name__} in front of {self.index!r}"

    def add(self, items: Any, ids: Any = None, metadata: Any = None) -> list[Id]:
        """As `Index.add`, of items that the database map takes."""
        return self.index.add(self._database(items), ids, metadata)

    def upsert(self, items: Any, ids: Any, metadata: Any = None) -> list[Id]:
        """As `Index.upsert`, of items that the database map takes."""
        return self.index.upsert(self._database(items), ids, metadata)

    def search(self, queries: Any, k: int = 10, *, where: Mapping[str, Any] | None = None) -> SearchResult:
        """As `Index.search`, of items that the query map takes."""
        return self.index.search(self._queries(queries), k, where=where)

    def __len__(self) -> int:
        return len(self.index)

    def __contains__(self, item_id: object) -> bool:
        return item_id in self.index

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *about: object) -> None:
        self.index.close()


def maps_of(model: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """The map of queries and the map of the database."""
    if hasattr(model, "transform_queries") and hasattr(model, "transform_database"):
        return model.transform_queries, model.transform_database
    if hasattr(model, "transform"):
        return model.transform, model.transform
    raise ParameterError(
        f"`model` must have `transform`, or `transform_queries` and `transform_database`; "
        f"{type(model).__name__} has not."
    )


def fingerprint_of(model: Any) -> str | None:
    """A name for what the database map does: that of the model, or of its parameters; None if it has neither.

    Of an asymmetric pair only the database map counts, because the query map may change alone.
    """
    given = getattr(model, "fingerprint", None)
    if isinstance(given, str):
        return given
    if not isinstance(model, nn.Module):
        return None
    digest = hashlib.sha256(type(model).__name__.encode())
    asymmetric = hasattr(model, "transform_database")
    for name, tensor in sorted(model.state_dict().items()):
        if asymmetric and name.split(".")[0] in ("query_factor", "query_encoder"):
            continue
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(tensor.detach().cpu().numpy()).tobytes())
    return digest.hexdigest()[:16]
