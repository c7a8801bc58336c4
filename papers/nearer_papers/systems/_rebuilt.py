"""What is computed anew from all training embeddings every epoch, and travels with checkpoints."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor, nn

__all__ = ["Rebuilt"]


class Rebuilt(nn.Module, ABC):
    """Buffers whose sizes follow from the data: loading a state takes the sizes of that state.

    A sampler or a loss holds one, `systems.rebuild` renews it after every epoch, and as part of the trained
    module it is saved and restored, so that a resumed run takes the same batches.
    """

    @property
    @abstractmethod
    def ready(self) -> bool:
        """Whether there was an update."""

    @abstractmethod
    def update(self, embeddings: Any, labels: Any) -> None:
        """Compute everything anew from embeddings (n, d) and class labels (n,) of the training set."""

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        for name, buffer in list(self._buffers.items()):
            saved = state.get(prefix + name)
            if isinstance(buffer, Tensor) and isinstance(saved, Tensor) and saved.shape != buffer.shape:
                self._buffers[name] = buffer.new_empty(saved.shape)
        super()._load_from_state_dict(state, prefix, *rest)
