"""Tables as a notebook shows them: what `_repr_html_` of results is made of."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Sequence
from typing import Any

# Pictures that are shown whole and are smaller than this are drawings or digits.
SMALL = 96


class Markup(str):
    """A cell that is HTML already; every other one is escaped."""

    __slots__ = ()


def bar(low: float, high: float, *, of: tuple[float, float] = (0.0, 1.0)) -> Markup:
    """A stroke from `low` to `high` on an axis, with a tick at zero.

    >>> bar(0.0, 0.5)[:4]
    '<svg'
    """
    width, (start, end) = 90.0, of
    x, y, zero = (
        width * (min(max(value, start), end) - start) / ((end - start) or 1.0) for value in (low, high, 0.0)
    )
    color = "#c43c39" if high < 0 else "#888" if low < 0 < high else "#2a78b5"
    return Markup(
        f'<svg width="{width:.0f}" height="12" role="img" aria-label="{low:.3f} to {high:.3f}">'
        f'<rect width="{width:.0f}" height="12" fill="currentColor" opacity=".08"/>'
        f'<rect x="{x:.1f}" y="2" width="{max(y - x, 1.5):.1f}" height="8" fill="{color}"/>'
        f'<rect x="{zero:.1f}" width="1" height="12" fill="currentColor"/></svg>'
    )


def picture_file(image: Any, *, side: int | None = 96) -> tuple[str, bytes]:
    """Bytes (h, w, 3) or (h, w) as the kind and the content of a file, no side longer than `side`.

    >>> from numpy import uint8, zeros
    >>> kind, content = picture_file(zeros((9, 9), uint8))
    >>> kind, content[1:4]
    ('png', b'PNG')
    """
    from PIL import Image

    file, small = io.BytesIO(), Image.fromarray(image)
    if side is not None:
        small.thumbnail((side, side))
    # Small drawings and digits stay sharp; photos are a fifth as large.
    kind = "png" if max(small.size) < (side or SMALL) else "jpeg"
    small.save(file, kind, quality=85)
    return kind, file.getvalue()


def picture(image: Any, text: str, *, side: int = 96) -> Markup:
    """Bytes (h, w, 3) or (h, w) as a small picture inside the page, with the text that stands for it."""
    kind, content = picture_file(image, side=side)
    data = base64.b64encode(content).decode()
    return Markup(f'<img src="data:image/{kind};base64,{data}" alt="{html.escape(text)}">')


def html_table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, foot: Sequence[str] = ()) -> str:
    """A table with a few lines under it; floats have four digits, and their columns stand right.

    >>> html_table(["a<b"], [[0.5]]).count("&lt;"), "0.5000" in html_table(["x"], [[0.5]])
    (1, True)
    """
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    lines = "".join(f"<div><small>{html.escape(line)}</small></div>" for line in foot)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{lines}"


def _cell(value: object) -> str:
    if isinstance(value, Markup):
        return f"<td>{value}</td>"
    if isinstance(value, float):
        return f'<td style="text-align:right">{value:.4f}</td>'
    return f'<td style="text-align:left">{html.escape(str(value))}</td>'
