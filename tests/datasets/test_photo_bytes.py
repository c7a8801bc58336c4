"""Photos decoded once: their size, their order, and where they lie."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nearer.datasets._image_files import cut, load_image, photo_bytes
from nearer.exceptions import CorruptFileError

Image = pytest.importorskip("PIL.Image")


def made(folder: Path) -> list[Path]:
    rng = np.random.default_rng(0)
    paths = []
    for number, shape in enumerate([(60, 90), (200, 40), (30, 30)]):
        smooth = np.kron(rng.integers(0, 255, (shape[0] // 10, shape[1] // 10, 3)), np.ones((10, 10, 1)))
        paths.append(folder / f"{number}.jpg")
        Image.fromarray(smooth.astype(np.uint8)).save(paths[-1], quality=95)
    return paths


@pytest.mark.parametrize("most", [1e9, 0])
def test_short_sides_are_alike_and_long_ones_bounded(tmp_path: Path, most: float) -> None:
    paths = made(tmp_path)
    done: list[int] = []
    found = photo_bytes([*paths, load_image(paths[0])], 24, most=most, folder=tmp_path, progress=done.append)
    assert [photo.shape for photo in found] == [(24, 36, 3), (48, 24, 3), (24, 24, 3), (24, 36, 3)]
    assert done == [1, 2, 3, 4]
    assert sorted(tmp_path.iterdir()) == paths, "the file that is mapped has no name"
    # Read at a half and scaled: near what the whole picture gives.
    assert np.abs(found[0].astype(float) - found[3]).mean() < 12


def test_squares(tmp_path: Path) -> None:
    found = photo_bytes(made(tmp_path), 16, squash=True)
    assert {photo.shape for photo in found} == {(16, 16, 3)}


def test_a_photo_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    paths = made(tmp_path)
    paths[1].write_bytes(paths[1].read_bytes()[:300])
    with pytest.raises(CorruptFileError, match=r"1\.jpg"):
        photo_bytes(paths, 16)


def test_rough_reading_is_smaller_but_large_enough(tmp_path: Path) -> None:
    path = tmp_path / "large.jpg"
    Image.fromarray(np.zeros((800, 1200, 3), np.uint8)).save(path)
    assert load_image(path, enough=90).shape == (800, 1200, 3)
    assert load_image(path, enough=90, rough=True).shape == (100, 150, 3)
    assert cut(load_image(path), (0, 0, 800, 1200), 4).shape == (4, 4, 3)
