"""Every page that is made from photos shows them: pictures are counted, and names are those of files."""

from __future__ import annotations

import base64
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import nearer
from nearer.app.cli import app
from nearer.app.cli._pages import photos_folder, search_page
from nearer.index._vector_index import Hit
from nearer.reports._page import Tile

pillow = pytest.importorskip("PIL.Image", reason="needs pillow")


@pytest.fixture(autouse=True)
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two folders of twelve photos each, of different sizes; red ones and blue ones, and one copy."""
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate(("blue", "red")):
        Path("photos", name).mkdir(parents=True)
        for one in range(12):
            picture = np.random.default_rng(10 * number + one).integers(0, 90, (30 + one, 40, 3), dtype=np.uint8)
            picture[..., 2 - 2 * number] += 120
            pillow.fromarray(picture).resize((120, 90)).save(f"photos/{name}/{one:02d}.png")
    pillow.open("photos/red/03.png").save("photos/red/copy.png")
    return Path("photos")


def run(*words: str) -> str:
    done: Any = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, done.output
    return str(done.output)


def pictures(page: str) -> int:
    text = Path(page).read_text()
    assert "<script" not in text
    return len(re.findall(r'<img src="data:image/(?:png|jpeg);base64', text))


def test_near_duplicates() -> None:
    run("dedupe", "photos", "--threshold", "1e-5", "--report", "page.html")
    # One pair, among the farthest and among the nearest.
    assert pictures("page.html") == 4
    assert "red/copy.png" in Path("page.html").read_text()


def test_likely_wrong_labels() -> None:
    Path("photos/red/05.png").rename("photos/blue/wrong.png")
    told = run("audit", "photos", "--encoder", "none", "--report", "page.html")
    assert "blue/wrong.png: labelled blue, looks like red" in told
    assert pictures("page.html") == len(re.findall("looks like", told)) >= 1


def test_hits_of_a_search(photos: Path) -> None:
    hits = [[Hit(3, -0.1, {"file": "red/03.png", "label": "red"}), Hit(4, -0.2, {"file": "../outside.png"})]]
    Path("outside.png").write_bytes(Path("photos/red/00.png").read_bytes())
    query = Tile("query.png", image=np.zeros((9, 9, 3), dtype=np.uint8))
    assert photos_folder(photos / "blue" / "00.png", hits) == photos.resolve()
    search_page(hits, Path("page.html"), index="index", queries="query.png", asked=[query], photos=photos)
    # The query and the first hit: a file outside of the folder of photos is not read.
    assert pictures("page.html") == 2
    assert "distance 0.1" in Path("page.html").read_text()
    assert photos_folder(Path("nowhere.csv"), [[Hit(1, 0.0, {})]]) is None
    # Whoever made the index does not say which photos of this machine are shown.
    for name in (str(Path("outside.png").resolve()), "../outside.png", "x" * 400 + ".png", "a\0.png"):
        assert photos_folder(photos, [[Hit(1, 0.0, {"file": name})]]) is None


def test_what_is_near_after_a_fit(photos: Path) -> None:
    files = sorted(photos.rglob("*.png"))
    labels = [file.parent.name for file in files]

    def colors(items: list[Any]) -> np.ndarray:
        return np.stack([np.asarray(item, dtype=np.float32).mean(axis=(0, 1)) for item in items])

    model = nearer.fit(files, labels, encoder=colors, method="lda")
    # The map as one file: each photo is in it, small.
    model.report("map.html", interactive=True)
    text = Path("map.html").read_text()
    inside = json.loads(text.partition('id="nearer-data">')[2].partition("</script>")[0])
    drawn = [base64.b64decode(card["picture"].partition("base64,")[2]) for card in inside["cards"]]
    assert len(drawn) == len(files) == 25
    assert {max(pillow.open(io.BytesIO(one)).size) for one in drawn} == {120}
    assert sum(card.get("heldOut", False) for card in inside["cards"]) == inside["overview"]["heldOut"] == 5
    assert inside["overview"]["layout"] == {"placed": 25, "between": 0, "warm": False}
    model.report("page.html")
    # The map, and each of the five held-out photos beside the five that are nearest to it.
    assert pictures("page.html") == 1 + 5 * 6
    assert "blue/0" in Path("page.html").read_text()
