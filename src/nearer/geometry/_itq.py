"""Iterative quantization: the linear map whose signs keep most of the features, without labels."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from nearer._checks import check_int
from nearer._validation import as_matrix
from nearer.exceptions import ParameterError
from nearer.geometry._encoders import Chain
from nearer.geometry._mahalanobis import Mahalanobis
from nearer.geometry._standardize import Standardize


@torch.no_grad()
def itq(features: Any, bits: int, *, iterations: int = 50, seed: int = 0) -> Chain:
    """`x → (x − m) P R`, (n, p) -> (n, bits): the principal directions P, turned by R so that signs lose least.

    R and the signs B lower `‖B − (x − m) P R‖²` in turn: B takes the signs, R the orthogonal matrix nearest to
    `(x − m) P → B`. Equal columns are left where they are. The signs of the result are the code; it is the start
    for `losses.BinaryLoss`, and on classes never seen it is hard to beat.

    >>> rows = torch.randn(50, 6, generator=torch.Generator().manual_seed(0))
    >>> itq(rows, 4)(rows).shape
    torch.Size([50, 4])

    Reference: Gong and Lazebnik 2011.

    Args:
        features: rows to learn from, (n, p).
        bits: columns of the result, at most p.
        iterations: turns of B and R.
        seed: of the first rotation.
    """
    x = as_matrix(features, "features", minimum_rows=2).detach().double()
    b = check_int(bits, "bits")
    if b > x.shape[1]:
        raise ParameterError(f"`bits` must be at most the {x.shape[1]} columns of the features, got {b}.")
    mean = x.mean(0)
    centered = x - mean
    _, vectors = torch.linalg.eigh(centered.T @ centered)
    directions = vectors[:, -b:].flip(1)
    v = centered @ directions
    generator = torch.Generator().manual_seed(check_int(seed, "seed", minimum=0))
    rotation, _ = torch.linalg.qr(torch.randn(b, b, generator=generator, dtype=torch.float64).to(x.device))
    for _ in range(check_int(iterations, "iterations", minimum=0)):
        signs = (v @ rotation >= 0).double().mul_(2).sub_(1)
        left, _, right = torch.linalg.svd(v.T @ signs)
        rotation = left @ right
    shift = Standardize(x.shape[1]).to(x.device)
    shift.mean = mean.float()
    turned: nn.Module = Mahalanobis.from_factor((directions @ rotation).float())
    return Chain(shift, turned)
