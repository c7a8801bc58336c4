"""What went wrong once, for every loss: empty batches, duplicates, extreme lengths, second derivatives, threads."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from every_loss import CASES, LOSSES, ONE_SET_ONLY, Make, batch, value_and_gradient
from nearer.exceptions import ParameterError
from nearer.losses import (
    AMSoftmaxLoss,
    ArcFaceLoss,
    ContrastiveLoss,
    DistanceContrastiveLoss,
    JRSLoss,
    PairLoss,
    ProxyAnchorLoss,
    RAWLoss,
    SupConLoss,
    TripletLoss,
)
from nearer.mining import VTHM, DistanceWeighted
from nearer.pairwise._panels import forced_tile, tile_size
from nearer_papers.systems import JMMDLoss

every_loss = pytest.mark.parametrize("make", CASES.values(), ids=CASES.keys())


@every_loss
def test_an_empty_batch_is_zero_on_the_graph(make: Make) -> None:
    x = torch.zeros(0, 8, dtype=torch.float64, requires_grad=True)
    y = torch.zeros(0, dtype=torch.int64)
    for call in (make(), make().dense):
        value = call(x, y)
        assert value == 0
        (gradient,) = torch.autograd.grad(value, x)
        assert gradient.shape == (0, 8)


@pytest.mark.parametrize("kind", [kind for kind in LOSSES if kind.__name__ not in ONE_SET_ONLY])
def test_an_empty_database_is_zero_on_the_graph(kind: type[PairLoss]) -> None:
    loss = CASES[f"{kind.__name__}()"]()
    x, y = batch(6, 3)
    x.requires_grad_()
    nothing = torch.zeros(0, dtype=torch.int64)
    value = loss(x, y, database=torch.zeros(0, 8, dtype=torch.float64), database_labels=nothing)
    value.backward()
    assert value == 0
    assert x.grad is not None
    assert x.grad.abs().max() == 0


@pytest.mark.parametrize("n", [300, 700], ids=["panel", "walk"])
def test_exact_duplicates_have_no_distance(n: int) -> None:
    """In single precision 2 − 2s of two equal vectors is 1e-7, whose root counted as a term."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, 16, generator=generator)
    y = torch.arange(n) // 4
    x[1::4] = x[0::4]
    loss = DistanceContrastiveLoss()
    expected, slope = value_and_gradient(loss.dense, x, y)
    found, gradient = value_and_gradient(loss, x, y)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=0)
    torch.testing.assert_close(gradient, slope, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("loss", [RAWLoss(), SupConLoss(), TripletLoss(), ContrastiveLoss()], ids=repr)
@pytest.mark.parametrize("length", [1e30, 1e20, 1e-25, 1e-30])
def test_very_long_and_very_short_rows_are_normalized(loss: PairLoss, length: float) -> None:
    x, y = batch(24, 6)
    expected, slope = value_and_gradient(loss, x.float(), y)
    found, gradient = value_and_gradient(loss, (x * length).float(), y)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(gradient * length, slope, rtol=1e-3, atol=1e-5)
    mixed = torch.where(torch.arange(24)[:, None] % 2 == 0, x * length, x).float()
    torch.testing.assert_close(value_and_gradient(loss, mixed, y)[0], expected)


def proxies(kind: Callable[..., torch.nn.Module]) -> Callable[[Tensor, Tensor], Tensor]:
    module = kind(6, 8).double()
    return lambda x, y: module(x, y)


OTHERS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "AMSoftmaxLoss": proxies(AMSoftmaxLoss),
    "ArcFaceLoss": proxies(ArcFaceLoss),
    "ProxyAnchorLoss": proxies(ProxyAnchorLoss),
    "JRSLoss": lambda x, y: JRSLoss()([x, 2 * x], y),
    "JMMDLoss": lambda x, y: JMMDLoss()([x, 2 * x], y),
}
ALL = {**{name: (lambda x, y, make=make: make()(x, y)) for name, make in CASES.items()}, **OTHERS}


@pytest.mark.parametrize("call", ALL.values(), ids=ALL.keys())
def test_second_derivatives_are_refused(call: Callable[[Tensor, Tensor], Tensor]) -> None:
    x, y = batch(18, 6)
    x.requires_grad_()
    (gradient,) = torch.autograd.grad(call(x, y), x, create_graph=True)
    with pytest.raises(ParameterError, match="must be differentiated once"):
        torch.autograd.grad(gradient.square().sum(), x)


@pytest.mark.parametrize("call", ALL.values(), ids=ALL.keys())
def test_transforms_of_functions_are_refused(call: Callable[[Tensor, Tensor], Tensor]) -> None:
    x, y = batch(18, 6)
    with pytest.raises(ParameterError, match="plain tensors"):
        torch.func.grad(lambda z: call(z, y))(x)
    with pytest.raises(ParameterError, match="plain tensors"):
        torch.vmap(lambda z: call(z, y))(torch.stack([x, x]))


@pytest.mark.parametrize("call", ALL.values(), ids=ALL.keys())
def test_a_second_backward_pass_is_the_first(call: Callable[[Tensor, Tensor], Tensor]) -> None:
    x, y = batch(18, 6)
    x.requires_grad_()
    value = call(x, y)
    first = torch.autograd.grad(value, x, retain_graph=True)[0].clone()
    assert torch.equal(torch.autograd.grad(value, x)[0], first)


def test_the_dense_twin_has_second_derivatives() -> None:
    x, y = batch(12, 4)
    x.requires_grad_()
    (gradient,) = torch.autograd.grad(RAWLoss().dense(x, y), x, create_graph=True)
    assert torch.autograd.grad(gradient.square().sum(), x)[0].abs().max() > 0


def test_a_forced_tile_size_is_not_seen_by_other_threads() -> None:
    seen: list[int | None] = []
    with tile_size(7):
        thread = threading.Thread(target=lambda: seen.append(forced_tile()))
        thread.start()
        thread.join()
        assert forced_tile() == 7
    assert seen == [None]


@pytest.mark.parametrize("n", [48, 640], ids=["panel", "walk"])
def test_two_threads_that_share_a_loss_give_the_numbers_of_one(n: int) -> None:
    loss = RAWLoss(miner=VTHM())
    jobs = [batch(n, n // 4, seed=seed) for seed in range(6)]
    expected = [value_and_gradient(loss, x, y) for x, y in jobs]
    found: dict[int, tuple[Tensor, Tensor]] = {}

    def work(numbers: range) -> None:
        for _ in range(3):
            for number in numbers:
                found[number] = value_and_gradient(loss, *jobs[number])

    threads = [threading.Thread(target=work, args=(range(start, 6, 2),)) for start in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, (value, gradient) in enumerate(expected):
        assert torch.equal(found[number][0], value)
        assert torch.equal(found[number][1], gradient)


def test_weights_know_the_dimension_of_the_embeddings() -> None:
    """S has the rank of the embeddings, which the density of distances depends on; its width is the batch."""
    x, y = batch(40, 8, dimension=5)
    z = torch.nn.functional.normalize(x, dim=1)

    def drawn(embedding_dim: int | None) -> Tensor:
        miner = DistanceWeighted(embedding_dim=embedding_dim, generator=torch.Generator().manual_seed(1))
        return RAWLoss(miner=miner).weights(z @ z.T, y)

    assert torch.equal(drawn(None), drawn(5))
    assert not torch.equal(drawn(None), drawn(40))
