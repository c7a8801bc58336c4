"""The semi-supervised learners: their oracles, what unlabelled rows add, and few or no labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy import linalg
from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier

from nearer import estimators as E
from nearer.estimators._matrices import symmetric
from nearer.estimators._scatter import label_scatters
from nearer.estimators.linear._kissme import kissme_matrix
from nearer.estimators.partial._apllr import affinity_edges, near_prior
from nearer.estimators.partial._isdml import density_edges
from nearer.estimators.partial._lrml import lrml_matrix, unit_determinant_minimizer
from nearer.estimators.partial._partly_labeled import (
    EdgeList,
    edge_scatter,
    labeled_scatters,
    neighbor_edges,
    safe_weight,
)
from nearer.estimators.partial._seraph import PairEvidence, draw_pairs, seraph_descent, seraph_objective
from nearer.exceptions import NearerError, NearerWarning
from nearer.geometry import MLP

LEARNERS = [
    E.LRML(),
    E.SERAPH(max_iter=30, random_state=0),
    E.SERAPH(method="em", max_iter=60, random_state=0),
    E.ISDML(),
    E.APLLR(),
    E.APIT(max_iter=200, random_state=0),
    E.SemiSupervisedMetric(random_state=0),
    E.SemiSupervisedMetric(triplets="neighborhood", random_state=0),
]


def named(learner: Any) -> str:
    more = [str(value) for key, value in learner.get_params().items() if key in ("method", "triplets")]
    return "-".join([type(learner).__name__, *more])


def planted(n: int = 240, seed: int = 0, noise: float = 1.5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three clusters in two of eight columns; the other columns are noise; twelve labels."""
    random = np.random.default_rng(seed)
    y = np.arange(n) % 3
    X = random.normal(size=(n, 8)) * np.r_[0.4, 0.4, np.full(6, noise)]
    X[:, :2] += 3 * np.array([[0, 0], [1, 0], [0.5, 0.9]])[y]
    return X, y, np.where(np.arange(n) < 36, y, -1)


def spd(p: int, seed: int = 0) -> np.ndarray:
    root = np.random.default_rng(seed).normal(size=(p, 2 * p))
    return root @ root.T / p


@pytest.mark.filterwarnings("ignore::nearer.exceptions.StoppedEarlyWarning")
@pytest.mark.parametrize("learner", LEARNERS, ids=named)
def test_twelve_labels_per_class_find_the_columns_that_matter(learner: Any) -> None:
    X, y, labels = planted(noise=1.0 if "neighborhood" in named(learner) else 1.5)
    fitted = clone(learner).fit(X, labels)
    new, truth, _ = planted(seed=9)
    share = np.trace(fitted.mahalanobis_matrix()[:2, :2]) / np.trace(fitted.mahalanobis_matrix())
    if "neighborhood" in named(learner):
        return  # halves of a neighbourhood say little about noise columns, and are kept as published
    assert share > 0.3
    raw = KNeighborsClassifier(3).fit(X[:36], y[:36]).score(new, truth)
    mapped = KNeighborsClassifier(3).fit(fitted.transform(X[:36]), y[:36]).score(fitted.transform(new), truth)
    assert mapped >= raw - 0.02


@pytest.mark.filterwarnings("ignore::nearer.exceptions.StoppedEarlyWarning")
@pytest.mark.parametrize("learner", LEARNERS, ids=named)
def test_no_label_one_class_and_twins(learner: Any) -> None:
    X, _, labels = planted(60)
    with pytest.warns(NearerWarning, match="got only -1"):
        none = clone(learner).fit(X, np.full(60, -1))
    assert np.isfinite(none.components_).all()
    one = np.where(labels == 0, 0, -1)
    if isinstance(learner, E.APLLR | E.APIT):
        with pytest.warns(NearerWarning, match="should hold two classes"):
            clone(learner).fit(X, one)
    else:
        assert np.isfinite(clone(learner).fit(X, one).components_).all()
    twins = np.r_[X, X[:20]]
    fitted = clone(learner).fit(twins, np.r_[labels, labels[:20]])
    assert np.isfinite(fitted.transform(twins)).all()


def test_names_are_all_labels_and_minus_one_is_none() -> None:
    X, y, labels = planted(60)
    names = np.array(["ant", "bee", "cat"])[y]
    np.testing.assert_allclose(E.LRML().fit(X, names).components_, E.LRML().fit(X, y).components_)
    assert E.LRML().fit(X, labels).classes_.tolist() == [0, 1, 2]


# LRML


def test_lrml_satisfies_the_optimality_conditions_and_nothing_feasible_is_better() -> None:
    A = spd(5)
    M = unit_determinant_minimizer(A)
    assert np.linalg.slogdet(M)[1] == pytest.approx(0, abs=1e-10)
    product = A @ M
    np.testing.assert_allclose(product, np.trace(product) / 5 * np.eye(5), atol=1e-9)
    assert np.trace(product) == pytest.approx(5 * np.linalg.det(A) ** 0.2)
    random = np.random.default_rng(1)
    for _ in range(50):
        other = M + 0.1 * (lambda r: r + r.T)(random.normal(size=(5, 5)))
        values = np.linalg.eigvalsh(other)
        if values[0] > 0:
            other /= np.exp(np.linalg.slogdet(other)[1] / 5)
            assert np.trace(A @ other) >= np.trace(product) - 1e-9


def test_lrml_refuses_a_weight_without_a_minimum_and_chooses_one_below() -> None:
    graph, similar, dissimilar = spd(4, 1), spd(4, 2), spd(4, 3)
    limit = safe_weight(graph + similar, dissimilar, share=1.0)
    assert np.linalg.eigvalsh(graph + similar - limit * dissimilar)[0] == pytest.approx(0, abs=1e-9)
    lrml_matrix(graph, similar, dissimilar, dissimilar_weight=0.99 * limit, ridge=0.0)
    with pytest.raises(NearerError, match="the objective has no minimum"):
        lrml_matrix(graph, similar, dissimilar, dissimilar_weight=1.01 * limit, ridge=0.0)


@pytest.mark.parametrize("normalized", [False, True])
def test_the_energy_of_a_graph_is_the_sum_over_its_edges(normalized: bool) -> None:
    X = planted(30)[0]
    edges = neighbor_edges(X, 4)
    degree = np.bincount(np.r_[edges.left, edges.right], minlength=30)
    rows = X / np.sqrt(degree)[:, None] if normalized else X
    expected = sum(np.outer(rows[i] - rows[j], rows[i] - rows[j]) for i, j, _ in zip(*edges, strict=True))
    np.testing.assert_allclose(
        edge_scatter(X, edges, normalized=normalized), expected / len(edges.left), atol=1e-10
    )
    assert len({(i, j) for i, j, _ in zip(*edges, strict=True)}) == len(edges.left)
    assert (edges.left < edges.right).all()


def test_labeled_scatters_leave_the_others_out() -> None:
    X, _, labels = planted(60)
    expected = label_scatters(X[labels >= 0], labels[labels >= 0])
    found = labeled_scatters(X, labels)
    np.testing.assert_allclose(found.similar, expected.similar / expected.n_similar)
    np.testing.assert_allclose(found.dissimilar, expected.dissimilar / expected.n_dissimilar)


# ISDML


def geodesic_descent(matrix: np.ndarray, *, max_iter: int, tol: float) -> tuple[np.ndarray, int]:
    """Minimise `Tr(AM)` over `det M = 1` by steepest descent along geodesics; M (p, p) and the iterations.

    `G = A − (Tr(AM)/p)M⁻¹`, `M ← C exp(−ηCᵀGC)Cᵀ` with `M = CCᵀ`, Armijo on η. Convex along geodesics for A ≻ 0,
    so the limit is `unit_determinant_minimizer(A)`.

    """
    p = len(matrix)
    A = symmetric(matrix) / (np.trace(matrix) / p)
    M, step = np.eye(p), 1.0
    value = float(np.trace(A))
    for iteration in range(1, max_iter + 1):
        lower = linalg.cholesky(M, lower=True)
        inner = symmetric(lower.T @ A @ lower)
        slope = inner - np.trace(inner) / p * np.eye(p)
        size = float(np.square(slope).sum())
        if size <= (tol * value) ** 2:
            return M, iteration
        values, vectors = linalg.eigh(slope)
        for _ in range(40):
            # exp(−η slope) has determinant one, because the trace of the slope is zero.
            side = (lower @ vectors) * np.exp(-step * values / 2)
            fresh = symmetric(side @ side.T)
            cost = float(np.einsum("ij,ji->", A, fresh))
            if cost <= value - 1e-4 * step * size:
                break
            step /= 2
        else:
            return M, iteration
        M, value, step = fresh, cost, 2 * step
    return M, max_iter


def test_the_published_descent_ends_in_the_closed_form_of_isdml() -> None:
    A = spd(5, 4)
    M, iterations = geodesic_descent(A, max_iter=2000, tol=1e-10)
    np.testing.assert_allclose(M, unit_determinant_minimizer(A), rtol=1e-4, atol=1e-4)
    assert 1 < iterations < 2000


def test_density_edges_are_the_printed_weights() -> None:
    X = planted(25)[0]
    edges = density_edges(X, 3)
    distance = np.linalg.norm(X[edges.left] - X[edges.right], axis=1)
    width = distance.min() + (distance.max() - distance.min()) / 10
    kernel = np.exp(-((X[:, None] - X[None]) ** 2).sum(2) / (2 * width**2))
    beta = kernel.sum(1) / kernel.sum(1).max()
    expected = (beta[edges.left] + beta[edges.right]) * np.exp(-(distance**2) / (2 * width**2))
    np.testing.assert_allclose(edges.weight, expected, rtol=1e-9)


# SERAPH


def test_seraph_gradient_is_that_of_autograd_and_far_pairs_do_not_overflow() -> None:
    random = np.random.default_rng(0)
    delta = random.normal(size=(30, 3))
    similar = np.r_[np.ones(10), np.zeros(10), np.full(10, np.nan)]
    M = spd(3)
    value, gradient = seraph_objective(M, PairEvidence(delta, similar), eta=1.3, mu=0.7, trace_weight=0.2)
    matrix, d = torch.tensor(M, requires_grad=True), torch.tensor(delta)
    u = 1.3 - ((d @ matrix) * d).sum(1)
    p = torch.sigmoid(u)
    entropy = -p * torch.log(p) - (1 - p) * torch.log(1 - p)
    total = -torch.log(p[:10]).sum() - torch.log(1 - p[10:20]).sum() + 0.7 * entropy[20:].sum()
    total = total + 0.2 * torch.trace(matrix)
    assert value == pytest.approx(total.item(), rel=1e-12)
    np.testing.assert_allclose(gradient, torch.autograd.grad(total, matrix)[0].numpy(), atol=1e-12)
    far, slope = seraph_objective(np.eye(1), PairEvidence(np.array([[1e3]]), np.array([np.nan])), eta=50.0, mu=1.0)
    assert np.isfinite(far)
    assert np.isfinite(slope).all()


@pytest.mark.filterwarnings("ignore::nearer.exceptions.StoppedEarlyWarning")
def test_seraph_without_entropy_is_convex_and_both_methods_meet() -> None:
    X, y, _ = planted(60)
    pairs = draw_pairs(X / 4, y, 400, np.random.RandomState(0))
    starts = [np.eye(8), 0.1 * np.eye(8)]
    found = [seraph_descent(lambda M: seraph_objective(M, pairs), start, max_iter=3000)[0] for start in starts]
    values = [seraph_objective(one, pairs)[0] for one in found]
    assert values[0] == pytest.approx(values[1], rel=0.01)
    first, second = (
        E.SERAPH(mu=0.0, method=one, max_iter=1000, random_state=0).fit(X, y).mahalanobis_matrix()
        for one in ("gradient", "em")
    )
    # All rows are labelled, so the guesses of EM are never asked for.
    angle = (first * second).sum() / np.linalg.norm(first) / np.linalg.norm(second)
    assert angle > 0.9


def test_pairs_are_drawn_of_both_kinds_and_never_with_oneself() -> None:
    X, _, labels = planted(40)
    pairs = draw_pairs(X, np.where(np.arange(40) < 10, labels, -1), 30, np.random.RandomState(0))
    assert np.isnan(pairs.similar).sum() == 30
    assert (np.abs(pairs.delta).sum(1) > 0).all()


# APLLR and APIT


@pytest.mark.parametrize("rank", [4, 2])
def test_the_prior_at_strength_zero_and_stationarity(rank: int) -> None:
    root = np.random.default_rng(0).normal(size=(4, rank))
    prior, graph = root @ root.T, spd(4, 5)
    np.testing.assert_allclose(near_prior(prior, graph, 0.0), prior, atol=1e-10)
    M = near_prior(prior, graph, 0.7)
    limit = prior + 1e-9 * np.eye(4)
    expected = linalg.inv(linalg.inv(limit) + 0.7 * graph)
    np.testing.assert_allclose(M, expected, atol=1e-6)
    if rank == 4:
        np.testing.assert_allclose(linalg.inv(M), linalg.inv(prior) + 0.7 * graph, rtol=1e-8)
    # Decreasing in the order of Loewner.
    assert np.linalg.eigvalsh(M - near_prior(prior, graph, 1.4))[0] > -1e-10
    fro = near_prior(prior, graph, 0.7, form="frobenius")
    assert np.linalg.eigvalsh(fro)[0] > -1e-10


def test_an_indefinite_graph_allows_only_a_small_strength() -> None:
    graph = np.diag([1.0, -0.5])
    assert np.isfinite(near_prior(np.eye(2), graph, 1.9)).all()
    with pytest.raises(NearerError, match="`strength` must be below 2"):
        near_prior(np.eye(2), graph, 2.1)


def test_affinities_are_clipped_unless_asked_for() -> None:
    X, _, labels = planted(60)
    whole = affinity_edges(X, labels, k=5, gamma=0.99, clipped=False).weight
    assert whole.min() < 0
    np.testing.assert_array_equal(affinity_edges(X, labels, k=5, gamma=0.99).weight, whole.clip(min=0))


def test_the_likelihood_ratio_needs_more_labels_than_features_or_a_ridge() -> None:
    X = np.random.default_rng(0).normal(size=(30, 20))
    y = np.r_[np.arange(10) % 2, np.full(20, -1)]
    with pytest.raises(NearerError, match="must be invertible"):
        E.APLLR(ridge=0.0).fit(X, y)
    assert np.isfinite(E.APLLR().fit(X, y).components_).all()
    with pytest.raises(NearerError, match="must be invertible"):
        kissme_matrix(label_scatters(X[:10], y[:10]), ridge=0.0)


# SemiSupervisedMetric


def test_the_projection_is_orthonormal_and_square_ones_are_warned_of() -> None:
    X, _, labels = planted(90)
    found = E.SemiSupervisedMetric(3, blend=0.0, random_state=0).fit(X, labels).components_
    np.testing.assert_allclose(found @ found.T, np.eye(3), atol=1e-12)
    assert E.SemiSupervisedMetric(blend=0.0, random_state=0).fit(X, labels).components_.shape == (4, 8)
    with pytest.warns(NearerWarning, match="changes no distance"):
        E.SemiSupervisedMetric(8).fit(X, labels)


@pytest.mark.parametrize("triplets", ["signed", "neighborhood"])
def test_with_an_encoder_the_network_is_copied_and_trained(triplets: Any) -> None:
    X, y, labels = planted(120, noise=1.0)
    torch.manual_seed(0)
    encoder = MLP(8, 6, hidden=(16,), generator=torch.Generator().manual_seed(0))
    before = [one.detach().clone() for one in encoder.parameters()]
    X32 = X.astype(np.float32)
    fitted = E.SemiSupervisedMetric(
        3, encoder=encoder, n_neighbors=6, max_iter=20, triplets=triplets, random_state=0
    )
    fitted = fitted.fit(X32, labels)
    assert all(torch.equal(a, b) for a, b in zip(before, encoder.parameters(), strict=True))
    z = fitted.transform(X32)
    assert z.shape == (120, 3)
    np.testing.assert_allclose(
        fitted.pair_distance(X32[:5], X32[5:10]), np.linalg.norm(z[:5] - z[5:10], axis=1), rtol=1e-5
    )
    if triplets == "signed":
        distance = np.linalg.norm(z[:, None] - z[None], axis=2) + 1e9 * np.eye(120)
        assert (y[distance.argmin(1)] == y).mean() > 0.8
    assert not hasattr(fitted.set_params(encoder=None).fit(X, labels), "encoder_")


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        (E.LRML(n_neighbors=0), "`n_neighbors` must be at least 1"),
        (E.LRML(ridge=-1), "`ridge` must be at least 0"),
        (E.SERAPH(method="em", mu=1.5), "`mu` must be at most"),
        (E.SERAPH(eta=0), "`eta` must be greater than 0"),
        (E.APLLR(gamma=1.0), "`gamma` must be below 1"),
        (E.APLLR(form="euclid"), "`form` must be one of"),
        (E.APIT(strength=-1), "`strength` must be at least 0"),
        (E.SemiSupervisedMetric(alpha=90), "`alpha` must be at most"),
        (E.SemiSupervisedMetric(triplets="all"), "`triplets` must be one of"),
    ],
    ids=lambda one: named(one) if hasattr(one, "fit") else "",
)
@pytest.mark.filterwarnings("ignore::nearer.exceptions.StoppedEarlyWarning")
def test_bad_settings(learner: Any, message: str) -> None:
    X, _, labels = planted(60)
    with pytest.raises(NearerError, match=message):
        learner.fit(X, labels)


def test_edges_are_a_plain_tuple() -> None:
    assert EdgeList(np.array([0]), np.array([1]), np.array([1.0])).weight[0] == 1
