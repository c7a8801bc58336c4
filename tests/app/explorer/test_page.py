"""The page in a real browser: look, lasso, relabel, refit, undo, go on after a crash, one file without a server."""

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
    items = items_of(load("digits")).shown(500)
    served = ServedSession(Session(items, project=tmp_path / "digits.explore")).start()
    yield served
    served.close()


def test_look_lasso_relabel_refit_undo(browser: Any, digits: ServedSession) -> None:
    tab = Tab(browser, digits.url)
    page = tab.page
    tab.until("document.body.dataset.spread === '1'", 300)
    assert page.inner_text(".note span >> nth=0") == "t-SNE of 500 items"
    assert page.locator(".legend button").count() == 10
    assert not page.is_visible(".switch"), "nothing has been learned"
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
    assert page.locator(".side").count() == 1
    assert page.locator(".near.right, .near.wrong").count() == 8
    tab.shot("item")
    page.keyboard.press("Escape")
    tab.lasso(0.3, 0.3, 0.6, 0.6)
    tab.until("Number(document.body.dataset.selected) > 20")
    page.fill(".selection input", "<img src=x onerror=alert(1)>")
    assert "This is a new label." in page.inner_text(".told")
    page.click("text=Name")
    tab.until("Number(document.body.dataset.changed) === 1")
    laid = digits.session.state.positions.copy()
    assert digits.session.classes[-1] == "<img src=x onerror=alert(1)>"
    tab.shot("lasso")
    page.keyboard.press("Escape")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("e")
    page.click("button:has-text('Refit with 1 edit')")
    tab.until("document.body.dataset.refits === '1'")
    assert page.is_visible(".switch")
    assert "change vs. previous" in page.inner_text(".scores")
    assert page.is_disabled(".bar .main-button"), "nothing is new"
    # The layout goes on from where it was, and does not begin again.
    tab.until("document.body.dataset.placed === '500'", 300)
    near = np.linalg.norm(digits.session.state.positions - laid, axis=1)
    assert near.mean() < 0.5 * np.linalg.norm(digits.session.state.positions[::-1] - laid, axis=1).mean()
    assert page.locator(".scores tbody tr").count() == 2
    assert "held-out items" in page.inner_text(".verdict")
    tab.shot("refit")
    page.click(".said li:not(.refit) button")
    tab.until(f"document.body.dataset.selected === '{len(digits.session.history.active[0].items)}'")
    page.keyboard.press("e")
    page.keyboard.press("Control+z")
    tab.until("document.body.dataset.refits === '0'")
    page.keyboard.press("Control+z")
    tab.until("document.querySelectorAll('.said .undone').length === 2")
    assert not digits.session.history.active
    page.keyboard.press("Control+Shift+z")
    tab.until("document.querySelectorAll('.said .undone').length === 1")
    tab.close()


def test_tie_two_and_answer_by_keys(browser: Any, tmp_path: Path) -> None:
    items = items_of(load("digits")).shown(500)
    wrong = items.labels.copy()
    wrong[:200:20] = (wrong[:200:20] + 3) % 10
    session = Session(replace(items, labels=wrong), project=tmp_path / "p.explore")
    served = ServedSession(session).start()
    session.say({"kind": "label", "items": list(range(250, 500)), "label": None})
    tab = Tab(browser, served.url)
    page = tab.page
    tab.until("document.body.dataset.spread === '1'", 300)
    box = page.query_selector(".stage").bounding_box()
    side = min(box["width"], box["height"]) / 2
    middle = [box["x"] + box["width"] / 2, box["y"] + box["height"] / 2]
    spots = session.state.positions * [side, -side] + middle
    inner = np.flatnonzero((np.abs(session.state.positions) < 0.6).all(axis=1))
    page.click("[data-mode=tie]")
    page.mouse.move(*map(float, spots[inner[0]]))
    page.mouse.down()
    page.mouse.move(*map(float, spots[inner[-1]]), steps=8)
    page.mouse.up()
    page.wait_for_selector(".tie:not([hidden])")
    page.wait_for_selector(".tip", state="hidden")
    tab.shot("tie")
    page.keyboard.press("n")
    tab.until("Number(document.body.dataset.changed) === 2")
    assert session.history.active[-1].kind == "apart"
    page.keyboard.press("g")
    page.wait_for_selector(".judged .portrait")
    page.wait_for_selector(".examples img")
    tab.shot("suggestion")
    changed = 2
    kinds = {"a": "label", "x": "keep", "d": "drop"}
    for key in "axd":
        shown = int(tab.data("suggested"))
        guess = page.inner_text(".main-button:has(kbd)").removeprefix("It is ").removesuffix("A").strip()
        page.keyboard.press(key)
        changed += 1
        tab.until(f"Number(document.body.dataset.changed) === {changed}")
        said = session.history.active[-1]
        assert (said.kind, said.items) == (kinds[key], (shown,))
        assert said.label == (guess if key == "a" else None)
    # Another class that is likely, and one that is typed.
    second = page.get_attribute(".examples >> nth=2", "data-label")
    page.keyboard.press("2")
    tab.until("Number(document.body.dataset.changed) === 6")
    assert session.history.active[-1].label == second
    page.keyboard.press("o")
    page.keyboard.type("owl")
    page.keyboard.press("Enter")
    tab.until("Number(document.body.dataset.changed) === 7")
    assert session.history.active[-1].label == "owl"
    first = tab.data("suggested")
    page.keyboard.press("j")
    tab.until(f"document.body.dataset.suggested !== '{first}'")
    page.click(".pills button:has-text('Questions')")
    page.wait_for_selector("h2:has-text('Is this')")
    tab.shot("question")
    page.keyboard.press("y")
    tab.until("Number(document.body.dataset.changed) === 8")
    assert session.history.active[-1].kind == "label"
    page.click("text=Overlap")
    page.click(".overlaps button")
    tab.until("Number(document.body.dataset.selected) > 0")
    tab.close()
    served.close()


def test_dark_and_narrow(browser: Any, digits: ServedSession) -> None:
    tab = Tab(browser, digits.url, wide=390, high=844, color_scheme="dark", reduced_motion="reduce")
    page = tab.page
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    tab.shot("narrow-dark")
    page.focus(".stage")
    page.keyboard.press("ArrowRight")
    tab.until("/^[0-9]+, [0-9]$/.test(document.querySelector('.unseen').textContent)")
    page.keyboard.press("Enter")
    page.wait_for_selector(".near")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    tab.shot("item-narrow-dark")
    page.keyboard.press("g")
    page.wait_for_selector(".judged .portrait")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    tab.shot("suggestion-narrow-dark")
    tab.close()


def test_two_tabs_and_a_server_that_dies(browser: Any, tmp_path: Path) -> None:
    items = items_of(load("wine"))
    place = tmp_path / "wine.explore"
    served = ServedSession(Session(items, project=place)).start()
    one, two = Tab(browser, served.url), Tab(browser, served.url)
    assert not one.page.query_selector("img")
    two.page.keyboard.press("e")
    one.page.keyboard.press("r")
    one.until("document.body.dataset.refits === '1'")
    # The box of the progress is not left on the tab that only heard of it.
    two.until("document.querySelector('.switch').hidden === false")
    two.until("document.body.dataset.placed === '178' && document.querySelector('.progress').hidden", 300)
    one.page.keyboard.press("Control+z")
    two.until("document.querySelectorAll('.said .undone').length === 1")
    one.page.focus(".stage")
    one.page.keyboard.press("ArrowRight")
    one.page.wait_for_selector(".selection:not([hidden])")
    one.page.fill(".selection input", "odd")
    one.page.keyboard.press("Enter")
    two.until("document.querySelectorAll('.said li:not(.refit)').length === 1")
    served.close()
    one.until("document.body.dataset.lost === 'yes'")
    one.page.click("text=Leave out")
    one.until("document.querySelector('.banner').textContent.includes('1 edit')")
    one.shot("lost")
    again = ServedSession(Session(items, project=place)).start()
    assert again.url == served.url
    one.until("document.body.dataset.lost === undefined")
    # What was said while nobody answered is sent again once somebody does, and the other tab hears of it.
    two.until("document.querySelectorAll('.said li:not(.refit)').length === 2")
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
    assert not tab.page.is_visible(".selection input")
    assert "Learned" in tab.page.inner_text(".switch")
    tab.page.keyboard.press("b")
    tab.until("document.body.dataset.map === 'raw'")
    tab.page.select_option("select[aria-label='Color by']", "correct")
    tab.until("document.querySelectorAll('[data-by=correct] .legend button').length === 2")
    assert tab.page.inner_text("h1").startswith("wine by kissme")
    assert tab.page.inner_text(".note span >> nth=0") == "t-SNE of 178 items"
    # The rows that the model has not seen: they are marked, and the scores are theirs.
    unseen = len(model.fitted.problem.held_out)
    assert 0 < unseen < 178
    assert "This is the map that was scored" in tab.page.inner_text(".note")
    assert f"on {unseen} held-out" in tab.page.inner_text(".scored")
    # And they are those that the fit has printed.
    raw, learned = model.fitted.comparison.first["map@r"], model.fitted.comparison.second["map@r"]
    assert f"MAP@R {raw:.3f} → {learned:.3f}" in tab.page.inner_text(".scored")
    tab.page.click("details[data-by='held out'] summary")
    assert str(unseen) in tab.page.inner_text("details[data-by='held out'] button:has-text('held out')")
    tab.page.keyboard.press("Escape")
    assert f"{unseen} items are held out" in tab.page.inner_text(".panel-body")
    assert tab.page.locator(".panel-body .scores tbody tr").count() == len(model.fitted.comparison.intervals)
    tab.lasso(0.1, 0.1, 0.9, 0.9)
    tab.until("Number(document.body.dataset.grid) > 2")
    tab.shot("static")
    assert tab.requests == [path.as_uri()], "all of it is in the file"
    assert "'unsafe-inline'" not in path.read_text()[:2000]
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
    assert ask(f"{place.path}api/image/99999").status == 404
    assert ask(f"{place.path}api/image/3").headers["Content-Type"] == "image/png"
    assert ask(f"{place.path}api/image/3?size=7").status == 400


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
    items = ShownItems(x, labels=y, images=lambda row, side: np.full((28, 28), shade[row]))
    served = ServedSession(Session(items, project=tmp_path / "big.explore")).start()
    tab = Tab(browser, served.url)
    tab.lasso(0.4, 0.4, 0.6, 0.6)
    tab.until("Number(document.body.dataset.selected) > 100")
    tab.page.keyboard.press("r")
    tab.until("document.body.dataset.refits === '1'")
    tab.shot("100000")
    tab.close()
    served.close()
