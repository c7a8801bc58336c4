"""Every state of the page: axe finds nothing wrong in it, and it is as wide as the window.

axe-core comes with the tools of the page: `make page`. NEARER_SCREENSHOTS keeps a picture of each state.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser import LONG, Tab, chromium, missing
from nearer.app.explorer._items import ShownItems
from nearer.app.explorer._launch import ServedSession
from nearer.app.explorer._session import Session
from nearer.app.explorer._static import static_page

AXE = Path(__file__).resolve().parents[3] / "page" / "node_modules" / "axe-core" / "axe.min.js"

pytestmark = [
    pytest.mark.skipif(bool(missing()), reason=missing()),
    pytest.mark.skipif(not AXE.is_file(), reason="needs axe-core: make page"),
]
WINDOWS = [(1280, "light"), (390, "dark"), (1280, "dark"), (390, "light")]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


def photographs(n: int = 90) -> ShownItems:
    """Photos of three colors, one in nine with a wrong label, one twice."""
    rng = np.random.default_rng(0)
    truth = np.arange(n) % 3
    x = rng.normal(size=(n, 6)).astype(np.float32) + 3 * np.eye(3, 6, dtype=np.float32)[truth]
    x[-1] = x[0]
    labels = np.where(np.arange(n) % 9 == 4, (truth + 1) % 3, truth)
    labels[n // 2 :: 7] = -1
    tones = np.array([[200, 60, 50], [60, 140, 70], [50, 80, 190]], dtype=np.uint8)
    return ShownItems(
        x,
        labels=labels,
        classes=("Cardinal", "Kakapo", "Bluebird"),
        ids=np.array([f"birds/{('red', 'green', 'blue')[code]}_{row:02}.jpg" for row, code in enumerate(truth)]),
        columns={"place": np.array(["Oslo", "Rome"])[np.arange(n) % 2], "weight": rng.gamma(2, size=n)},
        images=lambda row, side: np.broadcast_to(tones[truth[row]], (60, 90, 3)).copy(),
        title="birds",
    )


def words(n: int = 40) -> ShownItems:
    """Texts without any label."""
    rng = np.random.default_rng(0)
    texts = np.array([f"my card {row} has not arrived" for row in range(n)])
    return ShownItems(rng.normal(size=(n, 4)).astype(np.float32), texts=texts, title="questions")


def states(tab: Tab) -> Iterator[str]:
    """Go through all that a person can come to, and name each."""
    page = tab.page
    tab.until("document.body.dataset.spread === '1'", 300)
    yield "map"
    page.focus(".stage")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".tip:not([hidden])")
    yield "tip"
    page.keyboard.press("Enter")
    page.wait_for_selector(".near")
    yield "item"
    tab.lasso(0.2, 0.1, 0.8, 0.9)
    tab.until("Number(document.body.dataset.grid) > 2")
    page.fill(".selection input", "Robin")
    yield "selection"
    page.fill("input[type=search]", "nowhere")
    tab.until("document.body.dataset.searched === 'nowhere'")
    yield "nothing-found"
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("g")
    page.wait_for_selector(".judged .portrait")
    page.wait_for_selector(".examples img")
    yield "suggestions"
    for kind in ("Questions", "Duplicates", "Outliers", "Overlap"):
        pill = page.query_selector(f".pills button:has-text('{kind}')")
        if pill is not None:
            pill.click()
            yield kind.lower()
    page.click(".pills button:has-text('Labels')")
    page.keyboard.press("x")
    tab.until("Number(document.body.dataset.changed) === 1")
    page.click("details[data-by='held out'] summary")
    page.click("details[data-by='held out'] button:has-text('learned from')")
    tab.until("Number(document.body.dataset.shown) < 60")
    yield "filters"
    page.click("text=Show all items")
    page.keyboard.press("s")
    held: list[Any] = []
    page.route("**/api/refit", lambda route: held.append(route))
    page.keyboard.press("r")
    page.wait_for_selector(".progress:not([hidden])")
    for _ in range(1200):
        if held:
            break
        page.wait_for_timeout(50)
    assert held, (
        "R asked for no refit",
        page.inner_text("body")[:2000],
        page.evaluate("document.activeElement.outerHTML"),
    )
    yield "refit-running"
    held[0].continue_()
    tab.until("document.body.dataset.refits === '1'")
    tab.until("document.querySelector('.progress').hidden", 300)
    page.keyboard.press("e")
    page.wait_for_selector(".scores")
    yield "edits"
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    yield "keys"
    page.keyboard.press("Escape")
    page.route("**/api/undo", lambda route: route.abort())
    page.keyboard.press("Control+z")
    tab.until("document.body.dataset.lost === 'yes'")
    yield "lost"
    # The browser itself complains of what was cut off.
    tab.troubles = [text for text in tab.troubles if "ERR_" not in text]


def enclosed(tab: Tab) -> Iterator[str]:
    """The page without a server."""
    page = tab.page
    yield "export"
    page.focus(".stage")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_selector(".near")
    yield "export-item"
    tab.lasso(0.2, 0.1, 0.8, 0.9)
    tab.until("Number(document.body.dataset.grid) > 2")
    yield "export-selection"


def check(tab: Tab, name: str, wide: int, scheme: str) -> None:
    """Nothing is wrong by axe, and nothing is cut off."""
    tab.shot(f"{name}-{wide}-{scheme}")
    page = tab.page
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text())
    # A promise that never ends would be waited for without end.
    found = page.evaluate(
        """Promise.race([
          axe.run().then((found) => found.violations.map((one) => [one.id, one.nodes[0].html])),
          new Promise((_, no) => setTimeout(() => no(new Error("axe did not end")), 120000)),
        ])"""
    )
    assert not found, (name, found)
    assert page.evaluate("document.documentElement.scrollWidth") <= wide, name


@pytest.mark.parametrize(("wide", "scheme"), WINDOWS if LONG else WINDOWS[:2])
def test_axe_finds_nothing_in_any_state(browser: Any, tmp_path: Path, wide: int, scheme: str) -> None:
    window = {"wide": wide, "high": 800 if wide > 600 else 844, "color_scheme": scheme, "reduced_motion": "reduce"}
    seen = []
    session = Session(photographs(), project=tmp_path / "p.explore")
    file = static_page(session, tmp_path / "map.html", title="birds")
    with ServedSession(session).start() as served:
        tab = Tab(browser, served.url, **window)
        for name in states(tab):
            check(tab, name, wide, scheme)
            seen.append(name)
        tab.close()
    with ServedSession(Session(words(), project=tmp_path / "w.explore")).start() as served:
        tab = Tab(browser, served.url, **window)
        check(tab, "no-labels", wide, scheme)
        tab.close()
    tab = Tab(browser, file.as_uri(), **window)
    for name in enclosed(tab):
        check(tab, name, wide, scheme)
        seen.append(name)
    assert tab.requests == [file.as_uri()]
    tab.close()
    assert len(seen) >= 16, seen
