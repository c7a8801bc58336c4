"""What a stranger sees of every loss and miner: its settings in `repr`; tests/test_docstrings.py has the lists."""

from __future__ import annotations

import inspect
import re

import pytest
import torch
from torch import nn

import nearer.losses
import nearer.mining
import nearer.pairwise
from every_loss import CASES
from nearer.losses import RAWLoss

PUBLIC = {
    f"{package.__name__}.{name}": getattr(package, name)
    for package in (nearer.losses, nearer.mining, nearer.pairwise)
    for name in package.__all__
    if inspect.isclass(getattr(package, name)) or inspect.isfunction(getattr(package, name))
}


def settings(thing: object) -> list[str]:
    """The parameters of a function or a constructor."""
    function = thing.__init__ if inspect.isclass(thing) else thing  # type: ignore[misc]
    return [name for name in inspect.signature(function).parameters if name != "self"]


@pytest.mark.parametrize("make", CASES.values(), ids=CASES.keys())
def test_a_pair_loss_shows_all_its_settings(make: object) -> None:
    loss = make()  # type: ignore[operator]
    for name in set(settings(type(loss))) - {"generator", "tree"}:
        assert f"{name}=" in repr(loss), f"{name} is missing in {loss!r}"


# What takes something that cannot be made of nothing: a network, a loss, a count of classes.
MADE = {
    "AMSoftmaxLoss": (3, 4),
    "ArcFaceLoss": (3, 4),
    "AcrossStreams": (RAWLoss(),),
    "BinaryLoss": (RAWLoss(),),
    "CrossBatchMemory": (RAWLoss(),),
    "DatabaseMemory": (nearer.losses.NeighborhoodLoss(),),
    "DeMLLoss": ((4, 4, 4),),
    "EnergyConfusionLoss": (RAWLoss(), nn.Linear(2, 2)),
    "HDMLLoss": (nn.Linear(6, 4), 6, 4, 3),
    "HardestFraction": (0.5,),
    "JRDLoss": (nearer.losses.AMSoftmaxLoss(3, 4),),
    "ManifoldLoss": (4,),
    "NestedLoss": (RAWLoss(),),
    "NormalizedSoftmaxLoss": (3, 4),
    "P2SGradLoss": (3, 4),
    "PDDMLoss": (4,),
    "PairScore": (4,),
    "ProxyAnchorLoss": (3, 4),
    "ProxyNCALoss": (3, 4),
    "RankRange": (lambda embeddings: None,),
    "SoftTripleLoss": (3, 4),
    "SubCenterArcFaceLoss": (3, 4),
    "SyntheticLoss": (4, 2),
}
KEYS = {
    "AcrossStreams": {"first": 2},
    "BinaryLoss": {"steps": 7},
    "CrossBatchMemory": {"size": 5, "embedding_dim": 2},
    "HDMLLoss": {"epoch_steps": 3},
}
KEYS["DatabaseMemory"] = KEYS["CrossBatchMemory"]
KEYS["HardnessController"] = {"target": 0.1}
# Settings of these are other modules, which a module shows by itself, or data.
LEFT_OUT = {
    "CascadeHeads",
    "HeadDiversity",
    "LayerInput",
    "PairLoss",
    "ProxyLoss",
    "RowLoss",
    "SentenceTransformersLoss",
}
LEFT_OUT |= {"ShardedLoss", "ShardedProxies", "ABIERLoss"}


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, thing in PUBLIC.items()
        if inspect.isclass(thing)
        and name.startswith(("nearer.losses", "nearer.mining"))
        and name.rpartition(".")[2] not in LEFT_OUT
    ],
)
def test_every_number_and_name_among_the_settings_is_shown(name: str) -> None:
    short = PUBLIC[name].__name__  # not that of an alias
    thing = PUBLIC[name](*MADE.get(short, ()), **KEYS.get(short, {}))
    for setting in settings(PUBLIC[name]):
        value = getattr(thing, setting, None)
        if isinstance(value, (int, float, str, tuple, list)):
            shown = repr(thing)
            assert f"{setting}={value!r}" in shown or f"({value!r}" in shown or f", {value!r}" in shown


def test_few_names() -> None:
    assert len(nearer.losses.__all__) <= 75
    assert len(nearer.mining.__all__) <= 18
    assert len(nearer.pairwise.__all__) <= 8


def test_a_learned_number_is_shown_as_it_is_now() -> None:
    loss = nearer.losses.MarginLoss()
    with torch.no_grad():
        loss.beta.fill_(0.75)
    assert "beta=0.75" in repr(loss)


def test_every_learned_number_of_a_loss_is_listed_among_its_attributes() -> None:
    for name in set(nearer.losses.__all__) - LEFT_OUT:
        kind = getattr(nearer.losses, name)
        if not inspect.isclass(kind):
            continue
        loss = kind(*MADE.get(kind.__name__, ()), **KEYS.get(kind.__name__, {}))
        learned = {one for one, _ in loss.named_parameters(recurse=False)} if isinstance(loss, nn.Module) else set()
        text = (inspect.getdoc(kind) or "").partition("Attributes:")[2]
        assert learned <= set(re.findall(r"^    (\w+): ", text, flags=re.MULTILINE)), name
