"""Your own images: one class for each sub-folder, damaged files named, pixels read when asked for."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from nearer.datasets import load_files, load_image_folder
from nearer.datasets._image_files import load_image
from nearer.exceptions import (
    CorruptFileError,
    LimitError,
    MissingDataError,
    NearerError,
    ParameterError,
    ShapeError,
)


def draw(path: Path, size: tuple[int, int] = (8, 6), color: tuple[int, int, int] = (255, 0, 0)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, color).save(path)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "pictures"
    draw(root / "dog" / "b.png")
    draw(root / "dog" / "deep" / "a.jpg")
    draw(root / "cat" / "c.BMP", color=(0, 0, 255))
    draw(root / "somewhere.png")
    draw(root / ".hidden" / "x.png")
    draw(root / "cat" / ".y.png")
    (root / "cat" / "notes.txt").write_text("not an image")
    return root


def test_classes_are_folders(folder: Path) -> None:
    for data in (load_image_folder(folder), load_files(folder), load_files(str(folder))):
        assert data.all.x.tolist() == ["cat/c.BMP", "dog/b.png", "dog/deep/a.jpg", "somewhere.png"]
        assert data.all.y.tolist() == [0, 1, 1, -1]
        assert data.class_names == ("cat", "dog")
        assert data.skipped == ()
    stack = data.all.images()
    assert stack.shape == (4, 3, 6, 8)
    assert stack[0, :, 0, 0].tolist() == [0, 0, 1]
    assert np.allclose(stack[1, :, 0, 0], [1, 0, 0])


def test_train_and_test_folders_are_parts(tmp_path: Path) -> None:
    for name in ("train/a/1.png", "train/b/2.png", "test/b/3.png", "test/c/4.png"):
        draw(tmp_path / name)
    data = load_image_folder(tmp_path)
    assert data.train.y.tolist() == [0, 1]
    assert data.test.y.tolist() == [1, 2]
    assert data.test.images().shape == (2, 3, 6, 8)
    draw(tmp_path / "other" / "5.png")
    assert load_image_folder(tmp_path).class_names == ("other", "test", "train")


def test_numbered_classes_are_sorted_by_value(tmp_path: Path) -> None:
    for name in ("10", "9", "1"):
        draw(tmp_path / name / "a.png")
    assert load_image_folder(tmp_path).class_names == ("1", "9", "10")


def damage(folder: Path) -> list[str]:
    """Damaged images of several kinds; returns their names."""
    noise = np.random.default_rng(0).integers(0, 256, size=(64, 64, 3)).astype(np.uint8)
    Image.fromarray(noise).save(folder / "cat" / "short.jpg")
    Image.fromarray(noise).save(folder / "cat" / "short.png")
    for name in ("short.jpg", "short.png"):
        content = (folder / "cat" / name).read_bytes()
        (folder / "cat" / name).write_bytes(content[: len(content) // 2])
    (folder / "dog" / "text.jpg").write_text("this is text")
    (folder / "dog" / "empty.png").write_bytes(b"")
    return ["cat/short.jpg", "cat/short.png", "dog/empty.png", "dog/text.jpg"]


def test_damaged_images_are_fatal_or_skipped_and_named(folder: Path) -> None:
    names = damage(folder)
    with pytest.raises(
        CorruptFileError, match=r"4 of 8 cannot be read, the first is .*short\.jpg: .*unreadable='skip'"
    ):
        load_image_folder(folder)
    data = load_image_folder(folder, unreadable="skip")
    assert sorted(data.skipped) == names
    assert len(data.all) == 4
    assert "skipped: 4 files" in repr(data)
    with pytest.raises(ParameterError, match="`unreadable` must be one of 'raise', 'skip'"):
        load_image_folder(folder, unreadable="ignore")  # type: ignore[arg-type]


def test_folders_without_images(tmp_path: Path) -> None:
    with pytest.raises(ShapeError, match="at least one readable image"):
        load_image_folder(tmp_path)
    with pytest.raises(MissingDataError, match="must be a folder of images"):
        load_image_folder(tmp_path / "none")


def test_load_image_sizes_and_modes(tmp_path: Path) -> None:
    path = draw(tmp_path / "a.png", (8, 6), (255, 128, 0))
    assert load_image(path).shape == (6, 8, 3)
    assert load_image(path, 4).shape == (4, 4, 3)
    assert load_image(path, (2, 5)).shape == (2, 5, 3)
    assert load_image(path, mode="L").shape == (6, 8)
    assert load_image(path)[0, 0].tolist() == [255, 128, 0]
    assert load_image(path).dtype == np.uint8


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK", "I;16"])
def test_every_kind_of_image_becomes_color(tmp_path: Path, mode: str) -> None:
    suffix = "tif" if mode == "CMYK" else "png"
    Image.new(mode, (3, 2)).save(tmp_path / f"a.{suffix}")
    assert load_image(tmp_path / f"a.{suffix}").shape == (2, 3, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 0}, "`size` must be at least 1"),
        ({"size": (3, -1)}, "`size` must be at least 1"),
        ({"size": 2.5}, "`size` must be an integer"),
        ({"mode": "XYZ"}, "`mode` must be one of 'RGB', 'L'"),
    ],
)
def test_load_image_refuses(tmp_path: Path, arguments: dict[str, object], message: str) -> None:
    path = draw(tmp_path / "a.png")
    with pytest.raises(ParameterError, match=message):
        load_image(path, **arguments)  # type: ignore[arg-type]


def test_load_image_names_what_it_cannot_read(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="there is no such file"):
        load_image(tmp_path / "none.jpg")
    (tmp_path / "t.jpg").write_text("text")
    with pytest.raises(
        CorruptFileError, match=r"t\.jpg` must be an image, and cannot be read as one: it is not an image"
    ):
        load_image(tmp_path / "t.jpg")


def test_a_picture_of_absurd_size_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = draw(tmp_path / "a.png", (100, 100))
    monkeypatch.setenv("NEARER_MAX_PIXELS", "1000")
    with pytest.raises(LimitError, match=r"a\.png` must keep to 1,000 pixels of an image, got 10,000"):
        load_image(path)


def test_sizes_that_differ_need_a_size(tmp_path: Path) -> None:
    draw(tmp_path / "a" / "1.png", (8, 6))
    draw(tmp_path / "a" / "2.png", (5, 5))
    part = load_image_folder(tmp_path).all
    with pytest.raises(ShapeError, match="`size` must be given, because the 2 images have 2 different sizes"):
        part.images()
    assert part.images(size=4).shape == (2, 3, 4, 4)
    assert part.images([], size=4).shape[0] == 0


def test_without_pillow(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(NearerError, match=r"pip install 'nearer\[images\]'"):
        load_image_folder(folder)
