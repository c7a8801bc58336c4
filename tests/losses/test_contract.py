"""What must hold for every pair loss."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import nearer.losses
import nearer_papers.systems
from every_loss import CASES, LOSSES, ONE_SET_ONLY, Make, batch, value_and_gradient
from nearer.exceptions import NearerError, NotFiniteError, ParameterError, ShapeError
from nearer.losses import PairLoss
from nearer.pairwise import Panel
from nearer.pairwise._panels import tile_size
from nearer.relations import ClassLabels, LabelDistributions, MultiLabels, Pairs, PartialLabels

every_loss = pytest.mark.parametrize("make", CASES.values(), ids=CASES.keys())


def every_loss_that(applies: Callable[[PairLoss], bool]) -> pytest.MarkDecorator:
    """Those that promise what is tested."""
    cases = {name: make for name, make in CASES.items() if applies(make())}
    return pytest.mark.parametrize("make", cases.values(), ids=cases.keys())


def double(make: Make) -> PairLoss:
    return make().double()


def two_sets(loss: PairLoss) -> bool:
    return type(loss).__name__ not in ONE_SET_ONLY


def test_every_loss_is_public() -> None:
    assert len(LOSSES) >= 25
    for kind in LOSSES:
        assert kind.__name__ in (*nearer.losses.__all__, *nearer_papers.systems.__all__), (
            f"{kind.__name__} is not exported"
        )


@pytest.mark.parametrize(
    ("other_name", "name"), [("CosFaceLoss", "AMSoftmaxLoss"), ("MultiSimilarityLoss", "RAWLoss")]
)
def test_the_other_name_of_a_loss_is_the_same_class(other_name: str, name: str) -> None:
    assert {other_name, name} <= set(nearer.losses.__all__)
    assert getattr(nearer.losses, other_name) is getattr(nearer.losses, name)


@every_loss
@pytest.mark.parametrize("tile", [None, 1, 5, 12, 1000])
@pytest.mark.parametrize("even", [False, True], ids=["ragged", "even"])
def test_streaming_equals_dense(make: Make, tile: int | None, even: bool) -> None:
    x, y = batch(36, 12, even=even)
    expected = value_and_gradient(double(make).dense, x, y)
    with tile_size(tile):
        found = value_and_gradient(double(make), x, y)
    torch.testing.assert_close(found[0], expected[0], rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(found[1], expected[1], rtol=1e-8, atol=1e-11)


@every_loss
def test_weights_are_the_derivative_of_the_formula(make: Make) -> None:
    x, y = batch(24, 7, seed=3)
    loss = double(make)
    if "l2" in vars(loss):
        loss.l2 = 0.0  # a penalty on the norms is not a weight on pairs
    z = torch.nn.functional.normalize(x, dim=1)
    s = (z @ z.T).clamp(-1, 1).requires_grad_()
    positive, negative = ClassLabels(y).masks()
    positive.fill_diagonal_(False)
    squared = 2 - 2 * s if loss.distance else None
    values = loss.anchor_values(ClassLabels(y))
    values = None if values is None else values.detach()
    panel = Panel(s, positive, negative, slice(0, len(s)), squared, values, relation=ClassLabels(y))
    value = double(make).formula(panel) if loss._get_name() != "NPairsLoss" else loss.formula(panel)
    (expected,) = torch.autograd.grad(value, s)
    torch.testing.assert_close(loss.weights(s.detach(), y), expected, rtol=1e-10, atol=1e-10)


# Weights by similarity are defined on unit vectors.
@every_loss_that(lambda loss: loss.normalize)
def test_frozen_weights_give_the_true_gradient(make: Make) -> None:
    """Theorem 3.1: Σ w·s with w held fixed has the gradient of the loss."""
    x, y = batch(20, 6, seed=4)
    loss = double(make)
    if "l2" in vars(loss):
        loss.l2 = 0.0
    _, expected = value_and_gradient(loss.dense, x, y)
    leaf = x.clone().requires_grad_()
    z = torch.nn.functional.normalize(leaf, dim=1)
    s = z @ z.T
    fresh = double(make)
    if "l2" in vars(fresh):
        fresh.l2 = 0.0
    (found,) = torch.autograd.grad((fresh.weights(s.detach(), y) * s).sum(), leaf)
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-10)


# The weights α of the circle loss are constants of its gradient, so differences of the value are not it.
@every_loss_that(lambda loss: "Circle" not in type(loss).__name__)
def test_gradcheck(make: Make) -> None:
    x, y = batch(9, 3, dimension=4, seed=6)
    assert torch.autograd.gradcheck(
        lambda e: double(make)(e, y), x.requires_grad_(), eps=1e-7, atol=1e-4, rtol=1e-4, nondet_tol=0
    )


def _edge_cases() -> dict[str, tuple[Tensor, Tensor]]:
    x, _ = batch(6, 3)
    return {
        "one item": (x[:1], torch.zeros(1, dtype=torch.int64)),
        "two items of two classes": (x[:2], torch.arange(2)),
        "only singletons": (x, torch.arange(6)),
        "one class": (x, torch.zeros(6, dtype=torch.int64)),
        "a class of one": (x, torch.tensor([0, 0, 0, 1, 1, 2])),
        "duplicates": (x[[0, 0, 0, 1, 1, 2]], torch.tensor([0, 0, 1, 1, 2, 2])),
        "all the same": (torch.ones(6, 8, dtype=torch.float64), torch.tensor([0, 0, 0, 1, 1, 1])),
        "opposite": (torch.cat([x[:3], -x[:3]]), torch.tensor([0, 1, 2, 0, 1, 2])),
        "a zero vector": (
            torch.cat([x[:5], torch.zeros(1, 8, dtype=torch.float64)]),
            torch.tensor([0, 0, 1, 1, 2, 2]),
        ),
    }


@every_loss
@pytest.mark.parametrize("case", _edge_cases().keys())
@pytest.mark.parametrize("tile", [None, 2])
def test_edge_cases_are_finite_and_on_the_graph(make: Make, case: str, tile: int | None) -> None:
    x, y = _edge_cases()[case]
    with tile_size(tile):
        value, gradient = value_and_gradient(double(make), x, y)
    assert torch.isfinite(value)
    assert torch.isfinite(gradient).all()
    if case in ("one item",):
        assert gradient.abs().max() == 0


NEEDS_BOTH_SIDES = (
    "Triplet",
    "Lifted",
    "Circle",
    "Histogram",
    "Quadruplet",
    "NTXent",
    "NPairs",
    "Facility",
)


@pytest.mark.parametrize(
    "kind", [kind for kind in LOSSES if any(word in kind.__name__ for word in NEEDS_BOTH_SIDES)]
)
@pytest.mark.parametrize("labels", [[0, 0, 0, 0, 0, 0], [0, 1, 2, 3, 4, 5]], ids=["one class", "singletons"])
def test_no_valid_tuple_is_exactly_zero(kind: type[PairLoss], labels: list[int]) -> None:
    x, _ = batch(6, 3)
    value, gradient = value_and_gradient(kind(), x, torch.tensor(labels))
    assert value == 0
    assert gradient.abs().max() == 0


# Which pairs the others take depends on positions.
@every_loss_that(lambda loss: "Random" not in type(loss).__name__ and "NPairs" not in type(loss).__name__)
def test_order_of_the_batch_does_not_matter(make: Make) -> None:
    x, y = batch(30, 9, seed=8)
    order = torch.randperm(30, generator=torch.Generator().manual_seed(1))
    with tile_size(7):
        value, gradient = value_and_gradient(double(make), x, y)
        shuffled, moved = value_and_gradient(double(make), x[order], y[order])
    torch.testing.assert_close(shuffled, value, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(moved, gradient[order], rtol=1e-7, atol=1e-10)


@every_loss
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_under_autocast(make: Make, dtype: torch.dtype) -> None:
    x, y = batch(32, 8, spread=0.2)
    leaf = x.to(dtype).requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = make()(leaf, y)
    value.backward()
    assert value.dtype == torch.float32
    assert leaf.grad is not None
    assert leaf.grad.dtype == dtype
    assert torch.isfinite(value)
    assert torch.isfinite(leaf.grad).all()
    exact = make()(leaf.detach().float(), y)
    torch.testing.assert_close(value.detach(), exact)


@every_loss
def test_twice_the_same_bits_and_input_untouched(make: Make) -> None:
    x, y = batch(40, 10)
    before, labels = x.clone(), y.clone()
    with tile_size(8):
        first, second = (value_and_gradient(double(make), x, y) for _ in range(2))
    assert torch.equal(first[0], second[0])
    assert torch.equal(first[1], second[1])
    assert torch.equal(x, before)
    assert torch.equal(y, labels)


# These cost |P|·n per anchor, or sort all positive pairs, by their definition.
@pytest.mark.parametrize("kind", LOSSES)
def test_tiles_without_weight_change_nothing(kind: type[PairLoss]) -> None:
    """Nearly orthogonal classes and a few intruders: most tiles have nothing to do and are left out."""
    y = torch.arange(48) // 4
    x = torch.eye(12, dtype=torch.float64)[y] + 0.05 * batch(48, 4, 12)[0]
    x[::11] = x[(torch.arange(48) * 7 % 48)[::11]]
    loss = CASES[f"{kind.__name__}()"]
    expected = value_and_gradient(double(loss).dense, x, y)
    with tile_size(4):
        found = value_and_gradient(double(loss), x, y)
    torch.testing.assert_close(found[0], expected[0], rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(found[1], expected[1], rtol=1e-8, atol=1e-11)


SLOW_IN_THE_CLASS_SIZE = {
    "AngularLoss",
    "AngularTripletLoss",
    "FacilityLocationLoss",
    "PairSemiHardTripletLoss",
    "QuadrupletLoss",
    "SmoothAPLoss",
    "TwoTermQuadrupletLoss",
}


@pytest.mark.parametrize("kind", LOSSES)
def test_an_extremely_skewed_batch(kind: type[PairLoss]) -> None:
    """One class of 2,000 among 2,048, more than one tile; for the losses above 120 among 128."""
    n, large = (128, 120) if kind.__name__ in SLOW_IN_THE_CLASS_SIZE else (2048, 2000)
    y = torch.cat([torch.zeros(large, dtype=torch.int64), 1 + torch.arange(n - large) % 40])
    y = y[torch.randperm(n, generator=torch.Generator().manual_seed(0))]
    x = torch.randn(n, 8, generator=torch.Generator().manual_seed(1))
    value, gradient = value_and_gradient(kind(), x, y)
    assert torch.isfinite(value)
    assert torch.isfinite(gradient).all()
    assert gradient.abs().max() > 0


@pytest.mark.parametrize("kind", LOSSES)
def test_against_a_database(kind: type[PairLoss]) -> None:
    x, y = batch(20, 5)
    d, k = batch(33, 5, seed=2)
    loss = CASES[f"{kind.__name__}()"]
    if kind.__name__ in ONE_SET_ONLY:
        with pytest.raises(NearerError, match="database"):
            loss().double()(x, y, database=d, database_labels=k)
        return
    leaves = [tensor.clone().requires_grad_() for tensor in (x, d, x, d)]
    dense = double(loss).dense(leaves[0], y, database=leaves[1], database_labels=k)
    with tile_size(4):
        stream = double(loss)(leaves[2], y, database=leaves[3], database_labels=k)
    torch.testing.assert_close(stream, dense, rtol=1e-10, atol=1e-12)
    expected = torch.autograd.grad(dense, leaves[:2])
    found = torch.autograd.grad(stream, leaves[2:])
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-11)


CLASSES_ONLY = {"FacilityLocationLoss", "NPairsLoss", "TwoTermQuadrupletLoss"}


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("name", ["partial", "multilabel", "distribution", "pairs"])
def test_any_relation(kind: type[PairLoss], name: str) -> None:
    x, y = batch(18, 4)
    generator = torch.Generator().manual_seed(7)
    shares = torch.rand(18, 3, generator=generator)
    relation = {
        "partial": PartialLabels(torch.where(torch.arange(18) % 3 == 0, -1, y)),
        "multilabel": MultiLabels(torch.rand(18, 5, generator=generator) > 0.7),
        "distribution": LabelDistributions(shares / shares.sum(1, keepdim=True), positive_from=0.8),
        "pairs": Pairs(18, positive=[[0, 1], [2, 3], [4, 5]], negative=[[0, 2], [1, 5], [4, 9]]),
    }[name]
    loss = CASES[f"{kind.__name__}()"]
    if kind.__name__ in CLASSES_ONLY:
        with pytest.raises(NearerError, match="class labels"):
            loss()(x, relation)
        return
    expected = value_and_gradient(double(loss).dense, x, relation)
    with tile_size(5):
        found = value_and_gradient(double(loss), x, relation)
    torch.testing.assert_close(found[0], expected[0], rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(found[1], expected[1], rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("kind", LOSSES)
def test_bad_input(kind: type[PairLoss]) -> None:
    x, y = batch(8, 3)
    loss = kind()
    with pytest.raises(ShapeError, match=r"`embeddings` must have shape \(n, d\), got \(8,\)"):
        loss(x[:, 0], y)
    with pytest.raises(ShapeError, match="one entry for each of the 8 rows, got 7"):
        loss(x, y[:7])
    with pytest.raises(NotFiniteError, match="`embeddings` must be finite, got 1 NaN"):
        loss(torch.where(torch.arange(64).view(8, 8) == 9, torch.nan, x), y)
    with pytest.raises(ShapeError, match="MultiLabels"):
        loss(x, torch.ones(8, 2, dtype=torch.int64))
    with pytest.raises(ParameterError, match="`reduction` must be one of"):
        kind(reduction="median") if "reduction" in inspect.signature(kind).parameters else _raise()
    with pytest.raises(ParameterError, match="must be given together"):
        loss(x, y, database=x)


def _raise() -> None:
    raise ParameterError("`reduction` must be one of its own")


def test_numpy_and_lists_are_welcome() -> None:
    x, y = batch(12, 4)
    expected = nearer.losses.RAWLoss()(x, y)
    torch.testing.assert_close(nearer.losses.RAWLoss()(x.numpy(), y.tolist()), expected)
    torch.testing.assert_close(nearer.losses.RAWLoss()(x, y.to(torch.uint8)), expected)


def test_the_contract_is_run_on_every_public_loss() -> None:
    """A lazy package or a new room must not empty the list of losses without a word."""
    public = [getattr(house, name) for house in (nearer.losses, nearer_papers.systems) for name in house.__all__]
    pair_losses = {kind.__name__ for kind in public if isinstance(kind, type) and issubclass(kind, PairLoss)}
    listed = {kind.__name__ for kind in LOSSES}
    # Bases and wrappers have no formula of their own.
    assert pair_losses - listed <= {"PairLoss", "RowLoss"}
    assert len(listed) >= 30


@every_loss
@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_rows_of_extreme_size_give_finite_numbers_or_a_clear_error(make: Make, size: float) -> None:
    x, y = batch(24, 6, seed=2)
    leaf = (x.float() * size).requires_grad_()
    if size > 1 and not make().normalize:
        with pytest.raises(NotFiniteError, match="Pass normalize=True, or scale them"):
            make()(leaf, y)
        return
    value = make()(leaf, y)
    value.backward()
    assert leaf.grad is not None
    assert bool(value.isfinite())
    assert bool(leaf.grad.isfinite().all())
