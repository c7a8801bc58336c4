"""The audit finds what was planted, and says so when there is nothing to find it with."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score

import nearer
from nearer.datasets import load
from nearer.exceptions import LabelError, ShapeError
from nearer.judging import find_issues
from nearer.judging._audit import _scaled, fit_logistic, label_quality, neighbor_votes, probabilities
from nearer.models._auditing import audit_dataset, audit_page


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray]:
    return load_digits(return_X_y=True)


def test_flipped_labels_come_first(digits: tuple[np.ndarray, np.ndarray]) -> None:
    x, truth = digits
    rng = np.random.default_rng(3)
    y = truth.copy()
    rows = rng.permutation(len(y))[:180]
    y[rows] = (y[rows] + rng.integers(1, 10, 180)) % 10
    found = find_issues(x, y, classes=[str(code) for code in range(10)])
    assert average_precision_score(y != truth, -found.quality) > 0.98
    assert np.mean(y[found.suspects] != truth[found.suspects]) > 0.8
    assert np.mean(found.suggested[rows] == truth[rows]) > 0.9


def test_the_classifier_is_logistic_regression(digits: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = digits
    rows = _scaled(x[:600])
    strength = 1e-3
    ours = probabilities(rows, fit_logistic(rows, y[:600], 10, strength, start=None))
    peer = LogisticRegression(C=1 / (600 * strength), tol=1e-6, max_iter=500).fit(rows, y[:600])
    np.testing.assert_allclose(ours, peer.predict_proba(rows), atol=5e-3)


def test_quality_is_a_mean_of_ranks() -> None:
    p = np.array([[0.5, 0.3, 0.2], [0.1, 0.45, 0.45], [0.2, 0.8, 0.0], [0.34, 0.33, 0.33]])
    y = np.array([0, 1, 0, 0])
    own = [0.5, 0.45, 0.2, 0.34]
    lead = [0.2, 0.0, -0.6, 0.01]
    rank = lambda values: np.argsort(np.argsort(values)) + 1  # noqa: E731
    expected = (0.6 * rank(own) + 0.4 * rank(lead) - 1) / 3
    np.testing.assert_allclose(label_quality(p, y), expected)


def test_votes_leave_unlabelled_neighbors_out() -> None:
    votes = neighbor_votes(np.array([[1, 2], [0, 2], [-1, -1]]), np.array([0, 1, -1]), 2)
    np.testing.assert_allclose(votes, [[0.25, 0.75], [0.75, 0.25], [0.5, 0.5]])


def test_duplicates_strangers_and_overlap() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=(200, 5)), rng.normal(size=(200, 5)) + 0.5, rng.normal(size=(100, 5)) + 9])
    y = np.repeat([0, 1, 2], [200, 200, 100])
    x[7] = x[300]
    x[8] = x[9]
    x[450] = 60
    found = find_issues(x, y, classes=["a", "b", "c"])
    assert [part.tolist() for part in found.duplicates] == [[7, 300], [8, 9]]
    assert found.unlike[0] == 450
    assert found.overlaps[0][:2] == (0, 1)
    table = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert {one["finding"] for one in table} == {"label", "duplicate", "unlike"}
    assert found.to_dict()["duplicate_groups"] == 2


@pytest.mark.parametrize("labels", [None, np.zeros(30, np.int64), np.full(30, -1)])
def test_without_two_classes_a_note_says_so(labels: np.ndarray | None) -> None:
    found = find_issues(np.random.default_rng(0).normal(size=(30, 3)), labels)
    assert not len(found.suspects)
    assert "at least two classes" in found.notes[0]


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_few_rows(n: int) -> None:
    found = find_issues(np.arange(2.0 * n).reshape(n, 2), np.arange(n))
    assert len(found.quality) == n
    assert str(found).startswith(f"{n} row")


def test_constant_rows_are_duplicates_and_not_strange() -> None:
    found = find_issues(np.ones((40, 3)), np.arange(40) % 2)
    assert len(found.duplicates) == 1
    assert not len(found.unlike)


def test_bad_labels_are_named() -> None:
    with pytest.raises(ShapeError, match="one class code for each of the 4 rows"):
        find_issues(np.eye(4), [0, 1])
    with pytest.raises(LabelError, match="must be class codes"):
        find_issues(np.eye(4), ["a", "b", "c", "d"])


def test_a_model_audits_its_data(tmp_path: Path) -> None:
    data = load("wine")
    model = nearer.fit(data, method="lfda")
    by_model, by_data = model.audit(), audit_dataset(data)
    assert len(by_model.labels) == len(by_data.labels) == 178
    page = audit_page(by_data, data, tmp_path / "page.html").read_text()
    assert "Near-duplicates" in page
    with pytest.raises(LabelError, match="class labels, got sets"):
        audit_dataset(_sets())


def _sets() -> nearer.datasets.Dataset:
    from nearer.datasets import Dataset, Split
    from nearer.datasets._dataset import Source

    y = np.array([[1, 1, 0]] * 5 + [[0, 1, 0]] * 5, dtype=np.uint8)
    return Dataset(Source("s", "", "", "", ""), {"all": Split(np.eye(10, dtype=np.float32), y)})
