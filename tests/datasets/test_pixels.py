"""Pictures as a viewer shows them: upright, on white, with all of their shades, and in bounded memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from nearer.datasets import load_image_folder
from nearer.datasets._image_files import LARGE, UPRIGHT, load_image
from nearer.exceptions import LimitError

RAMP = np.linspace(0, 65_535, 64 * 64).astype(np.uint16).reshape(64, 64)


def saved(path: Path, values: np.ndarray) -> Path:
    Image.fromarray(values).save(path)
    return path


@pytest.mark.parametrize("ending", ["png", "tif"])
def test_16_bits_are_scaled_by_their_whole_range(tmp_path: Path, ending: str) -> None:
    shades = load_image(saved(tmp_path / f"a.{ending}", RAMP), mode="L")
    np.testing.assert_array_equal(shades, np.rint(RAMP / 257).astype(np.uint8))
    assert len(np.unique(shades)) == 256
    dark, bright = (
        load_image(saved(tmp_path / "b.png", np.full((4, 4), one, np.uint16)))[0, 0, 0] for one in (12_000, 50_000)
    )
    assert (dark, bright) == (47, 195), "one scale for all pictures"


@pytest.mark.parametrize(
    ("values", "ends"),
    [
        (np.linspace(0, 1, 64, dtype=np.float32), (0, 255)),
        (np.linspace(0, 0.5, 64, dtype=np.float32), (0, 128)),
        (np.linspace(0, 200, 64, dtype=np.float32), (0, 200)),
        (np.linspace(-5, 900, 64, dtype=np.float32), (0, 255)),
        (np.linspace(-3e38, 3e38, 64, dtype=np.float32), (0, 255)),
        (np.linspace(0, 10**6, 64).astype(np.int32), (0, 255)),
        (np.linspace(0, 1, 64).astype(np.int32), (0, 255)),
        (np.full(64, 7.0, np.float32), (7, 7)),
        (np.full(64, -7.0, np.float32), (0, 0)),
    ],
)
def test_32_bits_and_floating_point(tmp_path: Path, values: np.ndarray, ends: tuple[int, int]) -> None:
    shades = load_image(saved(tmp_path / "a.tif", values.reshape(8, 8)), mode="L").reshape(-1)
    assert (shades[0], shades[-1]) == ends
    assert (np.diff(shades.astype(int)) >= 0).all()


def test_what_is_not_finite(tmp_path: Path) -> None:
    values = np.array([[np.nan, np.inf, -np.inf, 10.0, 300.0]], dtype=np.float32)
    assert load_image(saved(tmp_path / "a.tif", values), mode="L").tolist() == [[0, 255, 0, 0, 255]]
    nothing = np.full((2, 2), np.nan, np.float32)
    assert load_image(saved(tmp_path / "b.tif", nothing), mode="L").tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("number", [1, *UPRIGHT])
def test_the_camera_says_which_side_is_up(tmp_path: Path, number: int) -> None:
    upright = np.zeros((40, 60, 3), np.uint8)
    upright[:20, :30] = (255, 0, 0)
    upright[20:, 30:] = (0, 0, 255)
    back = {5: "TRANSPOSE", 6: "ROTATE_90", 7: "TRANSVERSE", 8: "ROTATE_270"} | {
        one: UPRIGHT[one] for one in (2, 3, 4)
    }
    stored = Image.fromarray(upright)
    stored = stored.transpose(Image.Transpose[back[number]]) if number in back else stored
    exif = Image.Exif()
    exif[0x0112] = number
    stored.save(tmp_path / "a.png", exif=exif)
    np.testing.assert_array_equal(load_image(tmp_path / "a.png"), upright)
    assert load_image(tmp_path / "a.png", (10, 20)).shape == (10, 20, 3)


@pytest.mark.filterwarnings("ignore:Corrupt EXIF:UserWarning")
def test_damaged_exif_says_nothing(tmp_path: Path) -> None:
    Image.new("RGB", (6, 4)).save(tmp_path / "a.jpg", exif=b"Exif\0\0MM\0*\xff\xff\xff\xff")
    assert load_image(tmp_path / "a.jpg").shape == (4, 6, 3)


def test_transparency_is_seen_on_white(tmp_path: Path) -> None:
    Image.new("RGBA", (2, 2), (255, 0, 0, 128)).save(tmp_path / "half.png")
    assert load_image(tmp_path / "half.png")[0, 0].tolist() == [255, 127, 127]
    Image.new("LA", (2, 2), (0, 0)).save(tmp_path / "grey.png")
    assert load_image(tmp_path / "grey.png", mode="L")[0, 0] == 255
    palette = Image.new("P", (2, 2), 1)
    palette.putpalette([9, 9, 9, 0, 200, 0])
    palette.save(tmp_path / "opaque.png")
    palette.save(tmp_path / "clear.png", transparency=1)
    assert load_image(tmp_path / "opaque.png")[0, 0].tolist() == [0, 200, 0]
    assert load_image(tmp_path / "clear.png")[0, 0].tolist() == [255, 255, 255]


def test_cmyk_and_animations(tmp_path: Path) -> None:
    Image.new("CMYK", (8, 8), (0, 255, 255, 0)).save(tmp_path / "a.jpg", quality=100)
    assert np.abs(load_image(tmp_path / "a.jpg")[0, 0].astype(int) - [255, 0, 0]).max() < 4
    frames = [Image.new("RGB", (4, 4), color) for color in ((255, 0, 0), (0, 255, 0))]
    for name in ("a.gif", "a.webp", "a.tif", "b.png"):
        more = {"lossless": True} if name.endswith("webp") else {}
        frames[0].save(tmp_path / name, save_all=True, append_images=frames[1:], **more)
        assert load_image(tmp_path / name)[0, 0].tolist() == [255, 0, 0], name


def test_a_large_photo_is_read_smaller_where_that_is_enough(tmp_path: Path) -> None:
    side = 4200
    assert side * side > LARGE
    Image.linear_gradient("L").resize((side, side)).convert("RGB").save(tmp_path / "a.jpg")
    tracemalloc.start()
    small = load_image(tmp_path / "a.jpg", enough=224)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert small.shape == (525, 525, 3), "an eighth, and still more than twice 224"
    assert peak < 4 << 20, "53 MB as it is"
    whole = load_image(tmp_path / "a.jpg", (60, 60)).astype(int)
    assert np.abs(np.diff(whole[:, 0, 0])).max() < 8
    assert load_image(tmp_path / "a.jpg").shape == (side, side, 3)


def test_far_too_many_pixels_are_our_error(tmp_path: Path) -> None:
    head = b"P5\n200000 200000\n255\n"
    (tmp_path / "a.pgm").write_bytes(head + bytes(100))
    with pytest.raises(LimitError, match=r"a\.pgm` must keep to 89,478,485 pixels of an image.*NEARER_MAX_PIXELS"):
        load_image(tmp_path / "a.pgm")


def test_a_folder_of_16_bit_pictures_keeps_its_classes_apart(tmp_path: Path) -> None:
    for name, level in (("dark", 12_000), ("bright", 50_000)):
        (tmp_path / name).mkdir()
        saved(tmp_path / name / "1.png", np.full((8, 8), level, np.uint16))
    bright, dark = load_image_folder(tmp_path).all.images().mean(axis=(1, 2, 3))
    assert bright > 4 * dark
