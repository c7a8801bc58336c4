"""What is served: a model and an index that fit together, opened from where they were named, and opened again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nearer.app.server._embedding import through
from nearer.exceptions import MissingDataError, ParameterError
from nearer.index import open_index
from nearer.models import Model
from nearer.models._model import load


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
            index = open_index(self.index, dimension=make, fingerprint=fingerprint)
        except MissingDataError as error:
            if error.argument != "dimension":
                raise
            raise MissingDataError(
                f"There must be an index at `{self.index}`, and there is none. Check the address; --create makes "
                "an empty index."
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
        """What tells one index from another at the same place; None for engines, which are always opened again."""
        if "://" in self.index:
            return None
        status = Path(self.index).expanduser().stat() if Path(self.index).expanduser().exists() else None
        return None if status is None else (status.st_dev, status.st_ino)
