"""Whether unit vectors can have given squared distances."""

from __future__ import annotations

import torch
from torch import Tensor


def smallest_eigenvalue(target: Tensor) -> float:
    """Of `1 − g/2` for targets g (n, n): not negative if and only if unit vectors have these squared distances."""
    kernel = 1 - target.double() / 2
    return float(torch.linalg.eigvalsh((kernel + kernel.T) / 2)[0])
