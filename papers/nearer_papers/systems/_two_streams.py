"""Two streams of batches that pass each other, so that new pairs meet in every step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from nearer.exceptions import ParameterError, ShapeError
from nearer.training._samplers import Sampler

__all__ = ["TwoStreams"]


class TwoStreams:
    """Batches of two samplers side by side: the rows of the first stream, then those of the second.

    The streams may differ in structure (classes × items, uniform, …), in the size of their batches and in length.
    An epoch has as many batches as the longer one; the shorter one goes on with its next epoch, and where it stands
    is a function of the number of the epoch alone. With unequal lengths the same two batches hardly ever meet
    twice. No item meets itself: a row that is in the first stream's batch is left out of the second's. All batches
    of the first stream must have one size, `first_size`, which `nearer_papers.systems.AcrossStreams` splits at.

    Usage: `TwoStreams(ClassSampler(labels, n_classes=8, per_class=4), UniformSampler(n, batch_size=48))`.

    >>> from nearer.training import UniformSampler
    >>> sampler = TwoStreams(UniformSampler(6, batch_size=2), UniformSampler(6, batch_size=6))
    >>> len(sampler), sampler.first_size, [len(rows) for rows in sampler.epoch(0)]   # 2 and the other 4
    (3, 2, [6, 6, 6])

    Reference: Xu et al. 2019 (DAMLRRM), section 3.1.

    Args:
        first: a sampler.
        second: a sampler.
    """

    def __init__(self, first: Sampler, second: Sampler) -> None:
        if len(first) < 1 or len(second) < 1:
            raise ParameterError("Both streams must have a batch or more per epoch, got none in one of them.")
        self.first, self.second = first, second
        self.first_size = len(first.epoch(0)[0])

    def __len__(self) -> int:
        return max(len(self.first), len(self.second))

    def epoch(self, number: int) -> Sequence[Tensor]:
        """Batches of both streams, the first stream's rows first."""
        pairs = zip(self._stretch(self.first, number), self._stretch(self.second, number), strict=True)
        batches = []
        for left, right in pairs:
            if len(left) != self.first_size:
                raise ShapeError(
                    f"The first stream must have batches of one size, got {self.first_size} and {len(left)} rows. "
                    f"Let it drop the rest (drop_last), or make it the second stream."
                )
            batches.append(torch.cat([left, right[~torch.isin(right, left)]]))
        return batches

    def _stretch(self, stream: Sampler, number: int) -> Iterator[Tensor]:
        """The batches number·len(self) … (number + 1)·len(self) − 1 of a stream that never ends."""
        place = number * len(self)
        end = place + len(self)
        while place < end:
            epoch, start = divmod(place, len(stream))
            part = stream.epoch(epoch)[start : start + end - place]
            yield from part
            place += len(part)
