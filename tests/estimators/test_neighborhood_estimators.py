"""The two estimators of the k-NN vote: planted problems, the training pieces against the plain loss, bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits, load_iris
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, train_test_split

from nearer.estimators import LMNN, AsymmetricKNN, KernelAsymmetricKNN, MetricKNN
from nearer.estimators.linear._kernels import KernelLearner
from nearer.estimators.neighbors._neighborhood_fitting import hold_out, scale_to_margin
from nearer.estimators.neighbors._neighborhood_training import (
    BothSides,
    VotePlan,
    _Adam,
    batch_loss,
    find_candidates,
    held_out_loss,
)
from nearer.exceptions import NearerWarning, NotFiniteError, ParameterError, ShapeError
from nearer.index import Index
from nearer.losses import NeighborhoodLoss
from nearer.neighbors import vote
from nearer_papers.systems import GerrymanderingMetric
from nearer_papers.systems._gerrymandering import learn_matrix


def noisy(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Three classes in the first two columns, and ten columns of much louder noise."""
    rng = np.random.RandomState(seed)
    y = rng.randint(3, size=n)
    signal = np.array([[0, 0], [2, 0], [0, 2]])[y] + 0.4 * rng.randn(n, 2)
    return np.concatenate([signal, 2 * rng.randn(n, 10)], axis=1), y


@pytest.mark.parametrize(
    "learner",
    [
        GerrymanderingMetric(validation=0, random_state=0),
        GerrymanderingMetric(solver="matrix", validation=0, random_state=0),
        AsymmetricKNN(validation=0, random_state=0),
        AsymmetricKNN(2, init="lda", validation=0, random_state=0),
    ],
    ids=["factor", "matrix", "asymmetric", "two columns"],
)
def test_noise_is_forgotten(learner: Any) -> None:
    X, y = noisy(300)
    T, t = noisy(300, seed=1)
    plain = MetricKNN(n_neighbors=3).fit(X, y).score(T, t)
    model = learner if isinstance(learner, AsymmetricKNN) else MetricKNN(learner, n_neighbors=3)
    assert plain < 0.7
    assert model.fit(X, y).score(T, t) > 0.88


def views(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two descriptions of the same items in different units, of 3 and 5 columns; the classes are seen in both."""
    rng = np.random.RandomState(seed)
    y = rng.randint(4, size=n)
    centers = np.random.RandomState(5).randn(4, 3)
    hidden = centers[y] + 0.35 * rng.randn(n, 3)
    mix, other = np.random.RandomState(6).randn(3, 3), np.random.RandomState(7).randn(3, 5)
    return hidden @ mix + 4, 9 * hidden @ other - 2, y


def test_two_views_are_brought_together_and_searched() -> None:
    Q, D, y = views(300, 0)
    test, _, wanted = views(200, 1)
    model = AsymmetricKNN(3, max_iter=10, random_state=0).fit_views(Q, D, y)
    assert model.score(test, wanted) > 0.8
    assert model.n_features_in_ == 3
    assert 0 <= model.validation_error_ < 0.3
    assert model.transform_queries(test).shape == (200, 3)
    index = Index(3, similarity="euclidean")
    index.add(model.transform_database(D), metadata={"label": y.tolist()})
    found = index.search(model.transform_queries(test), k=3)
    codes = np.array([[hit["label"] for hit in row] for row in found.metadata])
    np.testing.assert_array_equal(vote(codes), model.predict(test))


def test_one_view_starts_as_one_metric_and_both_maps_move() -> None:
    X, y = noisy(120)
    model = AsymmetricKNN(validation=0, max_iter=2, random_state=0).fit(X, y)
    assert np.isnan(model.validation_error_)
    assert np.abs(model.query_components_ - model.database_components_).max() > 1e-4
    still = AsymmetricKNN(validation=0, max_iter=1, lr=1e-12, random_state=0).fit(X, y)
    np.testing.assert_allclose(still.query_components_, still.database_components_, atol=1e-6)


def test_batches_on_candidate_lists_have_the_exact_loss() -> None:
    """Lists made under the same maps hold every item that can matter, with more classes than are kept too."""
    rng = np.random.RandomState(0)
    for n, c in ((90, 4), (200, 30)):
        codes = torch.tensor(np.sort(rng.randint(c, size=n)))
        codes = torch.unique(codes, return_inverse=True)[1]
        x = torch.tensor(rng.randn(n, 5))
        g = torch.Generator().manual_seed(1)
        U, V = (torch.randn(5, 3, generator=g, dtype=torch.float64).requires_grad_() for _ in range(2))
        rows = BothSides(x, x, codes)
        lists = find_candidates((x @ U).detach(), (x @ V).detach(), codes, 3)
        batch = torch.randperm(n, generator=g)[:40]
        found = batch_loss(U, V, rows, lists, batch, VotePlan(3, 1, 0.1, 0.0))
        loss = NeighborhoodLoss(k=3)
        ids = {"ids": batch, "database_ids": range(n)}
        expected = loss(x[batch] @ U, codes[batch], database=x @ V, database_labels=codes, **ids)
        torch.testing.assert_close(found, expected)
        for a, b in zip(torch.autograd.grad(found, (U, V)), torch.autograd.grad(expected, (U, V)), strict=True):
            torch.testing.assert_close(a, b)


def test_the_steps_are_those_of_adam() -> None:
    ours = [torch.ones(3, 2, dtype=torch.float64), torch.ones(4, 2, dtype=torch.float64)]
    theirs = [one.clone().requires_grad_() for one in ours]
    mine, other = _Adam(ours), torch.optim.Adam(theirs, lr=0.05)
    g = torch.Generator().manual_seed(0)
    for _ in range(5):
        slopes = [torch.randn(one.shape, generator=g, dtype=torch.float64) for one in ours]
        mine.step(slopes, 0.05)
        for one, slope in zip(theirs, slopes, strict=True):
            one.grad = slope
        other.step()
    for one, two in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, two.detach())


def test_held_out_rows_are_judged_by_the_vote_and_by_the_loss() -> None:
    X, y = noisy(150)
    order = np.argsort(y, kind="stable")
    x, codes = torch.tensor(X[order]), torch.tensor(y[order])
    inside = torch.arange(150) % 3 > 0
    rows = BothSides(x, x, codes)
    queries, database = BothSides(*(one[~inside] for one in rows)), BothSides(*(one[inside] for one in rows))
    eye = torch.eye(12, dtype=torch.float64)
    error, value = held_out_loss(eye, eye, queries, database, VotePlan(3, 1, 0.1, 0.0))
    expected = NeighborhoodLoss(k=3)(
        queries.queries, queries.codes, database=database.database, database_labels=database.codes
    )
    assert value == pytest.approx(float(expected))
    near = torch.cdist(queries.queries, database.database).topk(3, largest=False).indices
    wrong = 0
    for mine, votes in zip(queries.codes.tolist(), database.codes[near].tolist(), strict=True):
        counts = np.bincount(votes, minlength=3)
        wrong += not (counts[mine] == counts.max() and (counts == counts.max()).sum() == 1)
    assert error == pytest.approx(wrong / len(near))


def test_the_matrix_form_keeps_w_positive_and_lowers_the_loss() -> None:
    X, y = noisy(200)
    order = np.argsort(y, kind="stable")
    x = torch.tensor(X[order])
    rows = BothSides(x, x, torch.tensor(y[order]))
    history = list(
        learn_matrix(torch.eye(12, dtype=torch.float64), None, rows, VotePlan(3, 12, 0.01, 1e-4), torch.Generator())
    )
    assert history[-1][2] < 0.5 * history[0][2]
    assert float(torch.linalg.eigvalsh(history[-1][0] @ history[-1][0].T)[0]) > -1e-9


def test_rank_of_the_matrix_form() -> None:
    X, y = noisy(120)
    fitted = GerrymanderingMetric(2, solver="matrix", init="lda", validation=0, max_iter=3, random_state=0).fit(
        X, y
    )
    assert fitted.components_.shape == (2, 12)


def test_kernels_solve_what_no_linear_map_can() -> None:
    rng = np.random.RandomState(0)
    angle, y = rng.rand(160) * 2 * np.pi, np.arange(160) % 2
    X = (1 + y)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)]) + 0.1 * rng.randn(160, 2)
    X = np.concatenate([X, 3 * rng.randn(160, 1)], axis=1)
    train, test, a, b = train_test_split(X, y, random_state=0)
    inner = AsymmetricKNN(4, max_iter=10, validation=0, random_state=0)
    model = KernelAsymmetricKNN(inner, gamma=0.5, n_landmarks=60, random_state=0).fit(train, a)
    assert model.transform_queries(test).shape == model.transform_database(test).shape == (40, 4)
    assert model.score(test, b) > MetricKNN(n_neighbors=3).fit(train, a).score(test, b)
    gram = KernelAsymmetricKNN(inner, kernel="precomputed").fit(rbf_kernel(train, gamma=0.5), a)
    rows = KernelAsymmetricKNN(inner, gamma=0.5).fit(train, a)
    np.testing.assert_allclose(
        gram.transform_queries(rbf_kernel(test, train, gamma=0.5)), rows.transform_queries(test), atol=1e-3
    )
    symmetric = KernelLearner(GerrymanderingMetric(4, max_iter=5, random_state=0), n_landmarks=30, random_state=0)
    assert symmetric.fit(train, a).transform(test).shape == (40, 4)


def test_it_is_searched_over_like_any_estimator() -> None:
    X, y = load_iris(return_X_y=True)
    search = GridSearchCV(AsymmetricKNN(max_iter=3, validation=0, random_state=0), {"n_neighbors": [1, 3]}, cv=2)
    assert search.fit(X, y).best_score_ > 0.9


def test_start_and_held_out_rows() -> None:
    rows = np.arange(12.0)[:, None] ** 2
    codes = np.repeat([0, 1, 2], 4)
    factor = scale_to_margin(rows, rows, codes, 2, 5.0, np.random.RandomState(0))
    assert scale_to_margin(rows * 10, rows * 10, codes, 2, 5.0, np.random.RandomState(0)) == pytest.approx(
        factor / 10
    )
    assert scale_to_margin(rows[:2], rows[:2], np.array([0, 1]), 1, 5.0, np.random.RandomState(0)) == 1
    out = hold_out(np.array([0] * 10 + [1] * 3 + [2]), 0.5, np.random.RandomState(0))
    assert [out[:10].sum(), out[10:13].sum(), out[13]] == [5, 1, 0]


def test_one_class_lonely_classes_and_few_rows() -> None:
    X, y = noisy(40)
    same = AsymmetricKNN(random_state=0).fit(X, np.zeros(40))
    assert same.predict(X[:3]).tolist() == [0, 0, 0]
    y[0], y[1] = 7, 8
    assert set(AsymmetricKNN(max_iter=3, random_state=0).fit(X, y).classes_) == {0, 1, 2, 7, 8}
    with pytest.warns(NearerWarning, match="k = 9 is cut to the 3 other rows"):
        assert AsymmetricKNN(n_neighbors=9, max_iter=2, random_state=0).fit(X[:4], [0, 0, 1, 1]).k_ == 3
    with pytest.warns(NearerWarning, match="k = 5 is cut to the 3 other rows"):
        GerrymanderingMetric(n_neighbors=5, max_iter=2, random_state=0).fit(X[:4], [0, 0, 1, 1])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_neighbors": 0}, "`n_neighbors` must be at least 1"),
        ({"margin": 0.0}, "`margin` must be greater than 0"),
        ({"regularization": -1.0}, "`regularization` must be at least 0"),
        ({"max_iter": 0}, "`max_iter` must be at least 1"),
        ({"lr": 0.0}, "`lr` must be greater than 0"),
        ({"validation": 0.95}, "`validation` must be at most 0.9"),
        ({"init": "zeros"}, "`init` must be one of"),
        ({"n_components": 13}, "`n_components` must be an integer between 1 and the 12 features"),
    ],
)
@pytest.mark.parametrize("kind", [AsymmetricKNN, GerrymanderingMetric])
def test_bad_settings(kind: type[Any], settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        kind(**settings).fit(*noisy(20))


def test_bad_input() -> None:
    X, y = noisy(20)
    with pytest.raises(ParameterError, match="`regularizer` must be one of"):
        AsymmetricKNN(regularizer="l1").fit(X, y)
    with pytest.raises(ParameterError, match="`solver` must be one of"):
        GerrymanderingMetric(solver="newton").fit(X, y)
    with pytest.raises(ShapeError, match="the 20 rows of `queries`, got 19"):
        AsymmetricKNN().fit_views(X, X[1:], y)
    model = AsymmetricKNN(2, max_iter=1).fit_views(X, X[:, :5], y)
    with pytest.raises(ShapeError, match="the 5 features of the database, got 12"):
        model.transform_database(X)
    with pytest.raises(ValueError, match="NaN"):
        AsymmetricKNN().fit(np.where(X > 3, np.nan, X), y)
    with pytest.raises(ParameterError, match="`kernel` must be one of"):
        KernelAsymmetricKNN(kernel="cosine").fit(X, y)


@pytest.mark.slow
def test_digits_are_not_worse_than_under_lmnn() -> None:
    X, y = load_digits(return_X_y=True)
    errors: dict[str, list[float]] = {"ours": [], "lmnn": []}
    for seed in range(5):
        train, test, a, b = train_test_split(X, y, test_size=0.3, stratify=y, random_state=seed)
        errors["lmnn"].append(1 - MetricKNN(LMNN(), n_neighbors=3).fit(train, a).score(test, b))
        errors["ours"].append(1 - AsymmetricKNN(random_state=seed).fit(train, a).score(test, b))
    assert np.mean(errors["ours"]) <= np.mean(errors["lmnn"]) + 0.002


@pytest.mark.parametrize("regularizer", ["squared_w", "w", "grams", "factors"])
def test_the_norms_of_both_sides_hold_both_maps(regularizer: str) -> None:
    X, y = noisy(120)

    def sizes(strength: float) -> np.ndarray:
        model = AsymmetricKNN(
            regularization=strength, regularizer=regularizer, validation=0.0, max_iter=20, random_state=0
        ).fit(X, y)
        return np.array([np.linalg.norm(model.query_components_), np.linalg.norm(model.database_components_)])

    free, strong = sizes(0.0), sizes(3.0)
    assert (strong < 0.9 * free).all()
    if regularizer == "squared_w":  # the default is no ornament either
        assert (sizes(AsymmetricKNN().regularization) < 0.99 * free).all()


def test_a_norm_of_one_side_holds_that_side_only() -> None:
    X, y = noisy(120)
    settings = {"validation": 0.0, "max_iter": 20, "random_state": 0}
    free = AsymmetricKNN(regularization=0.0, **settings).fit(X, y)
    held = AsymmetricKNN(regularization=3.0, regularizer="query", **settings).fit(X, y)
    shrunk = [
        np.linalg.norm(getattr(held, name)) / np.linalg.norm(getattr(free, name))
        for name in ("query_components_", "database_components_")
    ]
    assert shrunk[0] < 0.8 * shrunk[1]


@pytest.mark.parametrize("inference", ["exact", "greedy"])
def test_a_batch_with_a_task_loss_is_the_plain_loss(inference: str) -> None:
    rng = np.random.default_rng(0)
    codes = torch.from_numpy(np.sort(rng.integers(0, 4, 60)))
    X = torch.from_numpy(rng.standard_normal((60, 3)).astype(np.float32))
    table = rng.uniform(0.5, 3.0, (4, 4))
    np.fill_diagonal(table, 0)
    schedule = VotePlan(3, 1, 0.1, 0.0, task_loss=torch.from_numpy(table), inference=inference)  # type: ignore[arg-type]
    eye = torch.eye(3)
    rows = BothSides(X, X, codes)
    found = batch_loss(eye, eye, rows, find_candidates(X, X, codes, 3), torch.arange(60), schedule)
    plain = NeighborhoodLoss(k=3, task_loss=table, inference=inference)(X, codes)  # type: ignore[arg-type]
    assert float(found) == pytest.approx(float(plain), rel=1e-4)
    assert float(plain) != pytest.approx(float(NeighborhoodLoss(k=3)(X, codes)), rel=0.1)
    held = held_out_loss(
        eye, eye, BothSides(X[::2], X[::2], codes[::2]), BothSides(X[1::2], X[1::2], codes[1::2]), schedule
    )
    apart = NeighborhoodLoss(
        k=3, task_loss=table, inference=inference
    )(  # type: ignore[arg-type]
        X[::2], codes[::2], database=X[1::2], database_labels=codes[1::2]
    )
    assert held[1] == pytest.approx(float(apart), rel=1e-4)


def test_without_a_task_loss_it_is_the_loss_of_one_for_every_mistake() -> None:
    X, y = noisy(90)
    same = [
        AsymmetricKNN(task_loss=table, max_iter=5, validation=0.0, random_state=0).fit(X, y).query_components_
        for table in (None, 1 - np.eye(3))
    ]
    np.testing.assert_allclose(*same)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"task_loss": 1 - np.eye(2)}, "`task_loss` must have a row and a column for each of the 3 classes"),
        ({"inference": "fast"}, "`inference` must be one of"),
        ({"inference": "greedy", "task_loss": np.zeros((3, 3))}, "`task_loss` must be above 0 off the diagonal"),
    ],
)
def test_bad_task_losses_and_inferences(settings: dict[str, Any], message: str) -> None:
    X, y = noisy(60)
    for kind in (AsymmetricKNN, GerrymanderingMetric):
        with pytest.raises((ParameterError, ShapeError), match=message):
            kind(**settings).fit(X, y)


def test_greedy_inference_learns_too() -> None:
    X, y = noisy(150)
    exact, greedy = (
        GerrymanderingMetric(inference=one, max_iter=20, random_state=0).fit(X, y) for one in ("exact", "greedy")
    )
    assert greedy.validation_error_ <= 0.35
    assert abs(greedy.validation_error_ - exact.validation_error_) < 0.1


def test_a_kernel_of_rows_whose_squares_leave_single_precision() -> None:
    rows = np.array([[1.3e29], [-1.3e29], [1.2e29], [-1.2e29]], dtype=np.float32)
    model = KernelAsymmetricKNN(AsymmetricKNN(n_neighbors=1)).fit(rows, [3, 2, 3, 2])
    assert model.predict(rows).tolist() == [3, 2, 3, 2]
    with pytest.raises(NotFiniteError, match="the rbf kernel must have finite entries"):
        KernelAsymmetricKNN(AsymmetricKNN(n_neighbors=1), gamma=1.0).fit(
            rows.astype(np.float64) * 1e150, [3, 2, 3, 2]
        )
