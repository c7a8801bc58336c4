"""Plain layers give the same embeddings, and linear parts become one layer."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from nearer.exceptions import ParameterError
from nearer.geometry import MLP, AsymmetricMap, Chain, Mahalanobis, OrthogonalMap
from nearer.geometry._encoders import ColorCNN, DigitsCNN
from nearer.geometry._plain import to_sequential
from nearer.geometry._standardize import Standardize

ROWS = 5 + 3 * torch.randn(20, 6, generator=torch.Generator().manual_seed(0))
MODULES = {
    "linear": lambda: Chain(Standardize.from_rows(ROWS), Mahalanobis.from_factor(torch.randn(6, 4))),
    "orthogonal": lambda: Chain(MLP(6, 5), OrthogonalMap(5, 3)),
    "mlp": lambda: Chain(Standardize.from_rows(ROWS), MLP(6, 3, hidden=(7, 8), activation="tanh")),
    "digits": lambda: DigitsCNN(9, batch_norm=True),
    "color": lambda: Chain(ColorCNN(batch_norm=True, normalized=False), Mahalanobis(64, 5)),
}
SHAPES = {"digits": (4, 1, 28, 28), "color": (4, 3, 32, 32)}


@pytest.mark.parametrize("name", list(MODULES))
def test_the_same_embeddings(name):
    module = MODULES[name]().eval()
    x = torch.rand(SHAPES[name]) if name in SHAPES else ROWS
    plain = to_sequential(module)
    torch.testing.assert_close(plain(x), module(x), rtol=1e-4, atol=1e-5)
    assert all(type(layer).__module__.startswith(("torch", "nearer.geometry._plain")) for layer in plain)
    before = module(x).clone()
    with torch.no_grad():
        for parameter in plain.parameters():
            parameter.zero_()
    assert torch.equal(module(x), before), "a copy: the module is not touched"


def test_linear_parts_become_one_layer():
    assert [type(layer) for layer in to_sequential(MODULES["linear"]())] == [nn.Linear]
    assert len(to_sequential(MODULES["mlp"]())) == 6


def test_what_has_two_maps_is_refused():
    with pytest.raises(ParameterError, match="with one map, got AsymmetricMap"):
        to_sequential(AsymmetricMap(3, 2))
    with pytest.raises(ParameterError, match="got Linear"):
        to_sequential(nn.Linear(1, 1))


def test_standardize_keeps_constant_features_and_large_offsets():
    rows = torch.tensor([[1e6, 3.0], [1e6 + 2, 3.0]], dtype=torch.float64)
    part = Standardize.from_rows(rows)
    assert part.scale.tolist() == [1.0, 1.0]
    assert part(rows).tolist() == [[-1.0, 0.0], [1.0, 0.0]]
