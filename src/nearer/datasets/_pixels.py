"""What an opened picture looks like: upright, on white, 8 bits for each color, whatever the file holds.

- The orientation that a camera wrote (EXIF) is applied.
- 16 bits are scaled by their whole range, 65,535 to 255, so that pictures of one camera stay comparable.
- 32 bits and floating point have no range of their own: values within 0..1 are taken as 0 to 255, values within
  0..255 as they are, others from their least to their largest finite value. NaN is black.
- Transparent pixels are seen on white. CMYK and palettes become red, green and blue. An animation is its first
  frame is taken.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["LARGE", "as_seen", "shrink_while_read"]

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


def shrink_while_read(image: Any, wanted: tuple[int, int], mode: str) -> None:
    """Let the decoder of a large JPEG leave pixels out, down to twice the wanted width and height."""
    side = 2 * max(wanted)
    if image.width * image.height > LARGE and min(image.size) > side:
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
