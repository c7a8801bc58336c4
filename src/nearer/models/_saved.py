"""A model as a folder, whole or not at all, and back.

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

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from nearer._storage import MANIFEST, read_folder, write_folder
from nearer.exceptions import CorruptFileError, ParameterError
from nearer.geometry._shared import REFUSED, description, restored
from nearer.models._encoders import FrozenEncoder
from nearer.models._inputs import Inputs
from nearer.models._model import Model
from nearer.models._predicting import Votes
from nearer.models._reading import on_hub

FORMAT = "nearer.model"
VERSION = 1
# What is kept as it is, and of which kind it must be.
PLAIN: dict[str, Callable[[Any], Any]] = dict.fromkeys(("method", "command", "summary"), str)
PLAIN |= dict.fromkeys(("parameters", "data", "scores"), dict)
PLAIN["classes"] = lambda names: tuple(str(name) for name in names)


def save(model: Model, path: str | os.PathLike[str], pages: Mapping[str, bytes] | None) -> Path:
    """Write the folder of a model; `pages` are files for people, by default a card and a map."""
    if pages is None and model.fitted is not None:
        from nearer.models._card import card_pages

        pages = card_pages(model.fitted, name=Path(path).name)
    metadata = {name: kind(getattr(model, name)) for name, kind in PLAIN.items()} | {
        "encoder": description(model.encoder),  # type: ignore[arg-type]
        "inputs": model.inputs.to_dict(),
        "baseline": None if model.baseline is None else description(model.baseline),  # type: ignore[arg-type]
        "calibration": None if model.calibration is None else model.calibration.to_dict(),
        "votes": None if model.votes is None else model.votes.to_dict(),
    }
    front = model.inputs.encoder
    model.place = write_folder(
        path,
        format=FORMAT,
        version=VERSION,
        tensors={
            **({} if front is None or front.state is None else {"front": front.state}),
            "parameters": model.encoder.state_dict(),
            "baseline": {} if model.baseline is None else model.baseline.state_dict(),
            "trained_on": {"rows": torch.from_numpy(model.trained_on)},
            "votes": {} if model.votes is None else model.votes.to_tensors(),
        },
        metadata=metadata,
        pages=pages,
    )
    return model.place


def is_model(path: str | os.PathLike[str]) -> bool:
    """Whether a folder says that it is a model."""
    try:
        return bool(json.loads((Path(path) / MANIFEST).read_bytes())["format"] == FORMAT)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def load(path: str | os.PathLike[str], *, encoder: Any = None) -> Model:
    """The model that was saved in a folder, or is at an address `hf://owner/name` of the Hugging Face hub, after
    checking every byte of it.

    `encoder` gives back the module or function that it was fitted behind, which is not saved with it; without it
    the model takes features. Encoders from packages are found by their name.

    >>> import tempfile
    >>> from nearer.geometry import Mahalanobis
    >>> model = Model(Mahalanobis.from_factor([[2.0]]), Inputs("features", size=(1,)), method="by hand")
    >>> load(model.save(tempfile.mkdtemp() + "/model")).method
    'by hand'

    Args:
        path: the folder that `save` wrote, or `hf://owner/name`, with `@revision` a branch, tag or commit of it.
        encoder: the module or function that it was fitted behind.
    """
    if on_hub(path):
        from nearer.models._hub import downloaded_model

        with downloaded_model(path) as copy:
            model = load(copy, encoder=encoder)
        model.place = None
        return model
    folder = read_folder(path, format=FORMAT, version=VERSION)
    about = folder.metadata
    try:
        baseline = None if about["baseline"] is None else restored(about["baseline"], folder.tensors["baseline"])
        model = Model(
            restored(about["encoder"], folder.tensors["parameters"]),
            Inputs.from_dict(about["inputs"]),
            baseline=baseline,
            trained_on=folder.tensors["trained_on"]["rows"].to(torch.int64).reshape(-1).numpy(),
            **{name: kind(about[name]) for name, kind in PLAIN.items()},
        )
        if about.get("votes") is not None:
            model.votes = Votes.from_saved(about["votes"], folder.tensors["votes"], len(model.classes))
        if about.get("calibration") is not None:
            from nearer.judging import SamePair

            model.calibration = SamePair.from_dict(about["calibration"])
    except REFUSED as error:
        reason = " ".join(str(error).split()).rstrip(". ")
        raise CorruptFileError(
            f"`{os.fspath(path)}` must hold a model of nearer with fitting parameters: {reason}. Update nearer if "
            f"a newer one wrote it."
        ) from error
    front = model.inputs.encoder
    if encoder is not None and front is None:
        raise ParameterError("`encoder` must be left out: the model takes features or images as they are.")
    if front is not None and (encoder is not None or front.raw_width):
        given = FrozenEncoder.from_dict(front.to_dict(), encoder, folder.tensors.get("front"))
        model.inputs = replace(model.inputs, encoder=given)
    model.place = Path(path)
    return model
