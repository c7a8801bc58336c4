"""Small pictures of many items in few files: sprites of 64 thumbnails each."""

from __future__ import annotations

import io

import numpy as np

from nearer._validation import Array
from nearer.app.explorer._items import ShownItems

__all__ = ["COLUMNS", "PER_SPRITE", "SIDE", "sprite"]

SIDE, COLUMNS, PER_SPRITE = 48, 8, 64


def sprite(items: ShownItems, page: int) -> bytes:
    """The pictures of items 64·page … as one PNG, 8 in a row of 48 pixels; what cannot be read is crossed out."""
    from PIL import Image

    first = page * PER_SPRITE
    rows = np.arange(first, min(first + PER_SPRITE, items.n))
    tall = -(-max(len(rows), 1) // COLUMNS)
    sheet = Image.new("RGB", (COLUMNS * SIDE, tall * SIDE), (255, 255, 255))
    for number, picture in enumerate(pictures(items, rows)):
        image = Image.fromarray(picture).convert("RGB")
        image.thumbnail((SIDE, SIDE))
        if max(image.size) < SIDE:
            ratio = SIDE / max(image.size)
            size = (round(image.width * ratio), round(image.height * ratio))
            image = image.resize(size, Image.Resampling.NEAREST if max(image.size) <= 16 else None)
        left = (number % COLUMNS) * SIDE + (SIDE - image.width) // 2
        sheet.paste(image, (left, number // COLUMNS * SIDE + (SIDE - image.height) // 2))
    buffer = io.BytesIO()
    sheet.save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


def pictures(items: ShownItems, rows: Array) -> list[Array]:
    """The pictures of some items; one that cannot be read is a crossed box."""
    assert items.images is not None
    try:
        return list(np.asarray(items.images(rows), dtype=np.uint8))
    except (OSError, ValueError):
        found = []
        for row in rows:
            try:
                found.append(np.asarray(items.images(np.array([row])), dtype=np.uint8)[0])
            except (OSError, ValueError):
                found.append(_crossed())
        return found


def _crossed() -> Array:
    box = np.full((SIDE, SIDE, 3), 235, dtype=np.uint8)
    line = np.arange(SIDE)
    for shift in (-1, 0, 1):
        box[line, np.clip(line + shift, 0, SIDE - 1)] = 170
        box[line, np.clip(SIDE - 1 - line + shift, 0, SIDE - 1)] = 170
    return box
