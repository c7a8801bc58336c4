"""Embedding in parts gives what embedding at once gives, in constant memory, and a killed run goes on."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest

import nearer
from nearer.datasets._frame import CellForm, read_cells
from nearer.datasets._streams import open_stream
from nearer.exceptions import CorruptFileError, MissingDataError, NotFiniteError, ParameterError, ShapeError
from nearer.geometry import Mahalanobis
from nearer.index import open_index
from nearer.models import Model, _sinks, embed_stream
from nearer.models._inputs import Inputs
from saved_versions import fork, wait

pa = pytest.importorskip("pyarrow", reason="needs the extra `tables`")
import pandas as pd  # noqa: E402
from pyarrow import parquet  # noqa: E402

ROWS = np.random.default_rng(0).normal(size=(1000, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def numbers() -> Model:
    factor = np.random.default_rng(1).normal(size=(3, 2))
    return Model(Mahalanobis.from_factor(factor), Inputs("features", size=(3,)), "by hand")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A table with everything that people write into tables, and a model of it."""
    chance = np.random.default_rng(2)
    n = 400
    frame = pd.DataFrame(
        {
            "name": [f"row {row}" for row in range(n)],
            "age": np.where(chance.random(n) < 0.1, "", chance.integers(20, 60, n).astype(str)),
            "salary": [f"{value:,}" for value in chance.integers(900, 90_000, n)],
            "town": chance.choice(["Ulm", "Bonn", "Kiel", ""], n),
            "member": chance.choice(["yes", "no"], n),
            # The first 200 days could be months: only a later row says which is which.
            "since": [
                f"{1 + row % 12 if row < 200 else 13 + row % 15:02d}/{1 + row % 12:02d}/2020" for row in range(n)
            ],
            "kind": chance.choice(["a", "b"], n),
        }
    )
    place = tmp_path_factory.mktemp("table")
    frame.to_csv(place / "all.csv", index=False)
    frame.to_parquet(place / "all.parquet")
    model = nearer.fit(place / "all.csv", "kind", method="lfda", id="name", keep=["town"])
    model.save(place / "model")
    return place, model, frame


@pytest.mark.parametrize("size", [1, 7, 100, 1000, 5000])
def test_numbers_in_parts_are_the_numbers_at_once(numbers: Model, tmp_path: Path, size: int) -> None:
    np.save(tmp_path / "x.npy", ROWS[: min(1000, 20 * size)])
    expected = numbers.transform(np.load(tmp_path / "x.npy"))
    done = embed_stream(numbers, tmp_path / "x.npy", tmp_path / "out.npy", batch_size=size)
    assert (done.rows, done.dimensions, done.earlier) == (len(expected), 2, 0)
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), expected, rtol=1e-6)
    assert not list(tmp_path.glob("*.partial"))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("size", [33, 400])
def test_a_table_in_parts_is_the_table_at_once(table, tmp_path: Path, ending: str, size: int) -> None:
    place, model, frame = table
    expected = model.transform(place / f"all.{ending}")
    embed_stream(model, place / f"all.{ending}", tmp_path / "out.parquet", batch_size=size)
    found = parquet.read_table(tmp_path / "out.parquet").to_pandas().fillna({"town": ""})
    np.testing.assert_allclose(np.stack(found["embedding"]), expected, rtol=1e-5)
    assert found["id"].tolist() == frame["name"].tolist()
    # An empty cell of a CSV is none; an empty text of Parquet is one.
    assert found["town"].tolist() == frame["town"].tolist()
    assert found["kind"].tolist() == frame["kind"].tolist()


def test_a_stream_that_begins_after_its_end_is_empty(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3,4\n")
    assert list(open_stream(tmp_path / "a.csv").parts(5, 10)) == []


def test_what_a_column_is_depends_on_all_of_its_cells() -> None:
    form = CellForm()
    form.look(["01/02/2024", "02/03/2024"])
    form.look(["13/01/2024"])
    assert form.read(["01/02/2024"]).values[0] == read_cells(["01/02/2024", "13/01/2024"]).values[0]
    assert form.read(["01/02/2024"]).values[0] != read_cells(["01/02/2024"]).values[0]
    german = CellForm(decimal_comma=True)
    german.look(["1.234", "7"])
    german.look(["2,5"])
    assert german.read(["1.234"]).values.tolist() == [1234.0]
    words = CellForm()
    words.look(["1", "2"])
    words.look(["three"])
    assert words.read(["1"]).kind == "word"


def test_csv_output_and_an_index(numbers: Model, tmp_path: Path, capsys) -> None:
    np.save(tmp_path / "x.npy", ROWS)
    embed_stream(numbers, tmp_path / "x.npy", tmp_path / "out.csv", batch_size=300, progress=True)
    assert "1000/1000" in capsys.readouterr().err
    found = np.loadtxt(tmp_path / "out.csv", delimiter=",", skiprows=1)
    np.testing.assert_allclose(found, numbers.transform(ROWS), rtol=1e-6)
    embed_stream(numbers, tmp_path / "x.npy", tmp_path / "index", batch_size=300)
    with open_index(tmp_path / "index", fingerprint=numbers.fingerprint) as index:
        assert index.ids == list(range(1000))
        np.testing.assert_allclose(index.embeddings(range(1000)), numbers.transform(ROWS), atol=1e-5)
    with pytest.raises(ParameterError, match="must be a new index"):
        embed_stream(numbers, tmp_path / "x.npy", tmp_path / "index", batch_size=300)
    with pytest.raises(ParameterError, match="must not exist yet"):
        embed_stream(numbers, tmp_path / "x.npy", tmp_path / "out.csv")


def test_the_arrays_of_an_npz_go_the_same_way(numbers: Model, tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", x=ROWS, y=np.arange(1000) % 3)
    assert embed_stream(numbers, tmp_path / "rows.npz", tmp_path / "rows.npy", batch_size=300).rows == 1000
    np.testing.assert_allclose(np.load(tmp_path / "rows.npy"), numbers.transform(ROWS), atol=1e-6)
    embed_stream(numbers, tmp_path / "rows.npz", tmp_path / "index", batch_size=300)
    with open_index(tmp_path / "index", read_only=True) as index:
        assert index.ids == list(range(1000))
        assert index.count({"label": "2"}) == 333
        np.testing.assert_allclose(index.embeddings([7]).numpy(), numbers.transform(ROWS[7:8]), atol=1e-6)


def test_folders_of_parquet_and_of_hugging_face(numbers: Model, tmp_path: Path) -> None:
    frame = pd.DataFrame(ROWS, columns=["a", "b", "c"])
    (tmp_path / "many").mkdir()
    frame[:600].to_parquet(tmp_path / "many" / "0.parquet", row_group_size=100)
    frame[600:].to_parquet(tmp_path / "many" / "1.parquet", row_group_size=64)
    expected = numbers.transform(ROWS)
    embed_stream(numbers, tmp_path / "many", tmp_path / "many.npy", batch_size=171)
    np.testing.assert_allclose(np.load(tmp_path / "many.npy"), expected, rtol=1e-6)
    stream = open_stream(tmp_path / "many")
    assert stream.rows == 1000
    for start in (0, 99, 100, 599, 600, 999, 1000):
        assert sum(len(part) for part in stream.parts(start, 50)) == 1000 - start
    # The layout that `datasets.Dataset.save_to_disk` writes.
    saved = tmp_path / "saved"
    saved.mkdir()
    lists = pa.table({"x": pa.FixedSizeListArray.from_arrays(pa.array(ROWS.reshape(-1)), 3)})
    for number, part in enumerate((lists.slice(0, 350), lists.slice(350))):
        with (
            pa.OSFile(str(saved / f"data-{number}.arrow"), "wb") as sink,
            pa.ipc.new_stream(sink, part.schema) as out,
        ):
            out.write_table(part, max_chunksize=90)
    (saved / "state.json").write_text(
        json.dumps({"_data_files": [{"filename": f"data-{n}.arrow"} for n in (0, 1)]})
    )
    embed_stream(numbers, saved, tmp_path / "saved.npy", batch_size=128)
    np.testing.assert_allclose(np.load(tmp_path / "saved.npy"), expected, rtol=1e-6)
    (tmp_path / "dict").mkdir()
    (tmp_path / "dict" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(ParameterError, match="holds the splits train, test"):
        open_stream(tmp_path / "dict")


def test_a_data_set_of_hugging_face_itself(numbers: Model, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="needs the package datasets")
    if not hasattr(datasets, "Dataset"):
        pytest.skip("needs the package datasets")
    data = datasets.Dataset.from_dict({name: ROWS[:, place].tolist() for place, name in enumerate("abc")})
    expected = numbers.transform(ROWS)
    embed_stream(numbers, data, tmp_path / "one.npy", batch_size=300)
    embed_stream(numbers, data.to_iterable_dataset(), tmp_path / "two.npy", batch_size=300)
    data.save_to_disk(tmp_path / "saved")
    embed_stream(numbers, tmp_path / "saved", tmp_path / "three.npy", batch_size=300)
    for name in ("one", "two", "three"):
        np.testing.assert_allclose(np.load(tmp_path / f"{name}.npy"), expected, rtol=1e-6)


def test_photos_in_parts(tmp_path: Path) -> None:
    from PIL import Image

    from nearer.geometry._encoders import ColorCNN

    for number in range(7):
        folder = tmp_path / "photos" / ("cats" if number % 2 else "dogs")
        folder.mkdir(parents=True, exist_ok=True)
        image = np.random.default_rng(number).integers(0, 255, (40, 50, 3), dtype=np.uint8)
        Image.fromarray(image).save(folder / f"{number}.png")
    model = Model(ColorCNN(), Inputs("images", size=(3, 32, 32)), "by hand")
    embed_stream(model, tmp_path / "photos", tmp_path / "out.parquet", batch_size=3)
    found = parquet.read_table(tmp_path / "out.parquet").to_pandas()
    np.testing.assert_allclose(
        np.stack(found["embedding"]), model.transform(tmp_path / "photos"), rtol=1e-4, atol=1e-5
    )
    assert found["label"].tolist() == ["cats"] * 3 + ["dogs"] * 4
    assert found["file"][0] == "cats/1.png"


@pytest.mark.parametrize(("out", "stop"), [("out.npy", 2), ("out.csv", 1), ("out.parquet", 3), ("index", 3)])
def test_a_killed_run_goes_on_and_does_no_row_twice(table, tmp_path: Path, out: str, stop: int) -> None:
    place, model, frame = table
    count = 0

    def killed() -> None:
        save, left = _sinks.Journey.save, [stop]

        def stopping(self, rows, mark) -> None:
            left[0] -= 1
            # Odd ones die between the rows and the note of them.
            if left[0] == 0 and stop % 2:
                os.kill(os.getpid(), signal.SIGKILL)
            save(self, rows, mark)
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        _sinks.Journey.save = stopping
        embed_stream(model, place / "all.csv", tmp_path / out, batch_size=60)

    assert wait(fork(killed)) == -signal.SIGKILL
    assert not (tmp_path / out).is_file()
    note = tmp_path / f"{out}.partial" / "progress.json"
    count = json.loads(note.read_text())["rows"] if note.exists() else 0
    assert count == 60 * (stop - stop % 2)
    if count:
        with pytest.raises(ParameterError, match="interrupted, with other settings"):
            embed_stream(model, place / "all.csv", tmp_path / out, batch_size=61)
    done = embed_stream(model, place / "all.csv", tmp_path / out, batch_size=60)
    assert (done.rows, done.earlier) == (400, count)
    expected = model.transform(place / "all.csv")
    if out == "index":
        with open_index(tmp_path / out, fingerprint=model.fingerprint) as index:
            assert index.ids == frame["name"].tolist()
            np.testing.assert_allclose(index.embeddings(index.ids), expected, atol=1e-4)
        return
    if out.endswith("npy"):
        rows = np.load(tmp_path / out)
    elif out.endswith("csv"):
        rows = np.loadtxt(tmp_path / out, delimiter=",", skiprows=1)
    else:
        rows = np.stack(parquet.read_table(tmp_path / out).to_pandas()["embedding"])
    np.testing.assert_allclose(rows, expected, rtol=1e-4, atol=1e-5)


def test_bad_input(numbers: Model, tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="no such one"):
        open_stream(tmp_path / "none.csv")
    with pytest.raises(ShapeError, match="photos or Parquet files, and has none"):
        open_stream(tmp_path)
    with pytest.raises(ParameterError, match="must be a path or a Hugging Face data set"):
        open_stream(3)
    (tmp_path / "x.npz").write_bytes(b"")
    with pytest.raises(ParameterError, match="to be read in parts"):
        open_stream(tmp_path / "x.npz")
    (tmp_path / "bad.npy").write_bytes(b"not numpy")
    with pytest.raises(CorruptFileError, match=r"must be an \.npy file"):
        open_stream(tmp_path / "bad.npy")
    np.save(tmp_path / "flat.npy", np.zeros(3))
    with pytest.raises(ShapeError, match="must hold rows of numbers"):
        open_stream(tmp_path / "flat.npy")
    np.save(tmp_path / "short.npy", ROWS)
    os.truncate(tmp_path / "short.npy", 500)
    with pytest.raises(CorruptFileError, match="and is shorter"):
        open_stream(tmp_path / "short.npy")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(CorruptFileError, match="must be a Parquet file"):
        open_stream(tmp_path / "bad.parquet")
    (tmp_path / "wide.csv").write_text("a,b\n1,2\n1,2,3\n")
    with pytest.raises(CorruptFileError, match="got 3 on line 3"):
        open_stream(tmp_path / "wide.csv")
    holes = ROWS.copy()
    holes[700, 1] = np.nan
    np.save(tmp_path / "holes.npy", holes)
    with pytest.raises(NotFiniteError, match="In the rows from 600 on"):
        embed_stream(numbers, tmp_path / "holes.npy", tmp_path / "o.npy", batch_size=300)
    np.save(tmp_path / "other.npy", ROWS)
    with pytest.raises(ParameterError, match="interrupted, with other data"):
        embed_stream(numbers, tmp_path / "other.npy", tmp_path / "o.npy", batch_size=300)


@pytest.mark.filterwarnings("ignore")  # Ray warns about itself
def test_with_ray(table, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="needs Ray Data: pip install 'nearer[ray]'")
    from nearer.models._bulk_ray import embed_with_ray

    place, model, frame = table
    frame.to_parquet(tmp_path / "data.parquet")
    done = embed_with_ray(
        place / "model", tmp_path / "data.parquet", tmp_path / "out", address="local", batch_size=90
    )
    assert (done.rows, done.dimensions) == (400, model.transform(place / "all.csv").shape[1])
    found = parquet.read_table(tmp_path / "out").to_pandas().set_index("id").loc[frame["name"]]
    np.testing.assert_allclose(np.stack(found["embedding"]), model.transform(place / "all.csv"), rtol=1e-4)
    done = embed_with_ray(place / "model", tmp_path / "data.parquet", f"{tmp_path}/index/", address="local")
    with open_index(tmp_path / "index", fingerprint=model.fingerprint) as index:
        assert sorted(index.ids) == sorted(frame["name"])
