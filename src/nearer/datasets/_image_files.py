"""Images on disk: find them, check them, and read one when it is asked for.

A picture is seen upright, on white, with 8 bits for each color, whatever the file holds.

- The orientation that a camera wrote (EXIF) is applied.
- 16 bits are scaled by their whole range, 65,535 to 255, so that pictures of one camera stay comparable.
- 32 bits and floating point have no range of their own: values within 0..1 are taken as 0 to 255, values within
  0..255 as they are, others from their least to their largest finite value. NaN is black.
- Transparent pixels are seen on white. CMYK and palettes become red, green and blue. Of an animation the
  first frame is taken.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nearer._checks import check_choice, check_int, needed
from nearer._limits import check_limit, limit
from nearer.exceptions import CorruptFileError, LimitError, MissingDataError

# What the names of images end in, and what Pillow may read in them.
IMAGES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
_KINDS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")


def _pillow() -> ModuleType:
    needed("PIL", "Reading images needs Pillow", "images")
    from PIL import Image

    return Image


def load_image(
    path: str | os.PathLike[str],
    size: int | tuple[int, int] | None = None,
    *,
    mode: Literal["RGB", "L"] = "RGB",
    enough: int | tuple[int, int] | None = None,
    rough: bool = False,
) -> np.ndarray[Any, Any]:
    """One image as bytes, as a viewer shows it: (h, w, 3) in colour, (h, w) with `mode="L"` in grey.

    `size` is height and width, or one number for both; the image is stretched to it (bilinear, with smoothing
    when it shrinks). Without `size` it keeps its own. `enough` says what it will be made smaller to: a JPEG of
    more than 16 megapixels is then read at a half, a quarter or an eighth, but at least twice as large. With
    `rough` any JPEG is, and only as large as that: for training, which cuts and scales at random anyway.
    """
    check_choice(mode, "mode", ["RGB", "L"])
    shape = None
    if size is not None:
        height, width = size if isinstance(size, tuple) else (size, size)
        shape = (check_int(width, "size"), check_int(height, "size"))
    least = enough if isinstance(enough, tuple) else None if enough is None else (enough, enough)
    image_module = _pillow()
    try:
        with _opened(image_module, path) as image:
            if shape is not None or least is not None:
                shrink_while_read(image, shape or least, mode, rough=rough)  # type: ignore[arg-type]
            plain = as_seen(image, mode)
            if shape is not None and plain.size != shape:
                plain = plain.resize(shape, image_module.Resampling.BILINEAR)
            return np.array(plain)
    except LimitError:
        raise
    except image_module.DecompressionBombError as error:
        raise LimitError(
            f"`{path}` must keep to {limit('NEARER_MAX_PIXELS'):,} pixels of an image: {_reason(error)}. If you "
            f"trust it, set NEARER_MAX_PIXELS."
        ) from error
    except FileNotFoundError as error:
        raise MissingDataError(f"`{path}` must be an image, and there is no such file.") from error
    except _unreadable(image_module) as error:
        raise CorruptFileError(
            f"`{path}` must be an image, and cannot be read as one: {_reason(error)}."
        ) from error


def crop_image(
    image: np.ndarray[Any, Any], size: int | tuple[int, int], *, resize: int | None = None
) -> np.ndarray[Any, Any]:
    """An image (h, w, 3) or (h, w) of bytes at another size without stretching it.

    It is scaled until its short side is `resize` long (by default as small as `size` allows), bilinear and with
    smoothing when it shrinks, and `size` (height and width, or one number) is cut out of its middle.

    >>> crop_image(np.zeros((40, 80, 3), np.uint8), 20).shape
    (20, 20, 3)
    """
    height, width = size if isinstance(size, tuple) else (size, size)
    check_int(height, "size"), check_int(width, "size")
    old_height, old_width = image.shape[:2]
    scale = max(height / old_height, width / old_width)
    if resize is not None:
        scale = max(scale, check_int(resize, "resize") / min(old_height, old_width))
    new_height, new_width = max(height, round(old_height * scale)), max(width, round(old_width * scale))
    if (new_height, new_width) != (old_height, old_width):
        image_module = _pillow()
        plain = image_module.fromarray(image).resize((new_width, new_height), image_module.Resampling.BILINEAR)
        image = np.array(plain)
    top, left = (new_height - height) // 2, (new_width - width) // 2
    return image[top : top + height, left : left + width]


def why_unreadable(path: str | os.PathLike[str]) -> str | None:
    """Why this file is not a whole image, or None if it is; JPEG is decoded at an eighth of its size for speed."""
    image_module = _pillow()
    try:
        with _opened(image_module, path) as image:
            image.draft("L", (1, 1))
            image.load()
    except _unreadable(image_module) as error:
        return _reason(error)
    return None


def _opened(image_module: ModuleType, path: str | os.PathLike[str]) -> Any:
    """An image of a known kind and within the limit, not yet decoded.

    Pillow would decide by the content alone, and some kinds are programs for other programs (EPS starts one).
    """
    largest = limit("NEARER_MAX_PIXELS")
    if largest > (vars(image_module)["MAX_IMAGE_PIXELS"] or largest):
        vars(image_module)["MAX_IMAGE_PIXELS"] = largest
    image_module.init()
    image = image_module.open(path, formats=[kind for kind in _KINDS if kind in image_module.OPEN])
    width, height = image.size
    if width * height > largest:
        image.close()
        check_limit("NEARER_MAX_PIXELS", width * height, f"`{path}`")
    return image


def _unreadable(image_module: ModuleType) -> tuple[type[Exception], ...]:
    # Pillow's decoders let many kinds out for damaged files; all of them mean the same to the reader.
    return (OSError, ValueError, SyntaxError, EOFError, IndexError, KeyError, TypeError, OverflowError,
            image_module.DecompressionBombError)  # fmt: skip


def _reason(error: BaseException) -> str:
    # Pillow repeats the whole path in this message, and the caller names it already.
    return (
        "it is not an image" if "cannot identify" in str(error) else str(error).rstrip(".") or type(error).__name__
    )


def list_images(root: Path) -> list[str]:
    """The images below a folder as sorted relative paths; hidden files and other kinds are left out."""
    files = []
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        inside = Path(folder).relative_to(root)
        files += [
            (inside / name).as_posix()
            for name in names
            if not name.startswith(".") and Path(name).suffix.lower() in IMAGES
        ]
    return sorted(files)


# A larger picture is read smaller where that is still twice as large as what is wanted of it.
LARGE = 1 << 24
# Rows that are scaled at a time: in float64 a picture of 89 megapixels would take 700 MB.
STRIP = 64
ORIENTATION = 0x0112
# EXIF's number -> Pillow's name of what sets the picture upright.
UPRIGHT = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}


def shrink_while_read(image: Any, wanted: tuple[int, int], mode: str, *, rough: bool = False) -> None:
    """Let the decoder of a large JPEG leave pixels out, down to twice the wanted width and height, or to once."""
    side = max(wanted) if rough else 2 * max(wanted)
    if (rough or image.width * image.height > LARGE) and min(image.size) > side:
        image.draft(mode if image.mode in ("RGB", "L", "YCbCr") else image.mode, (side, side))


def as_seen(image: Any, mode: str) -> Any:
    """An opened picture of Pillow as `mode`, "RGB" or "L", as a viewer shows it.

    >>> from PIL import Image
    >>> as_seen(Image.new("RGBA", (1, 1), (255, 0, 0, 0)), "RGB").getpixel((0, 0))
    (255, 255, 255)
    """
    turn = _turn(image)
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM")):
        plain = _from_numbers(image, 0.0, 65_535.0)
    elif image.mode in ("I", "F"):
        plain = _from_numbers(image, None, 0.0)
    elif image.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info:
        plain = _on_white(image)
    else:
        plain = image
    # No copy of a picture that is right already: it may be large.
    plain = plain if plain.mode == mode else plain.convert(mode)
    return plain if turn is None else plain.transpose(turn)


def _turn(image: Any) -> Any:
    """What sets the picture upright; a damaged EXIF block says nothing, as in viewers."""
    try:
        name = UPRIGHT.get(image.getexif().get(ORIENTATION))
    except (OSError, ValueError, SyntaxError, EOFError, IndexError, KeyError, TypeError, OverflowError):
        return None
    if name is None:
        return None
    from PIL import Image

    return Image.Transpose[name]


def _on_white(image: Any) -> Any:
    from PIL import Image

    over = image if image.mode == "RGBA" else image.convert("RGBA")
    white = Image.new("RGBA", over.size, (255, 255, 255, 255))
    white.alpha_composite(over)
    return white


def _from_numbers(image: Any, low: float | None, high: float) -> Any:
    """Numbers as shades between two of them, by default between their own ends."""
    from PIL import Image

    values = np.asarray(image)
    if low is None:
        low, high = _ends(values)
    shades = np.empty(values.shape, dtype=np.uint8)
    for start in range(0, len(values), STRIP):
        # A NaN that signals is one like any other.
        with np.errstate(invalid="ignore"):
            part = values[start : start + STRIP].astype(np.float64)
        # Halves: the difference of the largest floats is no float any more.
        share = (np.clip(part, low, high) / 2 - low / 2) / max(high / 2 - low / 2, 1e-300)
        shades[start : start + STRIP] = np.rint(255 * np.where(np.isnan(part), 0, share))
    return Image.fromarray(shades)


def _ends(values: Any) -> tuple[float, float]:
    """0 and 1, or 0 and 255, or the least and the largest finite value."""
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    if low >= 0 and high <= 255:
        return 0.0, 1.0 if high <= 1 else 255.0
    return low, high


Photo = NDArray[np.uint8]
# Decoded before the first of them is needed.
AHEAD = 128


def photo_bytes(
    items: Sequence[Any],
    side: int,
    *,
    squash: bool = False,
    most: float = 1e9,
    folder: str | os.PathLike[str] | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[Photo]:
    """Photos, files or bytes (h, w, 3), as bytes whose short side is `side` long, in the order of the items.

    What is more than twice as long as wide is cut to its middle; with `squash` all are stretched to a square. Where
    they would take more than `most` bytes they lie in a temporary file, which is mapped and has no name, so that
    nothing is left of it. `progress` hears after each photo how many are done.

    >>> [photo.shape for photo in photo_bytes([np.zeros((40, 90, 3), np.uint8)], 20)]
    [(20, 40, 3)]
    """
    check_int(side, "side")
    # A photo is half as long again as it is wide, in the mean.
    if len(items) * side * side * 3 * (1.0 if squash else 1.5) <= most:
        return list(_decoded(items, side, squash, progress))
    shapes: list[tuple[int, ...]] = []
    with tempfile.TemporaryFile(dir=folder, prefix="nearer-photos-") as file:
        for photo in _decoded(items, side, squash, progress):
            file.write(photo.data)
            shapes.append(photo.shape)
        file.flush()
        pixels: Photo = np.memmap(file, dtype=np.uint8, mode="r")
    ends = np.cumsum([0, *(int(np.prod(shape)) for shape in shapes)])
    return [pixels[a:b].reshape(shape) for (a, b), shape in zip(itertools.pairwise(ends), shapes, strict=True)]


def _decoded(
    items: Sequence[Any], side: int, squash: bool, progress: Callable[[int], None] | None
) -> Iterable[Photo]:
    done = 0
    with ThreadPoolExecutor() as pool:
        for start in range(0, len(items), AHEAD):
            for photo in pool.map(lambda item: _small(item, side, squash), items[start : start + AHEAD]):
                done += 1
                if progress is not None:
                    progress(done)
                yield photo


def _small(item: Any, side: int, squash: bool) -> Photo:
    photo: Photo
    if isinstance(item, str | os.PathLike):
        photo = load_image(Path(item), side if squash else None, enough=side, rough=True)
    else:
        photo = np.asarray(item)
    if squash:
        return np.ascontiguousarray(cut(photo, (0, 0, *photo.shape[:2]), side))
    scale = side / min(photo.shape[:2])
    height, width = (min(round(scale * length), 2 * side) for length in photo.shape[:2])
    return np.ascontiguousarray(crop_image(photo, (height, width)))


def cut(photo: Photo, box: tuple[int, int, int, int], size: int) -> Photo:
    """The part (top, left, height, width) of a photo stretched to a square, bilinear, smoothed where it shrinks.

    >>> cut(np.arange(12, dtype=np.uint8).reshape(2, 2, 3), (0, 1, 1, 1), 1)
    array([[[3, 4, 5]]], dtype=uint8)
    """
    top, left, height, width = box
    part = photo[top : top + height, left : left + width]
    if (height, width) == (size, size):
        return part
    from PIL import Image

    return np.asarray(Image.fromarray(part).resize((size, size), Image.Resampling.BILINEAR))
