"""The page is one file that loads nothing, escapes everything and is well formed."""

from __future__ import annotations

import base64
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nearer.exceptions import ParameterError, ShapeError
from nearer.reports import training_curve
from nearer.reports._page import Code, Picture, Section, Table, html_report

EVIL = "<script>alert('1')</script> & \"quotes\""


class Page(HTMLParser):
    """Collects text and attributes, and notices tags that are not closed."""

    VOID = frozenset({"meta", "img", "source", "br", "link"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text.append(data)

    def find(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def report(tmp_path: Path, *sections: Section, **options: Any) -> tuple[str, Page]:
    text = html_report("A title", sections, tmp_path / "report.html", **options).read_text(encoding="utf-8")
    return text, Page(text)


def full(tmp_path: Path) -> tuple[str, Page]:
    picture = Picture(training_curve({"loss": [3, 2, 1]}), "A falling line", "Loss by epoch")
    table = Table(
        ["method", "items", "score"], [["raw", 1234, 0.5], ["learned", None, np.float32(0.75)]], emphasis=[1]
    )
    return report(
        tmp_path,
        Section("Scores", ["A paragraph.", table]),
        Section("Curve", [picture]),
        Section("Command", [Code("one\n  two")]),
        summary="In short.",
    )


def test_everything_is_on_the_page(tmp_path: Path) -> None:
    text, page = full(tmp_path)
    seen = " ".join(page.text)
    for words in (
        "A title",
        "In short.",
        "Scores",
        "A paragraph.",
        "1,234",
        "0.500",
        "0.750",
        "–",
        "Loss by epoch",
    ):
        assert words in seen
    assert "<pre><code>one\n  two</code></pre>" in text
    assert [attributes["href"] for attributes in page.find("a")] == ["#s0", "#s1", "#s2"]
    assert [attributes.get("id") for attributes in page.find("section")] == ["s0", "s1", "s2"]
    assert page.find("html")[0]["lang"] == "en"
    assert "width=device-width" in str(page.find("meta"))
    assert "prefers-color-scheme: dark" in text
    assert '<tr class="strong">' in text


def test_the_picture_is_inside_for_both_kinds_of_screen(tmp_path: Path) -> None:
    _, page = full(tmp_path)
    (image,), (source,) = page.find("img"), page.find("source")
    assert image["alt"] == "A falling line"
    light, dark = str(image["src"]), str(source["srcset"])
    for data in (light, dark):
        assert data.startswith("data:image/png;base64,")
        assert base64.b64decode(data.split(",")[1], validate=True).startswith(b"\x89PNG")
    assert light != dark


def test_nothing_is_loaded_from_anywhere(tmp_path: Path) -> None:
    text, page = full(tmp_path)
    assert not re.search(r"https?:|//[a-z]|@import|url\(", re.sub(r"base64,[A-Za-z0-9+/=]+", "", text))
    assert not page.find("script") + page.find("link") + page.find("iframe")
    policy = next(m["content"] for m in page.find("meta") if m.get("http-equiv") == "Content-Security-Policy")
    assert policy == "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def test_all_text_is_escaped(tmp_path: Path) -> None:
    figure = training_curve({"loss": [1, 2]})
    parts = [EVIL, Code(EVIL), Table([EVIL], [[EVIL]], caption=EVIL), Picture(figure, EVIL, EVIL)]
    place = html_report(EVIL, [Section(EVIL, parts)] * 3, tmp_path / "report.html", summary=EVIL)
    text = place.read_text(encoding="utf-8")
    assert "<script" not in text
    page = Page(text)
    assert all(image["alt"] == EVIL for image in page.find("img"))
    assert page.text.count(EVIL) >= 20


def test_numbers_stand_right_and_text_left(tmp_path: Path) -> None:
    rows = [["a", 1, 0.25, True, float("nan")], ["b", None, 2.0, False, 1.0]]
    text, _ = report(tmp_path, Section("T", [Table(["n", "i", "f", "b", "x"], rows, digits=1)]))
    assert re.findall(r"<td[^>]*>[^<]*</td>", text) == [
        *("<td>a</td>", '<td class="number">1</td>', '<td class="number">0.2</td>', "<td>True</td>"),
        '<td class="number">nan</td>',
        *("<td>b</td>", '<td class="number">–</td>', '<td class="number">2.0</td>', "<td>False</td>"),
        '<td class="number">1.0</td>',
    ]


def test_a_page_without_anything_is_a_page(tmp_path: Path) -> None:
    _, page = report(tmp_path)
    assert "A title" in " ".join(page.text)
    _, page = report(tmp_path, Section("Empty", []), Section("Rows", [Table(["a"], [])]))
    assert not page.find("nav")


def test_the_older_page_stays_until_the_new_one_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = html_report("first", [], tmp_path / "new" / "report.html")

    def full_disk(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        html_report("second", [], place)
    assert "first" in place.read_text(encoding="utf-8")
    assert [file.name for file in place.parent.iterdir()] == ["report.html"]


def test_bad_input_is_named(tmp_path: Path) -> None:
    with pytest.raises(ShapeError, match="`rows` must have 2 cells like `columns`, row 1 has 1"):
        Table(["a", "b"], [[1, 2], [3]])
    with pytest.raises(ParameterError, match="must be text, Table, Picture, Code or Gallery, got int"):
        html_report("t", [Section("s", [3])], tmp_path / "x.html")  # type: ignore[list-item]
    assert not (tmp_path / "x.html").exists()


def test_gains_stand_under_each_other(tmp_path: Path) -> None:
    rows = [("a", "+0.120", "\u22120.010 to +0.250"), ("b", "\u22121.000", ""), ("c", "+0.5", None)]
    page = html_report("Gains", [Section("All", [Table(["score", "gain", "95 %"], rows)])], tmp_path / "x.html")
    assert page.read_text().count('<th scope="col" class="number">') == 2
