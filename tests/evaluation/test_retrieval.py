"""Retrieval scores against loops over sorted lists, and against scikit-learn and pytorch-metric-learning."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nearer.evaluation import evaluate, map_at_r, recall_at_k
from nearer.evaluation._engine import _nearest as nearest
from nearer.evaluation._engine import _tiles as tiles
from nearer.evaluation._engine._problem import prepare
from nearer.evaluation._retrieval import score_problem
from nearer.exceptions import LabelError, NotFiniteError, ParameterError, ShapeError

NAMES = [f"{kind}@{k}" for kind in ("recall", "precision") for k in (1, 2, 4, 8)] + ["map@r", "r-precision", "mrr"]
SIMILARITIES = ["cosine", "dot", "euclidean"]
TIES = ["index", "pessimistic", "optimistic"]
FUNCTIONS: dict[str, Callable[..., float]] = {
    "recall@1": recall_at_k,
    "map@r": map_at_r,
}


def random_set(n: int = 90, classes: int = 7, d: int = 5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=n)
    return rng.normal(size=(classes, d))[labels] + rng.normal(size=(n, d)), labels


@pytest.fixture(autouse=True)
def _threads_are_left_alone() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_are_the_printed_formulas(oracle: Any, engine: str, similarity: Any, ties: Any, dtype: Any) -> None:
    points, labels = random_set()
    points = points.astype(dtype)
    expected = oracle(points, labels, similarity=similarity, ties=ties)
    found = evaluate(points, labels, scores=NAMES, similarity=similarity, ties=ties)
    assert dict(found) == pytest.approx({name: expected[name] for name in NAMES}, abs=1e-12)


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_separate_database(oracle: Any, engine: str, similarity: Any, ties: Any) -> None:
    points, labels = random_set(60)
    items, item_labels = random_set(110, classes=9, seed=1)
    expected = oracle(points, labels, items, item_labels, similarity=similarity, ties=ties)
    found = evaluate(points, labels, items, item_labels, scores=NAMES, similarity=similarity, ties=ties)
    assert dict(found) == pytest.approx({name: expected[name] for name in NAMES}, abs=1e-12)


def test_a_separate_database_does_not_lose_its_copy_of_the_query() -> None:
    points, labels = random_set()
    assert recall_at_k(points, labels, points, labels, similarity="cosine") == 1.0


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("similarity", ["dot", "euclidean"])
def test_ties_of_integer_data(oracle: Any, engine: str, similarity: Any, ties: Any) -> None:
    rng = np.random.default_rng(2)
    points, labels = rng.integers(-1, 2, size=(100, 3)).astype(np.float32), rng.integers(6, size=100)
    expected = oracle(points, labels, similarity=similarity, ties=ties)
    found = evaluate(points, labels, scores=NAMES, similarity=similarity, ties=ties)
    assert dict(found) == pytest.approx({name: expected[name] for name in NAMES}, abs=1e-12)


@given(
    data=st.lists(st.tuples(st.integers(-2, 2), st.integers(-2, 2), st.integers(0, 3)), min_size=2, max_size=40),
    others=st.lists(st.tuples(st.integers(-2, 2), st.integers(-2, 2), st.integers(0, 3)), max_size=30),
    similarity=st.sampled_from(["dot", "euclidean"]),
    ties=st.sampled_from(TIES),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_small_set_with_many_ties(oracle: Any, data: Any, others: Any, similarity: Any, ties: Any) -> None:
    table, more = np.array(data), np.array(others).reshape(-1, 3)
    arguments = [table[:, :2], table[:, 2]]
    if len(more):
        arguments += [more[:, :2], more[:, 2]]
    expected = oracle(*arguments, similarity=similarity, ties=ties)
    if not expected:
        with pytest.raises(LabelError, match="something to find"):
            evaluate(*arguments, scores=NAMES, similarity=similarity, ties=ties)
        return
    found = evaluate(*arguments, scores=NAMES, similarity=similarity, ties=ties)
    assert dict(found) == pytest.approx({name: expected[name] for name in NAMES}, abs=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_duplicates_tie_exactly_wherever_they_stand(oracle: Any, engine: str, similarity: Any, dtype: Any) -> None:
    """Thirty different vectors, each many times and in several classes: a rounding of 1e-17 would show."""
    rng = np.random.default_rng(3)
    different = rng.normal(size=(30, 33)).astype(dtype)
    which = rng.integers(30, size=170)
    labels = rng.integers(8, size=170)
    # The oracle sees numbers that are equal exactly when the vectors are, in the order of the similarities.
    values = evaluate(different[which], labels, scores=NAMES, similarity=similarity)
    unit = different.astype(np.float64)
    if similarity == "cosine":
        unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    table = -((unit[:, None] - unit[None]) ** 2).sum(-1) if similarity == "euclidean" else unit @ unit.T
    each = []
    for i in range(170):
        others = sorted((j for j in range(170) if j != i), key=lambda j: (-table[which[i], which[j]], j))
        right = [labels[j] == labels[i] for j in others]
        each.append([any(right[:k]) for k in (1, 2, 4, 8)])
    expected = np.mean(each, axis=0)
    assert [values[f"recall@{k}"] for k in (1, 2, 4, 8)] == pytest.approx(expected.tolist(), abs=1e-12)


def test_a_query_does_not_find_itself_but_finds_its_duplicate() -> None:
    points = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    assert recall_at_k(points, [0, 0, 1, 1], similarity="cosine") == 1.0
    assert recall_at_k(points, [0, 1, 0, 1], similarity="cosine") == 0.0


def test_the_index_decides_between_equal_items() -> None:
    query, database = [[1.0, 0.0]], [[2.0, 0.0], [3.0, 0.0]]
    assert recall_at_k(query, ["a"], database, ["a", "b"], similarity="cosine") == 1.0
    assert recall_at_k(query, ["a"], database, ["b", "a"], similarity="cosine") == 0.0
    assert recall_at_k(query, ["a"], database, ["b", "a"], ties="optimistic", similarity="cosine") == 1.0
    assert recall_at_k(query, ["a"], database, ["a", "b"], ties="pessimistic", similarity="cosine") == 0.0


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_a_collapsed_embedding_does_not_score_one(engine: str, similarity: Any) -> None:
    labels = np.random.default_rng(0).integers(10, size=200)
    points = np.full((200, 16), 0.3, dtype=np.float32)
    result = evaluate(points, labels, scores=NAMES, similarity=similarity)
    assert result["recall@1"] < 0.3
    assert result["map@r"] < 0.2
    worst = evaluate(points, labels, scores=NAMES, similarity=similarity, ties="pessimistic")
    assert worst["recall@8"] == worst["map@r"] == worst["r-precision"] == 0.0
    best = evaluate(points, labels, scores=NAMES, similarity=similarity, ties="optimistic")
    assert best["recall@1"] == best["map@r"] == best["mrr"] == 1.0


@pytest.mark.parametrize("ties", TIES)
def test_half_collapsed_embeddings_are_thinned_exactly(oracle: Any, engine: str, ties: Any) -> None:
    rng = np.random.default_rng(5)
    points, labels = rng.normal(size=(200, 4)).astype(np.float32), rng.integers(5, size=200)
    points[rng.random(200) < 0.7] = [1, 2, 3, 4]
    expected = oracle(np.round(points * 8), labels, similarity="dot", ties=ties)
    found = evaluate(np.round(points * 8), labels, scores=NAMES, similarity="dot", ties=ties)
    assert dict(found) == pytest.approx({name: expected[name] for name in NAMES}, abs=1e-12)


def test_rank_scores_are_unchanged_by_increasing_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    points, labels = random_set(200)
    plain = evaluate(points, labels, scores=NAMES, similarity="cosine")
    unit = points / np.linalg.norm(points, axis=1, keepdims=True)
    assert dict(evaluate(unit, labels, scores=NAMES, similarity="euclidean")) == dict(plain)
    assert dict(evaluate(points * 1e-3, labels, scores=NAMES, similarity="cosine")) == dict(plain)
    multiply = tiles.Products.multiply
    for increasing in (np.exp, lambda s: s**3 - 5, np.arctan, lambda s: s - 10):
        monkeypatch.setattr(
            tiles.Products,
            "multiply",
            lambda self, left, right, out, f=increasing: f(multiply(self, left, right, out)),
        )
        assert dict(evaluate(points, labels, scores=NAMES, similarity="cosine")) == dict(plain)


def test_the_order_of_the_items_does_not_matter_without_ties() -> None:
    points, labels = random_set(150)
    order = np.random.default_rng(1).permutation(150)
    assert dict(evaluate(points[order], labels[order], scores=NAMES, similarity="cosine")) == pytest.approx(
        dict(evaluate(points, labels, scores=NAMES, similarity="cosine")), abs=1e-14
    )


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_nothing(engine: str, threads: int) -> None:
    rng = np.random.default_rng(0)
    points, labels = rng.integers(-1, 2, size=(200, 4)).astype(np.float32), rng.integers(9, size=200)
    alone = evaluate(points, labels, scores=NAMES, similarity="cosine")
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        assert dict(evaluate(points, labels, scores=NAMES, similarity="cosine")) == dict(alone)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("name", NAMES)
def test_each_score_alone_is_the_score_in_company(engine: str, name: str) -> None:
    points, labels = random_set()
    assert (
        evaluate(points, labels, scores=[name], similarity="cosine")[name]
        == evaluate(points, labels, scores=NAMES, similarity="cosine")[name]
    )
    if name in FUNCTIONS:
        assert (
            FUNCTIONS[name](points, labels, similarity="cosine")
            == evaluate(points, labels, scores=[name], similarity="cosine")[name]
        )


def test_only_what_is_needed_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recall and the reciprocal rank need no lists, precision no search for the best positive."""
    from nearer.evaluation._engine import _ranking as ranking

    points, labels = random_set()
    monkeypatch.setattr(ranking, "FirstPlaces", None)
    evaluate(points, labels, scores=["recall@1", "recall@100", "mrr"], similarity="cosine")
    monkeypatch.undo()
    monkeypatch.setattr(ranking, "FirstHit", None)
    evaluate(points, labels, scores=["precision@3", "map@r", "r-precision", "recall@8"], similarity="cosine")
    monkeypatch.undo()
    monkeypatch.setattr(ranking, "sweep", None)
    evaluate(points, labels, scores=["nmi", "f1"], similarity="cosine")


def test_a_bound_that_is_too_high_costs_time_but_no_correctness(
    oracle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    points, labels = random_set(300)
    expected = oracle(points, labels)
    place = nearest._sample_place
    monkeypatch.setattr(
        nearest, "_sample_place", lambda depth, n, certain: place(depth, n, True) if certain else depth * 0 + 1
    )
    found = evaluate(points, labels, scores=["map@r", "precision@8"], similarity="cosine")
    assert dict(found) == pytest.approx({name: expected[name] for name in found}, abs=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_matrix_product_that_depends_on_the_place(
    oracle: Any, monkeypatch: pytest.MonkeyPatch, dtype: Any
) -> None:
    """Where a product is not uniform, values are rounded: duplicates still tie."""
    monkeypatch.setattr(tiles, "is_uniform", lambda *shape: False)
    points, labels = random_set(120)
    twice = np.concatenate([points, points]).astype(dtype)
    both = np.concatenate([labels, np.roll(labels, 1)])
    expected = evaluate(twice, both, scores=NAMES, ties="index", similarity="cosine")
    monkeypatch.undo()
    assert dict(evaluate(twice, both, scores=NAMES, similarity="cosine")) == pytest.approx(
        dict(expected), abs=1e-12
    )


def test_uniform_products_are_recognized() -> None:
    assert isinstance(tiles.is_uniform(24, 24, 3, torch.float32), bool)


def test_queries_without_a_positive_are_left_out_and_counted(oracle: Any) -> None:
    points, labels = random_set(40)
    labels[:5] = np.arange(100, 105)
    result = evaluate(points, labels, scores=["recall@1"], similarity="cosine")
    assert result.counts["excluded"] == 5
    assert result.counts["queries"] == 35
    assert result["recall@1"] == pytest.approx(oracle(points, labels)["recall@1"])


def test_one_class_is_always_found() -> None:
    points, _ = random_set(30)
    result = evaluate(points, [4] * 30, scores=NAMES, similarity="cosine")
    assert all(result[name] == 1.0 for name in NAMES)


def test_all_singletons_have_no_score() -> None:
    points, _ = random_set(10)
    for function in FUNCTIONS.values():
        with pytest.raises(LabelError, match="none of the 10 queries has another item of its class"):
            function(points, np.arange(10))


def test_k_beyond_the_database() -> None:
    points, labels = random_set(20, classes=2)
    assert recall_at_k(points, labels, k=500, similarity="cosine") == 1.0
    expected = np.mean([(labels == label).sum() - 1 for label in labels]) / 500
    scores = evaluate(points, labels, scores=["precision@500"], similarity="cosine")
    assert scores["precision@500"] == pytest.approx(expected)


def test_large_labels_are_not_confused() -> None:
    """As float32 these two are one class, and every query would find its own."""
    points = [[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]]
    labels = np.array([2**24, 2**24 + 1, 2**24, 2**24 + 1])
    assert recall_at_k(points, labels, similarity="cosine") == 0.0
    assert recall_at_k(points, labels.astype(object), similarity="cosine") == 0.0
    assert recall_at_k(points, torch.from_numpy(labels), similarity="cosine") == 0.0
    assert recall_at_k(points, labels, points, labels.astype(np.uint64), k=2, similarity="cosine") == 1.0


@pytest.mark.parametrize(
    "labels",
    [
        ["x", "y", "x", "y"],
        np.array(["x", "y", "x", "y"]),
        np.array(["x", "y", "x", "y"], dtype=object),
        [-7, 10**15, -7, 10**15],
        torch.tensor([3, -2, 3, -2]),
        np.array([True, False, True, False]),
        np.array([1.0, 2.0, 1.0, 2.0]),
        np.array([[1], [2], [1], [2]]),
    ],
    ids=repr,
)
def test_labels_of_any_kind(labels: Any) -> None:
    points = [[1.0, 0.0], [0.0, 1.0], [1.0, 0.2], [0.1, 1.0]]
    assert recall_at_k(points, labels, similarity="cosine") == 1.0


def test_unlabeled_rows() -> None:
    points, labels = random_set(40)
    labels[3:9] = -1
    with pytest.raises(LabelError, match="got 6 rows marked -1"):
        recall_at_k(points, labels, similarity="cosine")
    keep = labels != -1
    assert recall_at_k(points, labels, unlabeled="ignore", similarity="cosine") == recall_at_k(
        points[keep], labels[keep], similarity="cosine"
    )
    assert recall_at_k(points, labels, unlabeled="class", similarity="cosine") == recall_at_k(
        points, labels + 1, similarity="cosine"
    )
    assert (
        evaluate(points, labels, scores=["mrr"], unlabeled="ignore", similarity="cosine").counts["unlabeled"] == 6
    )
    with pytest.raises(LabelError, match="`database_labels` must be known"):
        recall_at_k(points[keep], labels[keep], points, labels, similarity="cosine")
    apart = recall_at_k(points[keep], labels[keep], points, labels, unlabeled="ignore", similarity="cosine")
    assert apart == recall_at_k(points[keep], labels[keep], points[keep], labels[keep], similarity="cosine")
    with pytest.raises(LabelError, match="at least one known label"):
        recall_at_k(points, [-1] * 40, unlabeled="ignore", similarity="cosine")


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_input_of_any_kind_gives_one_answer_and_stays_as_it_was(similarity: Any) -> None:
    rng = np.random.default_rng(4)
    whole = rng.integers(-9, 10, size=(50, 6))
    labels = rng.integers(5, size=50)
    expected = recall_at_k(whole.astype(np.float64), labels, similarity=similarity)
    locked = whole.astype(np.float32)
    locked.flags.writeable = False
    wide = np.zeros((100, 12), dtype=np.float32)
    wide[::2, ::2] = whole
    gradient = torch.tensor(whole, dtype=torch.float32, requires_grad=True)
    kinds: list[Any] = [
        whole,
        whole.tolist(),
        whole.astype(np.float16),
        whole.astype(np.int8),
        whole.astype(">f4"),
        locked,
        wide[::2, ::2],
        np.asfortranarray(whole.astype(np.float32)),
        whole[:, ::-1].astype(np.float64)[:, ::-1],
        torch.tensor(whole, dtype=torch.bfloat16),
        gradient,
    ]
    for kind in kinds:
        before = kind.detach().clone() if isinstance(kind, torch.Tensor) else np.array(kind)
        assert recall_at_k(kind, labels, similarity=similarity) == expected
        after = kind.detach() if isinstance(kind, torch.Tensor) else np.array(kind)
        assert bool((before == after).all())


def test_zero_rows_have_cosine_zero_with_everything() -> None:
    points = [[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]]
    assert recall_at_k(points, [0, 1, 1, 0], similarity="cosine") == pytest.approx(1 / 4)


def test_very_large_and_very_small_rows_have_a_direction() -> None:
    points, labels = random_set(60)
    expected = recall_at_k(points, labels, similarity="cosine")
    assert recall_at_k(points * 1e300, labels, similarity="cosine") == expected
    assert recall_at_k(points * 1e-300, labels, similarity="cosine") == expected
    assert recall_at_k((points * 1e30).astype(np.float32), labels, similarity="dot") == recall_at_k(
        points.astype(np.float32), labels, similarity="dot"
    )


def test_a_common_offset_does_not_blur_euclidean_distances() -> None:
    points, labels = random_set(80)
    expected = map_at_r(points, labels, similarity="euclidean")
    assert map_at_r(points + 1e7, labels, similarity="euclidean") == pytest.approx(expected, abs=1e-9)


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"embeddings": np.empty((0, 3)), "labels": []}, ShapeError, "at least 1 row"),
    ({"embeddings": [1.0, 2.0], "labels": [0, 0]}, ShapeError, r"shape \(n, d\)"),
    ({"embeddings": np.empty((3, 0)), "labels": [0, 0, 0]}, ShapeError, "one column"),
    ({"embeddings": [[np.nan], [1.0]], "labels": [0, 0]}, NotFiniteError, "1 NaN or infinite"),
    ({"embeddings": [[np.inf], [1.0]], "labels": [0, 0]}, NotFiniteError, "must be finite"),
    ({"embeddings": [["a"], ["b"]], "labels": [0, 0]}, ShapeError, "must hold numbers"),
    ({"embeddings": [[1.0], [2.0]], "labels": [0]}, ShapeError, "each of the 2 rows, got 1"),
    ({"embeddings": [[1.0], [2.0]], "labels": ["a"]}, ShapeError, "each of the 2 rows, got 1"),
    ({"embeddings": [[1.0], [2.0]], "labels": [[0, 1], [1, 0]]}, ShapeError, r"`labels` must have shape \(n,\)"),
    ({"embeddings": [[1.0], [2.0]], "labels": [0.5, 0.5]}, LabelError, "whole numbers"),
    ({"embeddings": [[1.0], [2.0]], "labels": [None, "a"]}, LabelError, "of one type"),
    ({"database": [[1.0, 2.0]]}, ShapeError, "`database_labels` must be given with `database`"),
    ({"database_labels": [1]}, ShapeError, "`database` must be given with `database_labels`"),
    ({"database": [[1.0]], "database_labels": [1]}, ShapeError, "must have 2 columns, got 1"),
    ({"database": [[1.0, 2.0]], "database_labels": ["a"]}, LabelError, "of one kind"),
    ({"similarity": "cosinus"}, ParameterError, "Did you mean 'cosine'"),
    ({"ties": "worst"}, ParameterError, "`ties` must be one of"),
    ({"unlabeled": "skip"}, ParameterError, "`unlabeled` must be one of"),
    ({"k": 0}, ParameterError, "`k` must be at least 1"),
    ({"k": 2.5}, ParameterError, "`k` must be an integer"),
    (
        {"embeddings": [[1e200], [2e200]], "labels": [0, 0], "similarity": "euclidean"},
        NotFiniteError,
        "by a constant",
    ),
    ({"embeddings": [[1e200], [2e200]], "labels": [0, 0], "similarity": "dot"}, NotFiniteError, "by a constant"),
]


@pytest.mark.parametrize(("change", "error", "message"), BAD, ids=[case[2] for case in BAD])
def test_bad_input_is_refused_with_the_reason(change: dict[str, Any], error: type[Exception], message: str) -> None:
    arguments: dict[str, Any] = {"embeddings": [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], "labels": [1, 1, 1]} | change
    with pytest.raises(error, match=message):
        recall_at_k(**arguments)


def test_no_array_of_queries_times_database_is_made() -> None:
    points, labels = random_set(6000, classes=50, d=8)
    points = points.astype(np.float32)
    evaluate(points[:50], labels[:50], scores=NAMES, similarity="cosine")
    tracemalloc.start()
    evaluate(points, labels, scores=NAMES, similarity="cosine")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6000 * 6000 * 4 / 3


def test_recall_at_one_is_the_leave_one_out_accuracy_of_the_nearest_neighbor() -> None:
    from sklearn.neighbors import NearestNeighbors

    points, labels = random_set(300)
    found = NearestNeighbors(n_neighbors=2).fit(points).kneighbors(points, return_distance=False)[:, 1]
    assert recall_at_k(points, labels, similarity="euclidean") == pytest.approx(np.mean(labels[found] == labels))


@pytest.mark.parametrize(("n", "classes"), [(1500, 20), (1200, 240)])
@pytest.mark.filterwarnings("ignore")
def test_pytorch_metric_learning_agrees(n: int, classes: int) -> None:
    calculators = pytest.importorskip("pytorch_metric_learning.utils.accuracy_calculator")
    points, labels = random_set(n, classes, d=64)
    unit = torch.nn.functional.normalize(torch.from_numpy(points).float())
    pairs = {
        "precision_at_1": "recall@1",
        "r_precision": "r-precision",
        "mean_average_precision_at_r": "map@r",
        "mean_reciprocal_rank": "mrr",
    }
    calculator = calculators.AccuracyCalculator(include=tuple(pairs), device=torch.device("cpu"))
    theirs = calculator.get_accuracy(unit, torch.from_numpy(labels))
    for similarity in ("cosine", "euclidean"):
        ours = evaluate(unit, labels, scores=list(pairs.values()), similarity=similarity)
        assert {pairs[name]: float(theirs[name]) for name in pairs} == pytest.approx(dict(ours), abs=1e-6)


def test_scores_of_a_problem_must_be_named() -> None:
    problem = prepare([[1.0], [2.0]], [0, 0])
    with pytest.raises(ParameterError, match="at least one score"):
        score_problem(problem, [])
    with pytest.raises(ParameterError, match="`scores` must be one of"):
        score_problem(problem, ["recall@0"])
