"""HRAML: gradients as printed, planted problems for every kind of labels, reproducibility, bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from nearer.estimators import AAKNN, HRAML, MLKNN, MetricKNN
from nearer.estimators.relation._hraml import AlignmentNetwork, PartnerSampler
from nearer.exceptions import LabelError, NearerWarning, ParameterError, ShapeError
from nearer.relations import MultiLabels
from nearer.relations._kinds import relation_of

QUICK: dict[str, Any] = {
    "epochs": 20,
    "networks": 1,
    "hidden": (24,),
    "dropout": 0.0,
    "input_dropout": 0.0,
    "batch_size": 64,
    "random_state": 0,
}


@parametrize_with_checks([HRAML(**{**QUICK, "epochs": 3})])
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def test_the_gradient_of_a_pair_by_hand() -> None:
    """δ = e·df through the normalisation (I − ffᵀ)/‖h‖, then ∘(1 − h²) and W, layer by layer (B2)."""
    torch.manual_seed(0)
    network = AlignmentNetwork([5, 4, 3]).double()
    x = torch.randn(2, 5, dtype=torch.float64)
    g = 0.7
    f = network(x)
    value = ((f[0] - f[1]).square().sum() - g) ** 2 / 4
    value.backward()  # type: ignore[no-untyped-call]
    (w1, b1), (w2, b2) = ((layer.weight, layer.bias) for layer in (network.layers[0], network.layers[2]))
    h1 = torch.tanh(x @ w1.T + b1)
    h2 = torch.tanh(h1 @ w2.T + b2)
    length = h2.norm(dim=1, keepdim=True)
    unit = h2 / length
    df = unit[0] - unit[1]
    e = df.square().sum() - g
    by_w1, by_w2, by_b1 = torch.zeros_like(w1), torch.zeros_like(w2), torch.zeros_like(b1)
    for i, sign in ((0, 1.0), (1, -1.0)):
        through = (torch.eye(3, dtype=torch.float64) - torch.outer(unit[i], unit[i])) / length[i]
        delta2 = (through @ (sign * e * df)) * (1 - h2[i] ** 2)
        delta1 = (w2.T @ delta2) * (1 - h1[i] ** 2)
        by_w2 += torch.outer(delta2, h1[i])
        by_w1 += torch.outer(delta1, x[i])
        by_b1 += delta1
    torch.testing.assert_close(w2.grad, by_w2.detach())
    torch.testing.assert_close(w1.grad, by_w1.detach())
    torch.testing.assert_close(b1.grad, by_b1.detach())


def planted(kind: str, n: int = 300, seed: int = 0) -> tuple[np.ndarray, Any]:
    """Labels by the signs and sizes of two columns among eight, the others twice as loud."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8)) * np.r_[1, 1, np.full(6, 2.0)]
    if kind == "classes":
        return X, np.array(["ant", "bee", "cow", "dog"])[(X[:, 0] > 0).astype(int) + 2 * (X[:, 1] > 0)]
    if kind == "numbers":
        return X, X[:, 0] + 0.5 * X[:, 1]
    if kind == "sets":
        return X, np.column_stack([X[:, 0] > 0, X[:, 1] > 0, X[:, 0] + X[:, 1] > 0]).astype(int)
    shares = np.exp(1.5 * np.column_stack([X[:, 0], X[:, 1], -X[:, 0]]))
    return X, shares / shares.sum(axis=1, keepdims=True)


def neighbors_error(Z: np.ndarray, table: np.ndarray, cut: int) -> float:
    order = np.linalg.norm(Z[cut:, None] - Z[None, :cut], axis=2).argsort(axis=1)[:, :8]
    return float(np.square(table[:cut][order].mean(axis=1) - table[cut:]).sum(axis=1).mean())


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("classes", {}),
        ("numbers", {}),
        ("sets", {}),
        ("sets", {"relation": "cosine", "sharpness": 0.5}),
        ("sets", {"scale": "affine", "hard_fraction": 0.5}),
        ("distributions", {}),
        ("distributions", {"relation": "jensen_shannon"}),
        ("distributions", {"relation": lambda a, b: (a - b).square().sum(-1)}),
    ],
    ids=["classes", "numbers", "sets", "cosine", "affine", "distributions", "jensen-shannon", "own"],
)
def test_every_kind_of_labels_beats_the_raw_features(kind: str, settings: dict[str, Any]) -> None:
    X, y = planted(kind)
    cut = 220
    table = np.asarray(relation_of(y).queries, dtype=float)
    table = np.eye(4)[table.astype(int)] if kind == "classes" else table.reshape(len(X), -1)
    learner = HRAML(**QUICK, **settings).fit(X[:cut], y[:cut])
    Z = learner.transform(X)
    np.testing.assert_allclose(np.linalg.norm(Z, axis=1), 1, atol=1e-5)
    assert neighbors_error(Z, table, cut) < 0.75 * neighbors_error(X, table, cut)


def test_as_easy_as_with_classes() -> None:
    learner = HRAML(**QUICK)
    X, y = planted("sets")
    assert MLKNN(clone(learner)).fit(X, y).predict(X[:3]).shape == (3, 3)
    X, y = planted("distributions")
    assert AAKNN(clone(learner)).fit(X, y).predict(X[:3]).shape == (3, 3)
    X, y = planted("classes")
    assert (MetricKNN(clone(learner)).fit(X, y).predict(X) == y).mean() > 0.9


def test_the_settings_of_the_released_code_run() -> None:
    X, y = planted("classes")
    learner = HRAML(
        hidden=(100,),
        networks=1,
        dropout=0,
        input_dropout=0,
        bounded=True,
        spread=0.2,
        optimizer="sgd",
        lr=1e-2,
        epochs=20,
        batch_size=40,
        random_state=0,
    ).fit(X, y)
    near = learner.pair_distance(X[y == "ant"][:10], X[y == "ant"][10:20])
    far = learner.pair_distance(X[y == "ant"][:10], X[y == "dog"][:10])
    assert near.mean() < far.mean()
    assert learner.calibrate_threshold(X[:50], X[50:100], y[:50] == y[50:100]).threshold_ > 0


def test_networks_average_their_squared_distances() -> None:
    X, y = planted("sets")
    both = HRAML(**{**QUICK, "networks": 2, "epochs": 3}).fit(X, y)
    Z = both.transform(X[:20])
    assert Z.shape[1] == both._n_features_out == 2 * 8
    halves = np.split(Z * np.sqrt(2), 2, axis=1)
    squares = [np.square(h[:, None] - h[None]).sum(2) for h in halves]
    np.testing.assert_allclose(np.square(Z[:, None] - Z[None]).sum(2), np.mean(squares, axis=0), atol=1e-6)


def test_the_same_seed_is_the_same_network_and_the_global_one_is_untouched() -> None:
    X, y = planted("numbers")
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    settings = {**QUICK, "epochs": 2, "dropout": 0.3, "sharpness": 1.0}
    first, second = (HRAML(**settings).fit(X, y).transform(X) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert torch.equal(torch.random.get_rng_state(), before)
    other = HRAML(**{**settings, "random_state": 1}).fit(X, y).transform(X)
    assert not np.allclose(first, other)


def test_partners_come_with_their_anchors() -> None:
    y = planted("sets")[1]
    sampler = PartnerSampler(MultiLabels(y, function="l1"), 40, 2.0, 3)
    assert len(sampler) == 15
    batches = sampler.epoch(0)
    anchors = torch.cat([rows[: len(rows) // 2] for rows in batches])
    assert torch.equal(anchors.sort()[0], torch.arange(300))
    same = [float((y[rows[: len(rows) // 2]] == y[rows[len(rows) // 2 :]]).all(1).mean()) for rows in batches]
    assert np.mean(same) > 0.95
    assert all(torch.equal(a, b) for a, b in zip(batches, sampler.epoch(0), strict=True))
    assert not torch.equal(batches[0], sampler.epoch(1)[0])
    plain = PartnerSampler(MultiLabels(y), 40, 0.0, 3)
    assert torch.equal(torch.cat(plain.epoch(0)).sort()[0], torch.arange(300))


def test_features_of_any_scale() -> None:
    X, y = planted("numbers")
    scaled = X * np.r_[1e6, 1e-6, np.ones(6)] + 1e3
    first, second = (HRAML(**{**QUICK, "epochs": 3}).fit(rows, y).transform(rows) for rows in (X, scaled))
    np.testing.assert_allclose(first, second, atol=1e-3)
    together = HRAML(**{**QUICK, "epochs": 3, "standardize": False}).fit(X, y)
    assert np.ptp(together.scale_) == 0


def test_out_of_reach_is_said() -> None:
    X, _ = planted("sets")
    y = (np.random.default_rng(0).random((300, 6)) > 0.5).astype(int)
    with pytest.warns(NearerWarning, match="the relation asks for 6"):
        HRAML(**{**QUICK, "epochs": 1}, scale="none").fit(X, y)


X0 = np.random.default_rng(0).normal(size=(10, 2))
BAD: list[tuple[Any, str]] = [
    (lambda: HRAML().fit(X0, np.zeros(10, dtype=int)), "must tell rows apart"),
    (lambda: HRAML().fit(X0, np.tile([0.5, 0.5], (10, 1))), "must tell rows apart"),
    (lambda: HRAML().fit(X0, np.full((10, 2), 0.3)), "row 0 has the sum 0.6"),
    (lambda: HRAML(optimizer="lamb").fit(X0, np.arange(10)), "`optimizer` must be one of"),
    (lambda: HRAML(epochs=0).fit(X0, np.arange(10)), "`epochs` must be at least 1"),
    (lambda: HRAML(dropout=1.0).fit(X0, np.arange(10)), "`dropout` must be at most 0.95"),
    (lambda: HRAML(relation="l1").fit(X0, np.arange(10)), "compares rows of labels"),
    (lambda: HRAML(**QUICK).fit(X0, np.arange(10)).pair_distance(X0, X0[:3]), "as many rows, got 10 and 3"),
]


@pytest.mark.parametrize(("make", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_input(make: Any, message: str) -> None:
    with pytest.raises((LabelError, ParameterError, ShapeError), match=message):
        make()
