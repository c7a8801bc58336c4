"""`torch.compile(loss, fullgraph=True)`: one graph and the numbers of eager; and what a step waits for.

`NOT_COMPILED` is the whole list of what cannot be compiled, with the reason that the user gets to read.
`NEARER_COMPILE=inductor` (part of `make everywhere`) compiles to code as well.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch._inductor.config
from torch import Tensor, nn

import nearer.losses
from every_loss import CASES, MINERS, OTHERS, batch, plain, value_and_gradient
from nearer.exceptions import NotFiniteError
from nearer.losses import ArcFaceLoss, ContrastiveLoss, MarginLoss, PairLoss, RAWLoss, TripletLoss
from nearer.mining import VTHM
from nearer.relations import MultiLabels, PartialLabels
from pretend_device import DEVICE, here, pretend, there

# Dynamo and its backends warn about themselves.
pytestmark = pytest.mark.filterwarnings("ignore")

LONG = "NEARER_COMPILE" in os.environ
BACKEND = os.environ.get("NEARER_COMPILE", "aot_eager")
SEARCHED = "its sets of neighbors are searched, class by class"
IN_TILES = "its gradient is written by hand, in tiles"
PAPERS = "a published system, which nobody but a reproducer trains"
# Pair and proxy losses and miners first; what is neither (layers, whole systems) below.
NOT_COMPILED = {
    "FacilityLocationLoss": "medoids are searched one by one",
    "HierarchicalTripletLoss": "its margins are looked up in a tree of classes",
    "TwoTermQuadrupletLoss": "it sorts the positive pairs of every class by themselves",
    "SpanningTree": "a spanning tree grows edge by edge",
    "NeighborhoodLoss": SEARCHED,
    "DatabaseMemory": SEARCHED,
    "JRSLoss": IN_TILES,
    "JRDLoss": IN_TILES,
}
OF_PAPERS = {
    "ABIERLoss",
    "BIERLoss",
    "DeMLLoss",
    "EnergyConfusionLoss",
    "HDCLoss",
    "HDMLLoss",
    "IntraClassPenalty",
    "JMMDLoss",
    "PDDMLoss",
    "SmartMiningLoss",
}

X, Y = batch(12, 4)


def kind(name: str) -> str:
    return name.partition("(")[0]


Made = tuple[Callable[[], Any], Callable[..., Any]]
PAIRS: dict[str, Made] = {name: (make, plain) for name, make in CASES.items() if kind(name) not in NOT_COMPILED}
REST: dict[str, Made] = {
    name: made for name, made in OTHERS.items() if name not in NOT_COMPILED and name not in OF_PAPERS
}
MINED: dict[str, Made] = {
    f"{loss.__name__} with {name}": ((lambda loss=loss, make=make: loss(miner=make())), plain)
    for name, make in MINERS.items()
    if name not in NOT_COMPILED
    for loss in (RAWLoss, MarginLoss)
}
EVERY = PAIRS | REST | MINED
every = pytest.mark.parametrize(("make", "call"), EVERY.values(), ids=EVERY.keys())
# A second each, so `make test` takes one loss of every way to be written: labels, pairs, triplets, ranks, counts,
# proxies, memories, each kind of miner. `make everywhere` compiles them all.
ONE_OF_A_KIND = {
    "AngularTripletLoss()",
    "ArcFaceLoss",
    "CircleLoss()",
    "ContrastiveLoss()",
    "CrossBatchMemory",
    "DynamicSoftMarginLoss",
    "FastAPLoss()",
    "HistogramLoss()",
    "InfoNCELoss()",
    "NestedLoss",
    "ProxyAnchorLoss",
    "QuadrupletLoss()",
    "RAWLoss with DistanceWeighted",
    "RAWLoss with SemiHardTriplets",
    "RAWLoss with VTHM",
    "RankedListLoss()",
    "RelationAlignmentLoss()",
    "SmoothAPLoss()",
    "TripletLoss()",
    "VICRegLoss",
}
SOME = {name: made for name, made in EVERY.items() if LONG or name in ONE_OF_A_KIND}


def backend(name: str) -> str:
    """Code of other settings differs by constants, and takes a compiler ten seconds."""
    return "aot_eager" if "=" in name or name.startswith("MarginLoss with") else BACKEND


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    with torch._inductor.config.patch(fallback_random=True):  # the same draws as eager's, not only as good ones
        yield


def ungenerated(loss: Any) -> Any:
    """The loss without a generator of its own: only torch's can be compiled."""
    for one in (loss, getattr(loss, "miner", None)):
        if getattr(one, "generator", None) is not None:
            one.generator = None
    return loss


def numbers(
    make: Callable[[], Any], call: Callable[..., Any], *given: Any, compiled: str = ""
) -> tuple[Tensor, Tensor]:
    """Value and gradient of a new loss, compiled by a back end or eager, with the same draws in both ways."""
    torch.manual_seed(0)
    loss = ungenerated(make().double())
    torch.manual_seed(0)

    def step(x: Tensor, *more: Any) -> Tensor:
        value: Tensor = call(loss, x, *more)
        return value

    return value_and_gradient(
        torch.compile(step, fullgraph=True, backend=compiled) if compiled else step, X, *given
    )


@pytest.mark.parametrize("name", SOME)
def test_a_compiled_loss_is_one_graph_with_the_numbers_of_eager(name: str) -> None:
    expected = numbers(*SOME[name], Y)
    found = numbers(*SOME[name], Y, compiled=backend(name))  # `fullgraph` refuses the first break
    torch.testing.assert_close(found[0], expected[0], rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(found[1], expected[1], rtol=1e-7, atol=1e-10)


def test_the_list_of_what_cannot_be_compiled_is_complete() -> None:
    everything = {*map(kind, CASES), *OTHERS, *MINERS}
    assert (NOT_COMPILED.keys() | OF_PAPERS) <= everything
    assert EVERY.keys() >= ONE_OF_A_KIND
    assert everything - NOT_COMPILED.keys() - OF_PAPERS == {*map(kind, PAIRS), *REST} | {
        name.partition(" with ")[2] for name in MINED
    }


@pytest.mark.parametrize("name", [name for name in NOT_COMPILED if name != "SpanningTree"])
def test_what_cannot_be_compiled_says_why(name: str) -> None:
    make, call = OTHERS.get(name) or (CASES[f"{name}()"], plain)
    with pytest.raises(torch._dynamo.exc.Unsupported, match=NOT_COMPILED[name]):
        numbers(make, call, Y, compiled=BACKEND)


def test_so_does_a_miner_and_a_generator() -> None:
    for miner, reason in ((MINERS["SpanningTree"](), "edge by edge"), (MINERS["DistanceWeighted"](), "generator")):
        torch._dynamo.reset()
        with pytest.raises(torch._dynamo.exc.Unsupported, match=reason):
            torch.compile(RAWLoss(miner=miner), fullgraph=True, backend="eager")(X, Y)


def test_without_fullgraph_it_runs_as_always() -> None:
    make = CASES["HierarchicalTripletLoss()"]
    found = value_and_gradient(torch.compile(make().double(), backend="eager"), X, Y)
    for one, other in zip(found, numbers(make, plain, Y), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


def test_explain_finds_no_break_and_one_graph() -> None:
    network = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)).double()
    for loss in (RAWLoss(miner=VTHM()), ContrastiveLoss(), ArcFaceLoss(8, 8)):
        torch._dynamo.reset()
        step = loss.double()
        found = torch._dynamo.explain(lambda x, y, step=step: step(network(x), y))(X, Y)
        assert (found.graph_count, found.graph_break_count) == (1, 0), found.break_reasons


DATABASE = X.flip(0) + 0.5, Y.flip(0)
PARTLY = PartialLabels(torch.where(Y == 0, -1, Y))
SETS = MultiLabels(torch.nn.functional.one_hot(Y, 4))
TUPLE = VTHM(margin=0.3)(X, Y)
CALLS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "a database": lambda loss, x: loss(x, Y, database=DATABASE[0], database_labels=DATABASE[1]),
    "a tuple of indices": lambda loss, x: loss(x, Y, TUPLE),
    "partial labels": lambda loss, x: loss(x, PARTLY),
    "label sets": lambda loss, x: loss(x, SETS),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_other_calls_are_compiled_too(call: Callable[[Any, Tensor], Tensor]) -> None:
    for found, expected in zip(numbers(RAWLoss, call, compiled=BACKEND), numbers(RAWLoss, call), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


def test_batches_of_other_sizes_and_none_at_all() -> None:
    loss, twin = RAWLoss(miner=VTHM()).double(), torch.compile(RAWLoss(miner=VTHM()).double(), backend=BACKEND)
    for n in (12, 20, 33, 1, 0):
        x, y = batch(n, 3, seed=n)
        for found, expected in zip(value_and_gradient(twin, x, y), value_and_gradient(loss, x, y), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


def test_rows_that_are_not_finite_are_refused_when_they_are_there() -> None:
    x = X.clone()
    x[3, 2] = torch.nan
    with pytest.raises(NotFiniteError):
        RAWLoss()(x, Y)
    with pytest.raises(RuntimeError, match="`embeddings` must be finite"):
        torch.compile(RAWLoss(), fullgraph=True, backend="aot_eager")(x, Y)


def test_half_precision_is_widened_as_in_eager() -> None:
    x = X.bfloat16()
    expected = value_and_gradient(RAWLoss(), x, Y)
    found = value_and_gradient(torch.compile(RAWLoss(), fullgraph=True, backend=BACKEND), x, Y)
    assert found[0].dtype == expected[0].dtype == torch.float32
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-2, atol=1e-3)


# A step on an accelerator: how often the host waits for a number, where it is not never.
WAITS: dict[str, int] = {}


@every
def test_a_step_waits_for_its_device_at_most_once(make: Callable[[], Any], call: Callable[..., Any]) -> None:
    expected = numbers(make, call, Y)
    torch.manual_seed(0)
    with pretend() as device:
        loss = make().double().to(DEVICE)
        x, y = there(X).requires_grad_(), there(Y)
        device.waits.clear()
        value = call(loss, x, y)
        value.backward()
        assert len(device.waits) <= WAITS.get(type(loss).__name__, 0) <= 1, device.waits
        if all(getattr(one, "generator", None) is None for one in (loss, getattr(loss, "miner", None))):
            torch.testing.assert_close(here(value), expected[0], rtol=1e-9, atol=1e-11)
            torch.testing.assert_close(here(x.grad), expected[1], rtol=1e-7, atol=1e-10)  # type: ignore[arg-type]


def test_large_batches_keep_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearer._tracing.ENTRIES", 100)
    expected = value_and_gradient(TripletLoss().double(), X, Y)
    with pretend() as device:
        x, y = there(X).requires_grad_(), there(Y)
        value = TripletLoss()(x, y)
        value.backward()
        assert device.waits  # it sorts and counts on the host
        torch.testing.assert_close(here(x.grad), expected[1])  # type: ignore[arg-type]


def test_no_loss_forgets_its_reason() -> None:
    losses = [getattr(nearer.losses, name) for name in nearer.losses.__all__]
    reasons = {
        one.__name__ for one in losses if isinstance(one, type) and issubclass(one, PairLoss) and one.untraceable
    }
    assert reasons <= NOT_COMPILED.keys()
