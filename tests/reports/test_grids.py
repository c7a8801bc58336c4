"""A retrieval grid frames each neighbour by what it is, and takes images as people have them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex

from nearer.exceptions import NotFiniteError, ParameterError, ShapeError
from nearer.reports import retrieval_grid
from nearer.reports._style import RIGHT, WRONG, as_png

IMAGES = np.random.default_rng(0).random((6, 5, 5)).astype(np.float32)
CORRECT = [[True, False, True], [False, False, True]]


def cells(figure: Any) -> list[Any]:
    return [axis for axis in figure.axes if axis.images]


def frames(figure: Any) -> list[str]:
    return [to_hex(axis.spines["left"].get_edgecolor()) for axis in cells(figure)]


def test_frames_marks_and_pictures_are_where_they_belong() -> None:
    figure = retrieval_grid(IMAGES, [0, 3], [[1, 2, 4], [0, 5, 2]], CORRECT, captions="abcdef", title="Found")
    colors = frames(figure)
    assert [colors[i] for i in (1, 2, 3, 5, 6, 7)] == [RIGHT, WRONG, RIGHT, WRONG, WRONG, RIGHT]
    assert colors[0] == colors[4]
    assert colors[0] not in (RIGHT, WRONG)
    marks = ["".join(text.get_text() for text in axis.texts) for axis in cells(figure)]
    assert marks == ["", "✓", "✗", "✓", "", "✗", "✗", "✓"]
    for axis, row in zip(cells(figure), (0, 1, 2, 4, 3, 0, 5, 2), strict=True):
        np.testing.assert_allclose(axis.images[0].get_array(), IMAGES[row])
        assert axis.get_xlabel() == "abcdef"[row]
    assert figure.get_suptitle() == "Found: 50% of 6 right"
    assert as_png(figure, dpi=40).startswith(b"\x89PNG")


def test_neighbors_may_come_from_a_database() -> None:
    database = np.zeros((9, 4, 4))
    database[8] = 1
    figure = retrieval_grid(IMAGES, [5], [[8]], [[1]], database=database, captions=["x"] * 6)
    query, found = cells(figure)
    np.testing.assert_allclose(query.images[0].get_array(), IMAGES[5])
    assert float(found.images[0].get_array().min()) == 1
    assert (query.get_xlabel(), found.get_xlabel()) == ("x", "")


@pytest.mark.parametrize(
    ("images", "shape"),
    [
        ((IMAGES * 255).astype(np.uint8), (5, 5)),
        (IMAGES.astype(np.float16), (5, 5)),
        (IMAGES.astype(np.float64) * 30 - 7, (5, 5)),
        (torch.from_numpy(IMAGES)[:, None], (5, 5)),
        (IMAGES[..., None], (5, 5)),
        (np.repeat(IMAGES[:, None], 3, axis=1), (5, 5, 3)),
        (np.repeat(IMAGES[..., None], 3, axis=3), (5, 5, 3)),
        (np.ones((6, 4, 4), dtype=int), (4, 4)),
        (np.zeros((6, 4, 4), dtype=bool), (4, 4)),
        (np.full((6, 4, 4), -3.0), (4, 4)),
    ],
)
def test_images_of_every_layout_and_range(images: Any, shape: tuple[int, ...]) -> None:
    before = np.asarray(images).copy()
    pixels = cells(retrieval_grid(images, [0], [[1]], [[True]]))[0].images[0].get_array()
    assert pixels.shape == shape
    assert 0 <= float(pixels.min()) <= float(pixels.max()) <= 1
    np.testing.assert_array_equal(np.asarray(images), before)


def test_a_long_caption_is_cut() -> None:
    figure = retrieval_grid(IMAGES, [0], [[1]], [[True]], captions=["a very long caption"] * 6)
    assert cells(figure)[0].get_xlabel() == "a very long…"


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"images": np.ones((6, 25))}, ShapeError, r"`images` must have shape \(n, h, w\).*Reshape rows of pixels"),
        ({"images": np.ones((6, 5, 5, 2))}, ShapeError, "`images` must have shape"),
        ({"images": np.ones((0, 5, 5))}, ShapeError, "`images` must have shape"),
        ({"images": np.full((6, 5, 5), math.nan)}, NotFiniteError, "`images` must be finite"),
        ({"database": np.ones(3)}, ShapeError, "`database` must have shape"),
        ({"queries": [[0]]}, ShapeError, r"`queries` must be row numbers of shape \(q,\)"),
        ({"queries": [0.5, 1.5]}, ShapeError, "`queries` must be row numbers"),
        ({"queries": [0, 6]}, ParameterError, "`queries` must be rows of `images`, which has 6, got 0 to 6"),
        (
            {"neighbors": [[-1, 0, 1], [0, 1, 2]]},
            ParameterError,
            "`neighbors` must be rows of `images`.*got -1 to 2",
        ),
        ({"neighbors": [[0, 1, 2]]}, ShapeError, "must fit together"),
        ({"correct": [[True, False]]}, ShapeError, "must fit together"),
        ({"neighbors": np.empty((2, 0), int), "correct": np.empty((2, 0), bool)}, ParameterError, "to be seen"),
        (
            {"neighbors": np.zeros((2, 41), int), "correct": np.zeros((2, 41), bool)},
            ParameterError,
            r"between 1 × 1 and 40 × 40 to be seen, got \(2, 41\). Take a part",
        ),
        ({"captions": ["a"]}, ShapeError, "`captions` must have one entry for each of the 6 images, got 1"),
    ],
)
def test_bad_input_is_named(change: dict[str, Any], error: type[Exception], message: str) -> None:
    arguments: dict[str, Any] = {
        "images": IMAGES,
        "queries": [0, 3],
        "neighbors": [[1, 2, 4], [0, 5, 2]],
        "correct": CORRECT,
    }
    with pytest.raises(error, match=message):
        retrieval_grid(**(arguments | change))
