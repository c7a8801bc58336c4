"""Omniglot, background part: 964 characters of 30 alphabets, each drawn by 20 people."""

from __future__ import annotations

import os
import re
import zipfile
import zlib
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Literal

import numpy as np

from nearer._checks import check_choice
from nearer._limits import check_expansion, check_limit
from nearer.datasets._dataset import Array, DataFile, Dataset, Download, Source, Split
from nearer.datasets._numpy_files import read_npz
from nearer.exceptions import CorruptFileError, LimitError
from nearer_papers.data._obtain import find, obtain

__all__ = ["OMNIGLOT", "load_omniglot", "read_omniglot_archive", "shrink"]

OMNIGLOT = Source(
    name="omniglot",
    title="Omniglot background characters",
    citation="Lake, Salakhutdinov, Tenenbaum 2015, Science 350(6266)",
    license="MIT",
    address="https://github.com/brendenlake/omniglot",
    files=(
        DataFile("omniglot_background.npz", "1b31865b659225b71e7720e6c83d837183334cd571c97705ef7b85c09d9b7443"),
    ),
    downloads=(
        Download(
            "omniglot/images_background.zip",
            "https://github.com/brendenlake/omniglot/raw/master/python/images_background.zip",
            "ad41ab679c8b5d90b271ef46be6987cc81211774a695c29dcc5367b2b26ee640",
        ),
    ),
)

_MEMBER = re.compile(r"images_background/([^/]+)/character(\d+)/\d+_(\d+)\.png")


def load_omniglot(
    *,
    pixels: Literal["28", "105"] = "28",
    folder: str | os.PathLike[str] | None = None,
    verify: bool = True,
    download: bool = True,
) -> Dataset:
    """19,280 drawings, 964 classes (characters) of 20, no split; ink is bright.

    `pixels="28"`: bytes (28, 28), each the mean of a box; `"105"`: the original two-coloured (105, 105) as bool.
    Classes are numbered by alphabet (in the order of their names), then by character. `extra` holds `alphabet`
    (0..29, for splits that keep alphabets apart) and `drawer` (0..19); `data.extra["alphabet_names"]` their names.
    Read from `omniglot_background.npz` or the published `images_background.zip` (which needs Pillow); fetched
    (9 MB) if neither is there.
    """
    check_choice(pixels, "pixels", ["28", "105"])
    prepared = find(OMNIGLOT.files[0], folder, verify=verify)
    if prepared is not None:
        stored = read_npz(prepared, ("x28" if pixels == "28" else "ink_packed", "alphabet", "alphabet_names"))
        alphabets = [str(stored["alphabet_names"][code]) for code in stored["alphabet"]]
        if pixels == "28":
            x = stored["x28"]
        else:
            bits = np.unpackbits(stored["ink_packed"], axis=-1, count=105 * 105)
            x = bits.reshape(*bits.shape[:2], 105, 105).astype(bool)
        # The prepared file has its own order of alphabets; a stable sort leaves the characters of each in place.
        order = np.argsort(np.array(alphabets), kind="stable")
        return _dataset(x[order], [alphabets[place] for place in order])
    ink, names = read_omniglot_archive(obtain(OMNIGLOT, folder, verify=verify, allow_download=download)[0])
    return _dataset(ink if pixels == "105" else shrink(ink), names)


def read_omniglot_archive(path: Path) -> tuple[Array, list[str]]:
    """Ink (characters, 20, 105, 105) and the alphabet of each character, from the published zip file."""
    from PIL import Image

    drawings: dict[tuple[str, int], dict[int, Array]] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            members = [info for info in archive.infolist() if _MEMBER.fullmatch(info.filename)]
            asked = sum(info.file_size for info in members)
            check_expansion(asked, path.stat().st_size, f"`{path.name}`")
            for name in archive.namelist():
                if match := _MEMBER.fullmatch(name):
                    with Image.open(BytesIO(archive.read(name)), formats=("PNG",)) as image:
                        check_limit("NEARER_MAX_PIXELS", image.width * image.height, f"`{name}`")
                        ink = np.asarray(image.convert("L")) < 128
                    drawings.setdefault((match[1], int(match[2])), {})[int(match[3])] = ink
    except LimitError:
        raise
    except (zipfile.BadZipFile, RuntimeError, OSError, EOFError, ValueError, SyntaxError, zlib.error) as error:
        raise CorruptFileError(f"`{path}` must be the Omniglot zip file, and cannot be read: {error}.") from error
    shapes = {ink.shape for drawn in drawings.values() for ink in drawn.values()}
    if {len(drawn) for drawn in drawings.values()} != {20} or len(shapes) != 1:
        raise CorruptFileError(f"`{path}` must hold 20 drawings of one size for each character, and does not.")
    characters = sorted(drawings)
    stack = np.stack([np.stack([drawings[key][drawer] for drawer in sorted(drawings[key])]) for key in characters])
    return stack, [alphabet for alphabet, _ in characters]


def shrink(ink: Array) -> Array:
    """Bytes (..., 28, 28): the share of ink in each of 28x28 boxes, with the rounding of Pillow's box filter."""
    from PIL import Image

    flat = ink.reshape(-1, *ink.shape[-2:])
    small = [
        np.asarray(Image.fromarray(one.astype(np.uint8) * 255).resize((28, 28), Image.Resampling.BOX))
        for one in flat
    ]
    return np.stack(small).reshape(*ink.shape[:-2], 28, 28)


def _dataset(x: Array, alphabets: Sequence[str]) -> Dataset:
    names = sorted(set(alphabets))
    codes = np.array([names.index(name) for name in alphabets])
    characters, drawers = x.shape[:2]
    numbers = [list(alphabets[:place]).count(name) + 1 for place, name in enumerate(alphabets)]
    extra = {
        "alphabet": np.repeat(codes, drawers),
        "drawer": np.tile(np.arange(drawers), characters),
    }
    part = Split(x.reshape(-1, *x.shape[2:]), np.repeat(np.arange(characters), drawers), extra)
    classes = tuple(f"{name}/{number:02d}" for name, number in zip(alphabets, numbers, strict=True))
    return Dataset(OMNIGLOT, {"all": part}, classes, extra={"alphabet_names": np.array(names)})
