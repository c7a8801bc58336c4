"""Another encoder behind an index that stays: the same ids, order and metadata, a way back, and a true verdict."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engines import ENGINES
from typer.testing import CliRunner

import nearer
from nearer.app.cli import app
from nearer.exceptions import LockedError, MissingDataError, ParameterError, ShapeError
from nearer.geometry import Chain, Mahalanobis, UnitLength
from nearer.index import _copy, copy_index, open_index, switch_index
from nearer.models import Model, _migrating
from nearer.models._inputs import Inputs

N, CLASSES = 240, 12
RANDOM = np.random.default_rng(0)
CODES = np.arange(N) % CLASSES
# Six columns that tell the classes apart, and six of noise that the old encoder cannot see past.
ITEMS = np.c_[
    RANDOM.normal(size=(CLASSES, 6))[CODES] + 0.25 * RANDOM.normal(size=(N, 6)), 0.9 * RANDOM.normal(size=(N, 6))
].astype(np.float32)
IDS = [f"ä{number}" for number in range(N)]


def encoder(signal: float, noise: float, seed: int, width: int = 10) -> Model:
    weights = np.r_[np.full(6, signal), np.full(6, noise)][:, None]
    factor = weights * np.random.default_rng(seed).normal(size=(12, width))
    return Model(Chain(Mahalanobis.from_factor(factor), UnitLength()), Inputs("features", size=(12,)), "by hand")


@pytest.fixture
def old() -> Model:
    return encoder(1.0, 1.0, 1)


@pytest.fixture
def new(tmp_path: Path) -> Model:
    model = encoder(1.0, 0.15, 2, width=14)
    model.save(tmp_path / "new-model")
    return model


def filled(index: Any, model: Model) -> None:
    index.add(model.transform(ITEMS), IDS, [{"number": number} for number in range(N)])


# An index in memory has no address.
@pytest.mark.parametrize("engine", [engine for engine in ENGINES if engine != "memory"])
def test_every_engine_is_moved_and_can_go_back(
    start: Callable[..., Any], engine: str, tmp_path: Path, old: Model, new: Model
) -> None:
    with start(10, fingerprint=old.fingerprint) as index:
        filled(index, old)
    where = start.where  # type: ignore[attr-defined]
    sample = np.arange(0, N, 2)
    migration = new.align(where, (ITEMS[sample], CODES[sample]), ids=[IDS[one] for one in sample])
    assert migration.pairs == len(sample)
    assert set(migration.recall) == {"old", "moved", "embedded again"}
    aside = migration.apply()
    moved = aside if engine == "milvus" else where
    with open_index(moved, fingerprint=new.fingerprint) as index:
        assert index.ids == IDS
        assert index.metadata(IDS[:2]) == [{"number": 0}, {"number": 1}]
        want = migration.alignment.transform(old.transform(ITEMS))
        np.testing.assert_allclose(index.embeddings(IDS).numpy(), want, atol=1e-5)
        # New queries find their own items among the moved ones far more often than by chance.
        found = index.search(new.transform(ITEMS), k=5).ids
        assert np.mean([one in near for one, near in zip(IDS, found, strict=True)]) > 0.5
    if engine == "milvus":
        return
    with pytest.raises(ParameterError, match="already"):
        new.align(where, ITEMS, ids=IDS)
    switch_index(where, aside)
    with open_index(where, fingerprint=old.fingerprint) as index:
        np.testing.assert_allclose(index.embeddings(IDS).numpy(), old.transform(ITEMS), atol=1e-6)


@pytest.fixture
def folder(tmp_path: Path, old: Model) -> Path:
    with open_index(tmp_path / "index", dimension=10, fingerprint=old.fingerprint) as index:
        filled(index, old)
    return tmp_path / "index"


def test_the_verdict_says_which_way_is_better(folder: Path, new: Model) -> None:
    better = new.align(folder, (ITEMS, CODES), ids=IDS)
    old_recall, moved, again = (better.recall[name][0] for name in ("old", "moved", "embedded again"))
    assert again > old_recall + 0.1
    assert better.share == pytest.approx((moved - old_recall) / (again - old_recall))
    assert ("Move the index" if better.share >= 0.7 else "Embed again") in better.verdict
    assert f"keeps {better.alignment.kept_:.1%}" in better.verdict
    unlabeled = new.align(folder, ITEMS, ids=IDS)
    assert unlabeled.recall == {}
    assert np.isnan(unlabeled.share)
    assert "Without labels nothing says whether the new encoder is better" in unlabeled.verdict
    worse = encoder(1.0, 3.0, 3).align(folder, (ITEMS, CODES), ids=IDS)
    assert "Keep the old encoder" in worse.verdict


def test_an_index_that_is_moved_takes_no_items_meanwhile_and_leaves_no_copy_when_it_cannot(
    folder: Path, new: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    migration = new.align(folder, ITEMS, ids=IDS)
    with open_index(folder) as writer:
        with pytest.raises(LockedError, match="must be open for writing once"):
            migration.apply()
        writer.add(np.zeros((1, 10)), ["late"])
    assert not (folder.parent / "index.moved").exists()

    def refused(_first: Path, _second: Path) -> None:
        with pytest.raises(LockedError):
            open_index(folder)
        raise LockedError("It is being read.")

    with monkeypatch.context() as patch:
        patch.setattr(_copy, "_exchange", refused)
        with pytest.raises(LockedError, match="being read"):
            migration.apply()
    assert not (folder.parent / "index.moved").exists()
    migration.apply()
    with open_index(folder, read_only=True) as index:
        assert index.ids == [*IDS, "late"]
        assert index.fingerprint == new.fingerprint


def crowded() -> Model:
    """An encoder that knows the classes, and one thing more that hides them."""
    factor = np.eye(12)
    factor[6:] *= 0.05
    factor[6] = 6 * np.ones(12)
    return Model(Chain(Mahalanobis.from_factor(factor), UnitLength()), Inputs("features", size=(12,)), "by hand")


def test_an_index_moves_into_the_whitened_space_where_labels_show_that_it_helps(
    folder: Path, tmp_path: Path
) -> None:
    new = crowded()
    assert not new.align(folder, ITEMS, ids=IDS).whitened
    migration = new.align(folder, (ITEMS, CODES), ids=IDS)
    assert migration.whitened
    assert "whitened space" in migration.verdict
    want = migration.alignment.transform_target(new.transform(ITEMS))
    np.testing.assert_allclose(migration.model.transform(ITEMS), want, atol=1e-5)
    assert migration.model.parameters == {"whitened": N}
    assert migration.model.seen(ITEMS).all()
    migration.model.save(tmp_path / "asks")
    migration.apply()
    again = nearer.load(tmp_path / "asks")
    with open_index(folder, fingerprint=again.fingerprint) as index:
        found = index.search(again.transform(ITEMS), k=2).ids
    other = [near[0] if near[0] != one else near[1] for one, near in zip(IDS, found, strict=True)]
    right = np.mean([CODES[IDS.index(one)] for one in other] == CODES)
    assert right > migration.recall["old"][0]
    assert right == pytest.approx(migration.recall["moved"][0], abs=0.1)


def test_the_command_asks_where_the_model_of_a_whitened_index_is_saved(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["id,topic," + ",".join(f"c{number}" for number in range(12))]
    lines += [",".join([one, f"t{code}", *map(str, row)]) for one, code, row in zip(IDS, CODES, ITEMS, strict=True)]
    (tmp_path / "sample.csv").write_text("\n".join(lines) + "\n")
    model = nearer.fit(tmp_path / "sample.csv", "topic", id="id", method="rca")
    model = replace(model, encoder=crowded().encoder, votes=None, fitted=None)
    model.save(tmp_path / "model")
    words = ["migrate", str(folder), str(tmp_path / "sample.csv"), "--model", str(tmp_path / "model")]
    words += ["--label", "topic", "--apply"]
    with monkeypatch.context() as patch:
        patch.setattr(_migrating, "aligned", None)  # nothing is learned before the option is missed
        refused = CliRunner().invoke(app, words)
    assert refused.exit_code == 1
    assert "`--out` must say where" in " ".join(refused.output.split())
    assert not (tmp_path / "index.moved").exists()
    with open_index(folder):
        locked = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "asks")])
    assert locked.exit_code == 1
    assert "must be open for writing once" in " ".join(locked.output.split())
    assert not (tmp_path / "asks").exists()
    done = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "asks"), "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["whitened"], told["out"]) == (True, str(tmp_path / "asks"))
    with open_index(folder, read_only=True) as index:
        assert index.fingerprint == nearer.load(tmp_path / "asks").fingerprint


def test_recall_of_moved_rows_is_that_of_rows_that_did_not_teach_the_map(folder: Path) -> None:
    """Random features of 200 columns: a map of all rows would fit each of them."""
    chance = np.random.default_rng(5)
    memory = chance.normal(size=(12, 200))
    noise = Model(Mahalanobis.from_factor(np.sin(37 * memory)), Inputs("features", size=(12,)), "by hand")
    labels = chance.permutation(CODES)
    migration = noise.align(folder, (ITEMS, labels), ids=IDS)
    assert migration.recall["moved"][0] < 0.25


def test_what_cannot_be_moved_is_said(folder: Path, new: Model, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"`ids` must say which of the 240 items of .* these 100 are"):
        new.align(folder, ITEMS[:100])
    with pytest.raises(MissingDataError, match=r"At least 50 of the items must be in .* found 49 of 100"):
        new.align(folder, ITEMS[:100], ids=[*IDS[:49], *(f"no{number}" for number in range(51))])
    with pytest.raises(ParameterError, match="`ids` must name the 100 items, got 2"):
        new.align(folder, ITEMS[:100], ids=IDS[:2])
    migration = new.align(folder, ITEMS, ids=IDS)
    (tmp_path / "taken").mkdir()
    with pytest.raises(ParameterError, match="`aside` must be free"):
        migration.apply(aside=tmp_path / "taken")
    with pytest.raises(ShapeError, match="`through` must give a row for each of 240"):
        copy_index(folder, tmp_path / "copy", through=lambda rows: rows[:3])
    assert not (tmp_path / "copy").exists()
    with pytest.raises(ParameterError, match="`through` must be given with `fingerprint`"):
        copy_index(folder, tmp_path / "copy", fingerprint="one")


def test_the_command_reports_moves_and_goes_back(folder: Path, new: Model, tmp_path: Path) -> None:
    lines = ["id,topic," + ",".join(f"c{number}" for number in range(12))]
    lines += [",".join([one, f"t{code}", *map(str, row)]) for one, code, row in zip(IDS, CODES, ITEMS, strict=True)]
    (tmp_path / "sample.csv").write_text("\n".join(lines) + "\n")
    model = nearer.fit(tmp_path / "sample.csv", "topic", id="id", method="rca")
    model.save(tmp_path / "model")
    words = ["migrate", str(folder), str(tmp_path / "sample.csv"), "--model", str(tmp_path / "model")]

    def run(*more: str) -> dict[str, Any]:
        done = CliRunner().invoke(app, [*more, "--json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    told = run(*words, "--label", "topic")
    assert told["pairs"] == N
    assert told["aside"] is None
    assert open_index(folder, read_only=True).dimension == 10
    moved = run(*words, "--apply")
    assert moved["aside"] == f"{folder}.moved"
    with open_index(folder, read_only=True) as index:
        assert index.fingerprint == model.fingerprint
        assert index.made_by["path"] == "../model"
    assert CliRunner().invoke(app, ["search", str(folder), str(tmp_path / "sample.csv")]).exit_code == 0
    run("migrate", str(folder), "--back")
    assert open_index(folder, read_only=True).dimension == 10
    refused = CliRunner().invoke(app, ["migrate", str(folder)])
    assert refused.exit_code == 1
    assert "DATA and `--model` must be given" in refused.output
    refused = CliRunner().invoke(app, [*words, "--back"])
    assert "`--back` must come alone" in refused.output
