"""Draw docs/images/demo.png: the map and the retrieved digits of the report of `nearer demo`, on one picture.

python docs/figures/demo.py
"""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image

from nearer.app.cli._digits import learn_digits
from nearer.app.cli._digits_report import digits_figures
from nearer.reports._style import as_png

PLACE = Path(__file__).resolve().parents[2] / "docs" / "images" / "demo.png"


def main() -> None:
    figures = digits_figures(learn_digits())
    top, left, right = (
        Image.open(io.BytesIO(as_png(figures[name], dpi=110))).convert("RGB")
        for name in ("map", "raw retrieval", "learned retrieval")
    )
    gap = 20
    width = left.width + gap + right.width
    top = top.resize((width, round(top.height * width / top.width)), Image.Resampling.LANCZOS)
    page = Image.new("RGB", (width, top.height + gap + left.height), "white")
    page.paste(top, (0, 0))
    page.paste(left, (0, top.height + gap))
    page.paste(right, (left.width + gap, top.height + gap))
    PLACE.parent.mkdir(parents=True, exist_ok=True)
    # A palette keeps the file small; the pictures have few colours.
    page.quantize(128).save(PLACE, optimize=True)
    print(PLACE.name, page.size, f"{PLACE.stat().st_size / 1024:.0f} kB")


if __name__ == "__main__":
    main()
