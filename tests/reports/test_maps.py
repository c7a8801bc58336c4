"""Maps keep neighbours together, repeat, and show every class under its name."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from nearer.exceptions import LabelError, NotFiniteError, ParameterError, ShapeError
from nearer.reports import embedding_map
from nearer.reports._maps import map_to_plane, turn_towards
from nearer.reports._style import UNKNOWN, as_png

Floats = NDArray[np.float64]


@pytest.fixture(scope="module")
def blobs() -> tuple[Floats, NDArray[np.int64]]:
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), 20)
    return 6 * np.eye(3, 8)[labels] + generator.standard_normal((60, 8)), labels


def test_planted_clusters_stay_together(blobs: tuple[Floats, NDArray[np.int64]]) -> None:
    x, labels = blobs
    plane = map_to_plane(x)
    assert plane.shape == (60, 2)
    distance = np.linalg.norm(plane[:, None] - plane, axis=2) + 1e9 * np.eye(60)
    assert (labels[distance.argmin(axis=1)] == labels).mean() > 0.95


def test_the_same_input_gives_the_same_map_and_the_threads_come_back(
    blobs: tuple[Floats, NDArray[np.int64]],
) -> None:
    threads = torch.get_num_threads()
    x = blobs[0]
    before = x.copy()
    one = map_to_plane(x, seed=3)
    assert np.array_equal(one, map_to_plane(torch.from_numpy(x), seed=3))
    assert np.array_equal(x, before)
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize(
    "x",
    [
        [[1.0, 2.0]],
        [[1.0], [2.0], [3.0]],
        np.ones((30, 4)),
        np.random.default_rng(0).random((12, 1)),
        np.random.default_rng(0).random((6, 100)),
        np.random.default_rng(0).integers(0, 9, (20, 3)),
    ],
    ids=["one row", "three numbers", "all equal", "one column", "more columns than rows", "whole numbers"],
)
def test_small_and_flat_data_have_a_map(x: Any) -> None:
    plane = map_to_plane(x)
    assert plane.shape == (len(x), 2)
    assert np.isfinite(plane).all()


def test_a_turned_map_is_turned_back() -> None:
    target = np.random.default_rng(0).standard_normal((20, 2))
    angle = 2.0
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    mirrored = (target - target.mean(axis=0)) @ turn * [1, -1] + 5
    np.testing.assert_allclose(turn_towards(mirrored, target), target - target.mean(axis=0), atol=1e-12)


def texts(figure: Any) -> list[str]:
    from matplotlib.text import Text

    return [one.get_text() for one in figure.findobj(Text) if one.get_text()]


def test_both_maps_show_all_classes_and_what_is_unlabeled(blobs: tuple[Floats, NDArray[np.int64]]) -> None:
    x, labels = blobs
    partly = np.where(np.arange(60) % 4 == 0, -1, labels)
    figure = embedding_map(x, x[:, :2], partly, class_names=["cat", "dog", "eel"], titles=("A", "B"))
    seen = texts(figure)
    for name in ("cat", "dog", "eel"):
        assert seen.count(name) == 3  # on each map and in the legend
    assert seen.count("unlabeled") == 1
    assert {"A", "B", "60 items, 3 classes; PCA and t-SNE"} <= set(seen)
    from matplotlib.colors import to_hex

    gray, colored = figure.axes[0].collections[:2]
    assert len(gray.get_offsets()) == 15
    assert len(colored.get_offsets()) == 45
    assert to_hex(gray.get_facecolor()[0]) == UNKNOWN
    assert as_png(figure, dpi=40).startswith(b"\x89PNG")


def test_names_are_labels_without_names_and_many_items_are_sampled() -> None:
    generator = np.random.default_rng(0)
    labels = np.array(["left", "right"] * 20)
    x = generator.standard_normal((40, 3)) + 5 * (labels == "left")[:, None]
    figure = embedding_map(x, x, labels, max_points=12)
    seen = texts(figure)
    assert seen.count("left") == seen.count("right") == 3
    assert "12 items, 2 classes; PCA and t-SNE" in seen
    assert "unlabeled" not in seen


def test_very_many_classes_have_no_legend_and_nothing_labeled_is_drawn_gray() -> None:
    x = np.random.default_rng(0).standard_normal((30, 3))
    assert not embedding_map(x, x, np.arange(30)).legends
    assert not texts(embedding_map(x[:5], x[:5], [0, 1, 0, 1, 0])).count("unlabeled")
    figure = embedding_map(x[:5], x[:5], [-1] * 5)
    assert len(figure.axes[0].collections[0].get_offsets()) == 5
    long = embedding_map(x[:4], x[:4], [0, 1, 0, 1], class_names=["a name too long for the map", "b"])
    assert texts(long).count("b") == 1  # in the legend only


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"before": np.ones(3)}, ShapeError, "`before` must have shape"),
        ({"before": np.ones((0, 2))}, ShapeError, "`before` must have at least 1 row"),
        ({"before": np.full((4, 2), math.nan)}, NotFiniteError, "`before` must be finite"),
        ({"after": np.ones((3, 2))}, ShapeError, "`after` must have one row for each of the 4 rows"),
        ({"labels": [0, 1]}, ShapeError, "`labels` must have one entry for each of the 4 rows, got 2"),
        ({"labels": [0.0, math.nan, 1.0, 1.0]}, LabelError, "`labels` must not hold NaN"),
        ({"class_names": ["a"]}, ParameterError, "`class_names` must name the 2 classes, got 1"),
        ({"max_points": 0}, ParameterError, "`max_points` must be at least 1"),
        ({"seed": -1}, ParameterError, "`seed` must be at least 0"),
    ],
)
def test_bad_input_is_named(change: dict[str, Any], error: type[Exception], message: str) -> None:
    arguments: dict[str, Any] = {"before": np.eye(4, 2), "after": np.eye(4, 2), "labels": [0, 1, 0, 1]} | change
    with pytest.raises(error, match=message):
        embedding_map(**arguments)


@pytest.mark.parametrize("name", [r"$\frac{$", "a $5 b", "$x$", r"\alpha_", "\ud800"])
def test_names_of_classes_are_text_and_not_formulas(blobs: tuple[Floats, NDArray[np.int64]], name: str) -> None:
    x, labels = blobs
    figure = embedding_map(x, x, np.array([name, "b", "c"])[labels])
    assert as_png(figure, dpi=40)[:4] == b"\x89PNG"
