"""An encoder that was fine-tuned, beside the one it came from: what a model keeps of it, and how it is made again.

The network is the module of the encoder, its normalisations folded, and behind it the closed form as a head. Its
columns stand behind those of the encoder as it was, so whatever needs the raw features (the comparison, the
explorer's before and after) finds them. Only numbers are kept; the module comes from its package, or from the user
again.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nearer._checks import check_int
from nearer.exceptions import CorruptFileError, ParameterError
from nearer.geometry._shared import build, description, to_sequential
from nearer.models._encoders import FrozenEncoder, encode_photos, photo_rows, weights_digest
from nearer.training._shared import fold_norms


class TunedNetwork(nn.Module):
    """Items -> rows of an encoder (n, p) -> embeddings (n, d)."""

    def __init__(self, trunk: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.trunk, self.head = trunk, head

    def forward(self, items: Tensor) -> Tensor:
        return self.head(self.trunk(items))


class PhotoTrunk(nn.Module):
    """Images (n, 3, h, w) -> rows before the classifier, (n, p)."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, images: Tensor) -> Tensor:
        return photo_rows(self.module, images)


class TextTrunk(nn.Module):
    """Numbers of tokens (n, length), padded -> rows (n, p), by a SentenceTransformer."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.module = model
        self.padding = int(model.tokenizer.pad_token_id)

    def numbers(self, texts: Sequence[str]) -> Tensor:
        """The tokens of texts."""
        prepare = getattr(self.module, "preprocess", None) or self.module.tokenize
        return prepare(list(texts))["input_ids"]

    def forward(self, numbers: Tensor) -> Tensor:
        # Columns that are padding in the whole batch cost time and say nothing.
        numbers = numbers[:, (numbers != self.padding).any(0)]
        asked = {"input_ids": numbers, "attention_mask": (numbers != self.padding).long()}
        return self.module(asked)["sentence_embedding"]


def untuned_network(base: FrozenEncoder) -> tuple[nn.Module, int]:
    """A copy of the network inside an encoder, to be trained, and how many normalisations were folded into it."""
    module = base.module()
    if module is None:
        raise ParameterError(
            f"`finetune` must come with an encoder that is a network, and {base.name!r} is a function. Pass a "
            "torch "
            f"module or a SentenceTransformer, or leave `finetune` out."
        )
    with torch.random.fork_rng(devices=[]):
        if base.kind == "texts":
            return TextTrunk(copy.deepcopy(module)), 0
        side = check_int(base.settings["size"], "size")
        images = torch.rand(2, 3, side, side, generator=torch.Generator().manual_seed(0))
        first = next(module.parameters(), None)
        return fold_norms(PhotoTrunk(module), images if first is None else images.to(first.device, first.dtype))


def tuned_encoder(base: FrozenEncoder, network: TunedNetwork, *, folded: int, width: int) -> TunedEncoder:
    """The encoder that goes on from `base`, which gives `width` columns, with a network that was trained."""
    state = {name: value.detach().clone() for name, value in network.state_dict().items()}
    settings = {**base.settings, "weights": weights_digest(network)}
    head: Any = network.head
    return TunedEncoder(
        f"{base.name}, fine-tuned",
        base.kind,
        None,
        settings,
        True,
        raw_width=width,
        state=state,
        base=base,
        head=description(head),
        folded=folded,
    )


@dataclass(frozen=True, eq=False)
class TunedEncoder(FrozenEncoder):
    """Two encoders side by side, (n, p + d): the one that was there, and what fine-tuning made of it."""

    base: FrozenEncoder = field(default_factory=lambda: FrozenEncoder("none", "photos", None))
    head: Mapping[str, Any] = field(default_factory=dict)
    folded: int = 0
    only_tuned: bool = False
    shared: TunedEncoder | None = field(default=None, repr=False)
    """Whose network it uses."""

    def __post_init__(self) -> None:
        if self.base.encode is not None and self.state is not None:
            object.__setattr__(self, "encode", self._encoded)

    @cached_property
    def network(self) -> TunedNetwork:
        """The trained network, made when it is first needed."""
        if self.shared is not None:
            return self.shared.network
        trunk, folded = untuned_network(self.base)
        try:
            network = TunedNetwork(trunk, build(dict(self.head)))
            network.load_state_dict(dict(self.state or {}))
        except (RuntimeError, KeyError, TypeError, ValueError) as error:
            reason = " ".join(str(error).split())[:200]
            raise CorruptFileError(
                f"The fine-tuned numbers of the model must be those of {self.base.name!r}: {reason}."
            ) from error
        if folded != self.folded:
            raise CorruptFileError(
                f"The fine-tuned network must have {self.folded} folded normalisations, got {folded}: "
                f"{self.base.name!r} is another network than the one that was trained."
            )
        return network.eval().requires_grad_(False)

    def _encoded(self, items: Sequence[Any]) -> Tensor:
        if self.kind == "photos":
            return encode_photos(self.network, self.settings, items)
        trunk: Any = self.network.trunk
        with torch.no_grad():
            return self.network(trunk.numbers(items))

    def features(self, items: Sequence[Any], *, progress: bool | None = None) -> NDArray[np.float32]:
        """The rows of the encoder as it was, then those of the network: (n, p + d)."""
        tuned = super().features(items, progress=progress)
        if self.only_tuned:
            raw = np.zeros((len(tuned), self.raw_width), np.float32)
        else:
            raw = self.base.features(items, progress=progress)
        return np.hstack([raw, tuned])

    def without_raw(self) -> TunedEncoder:
        """The same, with zeros for the rows of the encoder as it was: half of the time, for whoever needs them
        not.
        """
        return replace(self, only_tuned=True, shared=self)

    @torch.no_grad()
    def plain(self) -> list[nn.Module]:
        """Copies of its layers, from photos in 0..1, red first, or from tokens, to embeddings."""
        self.check_given()
        layers: list[nn.Module] = [copy.deepcopy(self.network.trunk), *to_sequential(self.network.head)]
        if self.kind == "photos":
            colors = nn.Conv2d(3, 3, 1)
            mean, std = (torch.tensor(self.settings[name]) for name in ("mean", "std"))
            colors.weight.copy_(torch.diag(1 / std)[:, :, None, None])
            assert colors.bias is not None
            colors.bias.copy_(-mean / std)
            if self.settings["colors"] == "bgr":
                colors.weight.copy_(colors.weight.flip(0))
                colors.bias.copy_(colors.bias.flip(0))
            layers.insert(0, colors)
        return layers

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON beside the numbers in `state`."""
        tuned = {"base": self.base.to_dict(), "head": self.head, "width": self.raw_width, "folded": self.folded}
        return {**super().to_dict(), "tuned": tuned}

    @classmethod
    def from_dict(
        cls, record: Mapping[str, Any], given: Any = None, state: Mapping[str, Tensor] | None = None
    ) -> TunedEncoder:
        """The encoder of a saved model; `given` is the module that it was fine-tuned from, where no package
        has it.
        """
        about = record["tuned"]
        base = FrozenEncoder.from_dict(about["base"], given)
        return cls(
            str(record["name"]),
            base.kind,
            None,
            dict(record["settings"]),
            bool(record["cached"]),
            raw_width=check_int(about["width"], "width"),
            state=None if state is None else dict(state),
            base=base,
            head=about["head"],
            folded=check_int(about["folded"], "folded", minimum=0),
        )
