"""Images on disk: find them, check them, and read one when it is asked for."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import numpy as np

from nearer._checks import check_choice, check_int
from nearer._limits import check_limit, limit
from nearer.datasets._pixels import as_seen, shrink_while_read
from nearer.exceptions import CorruptFileError, LimitError, MissingDataError, NearerError

__all__ = ["IMAGES", "crop_image", "list_images", "load_image", "why_unreadable"]

# What the names of images end in, and what Pillow may read in them.
IMAGES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
_KINDS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")


def _pillow() -> ModuleType:
    try:
        from PIL import Image
    except ImportError as error:
        raise NearerError(
            "Reading images needs Pillow, which is not installed. Run: pip install 'nearer[images]'"
        ) from error
    return Image


def load_image(
    path: str | os.PathLike[str],
    size: int | tuple[int, int] | None = None,
    *,
    mode: Literal["RGB", "L"] = "RGB",
    enough: int | tuple[int, int] | None = None,
) -> np.ndarray[Any, Any]:
    """One image as bytes, as a viewer shows it: (h, w, 3) in colour, (h, w) with `mode="L"` in grey.

    `size` is height and width, or one number for both; the image is stretched to it (bilinear, with smoothing
    when it shrinks). Without `size` it keeps its own. `enough` says what it will be made smaller to: a JPEG of
    more than 16 megapixels is then read at a half, a quarter or an eighth, but at least twice as large.
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
                shrink_while_read(image, shape or least, mode)  # type: ignore[arg-type]
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
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        inside = Path(folder).relative_to(root)
        found += [
            (inside / name).as_posix()
            for name in names
            if not name.startswith(".") and Path(name).suffix.lower() in IMAGES
        ]
    return sorted(found)
