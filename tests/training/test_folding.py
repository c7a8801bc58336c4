"""Folded normalisation: the same numbers, also for networks that branch, and nothing where it cannot be."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from nearer.training._folding import fold_norms


def lived(norm: nn.BatchNorm2d) -> nn.BatchNorm2d:
    """As after some training: no entry is 0 or 1."""
    generator = torch.Generator().manual_seed(0)
    for tensor in (norm.running_var, norm.weight):
        if tensor is not None:
            tensor.data.uniform_(0.5, 2, generator=generator)
    for tensor in (norm.running_mean, norm.bias):
        if tensor is not None:
            tensor.data.uniform_(-1, 1, generator=generator)
    return norm


class Residual(nn.Module):
    """What came out of the convolution is used twice: behind the normalisation and beside it, if `twice`."""

    def __init__(self, *, twice: bool = False, kind: type[nn.BatchNorm2d] = nn.BatchNorm2d) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 3, 3, padding=1, bias=twice), lived(kind(3))
        self.last, self.twice = nn.Conv2d(3, 2, 1), twice

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        return self.last(self.norm(h).relu() + (h if self.twice else x))


@pytest.mark.parametrize("affine", [True, False])
@torch.no_grad()
def test_the_same_numbers_in_fewer_layers(affine: bool) -> None:
    network = Residual().eval()
    network.norm = lived(nn.BatchNorm2d(3, affine=affine)).eval()
    items = torch.randn(2, 3, 5, 5)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    folded, count = fold_norms(network, items)
    assert count == 1
    assert isinstance(folded.norm, nn.Identity)
    more = torch.randn(4, 3, 7, 7)
    torch.testing.assert_close(folded(more), network(more), rtol=1e-5, atol=1e-5)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items()), "a copy"
    assert all(one.requires_grad for one in folded.parameters())


class Loud(nn.BatchNorm2d):
    """A normalisation that does more."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).relu()


@pytest.mark.parametrize("network", [Residual(twice=True), Residual(kind=Loud)])
@torch.no_grad()
def test_what_cannot_be_folded_is_frozen(network: nn.Module) -> None:
    network.eval()
    items = torch.randn(2, 3, 5, 5)
    kept, count = fold_norms(network, items)
    assert count == 0
    torch.testing.assert_close(kept(items), network(items))
    assert not any(one.requires_grad for one in kept.norm.parameters())
    assert kept.first.weight.requires_grad
