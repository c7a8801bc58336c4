"""ResNet-50 from a folder of weights: the same numbers as layer by layer, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import batch_norm, conv2d, max_pool2d, pad

import nearer
from nearer.exceptions import CorruptFileError, ParameterError
from nearer.models import _encoders as encoders
from nearer.models import _finetuning as finetuning
from nearer.models import _resnet as resnet
from nearer.models._encoders import FrozenEncoder, frozen

Tensors = dict[str, "np.ndarray[Any, Any]"]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two stages of few channels stand for the network."""
    monkeypatch.setattr(resnet, "STAGES", ((2, 4), (1, 8)))
    encoders._network.cache_clear()
    encoders._digest.cache_clear()


def made() -> Tensors:
    """Weights as Keras names them."""
    rng, found = np.random.default_rng(0), {}
    sizes = {"conv1": (7, 3, 64), "res2a_branch2a": (1, 64, 4), "res2a_branch1": (1, 64, 16),
             "res2b_branch2a": (1, 16, 4), "res3a_branch2a": (1, 16, 8), "res3a_branch1": (1, 16, 32)}  # fmt: skip
    for block, inside in (("res2a", 4), ("res2b", 4), ("res3a", 8)):
        sizes |= {f"{block}_branch2b": (3, inside, inside), f"{block}_branch2c": (1, inside, 4 * inside)}
    for name, (side, before, after) in sizes.items():
        norm = "bn_conv1" if name == "conv1" else f"bn{name[3:]}"
        found[f"{name}/kernel"] = rng.normal(0, 0.3, (side, side, before, after))
        for one in (f"{name}/bias", f"{norm}/gamma", f"{norm}/beta", f"{norm}/moving_mean"):
            found[one] = rng.normal(0, 0.5, after)
        found[f"{norm}/moving_variance"] = rng.uniform(0.01, 2, after)
    return {name: value.astype("<f4") for name, value in found.items()}


def written(folder: Path, tensors: Tensors) -> Path:
    """The layout of the package: one row of bytes, cut into shards."""
    folder.mkdir()
    joint = b"".join(value.tobytes() for value in tensors.values())
    names = []
    for number, start in enumerate(range(0, len(joint), 5000)):
        names.append(f"shard{number}.bin")
        (folder / names[-1]).write_bytes(joint[start : start + 5000])
    weights = [{"name": name, "shape": value.shape, "dtype": "float32"} for name, value in tensors.items()]
    (folder / "model.json").write_text(json.dumps({"weightsManifest": [{"paths": names, "weights": weights}]}))
    return folder


def by_hand(tensors: Tensors, photos: Tensor) -> Tensor:
    """Layer by layer, as the network was published: blue first, normalisation apart from convolution."""
    t = {name: torch.from_numpy(value) for name, value in tensors.items()}

    def unit(x: Tensor, name: str, stride: int = 1, padding: int = 0) -> Tensor:
        norm = "bn_conv1" if name == "conv1" else f"bn{name[3:]}"
        x = conv2d(x, t[f"{name}/kernel"].permute(3, 2, 0, 1), t[f"{name}/bias"], stride, padding)
        mean, variance = t[f"{norm}/moving_mean"], t[f"{norm}/moving_variance"]
        return batch_norm(x, mean, variance, t[f"{norm}/gamma"], t[f"{norm}/beta"], eps=1e-3)

    x = max_pool2d(pad(unit(photos.flip(1), "conv1", 2, 3).relu(), (1, 1, 1, 1)), 3, 2)
    for block, stride in (("res2a", 1), ("res2b", 1), ("res3a", 2)):
        y = unit(unit(x, f"{block}_branch2a", stride).relu(), f"{block}_branch2b", padding=1).relu()
        x = (unit(y, f"{block}_branch2c") + (unit(x, f"{block}_branch1", stride) if block[-1] == "a" else x)).relu()
    return x


def test_it_gives_what_its_layers_give(tmp_path: Path) -> None:
    tensors = made()
    network = resnet.load_resnet50(written(tmp_path / "ResNet50", tensors))
    photos = torch.randn(2, 3, 37, 40)
    with torch.no_grad():
        assert torch.allclose(network(photos), by_hand(tensors, photos), rtol=1e-4, atol=1e-4)


def test_it_is_an_encoder_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("PIL")
    with pytest.raises(ParameterError, match="NEARER_RESNET50"):
        frozen("resnet50", "photos")
    monkeypatch.setenv("NEARER_RESNET50", str(written(tmp_path / "ResNet50", made())))
    monkeypatch.setenv("NEARER_CACHE", str(tmp_path / "cache"))
    encoder = frozen("resnet50", "photos", {"size": 32, "resize": 32})
    photo = np.random.default_rng(0).integers(0, 255, (32, 32, 3), dtype=np.uint8)
    rows = encoder.features([photo])
    # Red first, and bytes less the means of the package.
    bytes_ = torch.from_numpy(photo).permute(2, 0, 1)[None].float()
    means = torch.tensor([123.68, 116.779, 103.939]).reshape(1, 3, 1, 1)
    assert np.allclose(rows, by_hand(made(), bytes_ - means).mean((2, 3)), rtol=1e-3, atol=1e-3)
    again = FrozenEncoder.from_dict(json.loads(json.dumps(encoder.to_dict())))
    assert np.array_equal(again.features([photo]), rows)
    other = written(tmp_path / "other", {name: 2 * value for name, value in made().items()})
    monkeypatch.setenv("NEARER_RESNET50", str(other))
    encoders._network.cache_clear()
    encoders._digest.cache_clear()
    with pytest.raises(ParameterError, match="weights of 'resnet50' must be those"):
        again.features([photo + 1])


def test_it_learns_and_comes_back_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("PIL")
    monkeypatch.setenv("NEARER_RESNET50", str(written(tmp_path / "ResNet50", made())))
    monkeypatch.setenv("NEARER_CACHE", str(tmp_path / "cache"))
    scores = iter(range(100))
    monkeypatch.setattr(
        finetuning, "evaluate", lambda *_, **__: dict.fromkeys(("recall@1", "map@r"), next(scores) / 100)
    )
    labels = np.repeat(np.arange(8), 4)
    photos = np.random.default_rng(0).integers(0, 255, (32, 36, 36, 3), dtype=np.uint8)
    settings = {"epochs": 1, "pictures": False, "precision": "bfloat16"}
    seen = {"size": 32, "resize": 36}
    model = nearer.fit(photos, labels, encoder="resnet50", encoder_settings=seen, finetune=True, settings=settings)
    assert model.method == "fine-tuned"
    again = nearer.load(model.save(tmp_path / "model"))
    monkeypatch.setenv("NEARER_CACHE", str(tmp_path / "other"))
    np.testing.assert_allclose(again.transform(photos[:3]), model.transform(photos[:3]), atol=1e-6)


def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    def lacking(tensors: Tensors) -> None:
        del tensors["res2a_branch2b/bias"]

    def wider(tensors: Tensors) -> None:
        tensors["conv1/kernel"] = tensors["conv1/kernel"][:5]

    changes: list[tuple[Callable[[Tensors], None], str]] = [
        (lacking, r"res2a_branch2b/bias \(4,\), got none"),
        (wider, r"conv1/kernel \(7, 7, 3, 64\), got \(5, 7, 3, 64\)"),
    ]
    for number, (change, message) in enumerate(changes):
        tensors = made()
        change(tensors)
        with pytest.raises(CorruptFileError, match=message):
            resnet.load_resnet50(written(tmp_path / str(number), tensors))
    folder = written(tmp_path / "short", made())
    (folder / "shard0.bin").unlink()
    with pytest.raises(CorruptFileError, match="must be the folder ResNet50 of the npm package"):
        resnet.load_resnet50(folder)
    whole = written(tmp_path / "half", made())
    (whole / "shard1.bin").write_bytes(b"")
    with pytest.raises(CorruptFileError, match="cannot be read"):
        resnet.load_resnet50(whole)
