"""The site builds without a warning, asks no other host, and leaves out no page and no public name."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from browser import LONG, chromium, missing

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("material", "mkdocstrings")),
    reason="needs mkdocs-material and mkdocstrings: pip install 'nearer[docs]'",
)


def of_docs(name: str) -> object:
    """A module of docs/, which is no package."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "docs" / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built") / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return folder / (ROOT / "pyproject.toml").read_text().partition('version = "')[2].partition('"')[0]


class Loads(HTMLParser):
    """What a page loads by itself: sources, style sheets, icons; and the ids that a link can lead to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        self.ids.add(given.get("id", ""))
        self.loads += [given[name] for name in ("src", "srcset", "data", "poster") if name in given]
        # rel="canonical", "next" and "prev" load nothing.
        if tag == "link" and not {"canonical", "next", "prev"} & set(given.get("rel", "").split()):
            self.loads.append(given.get("href", ""))


def test_no_page_asks_another_host(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 50
    for page in pages:
        outside = [one for one in Loads(page.read_text()).loads if re.match(r"(https?:)?//", one)]
        assert not outside, f"{page.relative_to(site)} loads {outside}"
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//|@import", sheet.read_text()), sheet.name


def test_every_public_name_has_its_place_in_the_reference(site: Path) -> None:
    for package, names in of_docs("reference").packages().items():  # type: ignore[attr-defined]
        if not names:
            continue
        ids = Loads((site / "reference" / f"{package}.html").read_text()).ids
        missing = [name for name in names if f"{package}.{name}" not in ids]
        assert not missing, f"docs/reference/{package}.md does not show {missing}"


def test_every_page_is_built_and_in_the_nav(site: Path) -> None:
    """The strict build fails for a page that the nav leaves out; this is for pages that it never saw."""
    navigation = (site / "index.html").read_text()
    for page in sorted((ROOT / "docs").rglob("*.md")):
        built = page.relative_to(ROOT / "docs").with_suffix(".html")
        assert (site / built).exists(), built
        folder = built.parts[0]
        assert f'href="{built}"' in navigation or re.search(rf'href="{folder}/[\w.-]+\.html"', navigation), built


def test_the_rows_behind_the_tables_can_be_downloaded(site: Path) -> None:
    for result in (ROOT / "benchmarks" / "results").glob("*.json"):
        lines = (site / "benchmarks" / "csv" / f"{result.stem}.csv").read_text().splitlines()
        assert len(lines) > 1
        assert "made.command" in lines[0], result.stem


def test_the_folder_above_leads_to_this_version(site: Path) -> None:
    assert f"url={site.name}/index.html" in (site.parent / "index.html").read_text()


def test_doctests_are_fenced() -> None:
    fence = of_docs("doctests").fence  # type: ignore[attr-defined]
    two = fence("One.\n\n>>> a = 1\n>>> a\n1\n\nArgs:\n    a: b")
    assert two == "One.\n\n```pycon\n>>> a = 1\n>>> a\n1\n```\n\nArgs:\n    a: b"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Tests print nothing."""


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.skipif(bool(missing()), reason=missing() or "there is a browser")
def test_pages_fit_a_telephone_tables_sort_and_the_search_finds(site: Path, address: str) -> None:
    """Four pages; all of them with NEARER_BROWSER=long (`make browser`)."""
    pages = ["index.html", "choose.html", "benchmarks/losses.html", "reference/nearer.losses.html"]
    if LONG:
        pages = [str(page.relative_to(site)) for page in sorted(site.rglob("*.html"))]
    with chromium() as browser:
        outside: list[str] = []
        for scheme in ("light", "dark"):
            context = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme=scheme)
            tab = context.new_page()
            tab.on("request", lambda request: outside.append(request.url))
            for page in pages:
                tab.goto(f"{address}/{page}")
                assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{page} is too wide"
                assert not tab.evaluate("[...document.images].some(i => i.complete && !i.naturalWidth)"), page
            context.close()
        assert all(url.startswith((address, "data:", "blob:")) for url in outside)
        tab = browser.new_page()
        tab.goto(f"{address}/benchmarks/losses.html")
        first, column = "table tbody tr:first-child td:nth-child(5)", "table thead th:nth-child(5)"
        tab.locator(column).first.click()
        least = float(tab.locator(first).first.inner_text())
        tab.locator(column).first.click()
        assert float(tab.locator(first).first.inner_text()) > least
        tab.locator("input[type=search]:visible[aria-label='filter rows']").first.fill("circle 128")
        assert "of" in tab.locator(".table-tools span").first.inner_text()
        tab.click("input.md-search__input")
        tab.keyboard.type("mahalanobis")
        tab.wait_for_function("document.querySelector('.md-search-result__meta').textContent.includes('matching')")
