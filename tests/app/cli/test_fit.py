"""The commands around a model: from a table to a search, with JSON, config files, resume, and clear refusals."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest
from typer.main import get_command
from typer.testing import CliRunner

import nearer
from nearer.app.cli import app
from nearer.app.cli._config import commented_config
from nearer.datasets._catalog import load
from nearer.models import _learning as learning
from nearer.models import _networks as networks
from nearer.models._settings import DATA_KEYS, FitSettings


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    wine = load("wine").all
    names = [f"f{place}" for place in range(13)]
    items = zip(wine.x, wine.y, strict=True)
    rows = [",".join([*(f"{value:g}" for value in row), f"kind {label}"]) for row, label in items]
    Path("wine.csv").write_text("\n".join([",".join([*names, "class"]), *rows, ""]))
    return tmp_path


def test_every_setting_is_an_option_with_its_help_its_default_and_its_choices() -> None:
    options = {option.name: option for option in get_command(app).commands["fit"].params}
    config = commented_config()
    for name, (_, about) in FitSettings.described().items():
        assert about.partition(",")[0].lower() in options[name].help.lower()
        assert f"\n{name}: " in config
    for name, key in DATA_KEYS.items():
        assert name in options
        assert f"\n{name}: " in config
        assert name in ("data", "label", "pairs", "out") or key.about.lower() in options[name].help.lower()
    for name, shown in {
        "held_out": "[0.2]",
        "seed": "[0]",
        "pictures": "[yes]",
        "hidden": "[512]",
        "unlabeled": "[-1]",
    }.items():
        assert options[name].help.endswith(shown)
    assert "is not one of 'auto', 'stratified', 'classes'" in run("fit", "x.csv", "--split", "foo", code=2)


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == code, result.output + result.stderr
    return result.output if code == 0 else result.stderr


def fit(*words: str) -> dict:
    return json.loads(run("fit", "wine.csv", "-l", "class", "--no-pictures", "--json", "-q", *words))


def test_from_a_table_to_a_search(here):
    told = fit("--method", "lmnn", "--out", "m", "--no-refit")
    assert told["method"] == "lmnn"
    assert told["learned"]["scores"].keys() == told["raw"]["scores"].keys()
    assert told["command"] == "nearer fit wine.csv --label class --out m --method lmnn --no-refit --no-pictures"
    model = nearer.load("m")
    assert model.classes == ("kind 0", "kind 1", "kind 2")
    assert json.loads(run("embed", "wine.csv", "-m", "m", "-o", "e.npy", "--json")) == {
        "rows": 178,
        "dimensions": 13,
        "earlier": 0,
        "out": "e.npy",
    }
    embeddings = np.load("e.npy")
    run("embed", "wine.csv", "-m", "m", "-o", "e.csv")
    np.testing.assert_allclose(np.loadtxt("e.csv", delimiter=",", skiprows=1), embeddings, rtol=1e-5)
    scores = json.loads(run("evaluate", "wine.csv", "-m", "m", "-l", "class", "--json"))
    assert scores["learned"]["scores"]["recall@1"] > scores["raw"]["scores"]["recall@1"]
    text = run("neighbors", "3", "-d", "wine.csv", "-m", "m", "-l", "class", "-k", "4", "--json")
    (near,) = json.loads(text)["results"]
    distances = np.linalg.norm(embeddings - embeddings[3], axis=1)
    assert [hit["id"] for hit in near] == np.argsort(distances)[1:5].tolist()
    assert near[0]["distance"] == pytest.approx(np.sort(distances)[1], rel=1e-4)
    assert near[0]["class"].startswith("kind")
    run("index", "wine.csv", "-m", "m", "-l", "class", "-o", "i")
    found = json.loads(run("search", "i", "wine.csv", "-m", "m", "-k", "1", "--json"))["results"]
    assert [hits[0]["distance"] for hits in found] == pytest.approx([0.0] * 178, abs=1e-4)
    assert "learned is better" in run("evaluate", "wine.csv", "-m", "m", "-l", "class")
    assert "kind" in run("search", "i", "wine.csv", "-m", "m", "-k", "1")
    assert json.loads(run("export", "m", "-o", "m.safetensors", "--json"))["bytes"] > 0


def test_the_printed_command_makes_the_same_model(here):
    told = fit("--method", "nca", "--seed", "3", "--n-components", "4", "--out", "one")
    words = told["command"].split()[1:]
    words[words.index("one")] = "two"
    run(*words)
    a, b = nearer.load("one"), nearer.load("two")
    for name, tensor in a.encoder.state_dict().items():
        assert tensor.equal(b.encoder.state_dict()[name])


def test_config_mirrors_the_flags(here):
    run("init", "run.yaml")
    text = Path("run.yaml").read_text()
    assert text == commented_config()
    for name in FitSettings.described():
        assert f"\n{name}: " in text
    Path("run.yaml").write_text("data: wine.csv\nlabel: class\nmethod: kissme\npictures: false\nout: from-config\n")
    assert json.loads(run("fit", "--config", "run.yaml", "--json", "-q"))["method"] == "kissme"
    told = json.loads(run("fit", "-c", "run.yaml", "--method", "rca", "--out", "other", "--json", "-q"))
    assert told["method"] == "rca", "a flag goes before the config"
    Path("run.json").write_text(json.dumps({"data": "wine.csv", "label": "class", "methd": "rca"}))
    assert "`methd` is no setting. Did you mean `method`?" in run("fit", "-c", "run.json", code=1)
    Path("bad.yaml").write_text("a: [")
    assert "must be YAML" in run("fit", "-c", "bad.yaml", code=1)
    Path("list.yaml").write_text("- 1")
    assert "must hold settings by name" in run("fit", "-c", "list.yaml", code=1)
    assert "nearer init" in run("fit", "-c", "none.yaml", code=1)
    assert "must not exist yet" in run("init", "run.yaml", code=1)


def test_refusals_leave_nothing_behind(here):
    before = sorted(os.listdir())
    assert "must be a column of the table" in run("fit", "wine.csv", "-l", "clas", code=1)
    assert "`DATA` must be given" in run("fit", code=1)
    assert "none.csv" in run("fit", "none.csv", "-l", "class", code=1)
    Path("empty.csv").write_text("a,class\n1,\n2,\n3,\n")
    assert "labels for some rows, got none" in run("fit", "empty.csv", "-l", "class", code=1)
    Path("one.csv").write_text("a,class\n" + "".join(f"{number},x\n" for number in range(9)))
    assert "at least two classes, got one on all 9" in run("fit", "one.csv", "-l", "class", code=1)
    Path("words.csv").write_text("a,b,class\n1,red,x\n2,blue,y\n")
    assert "b" in run("fit", "words.csv", "-l", "class", code=1)
    assert "Did you mean 'lmnn'?" in run("fit", "wine.csv", "-l", "class", "--method", "lmn", code=1)
    Path("full").mkdir()
    Path("full/mine.txt").write_text("keep")
    assert "must be free or an empty folder" in run("fit", "wine.csv", "-l", "class", "-o", "full", code=1)
    assert Path("full/mine.txt").read_text() == "keep"
    assert "must be a folder that nearer wrote" in run("embed", "wine.csv", "-m", "none", "-o", "x.npy", code=1)
    assert CliRunner().invoke(app, ["fit", "--epochs", "many"]).exit_code == 2
    after = set(os.listdir()) - {"empty.csv", "one.csv", "words.csv", "full"}
    assert sorted(after) == before


def test_bad_queries(here):
    fit("--method", "rca", "--out", "all")
    assert "trained on all 178" in run("evaluate", "wine.csv", "-m", "all", code=1)
    fit("--method", "rca", "--out", "m", "--no-refit")
    assert "`QUERY` must be" in run("neighbors", "999", "-d", "wine.csv", "-m", "m", code=1)
    assert "QUERY must be a row number" in run("neighbors", "cat.png", "-d", "wine.csv", "-m", "m", code=1)
    assert "'--kind': 'tree' is not one of 'auto', 'exact'" in run(
        "index", "wine.csv", "-m", "m", "--kind", "tree", code=2
    )
    assert "must end in .npy, .csv, .parquet" in run("embed", "wine.csv", "-m", "m", "-o", "x.txt", code=1)
    assert "must end in .onnx" in run("export", "m", "-o", "x.bin", code=1)
    assert "Left out: 142 rows that the model was trained on" in run("evaluate", "wine.csv", "-m", "m")


def test_a_folder_of_images_with_a_damaged_one(here):
    pytest.importorskip("PIL")
    from PIL import Image

    digits = load("digits").all
    for number, (image, label) in enumerate(zip(digits.images()[:60, 0], digits.y[:60], strict=True)):
        place = Path("photos") / f"digit {label}"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray((image * 255 / image.max()).astype(np.uint8)).resize((28, 28)).save(place / f"{number}.png")
    (Path("photos") / "digit 0" / "broken.png").write_bytes(b"not an image")
    assert "broken.png" in run("fit", "photos", code=1)
    words = ["fit", "photos", "--unreadable", "skip", "--epochs", "1", "--batch-size", "20", "--no-pictures"]
    words += ["--encoder", "none"]  # one may be installed
    told = json.loads(run(*words, "--json", "-q"))
    assert told["skipped"] == ["digit 0/broken.png"]
    assert "images in folders by class" in told["rule"]
    Path("photos/digit 0/broken.png").unlink()
    text = run("neighbors", "photos/digit 1/1.png", "-d", "photos", "-m", "model", "-k", "2", "--json")
    (near,) = json.loads(text)["results"]
    assert near[0]["file"] == "digit 1/1.png"


def test_several_label_columns_and_auto(here):
    rows = [(i % 5, i % 3, int(i % 2 == 0), int(i % 3 == 0)) for i in range(60)]
    Path("songs.csv").write_text("a,b,calm,happy\n" + "".join(f"{a},{b},{c},{d}\n" for a, b, c, d in rows))
    words = ["fit", "songs.csv", "-l", "calm", "-l", "happy", "--no-pictures", "--json", "-q"]
    told = json.loads(run(*words))
    assert "several 0/1 label columns" in told["rule"]
    told = fit("--method", "auto", "--time", "5", "--epochs", "2", "--out", "a")
    assert told["trials"][0]["method"] == "euclidean"


def test_methods_and_recipes_are_listed(here):
    listed = json.loads(run("methods", "--json"))["methods"]
    assert "nearer.estimators.LRML" in run("methods", "lrml")
    assert "[" in run("methods", "TripletLoss"), "formulas keep their brackets"
    assert "Did you mean 'lmnn'" in run("methods", "lmn", code=1)
    assert {"name", "needs", "cost", "about", "class"} == set(listed[0])
    assert "lmnn" in run("methods")
    names = [recipe["name"] for recipe in json.loads(run("reproduce", "--json"))["recipes"]]
    assert "asymmetric" in names
    assert "Did you mean 'asymmetric'?" in run("reproduce", "asymetric", code=1)


def test_interrupted_and_resumed(here, monkeypatch):
    """Ctrl-C in the middle of a network's training, then --resume: the same weights as without."""
    words = ["fit", "wine.csv", "-l", "class", "--method", "raw-vthm", "--no-pictures", "-q"]
    words += ["--epochs", "12", "--patience", "99"]
    run(*words, "--out", "whole")

    class Pressed(learning.CSVLog):
        def __call__(self, moment):
            super().__call__(moment)
            if moment.kind == "epoch" and moment.epoch == 5:
                os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(learning, "CSVLog", Pressed)
            told = run(*words, "--out", "cut", code=130)
    finally:
        signal.signal(signal.SIGINT, before)
    assert "nearer: interrupted. stopped after step 5 of 12. The last checkpoint is" in told
    assert not Path("cut").exists()
    assert "Add --resume to go on" in run(*words, "--out", "cut", code=1)
    run(*words, "--out", "cut", "--resume")
    a, b = nearer.load("whole"), nearer.load("cut")
    for name, tensor in a.encoder.state_dict().items():
        assert tensor.equal(b.encoder.state_dict()[name])
    assert not Path("cut.training").exists()
    assert len(Path("cut/log.csv").read_text().splitlines()) == 13, "every epoch once, and the head"


def test_the_name_of_the_model_must_be_one(here):
    for out in ("", "/", "."):
        assert "`--out` must be" in run("fit", "wine.csv", "-l", "class", "--out", out, code=1)


def test_configs_that_are_no_text_are_one_line(here):
    Path("bytes.yaml").write_bytes(b"data: \xff\xfe")
    assert "must be text in UTF-8" in run("fit", "-c", "bytes.yaml", code=1)
    Path("deep.json").write_text("[" * 10_000)
    assert "must keep to 100 levels" in run("fit", "-c", "deep.json", code=1)


def test_a_model_does_not_say_where_its_maker_keeps_files(here):
    place = here / "away" / "m"
    words = ["fit", str(here / "wine.csv"), "-l", "class", "--method", "rca", "--no-pictures", "-q", "--json"]
    told = json.loads(run(*words, "--out", str(place)))
    assert str(here) in told["command"], "what is printed can be typed again"
    assert nearer.load(place).command == "nearer fit wine.csv --label class --out m --method rca --no-pictures"
    for file in place.iterdir():
        assert str(here) not in file.read_text(errors="replace"), file.name


def test_a_miner_by_its_name_and_what_is_refused_is_not_in_the_way(here, monkeypatch):
    seen = []
    plain = networks.named_loss
    monkeypatch.setattr(networks, "named_loss", lambda *given: seen.append(plain(*given)) or seen[-1])
    words = ["fit", "wine.csv", "-l", "class", "--epochs", "1", "-o", "net", "-q", "--loss"]
    for refused, told in (
        (["RAWLoss", "--set", "miner=VTMH"], "Did you mean 'VTHM'?"),
        (["RAWLoss", "--set", "miner=VTHM", "--set", "miner.margn=1"], "Did you mean 'margin'?"),
        (["RAWLoss", "--set", "miner.margin=1"], "must come with `miner`"),
        (["JRSLoss"], "JRSLoss is one of layers. JRDLoss takes it beside AMSoftmax"),
        (["HDCLoss"], "must be one of"),
    ):
        assert told in " ".join(run(*words, *refused, code=1).split())
    run(*words, "RAWLoss", "--set", "miner=VTHM", "--set", "miner.margin=0.2")
    assert seen[-1].miner.margin == 0.2
    # Checkpoints of a run that was stopped are another matter.
    Path("other.training/checkpoints/step-00000003").mkdir(parents=True)
    words[words.index("net")] = "other"
    assert "holds a run that did not end" in run(*words, "RAWLoss", code=1)
    assert Path("other.training/checkpoints/step-00000003").is_dir()
