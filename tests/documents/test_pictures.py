"""The pictures of the lines of work: well formed, self-contained, light and dark."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
PICTURES = sorted(IMAGES.glob("line-*.svg"))


def test_there_is_one_for_each_line() -> None:
    lines = {page.stem for page in (IMAGES.parent / "lines").glob("*.md")} - {"index"}
    assert {file.stem.removeprefix("line-") for file in PICTURES} == lines


@pytest.mark.parametrize("file", PICTURES, ids=lambda file: file.stem)
def test_a_picture(file: Path) -> None:
    text = file.read_text()
    root = ElementTree.fromstring(text)
    assert root.find("{http://www.w3.org/2000/svg}title").text, "a reader who cannot see it is told what it is"
    assert "prefers-color-scheme:dark" in text
    assert "href" not in text
    assert text.count("http") == 1, "the name of the format and nothing else"
    assert len(text) < 100_000
