"""Label-distribution scores: formulas, zeros, bounds and relations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nearer.evaluation._distribution import canberra, chebyshev, clark, cosine, intersection, kullback_leibler
from nearer.exceptions import LabelError, NotFiniteError, ParameterError, ShapeError

SCORES = [chebyshev, clark, canberra, kullback_leibler, cosine, intersection]
WEIGHTS = st.integers(1, 6).flatmap(
    lambda q: st.tuples(*[st.lists(st.sampled_from([0, 0, 1, 2, 5]), min_size=q, max_size=q) for _ in range(2)])
)


def normal(weights: list[int]) -> np.ndarray:
    row = np.array(weights, dtype=float)
    if not row.any():
        row[0] = 1
    return row / row.sum()


@given(WEIGHTS)
@settings(max_examples=150, deadline=None)
def test_formulas_bounds_and_relations(weights: tuple[list[int], list[int]]) -> None:
    d, p = normal(weights[0]), normal(weights[1])
    q = len(d)
    ratio = [abs(a - b) / (a + b) if a + b else 0.0 for a, b in zip(d, p, strict=True)]
    assert chebyshev([p], [d]) == pytest.approx(max(abs(a - b) for a, b in zip(d, p, strict=True)))
    assert clark([p], [d]) == pytest.approx(sum(r * r for r in ratio) ** 0.5)
    assert canberra([p], [d]) == pytest.approx(sum(ratio))
    assert cosine([p], [d]) == pytest.approx(d @ p / (np.linalg.norm(d) * np.linalg.norm(p)))
    assert intersection([p], [d]) == pytest.approx(1 - np.abs(d - p).sum() / 2)
    assert clark([p], [d]) <= q**0.5 + 1e-12
    assert canberra([p], [d]) <= q + 1e-12
    assert kullback_leibler([p], [d]) >= 0
    assert kullback_leibler([d], [d]) == 0
    if (p > 0).all():
        expected = sum(a * np.log(a / b) for a, b in zip(d, p, strict=True) if a > 0)
        assert kullback_leibler([p], [d], smoothing=0) == pytest.approx(expected)


def test_the_mean_is_over_rows() -> None:
    rng = np.random.default_rng(0)
    p, d = rng.dirichlet(np.ones(5), size=(2, 40))
    for score in SCORES:
        assert score(p, d) == pytest.approx(np.mean([score([a], [b]) for a, b in zip(p, d, strict=True)]))


def test_zeros_never_make_nan() -> None:
    zero, one = [[0.0, 0.0]], [[0.0, 1.0]]
    assert clark(zero, zero) == canberra(zero, zero) == 0.0
    assert clark(zero, one) == canberra(zero, one) == 1.0
    assert cosine(zero, one) == cosine(zero, zero) == 0.0
    assert intersection(zero, one) == 0.0
    assert 0 < kullback_leibler([[1.0, 0.0]], one) < 20
    assert kullback_leibler(zero, zero) == 0.0


def test_the_cosine_of_very_small_rows() -> None:
    assert cosine([[3e-200, 4e-200]], [[3e200, 4e200]]) == pytest.approx(1.0)


def test_smoothing_fades_out() -> None:
    p, d = [[0.2, 0.8]], [[0.6, 0.4]]
    exact = kullback_leibler(p, d, smoothing=0)
    assert kullback_leibler(p, d, smoothing=1e-6) == pytest.approx(exact, rel=1e-4)
    assert kullback_leibler(p, d, smoothing=0.1) < exact


def test_input_of_any_kind_stays_as_it_was() -> None:
    rng = np.random.default_rng(0)
    p, d = np.round(rng.dirichlet(np.ones(4), size=(2, 20)) * 64) / 64
    locked = d.astype(np.float32)
    locked.flags.writeable = False
    for score in SCORES:
        plain = score(p, d)
        for kind in (locked, d.tolist(), torch.tensor(d), d.astype(np.float16), np.asfortranarray(d)):
            assert score(p, kind) == pytest.approx(plain)
    assert locked.tolist() == d.tolist()


@pytest.mark.parametrize("score", SCORES)
def test_bad_input_is_refused(score: Any) -> None:
    with pytest.raises(ShapeError, match=r"`predicted` must have the shape of `targets`, \(1, 2\), got \(1, 3\)"):
        score([[0.1, 0.2, 0.7]], [[0.5, 0.5]])
    with pytest.raises(LabelError, match=r"`predicted` must not be negative, got -0\.1"):
        score([[-0.1, 1.1]], [[0.5, 0.5]])
    with pytest.raises(LabelError, match="`targets` must not be negative"):
        score([[0.5, 0.5]], [[-0.5, 1.5]])
    with pytest.raises(NotFiniteError, match="must be finite"):
        score([[np.nan, 1.0]], [[0.5, 0.5]])
    with pytest.raises(ShapeError, match=r"shape \(n, d\)"):
        score([0.5, 0.5], [0.5, 0.5])
    with pytest.raises(ShapeError, match="at least 1 row"):
        score(np.empty((0, 2)), np.empty((0, 2)))


def test_a_divergence_without_smoothing_may_be_infinite() -> None:
    with pytest.raises(NotFiniteError, match="Pass a `smoothing`"):
        kullback_leibler([[1.0, 0.0]], [[0.5, 0.5]], smoothing=0)
    with pytest.raises(NotFiniteError, match="Pass a `smoothing`"):
        kullback_leibler([[1.0, 0.0]], [[0.0, 0.0]], smoothing=0)
    with pytest.raises(ParameterError, match="`smoothing` must be at least 0"):
        kullback_leibler([[1.0, 0.0]], [[0.5, 0.5]], smoothing=-1)
