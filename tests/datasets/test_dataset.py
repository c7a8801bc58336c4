"""Splits and data sets as objects: rows, matrices, images, fingerprints."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from nearer.datasets import Dataset, Split
from nearer.datasets._catalog import load
from nearer.datasets._dataset import Source
from nearer.exceptions import ParameterError, ShapeError
from nearer_papers.data._news20 import tfidf

SOURCE = Source("toy", "Toy", "nobody", "none", "http://nowhere")


def toy(**changes: object) -> Dataset:
    parts = {
        "train": Split(np.arange(6.0).reshape(3, 2), np.array([0, 1, 2]), {"text": np.array(["a", "b", "c"])}),
        "test": Split(np.ones((1, 2)), np.array([3]), {"text": np.array(["dd"])}),
    }
    return Dataset(SOURCE, {**parts, **changes})  # type: ignore[dict-item]


def test_all_is_the_parts_in_order() -> None:
    whole = toy().all
    assert whole.y.tolist() == [0, 1, 2, 3]
    assert whole.extra["text"].tolist() == ["a", "b", "c", "dd"]
    assert np.array_equal(whole.x[3], [1, 1])
    assert toy()["all"].y.tolist() == [0, 1, 2, 3]
    assert list(toy()) == ["train", "test"]


def test_take_by_position_and_by_mask() -> None:
    part = toy().train
    assert part.take([2, 0]).extra["text"].tolist() == ["c", "a"]
    assert part.take(np.array([True, False, True])).y.tolist() == [0, 2]
    assert len(part.take([])) == 0
    assert part.take([]).matrix().shape == (0, 2)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([3], "between 0 and 2, got 3 to 3"),
        ([-1], "between 0 and 2"),
        ([0.5], "list of positions, got float64"),
        ([[0]], "list of positions"),
        ([True, False], r"mask must have shape \(3,\)"),
    ],
)
def test_take_refuses(rows: object, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        toy().train.take(rows)


def test_lengths_must_agree() -> None:
    with pytest.raises(ShapeError, match="`y` must have one entry for each of the 3 items"):
        Split(np.zeros((3, 2)), np.zeros(2))
    with pytest.raises(ShapeError, match="`text` must have one entry"):
        Split(np.zeros((3, 2)), np.zeros(3), {"text": np.array(["a"])})


def test_an_unknown_part() -> None:
    with pytest.raises(ParameterError, match="must be one of 'train', 'test', 'all', got 'val'"):
        toy()["val"]
    with pytest.raises(ParameterError, match="iris has no published train part"):
        load("iris").train  # noqa: B018


def test_matrix_is_new_float32_and_bytes_are_scaled() -> None:
    x = np.array([[[0, 255], [51, 0]]], np.uint8)
    part = Split(x, np.array([0]))
    matrix = part.matrix()
    assert matrix.dtype == np.float32
    assert np.allclose(matrix, [[0, 1, 0.2, 0]])
    floats = Split(np.ones((1, 2), np.float32), np.array([0]))
    floats.matrix()[0, 0] = 5
    assert floats.x[0, 0] == 1
    assert Split(np.array([[[True]]]), np.array([0])).matrix().tolist() == [[1.0]]
    assert np.array_equal(Split(sparse.csr_matrix(np.eye(2)), np.zeros(2)).matrix(), np.eye(2))  # type: ignore[arg-type]


def test_images_have_channels_first() -> None:
    color = Split(np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3), np.zeros(2))
    stack = color.images()
    assert stack.shape == (2, 3, 4, 5)
    assert np.isclose(stack[1, 2, 3, 4] * 255, color.x[1, 3, 4, 2])
    gray = Split(np.ones((2, 4, 5), np.float32), np.zeros(2))
    gray.images()[:] = 0
    assert gray.x.all()
    assert color.images([1]).shape == (1, 3, 4, 5)
    with pytest.raises(ShapeError, match=r"must hold images of shape .* got \(3, 2\)"):
        toy().train.images()
    with pytest.raises(ParameterError, match="`size` is for image files"):
        gray.images(size=8)


def test_paths_have_no_matrix() -> None:
    with pytest.raises(ShapeError, match=r"Use images\(size"):
        Split(np.array(["a.jpg"]), np.array([0])).matrix()


def test_fingerprint_sees_every_change_and_not_the_folder() -> None:
    base = toy().fingerprint()
    assert base == toy().fingerprint()
    train, test = toy().parts["train"], toy().parts["test"]
    changed = [
        {"train": train, "valid": test},
        {"test": test, "train": train},
        {"train": Split(train.x.astype(np.float32), train.y, train.extra), "test": test},
        {"train": Split(train.x.reshape(3, 2, 1), train.y, train.extra), "test": test},
        {"train": Split(train.x, train.y[::-1], train.extra), "test": test},
        {"train": Split(train.x + 1e-12, train.y, train.extra), "test": test},
        {"train": Split(train.x, train.y), "test": test},
    ]
    prints = {Dataset(SOURCE, parts).fingerprint() for parts in changed}
    assert len(prints | {base}) == len(changed) + 1
    strided = {"train": Split(np.asfortranarray(train.x), train.y, train.extra), "test": test}
    assert Dataset(SOURCE, strided).fingerprint() == base
    paths = [Dataset(SOURCE, {"all": Split(np.array(["a"]), np.array([0]), root=Path(root))}) for root in "xy"]
    assert paths[0].fingerprint() == paths[1].fingerprint()


def test_fingerprint_of_a_sparse_matrix_ignores_the_index_type() -> None:
    matrix = sparse.csr_matrix(np.eye(3, dtype=np.float32))
    wide = matrix.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    prints = {Dataset(SOURCE, {"all": Split(m, np.zeros(3))}).fingerprint() for m in (matrix, wide)}
    assert len(prints) == 1


def test_shipped_digits_are_those_of_scikit_learn() -> None:
    from sklearn.datasets import load_digits as original

    x, y = original(return_X_y=True)
    data = load("digits")
    assert np.array_equal(data.all.matrix() * 16, x)
    assert np.array_equal(data.all.y, y)
    assert (data.all.x.min(), data.all.x.max()) == (0, 1)


def test_text_form_names_notes_and_skipped_files() -> None:
    data = Dataset(SOURCE, toy().parts, note="half of it", skipped=("a.jpg", "b.jpg"))
    text = repr(data)
    assert "toy: Toy, 4 classes" in text
    assert "note: half of it" in text
    assert "skipped: 2 files" in text
    assert "x float64 (3, 2), y int64 (3,), text" in text


def naive_tfidf(counts: np.ndarray, reference: np.ndarray) -> np.ndarray:
    n, result = len(reference), np.zeros(counts.shape)
    for d, row in enumerate(counts):
        for t, count in enumerate(row):
            df = sum(1 for other in reference if other[t] > 0)
            result[d, t] = count * (1 + np.log((1 + n) / (1 + df)))
        length = np.sqrt((result[d] ** 2).sum())
        result[d] = result[d] / length if length else 0
    return result


def test_tfidf_against_the_formula_and_scikit_learn() -> None:
    from sklearn.feature_extraction.text import TfidfTransformer

    generator = np.random.default_rng(0)
    counts = generator.poisson(0.5, size=(7, 5)).astype(np.float64)
    counts[3] = 0
    other = generator.poisson(0.5, size=(4, 5)).astype(np.float64)
    before = counts.copy()
    assert np.allclose(tfidf(counts).toarray(), naive_tfidf(counts, counts))
    assert np.allclose(tfidf(other, reference=counts).toarray(), naive_tfidf(other, counts))
    assert np.allclose(tfidf(counts).toarray(), TfidfTransformer().fit_transform(counts).toarray())
    assert np.array_equal(counts, before)
    with pytest.raises(ShapeError, match="must have the 5 columns"):
        tfidf(counts, reference=np.ones((2, 3)))
