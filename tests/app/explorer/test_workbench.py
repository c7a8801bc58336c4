"""The page as a workbench, in a real browser: photos, selections, search, filters, names, fingers, a slow line."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from browser import LONG, Tab, chromium, missing
from nearer.app.explorer._items import ShownItems
from nearer.app.explorer._launch import ServedSession
from nearer.app.explorer._model import items_of
from nearer.app.explorer._session import Session
from nearer.datasets import Dataset
from nearer.models._encoders import FrozenEncoder
from nearer.models._reading import Reading, read_items

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


def mean_color(photos: Any) -> np.ndarray:
    return np.stack([np.asarray(photo).reshape(-1, 3).mean(axis=0) for photo in photos]) / 255


@pytest.fixture
def photos(tmp_path: Path) -> Dataset:
    """Forty photos of 900 × 600 pixels, red ones and blue ones, behind an encoder that sees their color."""
    rng = np.random.default_rng(0)
    for number in range(40):
        name = ("red", "blue")[number % 2]
        (tmp_path / "photos" / name).mkdir(parents=True, exist_ok=True)
        color = [200, 30, 30] if name == "red" else [30, 30, 200]
        pixels = np.clip(rng.normal(color, 20, size=(60, 90, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).resize((900, 600)).save(tmp_path / "photos" / name / f"{name}_{number:02}.jpg")
    return read_items(tmp_path / "photos", reading=Reading(FrozenEncoder("color", "photos", mean_color)))


def test_a_folder_may_be_named_from_where_one_stands(
    photos: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = read_items(Path("photos"), reading=Reading(FrozenEncoder("color", "photos", mean_color)))
    pictures = items_of(given, root=Path("photos")).images
    assert pictures is not None
    assert pictures(0, 128).shape[2] == 3
    assert len(given.all) == len(photos.all)


def test_photos_have_their_names_and_all_their_pixels(browser: Any, photos: Dataset, tmp_path: Path) -> None:
    served = ServedSession(Session(items_of(photos), project=tmp_path / "p.explore")).start()
    tab = Tab(browser, served.url)
    page = tab.page
    assert "photos" in page.inner_text("h1")
    tab.until("document.body.dataset.photos === '40'")
    page.fill("input[type=search]", "red_0")
    tab.until("Number(document.body.dataset.selected) === 5")
    tab.until("Number(document.body.dataset.grid) >= 5")
    assert page.locator(".tile img").count() == 5
    page.click(".tile .open >> nth=0")
    page.wait_for_selector(".hero .portrait")
    assert "red/red_00.jpg" in page.inner_text(".hero")
    tab.until("document.querySelector('.portrait').naturalWidth === 512")
    with tab.context.expect_page() as opened:
        page.click(".hero a")
    whole = opened.value
    whole.wait_for_load_state()
    assert whole.evaluate("document.images[0].naturalWidth") == 900
    tab.shot("photo")
    # Dropped on the page, it finds what looks like it.
    red = io.BytesIO()
    Image.new("RGB", (300, 200), (255, 0, 0)).save(red, "PNG")
    page.set_input_files("input[type=file]", {"name": "x.png", "mimeType": "image/png", "buffer": red.getvalue()})
    tab.until("Number(document.body.dataset.selected) === 40")
    tab.until("document.querySelector('.selection-head').textContent.includes('most like your photo')")
    tab.until("Number(document.body.dataset.grid) > 5")
    labels = page.locator(".tile .tagline").all_inner_texts()
    assert all("red" in one for one in labels[:6]), labels
    tab.close()
    served.close()


def spread_out(n: int) -> ShownItems:
    rng = np.random.default_rng(0)
    y = np.arange(n) % 12
    x = rng.normal(size=(n, 8)).astype(np.float32) + 6 * np.eye(12, 8, dtype=np.float32)[y]
    columns = {"city": np.array(["Oslo", "Rome", "Lima"])[np.arange(n) % 3], "size": np.linspace(0, 1, n)}
    shade = (20 * y).astype(np.uint8)
    return ShownItems(x, labels=y, classes=tuple(f"class {code}" for code in range(12)), columns=columns,
                      images=lambda row, side: np.full((28, 28), shade[row]), title="spread out")  # fmt: skip


def test_a_selection_shows_itself(browser: Any, tmp_path: Path) -> None:
    number = 60_000 if LONG else 20_000
    served = ServedSession(Session(spread_out(number), project=tmp_path / "p.explore")).start()
    tab = Tab(browser, served.url)
    page = tab.page
    # Counted by the page itself, from the end of the lasso to the first pictures in the grid.
    page.evaluate("""() => {
      let end = 0;
      window.addEventListener('mouseup', () => { end = performance.now(); }, true);
      const look = new MutationObserver(() => {
        if (!end || !document.querySelector('.tile img')) return;
        document.body.dataset.milliseconds = String(Math.round(performance.now() - end));
        look.disconnect();
      });
      look.observe(document.body, { subtree: true, childList: true });
    }""")
    tab.lasso(0.1, 0.1, 0.9, 0.9)
    tab.until("document.body.dataset.milliseconds !== undefined")
    print(f"lasso to grid: {tab.data('milliseconds')} ms")
    count = int(tab.data("selected"))
    assert count > 10_000
    assert f"{count:,} of {number:,} items selected" in page.inner_text(".selection-head")
    assert page.locator(".tile").count() < 80, "only what is in view is in the page"
    tab.shot("selection")
    page.evaluate("document.querySelector('.panel-body').scrollTop = 1e6")
    tab.until("[...document.querySelectorAll('.tile')].some((one) => Number(one.ariaPosInSet) > 10000)")
    page.click(".pills button >> nth=0")
    tab.until(f"Number(document.body.dataset.selected) < {count}")
    alone = int(tab.data("selected"))
    tab.until("Number(document.body.dataset.grid) > 5")
    page.click(".tile .keep >> nth=1")
    tab.until(f"Number(document.body.dataset.selected) === {alone - 1}")
    page.fill(".selection input", "mine")
    told = page.inner_text(".told")
    assert f"{alone - 1:,} of {alone - 1:,} items would become mine" in told
    assert "held out" in told
    left = page.get_attribute(".tile .keep >> nth=1", "aria-label")
    page.keyboard.press("Enter")
    tab.until("Number(document.body.dataset.changed) === 1")
    said = served.session.history.active[-1]
    assert len(said.items) == alone - 1
    assert int(left.split()[1]) not in said.items
    tab.close()
    served.close()


def test_a_search_is_a_selection_with_its_count(browser: Any, tmp_path: Path) -> None:
    texts = [
        f"my card {number} has not arrived" if number % 2 else f"a refund of {number}" for number in range(3000)
    ]
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 4)).astype(np.float32)
    items = ShownItems(x, texts=texts, takes="texts", embed=lambda text: x[5] if "parcel" in text else x[6])
    served = ServedSession(Session(items, project=tmp_path / "p.explore")).start()
    tab = Tab(browser, served.url)
    page = tab.page
    page.fill("input[type=search]", "card")
    tab.until("Number(document.body.dataset.selected) === 1500")
    assert "1,500 items with “card”" in page.inner_text(".selection-head")
    tab.until("Number(document.body.dataset.grid) > 3")
    tab.shot("texts")
    # No text has the word, and one is near what it means.
    page.fill("input[type=search]", "where is the parcel")
    tab.until("Number(document.body.dataset.selected) === 200")
    assert "nearest in meaning" in page.inner_text(".selection-head")
    tab.until("document.querySelector('.tile .open b')?.textContent === 'item 5'")
    tab.close()
    served.close()


def test_a_search_without_result_selects_nothing(browser: Any, tmp_path: Path) -> None:
    """The old selection stayed, and the next Enter labelled it."""
    served = ServedSession(Session(spread_out(300), project=tmp_path / "p.explore")).start()
    tab = Tab(browser, served.url)
    page = tab.page
    page.fill("input[type=search]", "oslo")
    tab.until("Number(document.body.dataset.selected) === 100")
    page.fill("input[type=search]", "nowhere")
    tab.until("document.body.dataset.searched === 'nowhere'")
    assert tab.data("selected") == "0"
    assert page.inner_text(".toast") == "No results for “nowhere”."
    assert not page.is_visible(".selection input")
    tab.close()
    served.close()


def test_filters_narrow_the_map_and_the_lasso(browser: Any, tmp_path: Path) -> None:
    session = Session(spread_out(600), project=tmp_path / "p.explore")
    served = ServedSession(session).start()
    tab = Tab(browser, served.url)
    page = tab.page
    # Ten colors, and grey for the two classes that are left.
    shades = page.evaluate("[...document.querySelectorAll('.legend .dot')].map((one) => one.style.background)")
    assert len(shades) == 12
    assert len(set(shades)) == 11
    assert page.evaluate("document.body.dataset.names.split('|').length") >= 6, "classes are named on the map"
    # The legend by keyboard: the focus stays where it is.
    page.focus(".legend button >> nth=0")
    page.keyboard.press("Enter")
    tab.until("Number(document.body.dataset.shown) === 550")
    assert page.evaluate("document.activeElement.dataset.name") == "class 0"
    page.click("details[data-by='held out'] summary")
    page.click("details[data-by='held out'] button:has-text('learned from')")
    tab.until("Number(document.body.dataset.shown) < 150")
    expected = int((session.items.held_out & (session.items.labels != 0)).sum())
    assert int(tab.data("shown")) == expected
    page.fill("input[type=search]", "oslo")
    tab.until("Number(document.body.dataset.selected) > 0")
    rows = session.items.held_out & (session.items.labels != 0) & (np.arange(600) % 3 == 0)
    assert int(tab.data("selected")) == rows.sum()
    assert "filters hide" in page.inner_text(".selection-head")
    tab.shot("filters")
    page.click("text=Show all items")
    tab.until("Number(document.body.dataset.shown) === 600")
    page.click("details[data-by='column:size'] summary")
    page.wait_for_selector(".histogram")
    page.focus(".histogram input >> nth=0")
    for _ in range(10):
        page.keyboard.press("ArrowRight")
    tab.until("Number(document.body.dataset.shown) === 300")
    tab.lasso(0.02, 0.02, 0.98, 0.98)
    tab.until("Number(document.body.dataset.selected) > 200")
    assert int(tab.data("selected")) <= 300
    tab.close()
    served.close()


def test_fingers_pan_pinch_lasso_and_tap(browser: Any, tmp_path: Path) -> None:
    served = ServedSession(Session(spread_out(300), project=tmp_path / "p.explore")).start()
    tab = Tab(browser, served.url, wide=390, high=844, has_touch=True)
    page = tab.page
    tab.until("document.body.dataset.spread === '1'", 300)
    link = tab.context.new_cdp_session(page)
    box = page.query_selector(".stage").bounding_box()
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)

    def touch(kind: str, *points: tuple[float, float]) -> None:
        listed = [{"x": x, "y": y, "id": number} for number, (x, y) in enumerate(points)]
        link.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": listed})

    def view() -> bytes:
        """What the map looks like."""
        return bytes(page.screenshot(clip=box))

    before = view()
    touch("touchStart", middle)
    for step in range(1, 7):
        touch("touchMove", (middle[0] + 10 * step, middle[1]))
    touch("touchEnd")
    panned = view()
    assert panned != before
    assert tab.data("selected") in ("0", "None"), "nothing was chosen, now or before"
    touch("touchStart", (middle[0] - 20, middle[1]), (middle[0] + 20, middle[1]))
    for step in range(1, 7):
        touch("touchMove", (middle[0] - 20 - 6 * step, middle[1]), (middle[0] + 20 + 6 * step, middle[1]))
    touch("touchEnd")
    assert view() != panned
    page.click("[aria-label='Whole map']")
    page.click("[data-mode=lasso]")
    across, down = 0.45 * box["width"], 0.45 * box["height"]
    corners = [(-1, -1), (1, -1), (1, 1), (-1, 1)]
    touch("touchStart", (middle[0] - across, middle[1] - down))
    for x, y in corners[1:]:
        touch("touchMove", (middle[0] + across * x, middle[1] + down * y))
    touch("touchMove", (middle[0] - across, middle[1] - 0.9 * down))
    touch("touchEnd")
    tab.until("Number(document.body.dataset.selected) > 30")
    tab.shot("touch-lasso")
    page.click("[data-mode=pan]")
    side = min(box["width"], box["height"]) / 2
    spot = served.session.state.positions[7]
    touch("touchStart", (middle[0] + side * float(spot[0]), middle[1] - side * float(spot[1])))
    touch("touchEnd")
    tab.until("document.body.dataset.selected === '1'")
    page.wait_for_selector(".near")
    tab.close()
    served.close()


def test_a_slow_line_says_that_it_loads(browser: Any, tmp_path: Path) -> None:
    served = ServedSession(Session(spread_out(300), project=tmp_path / "p.explore")).start()
    context = browser.new_context()
    page = context.new_page()
    held: list[Any] = []
    released: list[bool] = []
    page.route("**/api/positions*", lambda route: route.continue_() if released else held.append(route))
    page.goto(served.url)
    page.wait_for_selector(".stage .loading")
    assert page.inner_text(".loading") == "Loading the map …"
    page.wait_for_function("document.body.dataset.ready === undefined")
    released.append(True)
    for route in held:
        route.continue_()
    page.wait_for_selector("body[data-ready=yes]")
    assert page.locator(".loading").count() == 0
    context.close()
    served.close()
