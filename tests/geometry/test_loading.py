"""What was saved comes back the same, and only what nearer knows can come out of a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from nearer._storage import write_folder
from nearer.exceptions import CorruptFileError, MissingDataError
from nearer.geometry import MLP, AsymmetricMap, Chain, Mahalanobis, OrthogonalMap, TwoEncoders, UnitLength
from nearer.geometry._encoders import ColorCNN, DigitsCNN, SideBySide
from nearer.geometry._kernel_map import KernelMap
from nearer.geometry._loading import KNOWN, load
from nearer.geometry._orthogonal import orthonormalize
from nearer.geometry._plain import Columns, SignedRoot
from nearer.geometry._standardize import Standardize
from nearer.geometry._trees import ProbabilityMap, Trees


def grown(width: int, groups: int = 1) -> Trees:
    """Three trees of one split each."""
    trees = Trees(5, nodes=9, leaves=6, trees=3, depth=1, groups=groups, width=width)
    trees.feature[:3], trees.threshold[:3] = torch.tensor([0, 3, 4]), torch.tensor([0.2, 0.5, 0.8])
    trees.child[:3], trees.leaf[3:], trees.values[:] = (
        torch.tensor([3, 5, 7]),
        torch.arange(6),
        torch.rand(6, width),
    )
    return trees


MODULES: dict[str, Callable[[], nn.Module]] = {
    "Mahalanobis": lambda: Mahalanobis.from_factor(torch.randn(5, 3)),
    "OrthogonalMap": lambda: OrthogonalMap(5, 3),
    "AsymmetricMap": lambda: AsymmetricMap.from_factors(torch.randn(5, 3), torch.randn(5, 3)),
    "MLP": lambda: MLP(5, 3, hidden=(4, 4), activation="tanh", normalized=False),
    "DigitsCNN": lambda: DigitsCNN(7, batch_norm=True),
    "ColorCNN": lambda: ColorCNN(normalized=False),
    "Chain": lambda: Chain(MLP(5, 4), Chain(OrthogonalMap(4, 3), Mahalanobis(3))),
    "Standardize": lambda: Standardize.from_rows(torch.randn(9, 5)),
    "SignedRoot": SignedRoot,
    "Columns": lambda: Columns(1, 4),
    "KernelMap": lambda: KernelMap.from_parts(torch.randn(6, 5), torch.randn(6, 3), kernel="poly", degree=2),
    "SideBySide": lambda: SideBySide(MLP(5, 3, bounded=True), Chain(MLP(5, 4), Mahalanobis(4, 3))),
    "UnitLength": UnitLength,
    "Trees": lambda: grown(1),
    "ProbabilityMap": lambda: ProbabilityMap(
        Standardize.from_rows(torch.randn(9, 5)), grown(3), grown(1, groups=3), hidden=4, directions=2
    ),
    "TwoEncoders": lambda: TwoEncoders(MLP(5, 3), Chain(MLP(5, 4), Mahalanobis(4, 3))),
}
INPUTS = {"DigitsCNN": (4, 1, 28, 28), "ColorCNN": (4, 3, 32, 32)}


def test_every_known_class_is_tried_here() -> None:
    assert set(MODULES) == set(KNOWN)


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_was_saved_comes_back(tmp_path: Path, name: str, dtype: torch.dtype) -> None:
    module = MODULES[name]().to(dtype)
    x = torch.rand(INPUTS.get(name, (4, 5)), dtype=dtype)
    arguments = (x, x) if name in ("AsymmetricMap", "TwoEncoders") else (x,)
    module(*arguments)  # in training mode: batch norm gets statistics that must be kept too
    state = torch.random.get_rng_state()
    folder = module.save(tmp_path / "saved")  # type: ignore[operator]
    again = load(folder)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert type(again) is type(module)
    assert again.settings == module.settings
    assert not again.training
    for (key, got), (other, expected) in zip(again.state_dict().items(), module.state_dict().items(), strict=True):
        assert key == other
        assert got.dtype == expected.dtype
        assert torch.equal(got, expected)
    # Not to the last bit: the kernel of a product may depend on where its operands lie in memory.
    torch.testing.assert_close(again(*arguments), module.eval()(*arguments))
    assert all(p.requires_grad and p.device.type == "cpu" for p in again.parameters())
    if name not in (
        "Columns",
        "Standardize",
        "SignedRoot",
        "UnitLength",
        "Trees",
        "ProbabilityMap",
    ):  # nothing to learn
        again(*arguments).sum().backward()


def test_a_square_orthogonal_map_is_loaded_without_a_second_warning(tmp_path: Path) -> None:
    with pytest.warns(match="a square orthogonal map"):
        module = OrthogonalMap.from_factor(orthonormalize(torch.rand(3, 3)))
    load(module.save(tmp_path / "saved"))


def folder(place: Path, metadata: dict[str, Any], tensors: dict[str, torch.Tensor]) -> Path:
    return write_folder(
        place, format="nearer.geometry", version=1, tensors={"parameters": tensors}, metadata=metadata
    )


@pytest.mark.parametrize(
    ("metadata", "tensors"),
    [
        ({"class": "os.system", "settings": {}}, {}),
        ({"class": "Linear", "settings": {"in_features": 2, "out_features": 2}}, {}),
        ({"class": ["Mahalanobis"], "settings": {}}, {}),
        ({"settings": {"in_features": 2}}, {"factor": torch.eye(2)}),
        ({"class": "Mahalanobis", "settings": {"in_features": 2, "surprise": 1}}, {"factor": torch.eye(2)}),
        ({"class": "Mahalanobis", "settings": {"in_features": 2}}, {}),
        ({"class": "Mahalanobis", "settings": {"in_features": 2}}, {"factor": torch.eye(3)}),
        ({"class": "Mahalanobis", "settings": {"in_features": 2}}, {"factor": torch.eye(2), "more": torch.eye(2)}),
        ({"class": "Mahalanobis", "settings": {"in_features": -1}}, {"factor": torch.eye(2)}),
        ({"class": "MLP", "settings": {"in_features": 10**15, "out_features": 10**15}}, {}),
        ({"class": "Chain", "settings": {"parts": "none"}}, {}),
        ({"class": "Chain", "settings": []}, {}),
    ],
)
def test_a_folder_that_does_not_fit_is_refused(
    tmp_path: Path, metadata: dict[str, Any], tensors: dict[str, torch.Tensor]
) -> None:
    place = folder(tmp_path / "a", metadata, tensors)
    with pytest.raises(CorruptFileError, match=r"must hold one of AsymmetricMap.*Save it again"):
        load(place)


def test_damage_and_absence_are_named(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="there is no such folder"):
        load(tmp_path / "nowhere")
    place = Mahalanobis(3).save(tmp_path / "a")
    file = place / "parameters.safetensors"
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(CorruptFileError, match=r"parameters\.safetensors` must be as it was written"):
        load(place)
    other = write_folder(tmp_path / "b", format="nearer.index", version=1, tensors={})
    with pytest.raises(CorruptFileError, match=r"must be a 'nearer\.geometry' folder, its manifest says"):
        load(other)
    newer = write_folder(tmp_path / "c", format="nearer.geometry", version=2, tensors={})
    with pytest.raises(CorruptFileError, match="Update nearer"):
        load(newer)
