"""Read back what `save` wrote. Only the classes listed here can come out of a folder; nothing else is imported."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from nearer._limits import check_limit
from nearer._storage import read_folder
from nearer.exceptions import CorruptFileError
from nearer.geometry._asymmetric import AsymmetricMap, TwoEncoders
from nearer.geometry._encoders import MLP, Chain, ColorCNN, DigitsCNN, SideBySide
from nearer.geometry._kernel_map import KernelMap
from nearer.geometry._mahalanobis import Mahalanobis
from nearer.geometry._orthogonal import OrthogonalMap
from nearer.geometry._plain import Columns, SignedRoot, UnitLength
from nearer.geometry._saving import FORMAT, VERSION
from nearer.geometry._standardize import Standardize
from nearer.geometry._trees import ProbabilityMap, Trees

_KINDS: tuple[type[nn.Module], ...] = (
    AsymmetricMap,
    Chain,
    ColorCNN,
    Columns,
    DigitsCNN,
    KernelMap,
    MLP,
    Mahalanobis,
    OrthogonalMap,
    ProbabilityMap,
    SideBySide,
    SignedRoot,
    Standardize,
    Trees,
    TwoEncoders,
    UnitLength,
)
# What a forged description can end in; all of it means that class, settings and tensors do not belong together.
REFUSED = (
    KeyError, TypeError, AttributeError, ValueError, IndexError, OverflowError, RuntimeError, MemoryError
)  # fmt: skip
KNOWN = {kind.__name__: kind for kind in _KINDS}


def load(path: str | os.PathLike[str]) -> nn.Module:
    """The geometry or encoder that was saved in a folder, on the CPU, in its precision and in evaluation mode.

    >>> import tempfile
    >>> folder = Mahalanobis.from_factor([[1], [2]]).save(tempfile.mkdtemp() + "/metric")
    >>> load(folder).factor.tolist()
    [[1.0], [2.0]]

    Args:
        path: the folder that `save` wrote.
    """
    folder = read_folder(path, format=FORMAT, version=VERSION)
    try:
        return restored(folder.metadata, folder.tensors["parameters"])
    except REFUSED as error:
        reason = " ".join(str(error).split()).rstrip(". ")
        raise CorruptFileError(
            f"`{os.fspath(path)}` must hold one of {', '.join(KNOWN)} with fitting parameters: {reason}. "
            f"Save it again, or update nearer if a newer one wrote it."
        ) from error


def restored(description: dict[str, Any], tensors: Mapping[str, Tensor]) -> nn.Module:
    """A module from its description and its tensors, without a second copy of them; in evaluation mode."""
    # On the meta device nothing is allocated and no random number is drawn before the tensors come.
    with torch.device("meta"):
        module = build(description)
    module.load_state_dict(dict(tensors), assign=True)
    return module.eval()


def build(description: dict[str, Any]) -> nn.Module:
    """A module of a listed class from its name and settings; its parameters are not yet those that were saved."""
    kind = KNOWN[description["class"]]
    settings = description["settings"]
    for name, value in settings.items():
        if isinstance(value, list):
            check_limit("NEARER_MAX_FILES", len(value), f"`{name}` of {kind.__name__}")
    if "parts" in settings:
        rest = {name: value for name, value in settings.items() if name != "parts"}
        return kind(*(build(part) for part in settings["parts"]), **rest)
    if kind is TwoEncoders:
        return TwoEncoders(build(settings["query"]), build(settings["database"]))
    return kind(**settings)
