"""Photos and texts behind a frozen encoder: features by content, a metric on them, and what cannot be is said."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import nearer
from nearer.app.cli import app
from nearer.datasets._image_files import crop_image
from nearer.exceptions import (
    CorruptFileError,
    LabelError,
    MissingDataError,
    NotFiniteError,
    ParameterError,
    ShapeError,
)
from nearer.models import _encoders as encoders
from nearer.models._bulk import embed_stream
from nearer.models._encoders import frozen
from nearer.models._export import plain
from nearer.models._feature_cache import FeatureCache, content_key

Image = pytest.importorskip("PIL.Image")

COLORS = {"blue": (30, 30, 200), "green": (30, 200, 30), "red": (200, 30, 30)}
WORDS = {"animal": "cat dog horse", "car": "wheel engine door", "food": "bread soup apple"}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NEARER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for name, color in COLORS.items():
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(10):
            pixels = np.clip(np.array(color) + rng.normal(0, 60, (24, 40, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.png")
    return tmp_path / "photos"


def table() -> pd.DataFrame:
    rows = [
        {"row": f"{topic}-{number}", "text": f"{word} {number % 7}", "topic": topic}
        for topic, words in WORDS.items()
        for number in range(12)
        for word in words.split()[number % 3 : number % 3 + 1]
    ]
    return pd.DataFrame(rows)


def letters(texts: Sequence[str]) -> np.ndarray:
    """A function of the user's: how often each of ten letters is there."""
    return np.array([[text.count(letter) for letter in "abcdeghnop"] + [1.0] for text in texts])


class Counting:
    """The same, and how many texts it has seen."""

    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        self.seen += len(texts)
        return letters(texts)


def tiny(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(3, 6, 4, stride=4), nn.ReLU())


def test_a_folder_behind_a_module(folder: Path, tmp_path: Path) -> None:
    model = nearer.fit(folder, encoder=tiny(), encoder_settings={"size": 16})
    assert "30 rows, 6 features of photos by Sequential; 3 classes" in str(model)
    assert model.method == "within-class"
    assert "by Recall@1 and MAP@R on blocks of the training rows" in str(model)
    rows = model.transform(folder)
    assert rows.shape[0] == 30
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(model.raw(folder), axis=1), 1, rtol=1e-5)
    one = folder / "red" / "3.png"
    hit = model.neighbors(one, k=1)[0][0]
    assert hit.metadata == {"label": "red", "file": "red/3.png"}
    np.testing.assert_allclose(model.transform([one]), model.transform(one))
    # Features that were made elsewhere go past the encoder.
    np.testing.assert_allclose(model.transform(model.features(folder)), rows)
    np.testing.assert_allclose(plain(model)(torch.from_numpy(model.features(folder))).detach(), rows, atol=1e-5)
    place = model.save(tmp_path / "model")
    loaded = nearer.load(place)
    with pytest.raises(ParameterError, match=r"'Sequential' must be given .* nearer.load\(path, encoder=...\)"):
        loaded.transform(folder)
    np.testing.assert_allclose(loaded.transform(model.features(folder)), rows)
    np.testing.assert_allclose(nearer.load(place, encoder=tiny()).transform(folder), rows)
    with pytest.raises(ParameterError, match="its weights differ"):
        nearer.load(place, encoder=tiny(1))
    assert nearer.load(place, encoder=tiny()).index(folder).search(rows[:1], k=1)[0][0].id == 0


def test_a_table_names_photos_and_their_classes(folder: Path, tmp_path: Path) -> None:
    places = sorted(folder.rglob("*.png"))
    table = pd.DataFrame({"file": [str(one.relative_to(folder)) for one in places], "year": range(len(places))})
    table["kind"] = [one.parent.name for one in places]
    listed = folder / "list.csv"
    table.to_csv(listed, index=False)
    settings = {"encoder": tiny(), "encoder_settings": {"size": 16}, "method": "lfda"}
    model = nearer.fit(listed, "kind", image="file", keep=["year"], **settings)
    assert "30 rows, 6 features of photos by Sequential; 3 classes" in str(model)
    rows = model.transform(places)
    np.testing.assert_array_equal(model.transform(listed), rows)
    here = table.assign(file=[str(one) for one in places])
    np.testing.assert_array_equal(nearer.fit(here, "kind", image="file", **settings).transform(here), rows)
    assert model.neighbors(places[3], k=1)[0][0].metadata["year"] == 3
    loaded = nearer.load(model.save(tmp_path / "model"), encoder=tiny())
    np.testing.assert_array_equal(loaded.transform(listed), rows)
    embed_stream(model, listed, tmp_path / "rows.npy")
    np.testing.assert_allclose(np.load(tmp_path / "rows.npy"), rows, rtol=1e-6)
    with pytest.raises(ParameterError, match="`text` and `image` must not both be given"):
        nearer.fit(listed, "kind", image="file", text="kind")
    with pytest.raises(ShapeError, match=r"'year' must hold names of photos, got numbers. Leave `image` out"):
        nearer.fit(listed, "kind", image="year", **settings)
    with pytest.raises(MissingDataError, match=r"gone\.png` must be a photo"):
        nearer.fit(table.assign(file="gone.png"), "kind", image="file", **settings)


def test_path_strings_are_photos(folder: Path) -> None:
    places = sorted(folder.rglob("*.png"))
    names, labels = [str(one) for one in places], [one.parent.name for one in places]
    model = nearer.fit(names, labels, encoder=tiny(), encoder_settings={"size": 16, "resize": 16}, method="lfda")
    assert model.classes == tuple(sorted(COLORS))
    expected = model.transform(places)
    for given in (names, tuple(names), np.array(names), pd.Series(names)):
        np.testing.assert_array_equal(model.transform(given), expected)
    with pytest.raises(MissingDataError, match=r"gone\.png` must be a photo, and there is no such file"):
        model.transform([str(folder / "gone.png")])


def test_texts_behind_a_function(tmp_path: Path) -> None:
    frame = table()
    model = nearer.fit(frame, "topic", text="text", id="row", encoder=letters)
    assert "36 rows, 11 features of texts by letters; 3 classes" in str(model)
    assert (model.inputs.text, model.inputs.labels) == ("text", ("topic",))
    rows = model.transform(frame)
    np.testing.assert_allclose(model.transform(frame["text"].tolist()), rows)
    np.testing.assert_allclose(model.transform(frame["text"]), rows)
    np.testing.assert_allclose(model.transform(frame[["text"]]), rows)
    assert model.neighbors(["cat 0"], k=1)[0][0].metadata == {"topic": "animal", "text": "cat 0"}
    found = nearer.evaluate(model, frame.assign(text=frame["text"] + " now"), "topic")
    assert found.first.counts["queries"] == 36
    file = tmp_path / "texts.csv"
    frame.to_csv(file, index=False)
    np.testing.assert_allclose(model.transform(file), rows)
    loaded = nearer.load(model.save(tmp_path / "model"), encoder=letters)
    np.testing.assert_allclose(loaded.transform(frame), rows)
    again = nearer.fit(frame["text"].tolist(), frame["topic"], encoder=letters)
    assert again.classes == ("animal", "car", "food")
    assert nearer.fit((frame["text"].to_numpy(), frame["topic"]), encoder=letters).data["rows"] == 36


def test_images_in_memory() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 10)
    x = np.clip(np.array(list(COLORS.values()))[y][:, None, None] + rng.normal(0, 40, (30, 9, 8, 3)), 0, 255)
    model = nearer.fit(x.astype(np.uint8), y, encoder=tiny(), encoder_settings={"size": 8})
    assert model.transform(x.astype(np.uint8)).shape[0] == 30
    gray = nearer.fit(x.astype(np.uint8)[..., 0], y, encoder=tiny(), encoder_settings={"size": 8})
    assert gray.inputs.size == (6,)


def test_a_module_on_photos_gets_what_its_config_says(folder: Path) -> None:
    class Looking(nn.Module):
        pretrained_cfg: ClassVar = {
            "input_size": (3, 8, 8),
            "mean": (0.5, 0.5, 0.5),
            "std": (0.5, 0.25, 1.0),
            "crop_pct": 0.5,
        }

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            assert images.shape[1:] == (3, 8, 8)
            return images.mean((2, 3))

    made = frozen(Looking(), "photos")
    assert (made.settings["size"], made.settings["resize"]) == (8, 16)
    plain_image = np.full((20, 30, 3), (255, 0, 102), np.uint8)
    np.testing.assert_allclose(made.features([plain_image]), [[1.0, -2.0, -0.1]], atol=1e-6)
    turned = frozen(Looking(), "photos", {"colors": "bgr"})
    np.testing.assert_allclose(turned.features([plain_image]), [[-0.1, -2.0, 1.0]], atol=1e-6)
    with pytest.raises(ParameterError, match="`std` must be three numbers"):
        frozen(Looking(), "photos", {"std": (1, 0, 1)})
    with pytest.raises(ParameterError, match="sizes"):
        frozen(Looking(), "photos", {"sizes": 8})


def test_photos_are_never_stretched() -> None:
    wide = np.zeros((10, 30, 3), np.uint8)
    wide[:, 10:20] = 255
    assert (crop_image(wide, 10) == 255).all()
    assert (crop_image(wide, 20)[:, 4:16] == 255).all()
    assert crop_image(wide, (4, 6)).shape == (4, 6, 3)
    assert crop_image(wide, 5, resize=10).shape == (5, 5, 3)


def test_features_come_from_the_cache(own_cache: Path) -> None:
    function = Counting()
    texts = table()["text"].tolist()
    first = frozen(function, "texts", {"name": "letters-1"}).features(texts)
    assert function.seen == len(set(texts))  # equal texts once
    np.testing.assert_array_equal(frozen(function, "texts", {"name": "letters-1"}).features(texts), first)
    assert function.seen == len(set(texts))
    frozen(function, "texts", {"name": "letters-2"}).features(texts[:3])  # another name, another cache
    assert function.seen == len(set(texts)) + 3
    frozen(function, "texts").features(texts[:3])  # nobody vouches for a bare function
    frozen(function, "texts").features(texts[:3])
    assert function.seen == len(set(texts)) + 9
    files = [file for file in own_cache.rglob("*") if file.is_file()]
    assert len(files) == len(set(texts)) + 3


@pytest.mark.parametrize("damage", [b"", b"short", b"\0" * 76])
def test_a_damaged_cache_is_a_miss(own_cache: Path, damage: bytes) -> None:
    function = Counting()
    encoder = frozen(function, "texts", {"name": "letters"})
    expected = encoder.features(["a cat", "a dog"])
    file = next(file for file in own_cache.rglob("*") if file.is_file())
    file.write_bytes(damage)
    np.testing.assert_array_equal(encoder.features(["a cat", "a dog"]), expected)
    assert function.seen == 3
    encoder.features(["a cat", "a dog"])
    assert function.seen == 3  # it was written again


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("NEARER_CACHE", str(tmp_path / "file"))
    assert frozen(letters, "texts", {"name": "letters"}).features(["a"]).shape == (1, 11)


def test_a_killed_run_goes_on(own_cache: Path, tmp_path: Path) -> None:
    code = """
import sys, time
from nearer.models._encoders import frozen
def slow(texts):
    time.sleep(0.3)
    return [[float(len(text))] for text in texts]
frozen(slow, "texts", {"name": "slow"}).features([str(n) * 3 for n in range(2000)])
"""
    worker = subprocess.Popen([sys.executable, "-c", code], env=dict(os.environ))
    deadline = time.monotonic() + 120
    while not any(file.is_file() for file in own_cache.rglob("*")):
        assert time.monotonic() < deadline
        assert worker.poll() is None
        time.sleep(0.05)
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    seen = []

    def quick(texts: Sequence[str]) -> list[list[float]]:
        seen.extend(texts)
        return [[float(len(text))] for text in texts]

    texts = [str(n) * 3 for n in range(2000)]
    rows = frozen(quick, "texts", {"name": "slow"}).features(texts)
    np.testing.assert_array_equal(rows[:, 0], [len(text) for text in texts])
    assert 0 < len(seen) < 2000


def test_what_an_encoder_must_give() -> None:
    for function, error, told in (
        (lambda texts: np.zeros((1, 2)), ShapeError, "one row of numbers for each of 2 items"),
        (lambda texts: np.zeros((len(texts), 0)), ShapeError, "one row of numbers"),
        (lambda texts: [["a"] for _ in texts], ShapeError, "one row of numbers"),
        (lambda texts: np.full((len(texts), 2), np.nan), NotFiniteError, "finite features"),
    ):
        with pytest.raises(error, match=told):
            frozen(function, "texts").features(["a", "b"])
    with pytest.raises(ShapeError, match="at least one of the texts"):
        frozen(letters, "texts").features([])
    FeatureCache("letters", {}).put(content_key("a"), np.ones(3, np.float32))
    with pytest.raises(ShapeError, match="rows of one width"):
        frozen(letters, "texts", {"name": "letters"}).features(["a", "b"])


def test_wrong_kinds_are_refused(folder: Path) -> None:
    texts, y = table()["text"].tolist(), table()["topic"].tolist()
    for call, error, told in (
        (lambda: nearer.fit(folder, encoder="minilm"), ParameterError, r"one for photos \(efficientnet-lite0, "),
        (lambda: nearer.fit(texts, y, encoder="efficientnet-lite0"), ParameterError, r"one for texts \(minilm\)"),
        (lambda: nearer.fit(texts, y, encoder="minilmm"), ParameterError, "minilm"),
        (lambda: nearer.fit(texts, y, encoder=tiny()), ParameterError, "must take texts, got the torch module"),
        (lambda: nearer.fit(texts, y, encoder=3), ParameterError, "a torch module, a SentenceTransformer or a f"),
        (lambda: nearer.fit(texts, y, encoder=False), ParameterError, "must be given for texts"),
        (lambda: nearer.fit(np.eye(9), range(9), encoder=letters), ShapeError, "must be photos .* or texts"),
        (lambda: nearer.fit(table(), "topic", encoder=letters), ParameterError, "`text` must name the column"),
        (lambda: nearer.fit(table(), "topic", text="txt", encoder=letters), ParameterError, "Did you mean 'text'"),
        (
            lambda: nearer.fit(table().assign(size=range(36)), "topic", text="size", encoder=letters),
            ShapeError,
            "must hold texts, got numb",
        ),
        (lambda: nearer.fit(folder, text="text", encoder=letters), ParameterError, "is a folder"),
        (lambda: nearer.fit(texts, "topic", encoder=letters), LabelError, "must hold the labels"),
        (lambda: nearer.fit(folder, "label", encoder=tiny()), ParameterError, "leave the label out"),
        (lambda: frozen(letters, "texts", {"size": 3}), ParameterError, "a function does not use it"),
        (lambda: frozen(letters, "texts", {"name": "minilm"}), ParameterError, "stands for a package"),
        (lambda: nearer.fit(folder, encoder=tiny(), unreadable="drop"), ParameterError, "unreadable"),
        (
            lambda: nearer.fit(texts, y, encoder=letters, settings={"standardize": True}),
            ParameterError,
            "`standardize` must be left out",
        ),
    ):
        with pytest.raises(error, match=told):
            call()


def test_texts_that_are_none() -> None:
    y = ["a", "b", "a"]
    with pytest.raises(ShapeError, match="got int 3 in row 1"):
        nearer.fit(["x", 3, "y"], y, encoder=letters)
    with pytest.raises(ShapeError, match="must have a text in every row, got none in row 2"):
        nearer.fit(["x", "y", None], y, encoder=letters)
    frame = table()
    frame.loc[4, "text"] = np.nan
    with pytest.raises(ShapeError, match="'text' must have a text in every row, got none in row 4"):
        nearer.fit(frame, "topic", text="text", encoder=letters)
    frame = table().astype({"text": object})
    frame.loc[4, "text"] = 17
    with pytest.raises(ShapeError, match="got int 17 in row 4"):
        nearer.fit(frame, "topic", text="text", encoder=letters)
    # An empty text is a text.
    assert frozen(letters, "texts").features([""])[0, -1] == 1
    model = nearer.fit(table(), "topic", text="text", encoder=letters)
    with pytest.raises(ParameterError, match=r"in a list, \[text\]"):
        model.transform("cat")


def test_folders_that_are_empty_or_damaged(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ShapeError, match="at least one readable image"):
        nearer.fit(tmp_path / "empty", encoder=tiny())
    (folder / "red" / "3.png").write_bytes(b"no photo")
    with pytest.raises(CorruptFileError, match="1 of 30 cannot be read"):
        nearer.fit(folder, encoder=tiny(), encoder_settings={"size": 16})
    model = nearer.fit(folder, encoder=tiny(), encoder_settings={"size": 16}, unreadable="skip")
    assert model.data["rows"] == 29
    with pytest.raises(CorruptFileError, match="cannot be read"):
        model.transform([folder / "red" / "3.png"])
    with pytest.raises(nearer.exceptions.MissingDataError, match="no such file"):
        model.transform([folder / "red" / "77.png"])


def test_without_the_extras(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(encoders, "installed", lambda name: False)
    monkeypatch.setattr("nearer.models._reading.installed", lambda name: False)
    with pytest.raises(ParameterError, match=r"Run: pip install 'nearer\[text\]'"):
        nearer.fit(table()["text"].tolist(), table()["topic"])
    with pytest.raises(ParameterError, match=r"Run: pip install 'nearer\[photos\]'"):
        nearer.fit(folder, encoder="efficientnet-lite0")
    with pytest.raises(ParameterError, match=r"pip install 'nearer\[photos\]'"):
        nearer.fit([folder / "red" / "1.png"] * 3, ["a", "b", "a"])
    model = nearer.fit(folder, settings={"epochs": 1})
    assert model.inputs.kind == "images"
    assert "pip install 'nearer[photos]'" in capsys.readouterr().err
    nearer.fit(folder, encoder=False, settings={"epochs": 1})
    assert "pip install" not in capsys.readouterr().err


def test_a_packaged_encoder_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Sentences:
        def encode(self, texts: list[str], *, convert_to_numpy: bool, show_progress_bar: bool) -> np.ndarray:
            return letters(texts)

    monkeypatch.setattr(encoders, "installed", lambda name: True)
    monkeypatch.setattr(encoders, "_minilm", Sentences)
    frame = table()
    model = nearer.fit(frame, "topic", text="text")  # the default for texts
    place = model.save(tmp_path / "model")
    np.testing.assert_allclose(nearer.load(place).transform(frame), model.transform(frame))
    monkeypatch.setattr(encoders, "installed", lambda name: False)
    monkeypatch.setenv("NEARER_CACHE", str(tmp_path / "other"))
    with pytest.raises(ParameterError, match=r"pip install 'nearer\[text\]'"):
        nearer.load(place).transform(["something new"])
    table_model = nearer.fit(np.random.default_rng(0).normal(size=(40, 3)), [0, 1] * 20)
    with pytest.raises(ParameterError, match="must be left out"):
        nearer.load(table_model.save(tmp_path / "table"), encoder=letters)


def test_the_command_line(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoders, "installed", lambda name: True)
    monkeypatch.setattr("nearer.models._reading.installed", lambda name: True)
    monkeypatch.setattr(encoders, "_network", lambda name: tiny())
    run = CliRunner()

    def call(*words: str | Path) -> str:
        result = run.invoke(app, [str(word) for word in words])
        assert result.exit_code == 0, result.stderr
        return result.stdout

    model = tmp_path / "model"
    assert "--encoder efficientnet-lite0" in call("fit", folder, "--encoder", "efficientnet-lite0", "-o", model)
    call("index", folder, "-m", model, "-o", tmp_path / "index")
    assert "red/3.png" in call(
        "search", tmp_path / "index", folder / "red" / "3.png", "-m", model, "-k", "2", "--json"
    )
    assert "30 embeddings" in call("embed", folder, "-m", model, "-o", tmp_path / "rows.npy")
    result = run.invoke(app, ["fit", str(folder), "--encoder", "minilm", "-o", str(tmp_path / "x")])
    assert result.exit_code == 1
    assert "`--encoder` must be one for photos" in result.stderr
    assert not (tmp_path / "x").exists()
