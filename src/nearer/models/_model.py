"""A learned metric as one thing: raw items in, embeddings out, with everything that is known about it.

```
model/
  manifest.json            format, library, method, parameters, data fingerprint, scores; sha256 of every file
  parameters.safetensors   the tensors
  README.md                the model card: raw beside learned, how it was made
  *.png, log.csv           pictures and the training log, where there are any
```

Loading runs no code that came with the folder: classes are named, only those of nearer are known, and the tensors
are safetensors.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from nearer._storage import read_folder, write_folder
from nearer._validation import as_tensor, check_choice, check_int
from nearer.datasets import Dataset, Split
from nearer.exceptions import CorruptFileError, ShapeError
from nearer.geometry import embed
from nearer.geometry._loading import REFUSED, build
from nearer.geometry._saving import description

__all__ = ["Inputs", "Model", "load"]

FORMAT = "nearer.model"
VERSION = 1


@dataclass(frozen=True)
class Inputs:
    """What a model takes: rows of named features, or images of one size."""

    kind: Literal["features", "images"]
    names: tuple[str, ...] = ()
    """The feature columns in their order; empty when they have no names."""
    size: tuple[int, ...] = ()
    """(p,) for features, (channels, height, width) for images."""

    def of(self, data: Dataset, part: str = "all") -> NDArray[np.float32]:
        """The items of a data set as the model wants them: its columns, in its order, or its size of image."""
        split = data[part]
        if self.kind == "images":
            return self.images(split)
        if split.x.dtype.kind == "U":
            raise ShapeError(f"The model takes {self.size[0]} features, got a folder of images.")
        rows = split.matrix()
        if self.names and data.feature_names and data.feature_names != self.names:
            missing = [name for name in self.names if name not in data.feature_names]
            if missing:
                raise ShapeError(
                    f"The data must have the {len(self.names)} columns of the model, and {', '.join(missing[:5])} "
                    f"{'is' if len(missing) == 1 else 'are'} missing."
                )
            place = {name: number for number, name in enumerate(data.feature_names)}
            rows = rows[:, [place[name] for name in self.names]]
        if rows.shape[1:] != self.size:
            raise ShapeError(f"The model takes {self.size[0]} features, got {rows.shape[1]}.")
        return rows

    def images(self, split: Split) -> NDArray[np.float32]:
        """Images (n, channels, h, w) between 0 and 1; colours become grey where the model is for grey ones."""
        channels, *side = self.size
        files = split.x.dtype.kind == "U"
        images = split.images(size=(side[0], side[1])) if files else split.images()
        if channels == 1 and images.shape[1] == 3:
            images = _gray(images)
        if images.shape[1:] != self.size:
            raise ShapeError(f"The model takes images of shape {self.size}, got {images.shape[1:]}.")
        return images


def _gray(images: NDArray[np.float32]) -> NDArray[np.float32]:
    """Luma of colour images, (n, 3, h, w) -> (n, 1, h, w)."""
    weights = np.array([0.299, 0.587, 0.114], dtype=np.float32).reshape(1, 3, 1, 1)
    gray: NDArray[np.float32] = (images * weights).sum(axis=1, keepdims=True)
    return gray


@dataclass(eq=False)
class Model:
    """An encoder with what it takes, how it was learnt and what it scored.

    >>> from nearer.geometry import Mahalanobis
    >>> model = Model(Mahalanobis.from_factor([[2.0], [0.0]]), Inputs("features", size=(2,)), method="by hand")
    >>> model.transform([[1.0, 5.0]])
    array([[2.]], dtype=float32)
    """

    encoder: nn.Module
    inputs: Inputs
    method: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    """Name, fingerprint and counts of what it was learnt from."""
    scores: Mapping[str, Any] = field(default_factory=dict)
    """The comparison of raw features and learned metric on held-out items, as JSON."""
    command: str = ""
    """What to type to make it again."""

    def transform(self, items: Any, *, batch_size: int = 512) -> NDArray[np.float32]:
        """The embeddings of items, (n, ...) -> (n, d); nearness is Euclidean distance between them."""
        if getattr(items, "dtypes", None) is not None:
            # A frame with columns of several types: numbers all the same.
            items = items.astype(np.float32)
        rows = embed(self.encoder, as_tensor(items, "items").to(torch.float32), batch_size=batch_size)
        return rows.cpu().numpy().astype(np.float32, copy=False)

    def embed(self, data: Dataset, part: str = "all") -> NDArray[np.float32]:
        """The embeddings of a data set, its columns found by name."""
        return self.transform(self.inputs.of(data, part))

    def save(self, path: str | os.PathLike[str], *, pages: Mapping[str, bytes] | None = None) -> Path:
        """Write the model folder, whole or not at all; `pages` are files for people, such as README.md."""
        metadata = {
            "encoder": description(self.encoder),  # type: ignore[arg-type]
            "inputs": {"kind": self.inputs.kind, "names": list(self.inputs.names), "size": list(self.inputs.size)},
            "method": self.method,
            "parameters": dict(self.parameters),
            "classes": list(self.classes),
            "data": dict(self.data),
            "scores": dict(self.scores),
            "command": self.command,
        }
        return write_folder(
            path,
            format=FORMAT,
            version=VERSION,
            tensors={"parameters": self.encoder.state_dict()},
            metadata=metadata,
            pages=pages,
        )


def load(path: str | os.PathLike[str]) -> Model:
    """The model that was saved in a folder, after checking every byte of it.

    >>> import tempfile
    >>> from nearer.geometry import Mahalanobis
    >>> model = Model(Mahalanobis.from_factor([[2.0]]), Inputs("features", size=(1,)), method="by hand")
    >>> load(model.save(tempfile.mkdtemp() + "/model")).method
    'by hand'
    """
    folder = read_folder(path, format=FORMAT, version=VERSION)
    about = folder.metadata
    try:
        with torch.device("meta"):
            encoder = build(about["encoder"])
        encoder.load_state_dict(folder.tensors["parameters"], assign=True)
        inputs = about["inputs"]
        return Model(
            encoder.eval(),
            _inputs(inputs["kind"], inputs["names"], inputs["size"]),
            str(about["method"]),
            dict(about["parameters"]),
            tuple(str(name) for name in about["classes"]),
            dict(about["data"]),
            dict(about["scores"]),
            str(about["command"]),
        )
    except REFUSED as error:
        reason = " ".join(str(error).split()).rstrip(". ")
        raise CorruptFileError(
            f"`{os.fspath(path)}` must hold a model of nearer with fitting parameters: {reason}. Update nearer if "
            f"a newer one wrote it."
        ) from error


def _inputs(kind: Any, names: list[Any], size: list[Any]) -> Inputs:
    check_choice(kind, "kind", ["features", "images"])
    lengths = tuple(check_int(length, "size") for length in size)
    if len(lengths) != (1 if kind == "features" else 3):
        raise ShapeError(
            f"`size` must be (p,) for features or (channels, height, width) for images, got {lengths}."
        )
    if names and len(names) != lengths[0]:
        raise ShapeError(f"`names` must name the {lengths[0]} features, got {len(names)}.")
    return Inputs(kind, tuple(str(name) for name in names), lengths)
