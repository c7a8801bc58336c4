"""The raw features: what a learned metric is compared with, and what is looked at where there is none."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import nn

from nearer.datasets import Dataset
from nearer.geometry import Chain, Standardize, UnitLength, embed
from nearer.geometry._shared import Columns
from nearer.models._inputs import Inputs
from nearer.models._problem import inputs_of

__all__ = ["raw_map", "raw_rows"]


def raw_map(inputs: Inputs, rows: NDArray[np.float32], *, standardize: bool = True) -> nn.Module | None:
    """Columns brought to one scale by these rows, features of an encoder to length one; None leaves items as they
    are, as it does pixels.
    """
    if inputs.encoder is not None:
        # Features of an encoder are compared by cosine, as their makers do; those of a fine-tuned one stand behind
        # the ones it came from.
        width = inputs.encoder.raw_width
        return Chain(Columns(0, width), UnitLength()) if width else UnitLength()
    return Standardize.from_rows(rows) if standardize and inputs.kind == "features" else None


def raw_rows(data: Dataset) -> NDArray[np.float32]:
    """The raw features (n, p) of all rows of a data set; bytes are pixels."""
    inputs = inputs_of(data)
    rows = inputs.of(data)
    scale = raw_map(inputs, rows, standardize=data.all.x.dtype != np.uint8)
    flat = rows.reshape(len(rows), -1) if scale is None else embed(scale, rows).numpy()
    return np.ascontiguousarray(flat, dtype=np.float32)
