"""`nearer dedupe` on tables, arrays and photos, with and without a model."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from nearer.app.cli import _dedupe, app
from nearer.app.cli._loading import load_data
from nearer.datasets import Dataset, Split
from nearer.datasets._anything import ColumnRoles
from nearer.datasets._dataset import own_source
from nearer.datasets._items import photos_of
from nearer.geometry import Mahalanobis
from nearer.models import Model
from nearer.models._inputs import Inputs
from nearer.models._reading import Reading


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*words: str) -> Any:
    return CliRunner().invoke(app, ["dedupe", *words])


def table() -> list[dict[str, str]]:
    with open("duplicates.csv", newline="") as file:
        return list(csv.DictReader(file))


def write_table() -> None:
    random = np.random.default_rng(0)
    rows = random.normal(size=(60, 3)) * [1, 100, 1]
    rows[40] = rows[3]
    rows[41] = rows[4] + [0.01, 1, 0.01]
    lines = ["a,b,c,kind,quality"]
    lines += [",".join([*(f"{value:.6f}" for value in row), "xy"[n % 2], str(n % 7)]) for n, row in enumerate(rows)]
    Path("data.csv").write_text("\n".join(lines) + "\n")


def test_a_table_and_a_page() -> None:
    write_table()
    done = run("data.csv", "--label", "kind", "--ignore", "quality", "--report", "pairs.html")
    assert done.exit_code == 0, done.output
    assert "2 near-duplicates among 60 items, in 2 groups" in done.stdout
    assert "all pairs were compared" in done.stdout
    rows = table()
    assert len(rows) == 60
    assert [(row["row"], row["kept_item"]) for row in rows if row["keep"] == "0"] == [("40", "3"), ("41", "4")]
    assert rows[40]["group"] == rows[3]["group"]
    assert rows[40]["group_size"] == "2"
    page = Path("pairs.html").read_text()
    assert "The farthest pairs" in page
    assert "The largest groups" in page


def test_the_best_by_a_column() -> None:
    write_table()
    done = run("data.csv", "--label", "kind", "--keep", "best", "--score", "quality", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["items"], told["groups"], told["duplicates"], told["recall"]) == (60, 2, 2, 1.0)
    gone = [row["row"] for row in table() if row["keep"] == "0"]
    assert gone == ["3", "4"], "rows 40 and 41 have the better quality, 5 and 6"


def test_an_array_and_a_model() -> None:
    x = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)
    x[9] = x[2] + [0.0, 3.0]
    np.save("rows.npy", x)
    # The second column does not count for this model.
    Model(Mahalanobis.from_factor([[1.0], [0.0]]), Inputs("features", size=(2,)), method="by hand").save("model")
    assert run("rows.npy", "--model", "model", "--threshold", "1e-6").exit_code == 0
    assert [row["row"] for row in table() if row["keep"] == "0"] == ["9"]


def test_photos() -> None:
    pillow = pytest.importorskip("PIL.Image", reason="needs pillow")
    random = np.random.default_rng(0)
    Path("photos/a").mkdir(parents=True)
    pictures = random.integers(0, 255, (6, 40, 40, 3), dtype=np.uint8)
    for number, picture in enumerate(pictures):
        pillow.fromarray(picture).save(f"photos/a/{number}.png")
    pillow.fromarray(pictures[1]).save("photos/a/copy.png")
    done = run("photos", "--report", "pairs.html")
    assert done.exit_code == 0, done.output
    assert [row["item"] for row in table() if row["keep"] == "0"] == ["a/copy.png"]
    assert "data:image/png" in Path("pairs.html").read_text()
    # The same photos where an encoder has made features of them, of files and of bytes.
    encoder = SimpleNamespace(kind="photos")
    rows = Split(np.zeros((7, 4), dtype=np.float32), np.zeros(7, dtype=np.int64))
    for items in (sorted(Path("photos/a").iterdir()), [*pictures, pictures[1]]):
        data = Dataset(own_source("photos"), {"all": rows}, encoder=encoder, items=items)
        shown = photos_of(data)
        assert shown is not None
        assert shown.images().shape == (7, 3, 40, 40)


def scene(number: int) -> np.ndarray:
    """A picture with shapes in it: a dozen colored boxes."""
    random, picture = np.random.default_rng(number), np.full((240, 320, 3), 90, dtype=np.uint8)
    for _ in range(12):
        top, left = random.integers(0, 200), random.integers(0, 280)
        picture[top : top + random.integers(20, 90), left : left + random.integers(20, 90)] = random.integers(
            0, 256, 3
        )
    return picture


def test_a_model_adds_what_it_finds_as_near(monkeypatch: pytest.MonkeyPatch) -> None:
    pillow = pytest.importorskip("PIL.Image", reason="needs pillow")
    Path("photos/a").mkdir(parents=True)
    for number in range(20):
        pillow.fromarray(scene(number)).save(f"photos/a/{number:02d}.png")
    pillow.fromarray(scene(2)).resize((160, 120)).save("photos/a/small.png")
    # By this model 4 and 11 are nearly one, and the small copy is far from what it copies.
    rows = np.eye(21, dtype=np.float32)
    rows[11] = rows[4] + 0.01 * rows[11]
    machine = SimpleNamespace(embed=lambda given: rows)
    monkeypatch.setattr(_dedupe, "load", lambda path: machine)
    monkeypatch.setattr(
        _dedupe, "load_for", lambda model, data, **_: load_data(data, None, ColumnRoles(), Reading("none"))
    )
    done = run("photos", "--model", "model", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["kinds"] == {"near": 1, "same picture": 1}
    assert {row["item"]: (row["kept_item"], row["kind"]) for row in table() if row["keep"] == "0"} == {
        "a/11.png": ("a/04.png", "near"),
        "a/small.png": ("a/02.png", "same picture"),
    }


def test_pictures_of_one_color_are_compared_by_it() -> None:
    pillow = pytest.importorskip("PIL.Image", reason="needs pillow")
    Path("photos/a").mkdir(parents=True)
    for name, color in {"black": 0, "blue": (0, 0, 255), "red": (255, 0, 0), "white": 255, "again": 255}.items():
        fill = (color,) * 3 if isinstance(color, int) else color
        pillow.new("RGB", (40, 30 if name != "again" else 60), fill).save(f"photos/a/{name}.png")
    for number in range(15):
        pillow.fromarray(scene(number)).save(f"photos/a/{number:02d}.png")
    assert run("photos").exit_code == 0
    assert [(row["item"], row["kept_item"], row["kind"]) for row in table() if row["keep"] == "0"] == [
        ("a/white.png", "a/again.png", "same picture")
    ]


def test_images_in_memory_are_pictures_too() -> None:
    images = np.stack([scene(number)[::4, ::4] for number in range(30)])
    images[21] = images[2] // 2
    np.savez("images.npz", x=images, y=np.arange(30) % 2)
    done = run("images.npz", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["items"] == 30
    assert [(row["row"], row["kept_item"], row["kind"]) for row in table() if row["keep"] == "0"] == [
        ("21", "2", "same picture")
    ]


def test_copies_that_were_saved_again_are_found() -> None:
    pillow = pytest.importorskip("PIL.Image", reason="needs pillow")
    Path("photos/a").mkdir(parents=True)
    for number in range(40):
        pillow.fromarray(scene(number)).save(f"photos/a/{number:02d}.png")
    pillow.fromarray(scene(3)).resize((160, 120)).save("photos/a/small.jpg", quality=60)
    pillow.fromarray(scene(5)).convert("L").save("photos/a/gray.jpg", quality=40)
    pillow.fromarray((scene(7) * 0.8).astype(np.uint8)).save("photos/a/dark.png")
    Path("photos/a/equal.png").write_bytes(Path("photos/a/09.png").read_bytes())
    done = run("photos")
    assert done.exit_code == 0, done.output
    assert {row["item"]: (row["kept_item"], row["kind"]) for row in table() if row["keep"] == "0"} == {
        "a/small.jpg": ("a/03.png", "same picture"),
        "a/gray.jpg": ("a/05.png", "same picture"),
        "a/dark.png": ("a/07.png", "same picture"),
        "a/equal.png": ("a/09.png", "equal"),
    }
    assert "1 equal, 3 same picture" in done.output
    # Of copies the larger is the better one, whatever comes first.
    pillow.open("photos/a/11.png").resize((160, 120)).save("photos/a/00_small.png")
    assert run("photos", "--keep", "best", "--out", "best.csv").exit_code == 0
    with open("best.csv", newline="") as file:
        kept = {row["item"]: row["keep"] for row in csv.DictReader(file)}
    assert (kept["a/00_small.png"], kept["a/11.png"], kept["a/03.png"], kept["a/small.jpg"]) == ("0", "1", "1", "0")
    Path("photos/a/broken.png").write_bytes(b"no picture")
    assert run("photos", "--out", "again.csv").exit_code == 1
    assert run("photos", "--out", "again.csv", "--unreadable", "skip").exit_code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["data.csv", "--out", "x.txt"], "must end in .csv"),
        (["data.csv", "--report", "x.txt"], "`--report` must end in .html"),
        (["data.csv", "--score", "quality"], "must come with --keep best"),
        (["data.csv", "--keep", "best", "--score", "none"], "none"),
        (["data.csv", "--threshold", "-1"], "`--threshold` must be at least 0"),
        (["nowhere.csv"], "nowhere.csv"),
    ],
)
def test_what_cannot_be_is_said(words: list[str], message: str) -> None:
    write_table()
    done = run(*words)
    assert done.exit_code == 1
    assert message in done.stderr
    assert not Path("duplicates.csv").exists()


def test_a_choice_is_a_choice() -> None:
    write_table()
    done = run("data.csv", "--keep", "last")
    assert done.exit_code == 2
    assert "'--keep': 'last' is not one of 'first', 'best'." in done.stderr


def test_columns_that_are_not_compared_are_said() -> None:
    write_table()
    lines = Path("data.csv").read_text().splitlines()
    notes = ["note", *(f"remark{number:03d}of{number * 7:04d}" for number in range(60))]
    Path("data.csv").write_text("\n".join(f"{line},{note}" for line, note in zip(lines, notes, strict=True)) + "\n")
    done = run("data.csv", "--label", "kind", "--ignore", "quality")
    assert "Not compared: note (" in done.stdout
    assert "quality (" not in done.stdout, "whoever asked for it knows"
    Path("duplicates.csv").unlink()
    assert json.loads(run("data.csv", "--label", "kind", "--json").stdout)["left_out"] == ["note"]


def test_file_names_that_are_no_utf_8() -> None:
    pillow = pytest.importorskip("PIL.Image", reason="needs pillow")
    Path("photos").mkdir()
    for number in range(12):
        picture = np.random.default_rng(number).integers(0, 255, (20, 20, 3), dtype=np.uint8)
        pillow.fromarray(picture).resize((60, 60)).save(f"photos/{number:02d}.png")
    try:
        Path(os.fsdecode(b"photos/\xff.png")).write_bytes(Path("photos/03.png").read_bytes())
    except OSError:
        pytest.skip("this disk keeps UTF-8 alone")
    done = run("photos", "--report", "page.html", "--threshold", "1e-5")
    assert done.exit_code == 0, done.output
    assert [row["item"] for row in table() if row["keep"] == "0"] == ["\\udcff.png"]
    assert "\\udcff.png" in Path("page.html").read_text(encoding="utf-8")
    done = run("photos", "--force", "--json")
    assert json.loads(done.stdout)["duplicates"] == 1
