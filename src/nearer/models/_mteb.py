"""A model as MTEB, the benchmark of embeddings, asks for it: texts or photos in, rows and their similarity out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nearer._validation import as_tensor
from nearer.exceptions import MissingDataError, ParameterError
from nearer.models._model import Model


class MTEBEncoder:
    """Queries and documents by their own side of the model; similarity is minus the distance."""

    def __init__(self, model: Model, name: str) -> None:
        front = model.inputs.encoder
        if front is None:
            raise ParameterError("`to_mteb` needs a model of texts or of photos: MTEB has no tables.")
        try:
            from mteb.models.model_meta import ModelMeta, ScoringFunction
        except ImportError as error:
            raise MissingDataError("`to_mteb` needs a package. Run: pip install 'nearer[mteb]'") from error
        self.model, self.front = model, front.without_raw()
        self.column = "text" if front.kind == "texts" else "image"
        about = {"name": name, "revision": model.fingerprint, "framework": ["PyTorch"]}
        self.mteb_model_meta = ModelMeta.create_empty(
            {**about, "similarity_fn_name": ScoringFunction.EUCLIDEAN, "modalities": [self.column]}
        )

    def encode(
        self, inputs: Iterable[Mapping[str, Any]], *, prompt_type: Any = None, **others: Any
    ) -> NDArray[np.float32]:
        """The embeddings of batches of items, (n, d)."""
        asked = getattr(prompt_type, "value", prompt_type)
        side: Literal["queries", "database"] = "database" if asked == "document" else "queries"
        items = [item for batch in inputs for item in batch[self.column]]
        if self.column == "image":
            items = [np.asarray(item.convert("RGB")) for item in items]
        return self.model.transform(self.front.features(items, progress=False), side=side)

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Tensor:
        """Minus the distance of every row to every row, (n, m)."""
        return -torch.cdist(as_tensor(embeddings1, "embeddings1"), as_tensor(embeddings2, "embeddings2"))

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Tensor:
        """Minus the distance of row i to row i, (n,)."""
        between = as_tensor(embeddings1, "embeddings1") - as_tensor(embeddings2, "embeddings2")
        return -torch.linalg.vector_norm(between, dim=1)
