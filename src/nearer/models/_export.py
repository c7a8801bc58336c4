"""Models for programs that do not have nearer: ONNX, or plain torch layers and their state dictionary."""

from __future__ import annotations

import logging
import os
import tempfile
import warnings
from pathlib import Path

import torch
from torch import nn

from nearer._checks import needed
from nearer._storage import write_file
from nearer.exceptions import ParameterError
from nearer.geometry._shared import to_sequential
from nearer.models._model import Model
from nearer.models._tuned import TunedEncoder

EXPORTED = (".onnx", ".safetensors")


def plain(model: Model) -> nn.Sequential:
    """The model as plain torch layers, from raw items to embeddings.

    Behind a frozen encoder they begin at its features; behind a fine-tuned one they are the whole network, from
    photos (n, 3, size, size) in 0..1, red first, or from numbers of tokens (n, length).

    >>> from nearer.geometry import Mahalanobis
    >>> from nearer.models._inputs import Inputs
    >>> plain(Model(Mahalanobis.from_factor([[2.0]]), Inputs("features", size=(1,)), method="by hand"))
    Sequential(
      (0): Linear(in_features=1, out_features=1, bias=True)
    )

    Args:
        model: the model.
    """
    layers, front = to_sequential(model.encoder), model.inputs.encoder
    if not isinstance(front, TunedEncoder):
        return layers
    # The first layer picks the columns of the network out of those that the encoder makes.
    return nn.Sequential(*front.plain(), *list(layers)[1:]).eval()


def export(model: Model, path: str | os.PathLike[str]) -> Path:
    """Write a model by the ending of the file: ONNX, or the state dictionary of `plain(model)` as safetensors.

    >>> import nearer, tempfile
    >>> model = nearer.fit([[0.0, 1.0], [0.1, 0.9], [5.0, 5.0], [5.1, 4.9]] * 8, [0, 0, 1, 1] * 8, method="lfda")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export(model, f"{folder}/model.onnx").name, export(model, f"{folder}/model.safetensors").name
    ('model.onnx', 'model.safetensors')
    """
    place = Path(path)
    if place.suffix not in EXPORTED:
        raise ParameterError(f"`path` must end in {' or '.join(EXPORTED)}, got {os.fspath(path)!r}.")
    if place.is_dir():
        raise ParameterError(f"`path` must be a file, `{place}` is a folder.")
    if place.suffix == ".onnx":
        return write_file(place, _as_onnx(model))
    from safetensors.torch import save

    layers = plain(model)
    about = {"layers": str(layers).replace("\n", " "), "method": model.method}
    return write_file(place, save(dict(layers.state_dict()), metadata=about))


def _as_onnx(model: Model) -> bytes:
    """The input `items` (n, ...) and the output `embeddings` (n, d), n free."""
    for package in ("onnx", "onnxscript"):
        needed(package, f"ONNX needs {package}", "onnx")
    example, front = torch.zeros(2, *model.inputs.size), model.inputs.encoder
    if isinstance(front, TunedEncoder):
        if front.kind != "photos":
            raise ParameterError("`path` must end in .safetensors for texts: their tokens have no fixed length.")
        example = torch.zeros(2, 3, front.settings["size"], front.settings["size"])
    batch = torch.export.Dim("n", min=1)
    chatter = logging.getLogger("torch.onnx")
    level = chatter.level
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        # The exporter tells of its own internals (a missing torchvision, say), which concern nobody here.
        warnings.simplefilter("ignore")
        chatter.setLevel(logging.ERROR)
        program = torch.onnx.export(
            plain(model),
            (example,),
            input_names=["items"],
            output_names=["embeddings"],
            dynamic_shapes=({0: batch},),
            verbose=False,
        )
        assert program is not None
        file = Path(folder) / "model.onnx"
        program.save(str(file), external_data=False)
        chatter.setLevel(level)
        return file.read_bytes()
