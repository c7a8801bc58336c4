"""Similarities and distances against loops over the printed formulas, and at the places where floats fail."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from torch import Tensor

from nearer.exceptions import NotFiniteError, ShapeError
from nearer.geometry import cosine_similarity, euclidean_distance, normalize
from nearer.geometry._similarity import dot_product, squared_euclidean_distance

ALL = [cosine_similarity, dot_product, euclidean_distance, squared_euclidean_distance]
Pairwise = Callable[..., Tensor]


def oracle(function: Pairwise, a: list[float], b: list[float]) -> float:
    dot = math.fsum(x * y for x, y in zip(a, b, strict=True))
    squared = math.fsum((x - y) ** 2 for x, y in zip(a, b, strict=True))
    lengths = math.sqrt(math.fsum(x * x for x in a)) * math.sqrt(math.fsum(y * y for y in b))
    return {
        "cosine_similarity": dot / lengths if lengths else 0.0,
        "dot_product": dot,
        "squared_euclidean_distance": squared,
        "euclidean_distance": math.sqrt(squared),
    }[function.__name__]


@pytest.mark.parametrize("function", ALL)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_entry_is_the_printed_formula(function: Pairwise, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(5, 3, dtype=dtype, generator=generator)
    b = torch.randn(7, 3, dtype=dtype, generator=generator)
    got = function(a, b)
    expected = torch.tensor([[oracle(function, x, y) for y in b.tolist()] for x in a.tolist()], dtype=dtype)
    assert got.shape == (5, 7)
    assert got.dtype == dtype
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(function(a), function(a, a))


@pytest.mark.parametrize("function", ALL)
def test_gradients_and_second_gradients(function: Pairwise) -> None:
    generator = torch.Generator().manual_seed(1)
    a = torch.randn(4, 3, dtype=torch.float64, generator=generator, requires_grad=True)
    b = torch.randn(5, 3, dtype=torch.float64, generator=generator, requires_grad=True)
    assert torch.autograd.gradcheck(function, (a, b))
    assert torch.autograd.gradgradcheck(function, (a, b))
    weights = torch.randn(4, 4, dtype=torch.float64, generator=generator).fill_diagonal_(0)
    assert torch.autograd.gradcheck(lambda z: (function(z) * weights).sum(), (a,))


points = arrays.arrays(np.float64, (6, 4), elements=st.floats(-1e3, 1e3, allow_nan=False, allow_subnormal=False))


@given(points)
@settings(max_examples=60, deadline=None)
def test_distances_are_those_of_a_metric(x: np.ndarray) -> None:
    d = euclidean_distance(x)
    assert bool((d >= 0).all())
    assert bool((torch.diagonal(d) == 0).all())
    torch.testing.assert_close(d, d.T)
    assert bool((d[:, None, :] <= d[:, :, None] + d[None] + 1e-6 * (1 + d.max())).all())
    torch.testing.assert_close(d.square(), squared_euclidean_distance(x))


@given(points, st.floats(0.1, 10))
@settings(max_examples=40, deadline=None)
def test_cosine_does_not_see_scale(x: np.ndarray, scale: float) -> None:
    torch.testing.assert_close(cosine_similarity(scale * x), cosine_similarity(x), atol=1e-9, rtol=0)


@given(st.integers(0, 10**6), st.sampled_from([1e-2, 1e-4, 1e-6]), st.sampled_from([0.0, 1.0, 1e3]))
@settings(max_examples=40, deadline=None)
def test_small_distances_keep_their_digits(seed: int, gap: float, shift: float) -> None:
    """The usual ‖a‖²+‖b‖²−2a·b leaves an error of about 3e-4 in the distance of unit vectors in float32."""
    generator = torch.Generator().manual_seed(seed)
    a = torch.nn.functional.normalize(torch.randn(8, 64, generator=generator)) + shift
    b = a + gap * torch.randn(8, 64, generator=generator)
    got = euclidean_distance(a, b).double()
    exact = torch.cdist(a.double(), b.double(), compute_mode="donot_use_mm_for_euclid_dist")
    torch.testing.assert_close(got, exact, rtol=1e-3, atol=0)
    if gap < 1e-3:  # these are recomputed from the difference
        torch.testing.assert_close(torch.diagonal(got), torch.diagonal(exact), rtol=1e-6, atol=0)


def test_small_distances_keep_their_gradient() -> None:
    generator = torch.Generator().manual_seed(3)
    a = torch.randn(6, 32, generator=generator)
    b = (a + 1e-5 * torch.randn(6, 32, generator=generator)).requires_grad_()
    torch.diagonal(euclidean_distance(a, b)).sum().backward()
    direct = b.detach() - a
    unit = direct / direct.norm(dim=1, keepdim=True)
    torch.testing.assert_close(b.grad, unit, rtol=1e-4, atol=1e-4)


def test_equal_rows_have_distance_zero_and_no_gradient() -> None:
    x = torch.full((5, 3), 0.1).requires_grad_()
    d = euclidean_distance(x)
    assert torch.equal(d, torch.zeros(5, 5))
    d.sum().backward()
    assert torch.equal(x.grad, torch.zeros(5, 3))


def test_a_collapsed_batch_takes_the_same_way_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    from nearer.geometry import _similarity as similarity

    x = (1.0 + 1e-4 * torch.randn(9, 4, generator=torch.Generator().manual_seed(4))).requires_grad_()
    weights = torch.rand(9, 9)
    whole = squared_euclidean_distance(x)
    (gradient,) = torch.autograd.grad((whole * weights).sum(), x)
    monkeypatch.setattr(similarity, "BLOCK", 1)
    monkeypatch.setattr(similarity, "TILE", 1)
    blocks = squared_euclidean_distance(x)
    (again,) = torch.autograd.grad((blocks * weights).sum(), x)
    torch.testing.assert_close(blocks, whole)
    torch.testing.assert_close(again, gradient)


def test_numbers_too_large_to_square_give_infinity_and_equal_ones_zero() -> None:
    x = torch.tensor([[1e30, 1e30], [1e30, 1e30], [-1e30, 1e30]])
    d = squared_euclidean_distance(x)
    assert d.tolist() == [[0.0, 0.0, math.inf], [0.0, 0.0, math.inf], [math.inf, math.inf, 0.0]]


@pytest.mark.parametrize("size", [1e-40, 1e-30, 1.0, 1e30])
def test_rows_of_any_size_are_normalized(size: float) -> None:
    x = torch.tensor([[3.0, 4.0]]) * size
    torch.testing.assert_close(normalize(x), torch.tensor([[0.6, 0.8]]), rtol=1e-4, atol=0)


def test_rows_of_zeros_stay_and_pass_no_gradient() -> None:
    x = torch.tensor([[0.0, 0.0], [3.0, 4.0]], requires_grad=True)
    s = cosine_similarity(x)
    assert s[0].tolist() == [0.0, 0.0]
    s.sum().backward()
    assert x.grad[0].tolist() == [0.0, 0.0]
    assert bool(torch.isfinite(x.grad).all())
    assert torch.autograd.gradcheck(normalize, torch.rand(3, 4, dtype=torch.float64, requires_grad=True))


@pytest.mark.parametrize("function", ALL)
def test_no_rows_give_an_empty_matrix(function: Pairwise) -> None:
    assert function(torch.empty(0, 3), torch.ones(2, 3)).shape == (0, 2)
    assert function(torch.ones(2, 3), torch.empty(0, 3)).shape == (2, 0)
    assert function(torch.empty(0, 3)).shape == (0, 0)
    x = torch.ones(2, 3, requires_grad=True)
    function(x, torch.empty(0, 3)).sum().backward()
    assert torch.equal(x.grad, torch.zeros(2, 3))


def read_only(x: np.ndarray) -> np.ndarray:
    x.flags.writeable = False
    return x


@pytest.mark.parametrize("function", ALL)
@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("float16", lambda x: x.astype(np.float16)),
        ("float64", lambda x: x.astype(np.float64)),
        ("int", lambda x: x.astype(int)),
        ("uint8", lambda x: x.astype(np.uint8)),
        ("list", lambda x: x.tolist()),
        ("read-only", read_only),
        ("columns", lambda x: np.asfortranarray(x)),
        ("every other", lambda x: np.repeat(x, 2, axis=0)[::2]),
        ("backwards", lambda x: x[::-1].copy()[::-1]),
        ("big endian", lambda x: x.astype(">f4")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_any_container_gives_the_same_and_is_left_alone(
    function: Pairwise, name: str, make: Callable[[np.ndarray], object]
) -> None:
    plain = np.arange(12, dtype=np.float32).reshape(4, 3)
    given_ = make(plain.copy())
    before = np.array(given_, copy=True)
    got = function(given_, plain)
    torch.testing.assert_close(got.float(), function(plain, plain))
    np.testing.assert_array_equal(np.asarray(given_), before)


@pytest.mark.parametrize("function", ALL)
@pytest.mark.parametrize(
    ("queries", "database", "error", "message"),
    [
        (torch.ones(3), None, ShapeError, r"`queries` must have shape \(n, d\), got \(3,\)"),
        (torch.ones(2, 2, 2), None, ShapeError, r"`queries` must have shape"),
        (torch.ones(2, 0), None, ShapeError, "one column"),
        (torch.ones(2, 3), torch.ones(2, 4), ShapeError, "`database` must have 3 columns, got 4"),
        (torch.tensor([[1.0, math.nan]]), None, NotFiniteError, r"`queries` must be finite.*index \(0, 1\)"),
        (torch.ones(2, 2), torch.tensor([[math.inf, 1.0]]), NotFiniteError, "`database` must be finite"),
        ([["a", "b"]], None, ShapeError, "must hold numbers"),
        ([[1.0], [1.0, 2.0]], None, ShapeError, "rectangular"),
    ],
)
def test_bad_input_is_named(
    function: Pairwise, queries: object, database: object, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        function(queries, database)


def test_mixed_precision_widens() -> None:
    assert dot_product(torch.ones(1, 2), torch.ones(1, 2).double()).dtype == torch.float64
