"""What is served: a model and an index that fit together, opened again when asked; and items through the model."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nearer.app.server._messages import matrix
from nearer.app.server._settings import Settings
from nearer.datasets import Split
from nearer.datasets._frame import Column, Frame, read_cells
from nearer.datasets._image_files import crop_image, load_image
from nearer.exceptions import CorruptFileError, MissingDataError, ParameterError, ShapeError
from nearer.index import open_index
from nearer.models import Model
from nearer.models._saved import load

Floats = NDArray[np.float32]


def features_of(model: Model, items: Sequence[Any] | Floats) -> Floats:
    """What the encoder of the model takes, (n, ...): from rows of numbers, table rows or texts."""
    size = model.inputs.size
    if isinstance(items, np.ndarray):
        return items.reshape(len(items), *size)
    kinds = {type(item) for item in items}
    if kinds == {list}:
        rows = matrix(items, "items")  # type: ignore[arg-type]
        if rows.shape[1] == math.prod(size):
            return rows.reshape(len(rows), *size)
        return model.features(rows, raw=False)
    if kinds == {str}:
        front = model.inputs.encoder
        if front is None or front.kind != "texts":
            raise ParameterError("`items` must be rows of numbers or table rows: the model takes no texts.")
        return model.features(list(items), raw=False)
    if kinds == {dict}:
        if model.inputs.encoder is not None:
            raise ParameterError(f"`items` must be {model.inputs.encoder.kind}: the model takes no table rows.")
        return model.inputs.of(model.inputs.read(_frame(items)))
    raise ShapeError("`items` must be all of one kind: rows of numbers, objects, or texts.")


def _frame(records: Sequence[dict[str, Any]]) -> Frame:
    """Objects as columns; a name that one of them lacks is an empty cell."""
    names = list(dict.fromkeys(name for record in records for name in record))
    columns: dict[str, Column] = {}
    for name in names:
        cells = [record.get(name) for record in records]
        kinds = {type(cell) for cell in cells if cell is not None}
        if kinds == {bool} or kinds == {float}:
            values = np.array([np.nan if cell is None else float(cell) for cell in cells])
            columns[name] = Column("flag" if kinds == {bool} else "number", values)
        else:
            columns[name] = read_cells(cells)
    if not columns:
        raise ShapeError("`items` must have columns, got empty objects.")
    return Frame(columns)


def features_of_image(model: Model, body: bytes) -> Floats:
    """One photo, as the bytes of its file."""
    front, inputs = model.inputs.encoder, model.inputs
    if inputs.kind != "images" and (front is None or front.kind != "photos"):
        raise ParameterError("The model takes no photos. Send its features, table rows or texts as JSON.")
    try:
        photo = load_image(io.BytesIO(body))  # type: ignore[arg-type]
    except (CorruptFileError, MissingDataError) as error:
        raise ShapeError("The body must be a whole image (PNG, JPEG, ...), and cannot be read as one.") from error
    if inputs.kind == "images":
        height, width = inputs.size[1:]
        return inputs.images(Split(crop_image(photo, (height, width))[None], np.array([-1])))
    return model.features(photo[None], raw=False)


def through(model: Model, features: Floats, *, side: Literal["queries", "database"] = "queries") -> Floats:
    """The embeddings of features, (n, ...) -> (n, d); `side` matters to an asymmetric model alone."""
    return model.transform(np.ascontiguousarray(features), side=side)


EXAMPLES: dict[str, Any] = {"date": "2024-02-01", "text": "some words", "categories": "a word"}


def example_of(model: Model) -> Any:
    """An item as JSON that the model takes, to show; None where it takes photos."""
    inputs, front = model.inputs, model.inputs.encoder
    if inputs.kind == "images" or (front is not None and front.kind == "photos"):
        return None
    if front is not None:
        return "some text"
    if inputs.cleaning is None:
        size = math.prod(inputs.size)
        return dict.fromkeys(inputs.names, 0.0) if inputs.names else [0.0] * size
    cells: dict[str, Any] = {}
    for column in inputs.cleaning.columns:
        if column.rule in ("number", "flag"):
            cells[column.name] = float(f"{column.fill:.4g}") if column.rule == "number" else bool(column.fill)
        elif column.rule != "left out":
            cells[column.name] = (*column.categories, EXAMPLES[column.rule])[0]
    return cells


@dataclass(frozen=True)
class Served:
    """A model and an index that was made with it."""

    model: Model
    index: Any
    dimension: int
    fingerprint: str
    identity: object


@dataclass(frozen=True)
class Place:
    """Where the model and the index are; `create` makes an index if there is none."""

    model: str
    index: str
    create: bool = False
    read_only: bool = False

    def open(self, *, before: Served | None = None) -> Served:
        """Load the model, and the index unless it is the one that is open already."""
        model = load(self.model)
        dimension = through(model, np.zeros((1, *model.inputs.size), np.float32)).shape[1]
        fingerprint = model.fingerprint
        identity = self._identity()
        if before is not None and identity is not None and identity == before.identity:
            if before.fingerprint != fingerprint:
                raise ParameterError(
                    "The index must be made by the model, and the new model is another one than that of the open "
                    "index. Build an index with the new model, put both in their places, and reload."
                )
            return Served(model, before.index, dimension, fingerprint, identity)
        # A mistyped path must not be an empty index, and what has gone must not be one after a reload.
        make = dimension if self.create and before is None else None
        try:
            beside = self.read_only and "://" not in self.index
            index = open_index(self.index, dimension=make, fingerprint=fingerprint, read_only=beside)
        except MissingDataError as error:
            if error.argument != "dimension":
                raise
            raise MissingDataError(
                f"There must be an index at `{self.index}`, and there is none. Check the address; `create=True` "
                "makes an empty index."
            ) from error
        if index.dimension != dimension:
            width = index.dimension
            index.close()
            raise ParameterError(
                f"The index must hold embeddings of the model, which have {dimension} numbers; its have {width}."
            )
        if index.count():
            # The first search loads libraries and touches the rows; no client should wait for that.
            index.search(np.ones((1, dimension), np.float32), k=1)
        # Asked for again: a new index had none before.
        return Served(model, index, dimension, fingerprint, self._identity())

    def _identity(self) -> object:
        """What tells one index from another; None for engines and for what others write: opened again always."""
        if "://" in self.index or self.read_only:
            return None
        status = Path(self.index).expanduser().stat() if Path(self.index).expanduser().exists() else None
        return None if status is None else (status.st_dev, status.st_ino)


def place_of(model: Any, index: Any, settings: Settings, *, create: bool = False) -> Place:
    """Where to serve from, if it can be served so."""
    if not str(index):
        raise ParameterError("`index` must be a folder or a URL, got nothing.")
    where = os.fspath(index)
    if settings.workers > 1 and not settings.read_only and not where.startswith("postgres"):
        raise ParameterError(
            f"`workers` must be 1 for `{where}`, which one process can write. Serve it with `read_only=True`, or "
            "copy it into PostgreSQL first."
        )
    if create and settings.read_only:
        raise ParameterError("`create` must be left out with `read_only=True`, which makes nothing.")
    return Place(os.fspath(model), where, create, settings.read_only)
