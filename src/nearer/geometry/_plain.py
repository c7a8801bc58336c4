"""The same computation in plain torch layers: for export, for other programs, for compilers.

The modules of nearer check what comes in; checks look at values, which no exporter can follow. `to_sequential`
leaves the arithmetic alone, and folds linear parts that follow each other into one `nn.Linear`.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from nearer._checks import check_int
from nearer._validation import as_tensor
from nearer.exceptions import ParameterError
from nearer.geometry._encoders import MLP, Chain, ColorCNN, DigitsCNN
from nearer.geometry._mahalanobis import Mahalanobis
from nearer.geometry._orthogonal import OrthogonalMap
from nearer.geometry._saving import SavedModule
from nearer.geometry._standardize import Standardize
from nearer.geometry._trees import ProbabilityMap


class UnitLength(SavedModule):
    """Rows divided by their length; a row of zeros stays as it is.

    >>> UnitLength()(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """

    def forward(self, rows: Any) -> Tensor:
        x = as_tensor(rows, "rows")
        return nn.functional.normalize(x if x.is_floating_point() else x.float(), dim=-1)


class SignedRoot(SavedModule):
    """The root of every entry with its sign: counts and activations get a spread that does not grow with them.

    >>> SignedRoot()(torch.tensor([[4.0, -9.0, 0.0]]))
    tensor([[ 2., -3.,  0.]])
    """

    def forward(self, rows: Any) -> Tensor:
        x = torch.as_tensor(rows)
        root = x.sign() * x.abs().sqrt()
        if not x.requires_grad:
            return root
        # The slope of the root at 0 is infinite, and features of networks have zeros: that of x / √(|x| + c) is
        # not.
        near = x / (x.abs() + 1e-3).sqrt()
        return near + (root - near).detach()


class Columns(SavedModule):
    """Some of the columns of rows, from `start` up to and without `stop`.

    >>> Columns(1, 3)(torch.tensor([[1.0, 2.0, 3.0, 4.0]]))
    tensor([[2., 3.]])
    """

    def __init__(self, start: int, stop: int) -> None:
        super().__init__()
        self.start = check_int(start, "start", minimum=0)
        self.stop = check_int(stop, "stop", minimum=start + 1)
        self.settings: dict[str, Any] = {"start": self.start, "stop": self.stop}

    def forward(self, rows: Any) -> Tensor:
        return torch.as_tensor(rows)[:, self.start : self.stop]


@torch.no_grad()
def to_sequential(module: nn.Module) -> nn.Sequential:
    """A copy of a geometry or an encoder of nearer as plain layers, in evaluation mode.

    >>> chain = Chain(Standardize.from_rows([[0.0], [2.0]]), Mahalanobis.from_factor([[3.0]]))
    >>> to_sequential(chain)
    Sequential(
      (0): Linear(in_features=1, out_features=1, bias=True)
    )
    """
    layers: list[nn.Module] = []
    for layer in _layers(module):
        last = layers[-1] if layers else None
        if isinstance(last, nn.Linear) and isinstance(layer, nn.Linear):
            layers[-1] = _linear(
                layer.weight.double() @ last.weight.double(),
                layer.weight.double() @ last.bias.double() + layer.bias.double(),
                layer.weight.dtype,
            )
        else:
            layers.append(layer)
    return nn.Sequential(*layers).eval()


def _layers(module: nn.Module) -> list[nn.Module]:
    if isinstance(module, Chain):
        return [layer for part in module.parts for layer in _layers(part)]
    if isinstance(module, UnitLength | SignedRoot):
        return [type(module)()]
    if isinstance(module, Columns):
        return [Columns(module.start, module.stop)]
    if isinstance(module, Standardize):
        scale = 1 / module.scale.double()
        return [_linear(scale.diag(), -module.mean.double() * scale, module.scale.dtype)]
    if isinstance(module, Mahalanobis | OrthogonalMap):
        weight = module.factor.t()
        return [_linear(weight, weight.new_zeros(len(weight)), weight.dtype)]
    if isinstance(module, MLP):
        layers: list[nn.Module] = []
        for layer in module.layers:
            assert isinstance(layer, nn.Linear)
            layers += [_linear(layer.weight, layer.bias, layer.weight.dtype), type(module.activation)()]
        if not module.settings["bounded"]:
            layers.pop()
        return [*layers, UnitLength()] if module.settings["normalized"] else layers
    if isinstance(module, DigitsCNN | ColorCNN):
        copies = [copy.deepcopy(layer) for layer in module.layers]
        return [*copies, UnitLength()] if module.settings["normalized"] else copies
    if isinstance(module, ProbabilityMap):
        unchecked = copy.deepcopy(module)
        unchecked.checked = False
        return [unchecked]
    raise ParameterError(
        f"`module` must be a geometry or an encoder of nearer with one map, got {type(module).__name__}."
    )


def _linear(weight: Tensor, bias: Tensor, dtype: torch.dtype) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0], dtype=dtype)
    layer.weight.copy_(weight)
    layer.bias.copy_(bias)
    return layer
