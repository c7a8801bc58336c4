"""The pages to play with: in step with their sources, without requests, readable, and right to the last digit."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import browser
from nearer.graph._propagation import label_reach
from nearer.losses import BinomialDevianceLoss, ContrastiveLoss, GeneralizedLiftedLoss, RAWLoss, TripletLoss
from nearer.losses.pairs._neighborhood_inference import choose_sets, nearest_by_class
from nearer.mining import VTHM
from nearer.neighbors import Neighbors

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "play").glob("*.html"))
needs_browser = pytest.mark.skipif(bool(browser.missing()), reason=browser.missing() or "there is one")


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("play", ROOT / "docs" / "figures" / "play.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser.chromium() as found:
        yield found


def test_pages_are_built_from_their_sources(maker: ModuleType) -> None:
    assert {page.stem for page in PAGES} == set(maker.PAGES)
    for page in PAGES:
        text = page.read_text()
        assert maker.build(page.stem, maker.data_of(text)) == text, f"run 'python docs/figures/play.py {page.stem}'"
        assert len(text) < 200_000
        assert "http" not in text.replace("http://www.w3.org", ""), "nothing is fetched and nothing leads away"


@needs_browser
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_in_a_browser(page: Path, chromium: Any) -> None:
    for wide, scheme in ((390, "dark"), (1280, "light")):
        tab = browser.Tab(chromium, page.as_uri(), wide=wide, color_scheme=scheme, reduced_motion="reduce")
        assert tab.page.evaluate("document.documentElement.dataset.theme") == scheme
        over = tab.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert over == 0, f"{page.stem} is {over} pixels wider than a screen of {wide}"
        tab.shot(f"play-{page.stem}-{wide}-{scheme}")
        tab.page.keyboard.press("Tab")
        assert tab.page.evaluate("document.activeElement !== document.body"), "a keyboard gets into the page"
        tab.close()


@needs_browser
def test_the_weights_of_the_page_are_those_of_nearer(chromium: Any, maker: ModuleType) -> None:
    file = ROOT / "docs" / "play" / "weights.html"
    data = json.loads(maker.data_of(file.read_text()))
    tab = browser.Tab(chromium, file.as_uri())
    labels = torch.tensor(data["labels"])
    chosen: dict[str, Any] = {"alpha": 3.0, "beta": 40.0, "gamma": 0.4, "margin": 0.3, "mined": 0.12}
    for rows in ("raw", "learned"):
        z = torch.tensor(data[rows], dtype=torch.float64)
        for mining in (False, True):
            miner = VTHM(chosen["mined"]) if mining else None
            losses = {
                "raw": RAWLoss(alpha=3.0, beta=40.0, gamma=0.4, miner=miner),
                "binomial": BinomialDevianceLoss(alpha=3.0, beta=40.0, gamma=0.4, miner=miner),
                "lifted": GeneralizedLiftedLoss(margin=0.3, miner=miner),
                "contrastive": ContrastiveLoss(threshold=0.4, miner=miner),
                "triplet": TripletLoss(margin=0.3, miner=miner),
            }
            for name, loss in losses.items():
                found = tab.page.evaluate(
                    "([name, rows, o]) => weights(name, SETS[rows], y, o)",
                    [name, rows, {**chosen, "mining": mining}],
                )
                expected = loss.weights(z @ z.T, labels)
                assert expected.abs().max() > 0
                torch.testing.assert_close(
                    torch.tensor(found, dtype=torch.float64), expected, atol=1e-12, rtol=1e-9
                )
    live = int(tab.data("live"))
    tab.page.check("#mining")
    assert int(tab.data("live")) < live, "mining throws pairs away"
    tab.close()


@needs_browser
def test_labels_spread_as_nearer_says(chromium: Any, maker: ModuleType) -> None:
    file = ROOT / "docs" / "play" / "moons.html"
    data = json.loads(maker.data_of(file.read_text()))
    tab = browser.Tab(chromium, file.as_uri())
    labels = [data["labels"][i] if i in data["given"] else -1 for i in range(len(data["labels"]))]
    near = torch.tensor(data["near"])
    expected, _ = label_reach(Neighbors(near, torch.ones(near.shape)), labels, gamma=0.9)
    found = tab.page.evaluate("(labels) => spread(0.9, 400, labels)", labels)
    torch.testing.assert_close(torch.tensor(found, dtype=torch.float64), expected, atol=1e-9, rtol=0)
    tab.page.evaluate("set(300)")
    assert int(tab.data("reached")) == len(labels)
    tab.close()


@needs_browser
def test_neighbor_sets_are_those_of_nearer(chromium: Any) -> None:
    tab = browser.Tab(chromium, (ROOT / "docs" / "play" / "votes.html").as_uri())
    random = np.random.RandomState(0)
    for k in (1, 3, 4, 5):
        for _ in range(6):
            distances, classes = random.rand(14), random.randint(4, size=14)
            near = nearest_by_class(torch.from_numpy(distances)[None], torch.from_numpy(classes), 4, k)
            sets = choose_sets(near, torch.tensor([[0.0, 1.0, 1.0, 1.0]], dtype=torch.float64))
            found = tab.page.evaluate(
                "([D, classes, k]) => infer(D, classes, 0, k, 1, 4)", [distances.tolist(), classes.tolist(), k]
            )
            if not sets.feasible[0]:
                assert found["target"]["set"] == []
                continue
            assert sorted(found["target"]["set"]) == sorted(sets.targeted[0].tolist())
            assert sorted(found["worst"]["set"]) == sorted(sets.augmented[0].tolist())
            loss = distances[sets.targeted[0]].sum() - distances[sets.augmented[0]].sum() + float(sets.task_loss[0])
            assert found["loss"] == pytest.approx(loss)
    before = tab.data("loss")
    tab.page.focus("#map")
    for _ in range(4):
        tab.page.keyboard.press("ArrowRight")
    assert tab.data("loss") != before, "arrow keys move the query"
    tab.close()
