"""A report as one HTML file: pictures inside, no scripts, nothing loaded from anywhere."""

from __future__ import annotations

import base64
import html
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nearer import __version__
from nearer._notebook import picture
from nearer._storage import write_file
from nearer.exceptions import ParameterError, ShapeError
from nearer.reports._style import as_pngs

if TYPE_CHECKING:
    from matplotlib.figure import Figure


SIGNED = re.compile(r"[+\u2212]\d+(\.\d+)?( to [+\u2212]\d+(\.\d+)?)?")
# Of more sections a list would stand in front of the first of them.
LISTED = 12


@dataclass(frozen=True)
class Table:
    """Rows under column names; numbers stand right, and the rows listed in `emphasis` are set bold.

    Floats are shown with `digits` decimals. No rows give an empty table with its head.

    >>> Table(["method", "recall@1"], [["raw", 0.8], ["learned", 0.9]], emphasis=[1]).columns
    ['method', 'recall@1']
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    caption: str = ""
    digits: int = 3
    emphasis: Sequence[int] = ()

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ShapeError(
                    f"`rows` must have {len(self.columns)} cells like `columns`, row {number} has {len(row)}."
                )


@dataclass(frozen=True)
class Picture:
    """A matplotlib figure with the text that stands for it, and a caption under it.

    >>> from matplotlib.figure import Figure
    >>> Picture(Figure(), "two clusters", caption="Before").caption
    'Before'
    """

    figure: Figure
    text: str
    caption: str = ""


@dataclass(frozen=True)
class Code:
    """A command or its output, in type of equal width and with its line breaks.

    >>> Code("nearer fit data.csv").text
    'nearer fit data.csv'
    """

    text: str


@dataclass(frozen=True)
class Tile:
    """One item as people know it: its picture, bytes (h, w, 3), if it has one, its name, and what is said of it.

    >>> Tile("cat.jpg", ["distance 0.12"]).name
    'cat.jpg'
    """

    name: str
    words: Sequence[str] = ()
    image: Any = None
    strong: bool = False


@dataclass(frozen=True)
class Gallery:
    """Items side by side, as many in a row as fit.

    >>> len(Gallery([Tile("a"), Tile("b")]).tiles)
    2
    """

    tiles: Sequence[Tile]


PagePart = str | Table | Picture | Code | Gallery


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it, in order: paragraphs (text), tables, pictures, code.

    >>> Section("Scores", ["On held-out rows.", Table(["score", "value"], [["recall@1", 0.9]])]).heading
    'Scores'
    """

    heading: str
    parts: Sequence[PagePart]


def html_report(
    title: str,
    sections: Sequence[Section],
    path: str | os.PathLike[str],
    *,
    summary: str = "",
) -> Path:
    """Write a report as one self-contained HTML file, whole or not at all, and return its path.

    All text is escaped. Pictures are there for light and for dark screens. The page forbids itself to load
    anything. No sections give a page with its title alone.

    >>> import tempfile
    >>> file = html_report("1 < 2", [Section("Numbers", ["Both are small."])], tempfile.mkdtemp() + "/page.html")
    >>> "<h1>1 &lt; 2</h1>" in file.read_text()
    True

    Args:
        title: of the page.
        sections: what stands on it, in order.
        path: the file to write.
        summary: a sentence under the title.
    """
    body = [_section(section, number) for number, section in enumerate(sections)]
    lead = f'<p class="lead">{_text(summary)}</p>' if summary else ""
    links = "".join(f'<a href="#s{i}">{_text(section.heading)}</a>' for i, section in enumerate(sections))
    contents = f'<nav aria-label="Contents">{links}</nav>' if 2 < len(sections) <= LISTED else ""
    page = PAGE.format(
        title=_text(title), style=STYLE, lead=lead, contents=contents, body="\n".join(body), version=__version__
    )
    return write_file(path, page.encode("utf-8", "backslashreplace"))


def _section(section: Section, number: int) -> str:
    parts = "\n".join(_part(part) for part in section.parts)
    return f'<section id="s{number}">\n<h2>{_text(section.heading)}</h2>\n{parts}\n</section>'


def _part(part: PagePart) -> str:
    if isinstance(part, str):
        return f"<p>{_text(part)}</p>"
    if isinstance(part, Code):
        return f"<pre><code>{_text(part.text)}</code></pre>"
    if isinstance(part, Table):
        return _table(part)
    if isinstance(part, Picture):
        return _picture(part)
    if isinstance(part, Gallery):
        return f'<ul class="gallery">{"".join(map(_tile, part.tiles))}</ul>'
    raise ParameterError(
        f"A part of a section must be text, Table, Picture, Code or Gallery, got {type(part).__name__}."
    )


def _tile(tile: Tile) -> str:
    image = "" if tile.image is None else picture(tile.image, tile.name, side=256)
    words = "".join(f"<span>{_text(line)}</span>" for line in tile.words)
    strong = ' class="strong"' if tile.strong else ""
    return f"<li{strong}>{image}<b>{_text(tile.name)}</b>{words}</li>"


def _picture(part: Picture) -> str:
    light, dark = (base64.b64encode(png).decode() for png in as_pngs(part.figure))
    caption = f"<figcaption>{_text(part.caption)}</figcaption>" if part.caption else ""
    # In inches of the page, so that the type of all pictures has one size; the pixels are for sharper screens.
    width = round(96 * part.figure.get_figwidth())
    broad = ' class="broad"' if width > 900 else ""
    data = "data:image/png;base64,"
    return (
        f'<figure{broad}><picture><source media="(prefers-color-scheme: dark)" srcset="{data}{dark}">'
        f'<img src="{data}{light}" width="{width}" alt="{_text(part.text)}"></picture>{caption}</figure>'
    )


def _table(part: Table) -> str:
    head = "".join(f'<th scope="col"{_side(part, j)}>{_text(name)}</th>' for j, name in enumerate(part.columns))
    rows = []
    for i, row in enumerate(part.rows):
        cells = "".join(
            f"<td{_side(part, j)}>{_text(_cell(value, part.digits))}</td>" for j, value in enumerate(row)
        )
        rows.append(f'<tr class="strong">{cells}</tr>' if i in part.emphasis else f"<tr>{cells}</tr>")
    caption = f"<caption>{_text(part.caption)}</caption>" if part.caption else ""
    # A table wider than a phone scrolls inside its own frame, which the keyboard must be able to reach.
    return (
        f'<div class="wide" role="region" tabindex="0" aria-label="{_text(part.caption or "Table")}">'
        f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _side(part: Table, column: int) -> str:
    values = [row[column] for row in part.rows if row[column] not in (None, "")]
    return ' class="number"' if values and all(_is_number(value) or _is_signed(value) for value in values) else ""


def _is_signed(value: Any) -> bool:
    """Gains and their intervals are written with their sign."""
    return isinstance(value, str) and SIGNED.fullmatch(value) is not None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _cell(value: Any, digits: int) -> str:
    if value is None:
        return "–"
    if isinstance(value, float | np.floating):
        return f"{value:.{digits}f}" if np.isfinite(value) else str(float(value))
    return f"{value:,}" if _is_number(value) else str(value)


def _text(value: str) -> str:
    return html.escape(str(value), quote=True)


STYLE = """
:root { --ink: #1b2026; --muted: #5c6773; --faint: #d9dee3; --paper: #ffffff; --ground: #f4f6f8; --accent: #2166ac;
        color-scheme: light dark; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8ecf0; --muted: #9aa6b2; --faint: #38414b; --paper: #161b21; --ground: #0d1115;
          --accent: #6cb0f0; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); line-height: 1.55; font-size: 1rem;
       font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main, footer { max-width: 68rem; margin: 0 auto; padding: 0 1rem; }
header { padding: 2.2rem 0 0.6rem; }
h1 { font-size: clamp(1.5rem, 4.5vw, 2.1rem); line-height: 1.2; margin: 0 0 0.5rem; letter-spacing: -0.01em; }
h2 { font-size: 1.2rem; margin: 0 0 0.7rem; }
p { margin: 0 0 0.9rem; max-width: 46rem; overflow-wrap: anywhere; }
.lead { font-size: 1.08rem; color: var(--muted); }
nav { display: flex; flex-wrap: wrap; gap: 0.4rem 1.1rem; padding-bottom: 0.4rem; }
a { color: var(--accent); text-decoration: none; }
a:hover, a:focus { text-decoration: underline; }
section { background: var(--paper); border: 1px solid var(--faint); border-radius: 12px; margin: 1rem 0;
          padding: 1.2rem clamp(0.8rem, 3vw, 1.6rem); }
section > :last-child { margin-bottom: 0; }
figure { margin: 0 0 1rem; }
img { display: block; max-width: 100%; height: auto; margin: 0 auto; }
figcaption, caption { color: var(--muted); font-size: 0.92rem; padding: 0.4rem 0; text-align: left; }
.wide { overflow-x: auto; margin: 0 0 1rem; }
table { border-collapse: collapse; min-width: min(100%, 28rem); font-variant-numeric: tabular-nums; }
th, td { padding: 0.42rem 0.9rem 0.42rem 0; text-align: left; border-bottom: 1px solid var(--faint); }
th { color: var(--muted); font-weight: 600; font-size: 0.92rem; white-space: nowrap; }
td:first-child:not(.number) { min-width: 7.5rem; }
.number { text-align: right; padding-left: 0.9rem; }
.strong td { font-weight: 700; }
/* A phone shows the whole of a broad picture, both maps of a pair included; two fingers make it larger. */
@media (max-width: 40rem) {
  th, td { padding: 0.35rem 0.45rem 0.35rem 0; font-size: 0.85rem; }
  table { min-width: 0; } th { white-space: normal; } pre { white-space: pre-wrap; overflow-wrap: anywhere; }
  td:first-child:not(.number) { min-width: 4.8rem; overflow-wrap: anywhere; }
  .number { padding-left: 0.2rem; } th, td { white-space: normal; } td.number { white-space: nowrap; }
}
.gallery { list-style: none; display: grid; grid-template-columns: repeat(auto-fill, minmax(8.5rem, 1fr));
           gap: 0.9rem; margin: 0 0 1rem; padding: 0; font-size: 0.85rem; line-height: 1.35; }
.gallery li { display: flex; flex-direction: column; border-radius: 8px; overflow-wrap: anywhere; }
.gallery img { width: 100%; aspect-ratio: 4 / 3; object-fit: contain; background: var(--ground); border-radius: 8px;
               margin: 0 0 0.3rem; }
.gallery b { font-weight: 600; } .gallery span { color: var(--muted); }
.gallery .strong img { outline: 3px solid var(--accent); outline-offset: -3px; }
pre { background: var(--ground); border-radius: 8px; padding: 0.8rem 1rem; overflow-x: auto; font-size: 0.88rem;
      margin: 0 0 1rem; }
footer { color: var(--muted); font-size: 0.88rem; padding-top: 0.4rem; padding-bottom: 2rem; }
@media print { section { border: 0; padding: 0; break-inside: avoid; } nav { display: none; } }
"""

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
<header>
<h1>{title}</h1>
{lead}
{contents}
</header>
{body}
</main>
<footer>Made with nearer {version}.</footer>
</body>
</html>
"""
