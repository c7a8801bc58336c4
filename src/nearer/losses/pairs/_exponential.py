"""The part that all log-sum-exp losses share in the fast engine: tiles of e^{xs}, one operation per pair."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor

from nearer.pairwise._segments import Segments
from nearer.pairwise._symmetric import Factors

__all__ = ["ExponentKernel"]


class ExponentKernel(ABC):
    """w(s) = e(s) = e^{xs}: the scale x·log₂e is folded into one operand, so that 2^tile is the whole exponent."""

    one_pass = False
    counts = False

    @property
    @abstractmethod
    def exponent(self) -> float:
        """x"""

    @property
    def scale(self) -> float:
        return self.exponent * math.log2(math.e)

    def nothing(self, scaled: Tensor) -> bool:
        return False

    def tile(self, scaled: Tensor, spare: Tensor) -> tuple[Tensor, Tensor]:
        torch.exp2_(scaled)
        return scaled, scaled

    def negative_factors(self, segments: Segments, dtype: torch.dtype) -> Tensor:
        raise TypeError("a log-sum-exp needs its sums first")

    @abstractmethod
    def factors(self, sums: Tensor, active: float, segments: Segments, embeddings: Tensor) -> Factors:
        """Everything that follows from the row sums over the negatives."""
