"""The page in a real browser: look, lasso, relabel, refit, undo, answer, audit, turn the weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nearer
from browser import LONG, Tab, chromium, missing
from nearer.app.explorer._items import ShownItems
from nearer.app.explorer._launch import ServedSession
from nearer.app.explorer._model import items_of
from nearer.app.explorer._session import Session
from nearer.datasets import load

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def digits(tmp_path: Path) -> Iterator[ServedSession]:
    served = ServedSession(Session(items_of(load("digits")), project=tmp_path / "digits.explore")).start()
    yield served
    served.close()


def test_look_lasso_relabel_refit_undo(browser: Any, digits: ServedSession) -> None:
    tab = Tab(browser, digits.url)
    page = tab.page
    assert page.locator(".legend button").count() == 10
    box = page.query_selector(".stage").bounding_box()
    spot = digits.session.state.positions[0]
    # The map is a square in the middle of the stage.
    side = min(box["width"], box["height"]) / 2
    x = box["x"] + box["width"] / 2 + float(spot[0]) * side
    y = box["y"] + box["height"] / 2 - float(spot[1]) * side
    page.mouse.move(x, y)
    page.wait_for_selector(".tip:not([hidden])")
    page.mouse.click(x, y)
    page.wait_for_selector(".near")
    assert page.locator(".side").count() == 2
    assert page.locator(".near").count() == 16
    assert page.locator(".near.right, .near.wrong").count() == 16
    tab.shot("item")
    page.keyboard.press("Escape")
    tab.lasso(0.3, 0.3, 0.6, 0.6)
    tab.until("Number(document.body.dataset.selected) > 20")
    page.fill(".selection input", "<img src=x onerror=alert(1)>")
    page.click("text=Name")
    tab.until("Number(document.body.dataset.changed) === 1")
    assert digits.session.classes[-1] == "<img src=x onerror=alert(1)>"
    tab.shot("lasso")
    page.keyboard.press("Escape")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("2")
    page.click("button:has-text('Refit with 1 gesture')")
    tab.until("document.body.dataset.refits === '1'")
    assert page.locator(".scores tbody tr").count() == 2
    assert "held-out items" in page.inner_text(".verdict")
    tab.shot("refit")
    page.keyboard.press("Control+z")
    tab.until("document.body.dataset.refits === '0'")
    page.keyboard.press("Control+z")
    tab.until("document.querySelectorAll('.said .undone').length === 2")
    assert not digits.session.history.active
    page.keyboard.press("Control+Shift+z")
    tab.until("document.querySelectorAll('.said .undone').length === 1")
    page.keyboard.press("b")
    tab.until("document.body.dataset.map === 'raw'")
    tab.close()


def test_tie_two_ask_and_audit_by_keys(browser: Any, tmp_path: Path) -> None:
    items = items_of(load("digits"))
    wrong = items.labels.copy()
    wrong[:200:20] = (wrong[:200:20] + 3) % 10
    session = Session(replace(items, labels=wrong), project=tmp_path / "p.explore")
    served = ServedSession(session).start()
    session.say({"kind": "label", "items": list(range(900, 1797)), "label": None})
    session.say({"kind": "label", "items": [5], "label": "0"})
    tab = Tab(browser, served.url)
    page = tab.page
    box = page.query_selector(".stage").bounding_box()
    side = min(box["width"], box["height"]) / 2
    spots = session.state.positions * [side, -side] + [
        box["x"] + box["width"] / 2,
        box["y"] + box["height"] / 2,
    ]
    # Two items that are not under the legend or the tools.
    inner = np.flatnonzero((np.abs(session.state.positions) < 0.4).all(axis=1))
    first, second = inner[0], inner[-1]
    page.click("[data-mode=tie]")
    page.mouse.move(*map(float, spots[first]))
    page.mouse.down()
    page.mouse.move(*map(float, spots[second]), steps=8)
    page.mouse.up()
    page.wait_for_selector(".tie:not([hidden])")
    tab.shot("tie")
    page.keyboard.press("n")
    tab.until("Number(document.body.dataset.changed) === 3")
    assert session.history.active[-1].kind == "apart"
    page.keyboard.press("3")
    page.wait_for_selector(".versus")
    tab.shot("ask")
    asked = tab.data("question")
    page.keyboard.press("y")
    tab.until("Number(document.body.dataset.changed) === 4")
    tab.until(f"document.body.dataset.question !== '{asked}'")
    page.keyboard.press("n")
    tab.until("Number(document.body.dataset.changed) === 5")
    assert session.history.active[-1].kind == "apart"
    page.keyboard.press("4")
    page.wait_for_selector(".group", timeout=60_000)
    tab.shot("audit")
    suspect = int(tab.data("audited"))
    page.keyboard.press("a")
    tab.until("Number(document.body.dataset.changed) === 6")
    said = session.history.active[-1]
    assert said.kind == "label"
    assert said.items == (suspect,)
    page.keyboard.press("x")
    tab.until("Number(document.body.dataset.changed) === 7")
    assert session.history.active[-1].kind == "keep"
    page.click("text=Overlap")
    page.click(".overlaps button")
    tab.until("Number(document.body.dataset.selected) > 0")
    tab.close()
    served.close()


def test_weights_search_legend_dark_and_narrow(browser: Any, digits: ServedSession) -> None:
    tab = Tab(browser, digits.url, wide=390, high=844, color_scheme="dark", reduced_motion="reduce")
    page = tab.page
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    tab.shot("narrow-dark")
    page.click("#tab-weights")
    tab.until("Number(document.body.dataset.pairs) > 0")
    every = int(tab.data("pairs"))
    page.select_option("select[aria-label=Miner]", "VTHM")
    tab.until(f"Number(document.body.dataset.pairs) < {every}")
    tab.shot("weights-narrow-dark")
    page.fill("input[type=search]", "7")
    tab.until("Number(document.body.dataset.selected) > 100")
    page.keyboard.press("Escape")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Escape")
    page.click(".legend button >> nth=0")
    assert page.get_attribute(".legend button >> nth=0", "aria-pressed") == "false"
    page.focus(".stage")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_selector(".near")
    tab.shot("item-narrow-dark")
    tab.close()


def test_two_tabs_and_a_server_that_dies(browser: Any, tmp_path: Path) -> None:
    items = items_of(load("wine"))
    place = tmp_path / "wine.explore"
    served = ServedSession(Session(items, project=place)).start()
    one, two = Tab(browser, served.url), Tab(browser, served.url)
    assert not one.page.query_selector(".thumb")
    two.page.keyboard.press("2")
    one.page.focus(".stage")
    one.page.keyboard.press("ArrowRight")
    one.page.wait_for_selector(".selection:not([hidden])")
    one.page.fill(".selection input", "odd")
    one.page.keyboard.press("Enter")
    two.until("document.querySelectorAll('.said li').length === 1")
    served.close()
    one.until("document.body.dataset.lost === 'yes'")
    one.page.click("text=Leave out")
    one.until("document.querySelector('.banner').textContent.includes('1 gesture')")
    one.shot("lost")
    again = ServedSession(Session(items, project=place)).start()
    assert again.url == served.url
    one.until("document.body.dataset.lost === undefined")
    # What was said while nobody answered is sent again once somebody does, and the other tab hears of it.
    two.until("document.querySelectorAll('.said li').length === 2")
    assert [gesture.kind for gesture in again.session.history.active] == ["label", "drop"]
    for tab in (one, two):
        # The browser itself complains while nobody answers.
        tab.troubles = [text for text in tab.troubles if "ERR_" not in text]
        tab.close()
    again.close()


def test_texts_without_labels_and_notes(browser: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    texts = np.array([f"<script>alert({i})</script> question {i % 7}" for i in range(60)])
    items = ShownItems(
        rng.normal(size=(60, 5)).astype(np.float32), texts=texts, columns={"part": texts}, notes=("A note.",)
    )
    served = ServedSession(Session(items, project=tmp_path / "t.explore")).start()
    tab = Tab(browser, served.url)
    assert "None has a label yet" in tab.page.inner_text(".panel-body")
    assert "A note." in tab.page.inner_text(".note")
    tab.page.focus(".stage")
    tab.page.keyboard.press("ArrowRight")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_selector(".near")
    assert "<script>alert(" in tab.page.inner_text(".hero")
    tab.page.keyboard.press("r")
    tab.until("document.querySelector('.toast').textContent.includes('nothing to learn from yet')")
    # The refusal is an answer with status 400, which the browser counts as an error.
    tab.troubles = [text for text in tab.troubles if "400" not in text]
    tab.close()
    served.close()


def test_one_file_without_a_server(browser: Any, tmp_path: Path) -> None:
    model = nearer.fit(load("wine"), method="kissme")
    path = model.report(tmp_path / "map.html", interactive=True)
    tab = Tab(browser, path.as_uri())
    tab.page.focus(".stage")
    tab.page.keyboard.press("ArrowLeft")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_selector(".near")
    assert tab.page.locator(".near").count() == 12
    assert not tab.page.is_visible(".selection")
    tab.page.keyboard.press("b")
    tab.until("document.body.dataset.map === 'raw'")
    tab.page.select_option("select[aria-label='Color by']", "correct")
    tab.until("document.querySelectorAll('.legend button').length === 2")
    tab.shot("static")
    tab.close()


def test_the_server_keeps_to_itself(digits: ServedSession) -> None:
    import http.client
    from urllib.parse import urlsplit

    place = urlsplit(digits.url)

    def ask(path: str, *, method: str = "GET", body: str | None = None, **headers: str) -> http.client.HTTPResponse:
        link = http.client.HTTPConnection("127.0.0.1", place.port, timeout=10)
        link.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        found = link.getresponse()
        found.read()
        link.close()
        return found

    page = ask(place.path)
    assert page.status == 200
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert ask("/").status == 404
    assert ask("/guess/api/overview").status == 404
    assert ask(place.path, Host="evil.example").status == 403
    say = f"{place.path}api/say"
    assert ask(say, method="POST", body="{}", Content_Type="text/plain").status == 400
    assert ask(say, method="POST", body="{", Content_Type="application/json").status == 400
    wrong = ask(say, method="POST", body='{"kind": "label", "items": [1]}', Content_Type="application/json")
    assert wrong.status == 200  # No label is a label that is taken away.
    assert ask(f"{place.path}api/item/99999").status == 400
    assert ask(f"{place.path}api/sprite/99").status == 404


def test_a_notebook_shows_the_map(browser: Any, tmp_path: Path) -> None:
    model = nearer.fit(load("wine"), method="kissme")
    page = tmp_path / "notebook.html"
    page.write_text(f"<!DOCTYPE html><meta charset=utf-8><body data-ready=yes>{model._repr_html_()}")
    tab = Tab(browser, page.as_uri())
    frame = tab.page.frame_locator("iframe")
    frame.locator("body[data-ready=yes]").wait_for(timeout=60_000)
    assert frame.locator(".legend button").count() == 3
    tab.close()
    assert "<iframe" not in nearer.load(model.save(tmp_path / "model"))._repr_html_()


@pytest.mark.skipif(not LONG, reason="a minute: NEARER_BROWSER=long")
def test_a_hundred_thousand_points(browser: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, 100_000)
    x = rng.normal(size=(100_000, 32)).astype(np.float32) + 3 * np.eye(10, 32, dtype=np.float32)[y]
    shade = (25 * y).astype(np.uint8)
    items = ShownItems(
        x, labels=y, images=lambda rows: np.broadcast_to(shade[rows, None, None], (len(rows), 28, 28))
    )
    served = ServedSession(Session(items, project=tmp_path / "big.explore")).start()
    tab = Tab(browser, served.url)
    tab.lasso(0.4, 0.4, 0.6, 0.6)
    tab.until("Number(document.body.dataset.selected) > 100")
    tab.page.keyboard.press("r")
    tab.until("document.body.dataset.refits === '1'")
    tab.shot("100000")
    tab.close()
    served.close()
