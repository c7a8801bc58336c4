"""Files of every kind, damaged, forged and random: what is in them, or an error of ours, and nothing else."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from typer.main import get_command
from typer.testing import CliRunner

import nearer
from nearer._storage import _folder
from nearer.app.cli import app
from nearer.app.cli._config import read_config
from nearer.datasets import load_files
from nearer.datasets._image_files import load_image
from nearer.geometry import Mahalanobis
from nearer.geometry import load as load_geometry
from nearer.index import Index
from nearer.models import Model
from nearer.models._inputs import Inputs
from nearer.training import Checkpoints
from nearer_papers.data._idx import read_idx
from nearer_papers.data._matlab import read_mat
from random_cases import family, outcome

ROWS = np.random.default_rng(0).standard_normal((12, 3))


def saved(write: Callable[[Any], object]) -> bytes:
    buffer = io.BytesIO()
    write(buffer)
    return buffer.getvalue()


def parquet() -> bytes:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet as pq

    table = pa.table({"a": ROWS[:, 0], "b": [[1.0, 2.0]] * 12, "class": ["x", "y", None] * 4})
    return saved(lambda buffer: pq.write_table(table, buffer))


def image(kind: str) -> bytes:
    from PIL import Image

    return saved(lambda buffer: Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8)).save(buffer, kind))


def matlab() -> bytes:
    from scipy.io import savemat

    cells = np.array(["a", ROWS], dtype=object)
    return saved(lambda buffer: savemat(buffer, {"x": ROWS, "s": {"f": 1.0}, "c": cells}, do_compression=True))


def table(path: Path) -> Any:
    return load_files(path, label="class" if path.suffix in (".csv", ".parquet") else None)


# Suffix -> a file that is right, and what reads it.
FILES: dict[str, tuple[Callable[[], bytes], Callable[[Path], Any]]] = {
    ".csv": (lambda: b"a,b,class\n1,2,x\n3,4,y\n-1e5,nan,\n", table),
    ".tsv": (lambda: b"1\t2\n3\t4\n", table),
    ".txt": (lambda: "ä;b\n1;2\n".encode(), table),
    ".npy": (lambda: saved(lambda buffer: np.save(buffer, ROWS)), table),
    ".npz": (lambda: saved(lambda buffer: np.savez_compressed(buffer, x=ROWS, y=np.arange(12))), table),
    ".parquet": (parquet, table),
    ".mat": (matlab, lambda path: read_mat(path, ["x", "s", "c"])),
    ".gz": (lambda: gzip.compress(b"\0\0\x08\x02\0\0\0\x02\0\0\0\x03abcdef", mtime=0), read_idx),
    ".png": (lambda: image("PNG"), load_image),
    ".jpg": (lambda: image("JPEG"), load_image),
    ".gif": (lambda: image("GIF"), load_image),
    ".tiff": (lambda: image("TIFF"), load_image),
    ".bmp": (lambda: image("BMP"), load_image),
    ".json": (lambda: b'{"data": "a.csv", "epochs": 3, "hidden": [4, 5]}', read_config),
    ".yaml": (lambda: b"data: a.csv\nepochs: 3\nhidden: [4, 5]\n", read_config),
}
PIECES = [b"", b"\0", b"\xff" * 8, b"9" * 5000, b"[" * 300, b'"', b",", b"\n", b"{", b"-", b"nan", b"\xed\xa0\x80"]
PIECES += [b"1e999", b"*a", b"&a ", b"\x80\x03c", b"$", b"\x7f\xff\xff\xff", bytes(7) + b"\x01"]


@st.composite
def damaged(draw: st.DrawFn, right: bytes) -> bytes:
    """A right file with a few changes, or rubbish."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=300))
    data = bytearray(right)
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, max(0, len(data) - 1)))
        change = draw(st.sampled_from(["flip", "cut", "insert", "repeat", "set"]))
        if change == "flip" and data:
            data[place] ^= 1 << draw(st.integers(0, 7))
        elif change == "set" and data:
            data[place] = draw(st.sampled_from([0, 1, 127, 128, 255]))
        elif change == "cut":
            del data[place:]
        elif change == "insert":
            data[place:place] = draw(st.sampled_from(PIECES))
        else:
            data[place:place] = data[place : place + draw(st.integers(0, 40))]
    return bytes(data)


@family("readers")
@given(st.data())
def test_readers(data: st.DataObject) -> None:
    suffix = data.draw(st.sampled_from(sorted(FILES)))
    right, read = FILES[suffix]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"file{suffix}"
        path.write_bytes(data.draw(damaged(right())))
        outcome("readers", lambda: read(path))


def models(place: Path) -> None:
    encoder = Mahalanobis.from_factor(ROWS.astype(np.float32)[:3])
    Model(encoder, Inputs("features", ("a", "b", "c"), (3,)), method="m", classes=("x",)).save(place)


def older_indexes(name: str) -> Callable[[Path], None]:
    """An index as it was written before it was a database; such folders are still read."""
    return lambda place: shutil.copytree(Path(__file__).parents[1] / "compatibility" / "0.1.0" / name, place)  # type: ignore[return-value]


def searched(path: Path) -> Any:
    index = Index.load(path)
    repr(index)
    return index.search(np.ones((2, index.dimension)), k=3, where=None)


def embedded(path: Path) -> Any:
    model = nearer.load(path)
    return model.transform(np.ones((2, *model.inputs.size), np.float32))


def checkpoints(place: Path) -> None:
    Checkpoints(place).save(1, {"weight": torch.ones(3), "pair": (1, 2.5), "inner": {3: [None, float("inf")]}})


FOLDERS: dict[str, tuple[Callable[[Path], None], Callable[[Path], Any], str]] = {
    "model": (models, embedded, ""),
    "geometry": (lambda place: Mahalanobis.from_factor([[1.0], [2.0]]).save(place), load_geometry, ""),
    "exact": (older_indexes("exact"), searched, ""),
    "hnsw": (older_indexes("hnsw"), searched, ""),
    "ivf": (older_indexes("ivf"), searched, ""),
    "checkpoint": (checkpoints, lambda path: Checkpoints(path).load(), "step-00000001"),
}
VALUES = [None, True, False, 0, -1, 1, 2**31, 2**63, 10**10, 10**400, 1.5, "", "x", "\ud800", [], {}, [1], {"a": 1},
          [[1, 2], [3]], {"$tuple": 3}, {"$tensor": [1]}, {"$pairs": [1]}, {"$float": "x"}]  # fmt: skip


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    around = tmp_path_factory.mktemp("originals")
    for name, (save, _, _) in FOLDERS.items():
        save(around / name)
    return around


def forge(data: st.DataObject, value: Any) -> Any:
    """The same JSON with one value somewhere inside replaced, dropped or doubled."""
    if isinstance(value, dict) and value and data.draw(st.integers(0, 4)):
        key = data.draw(st.sampled_from(sorted(value)))
        if data.draw(st.integers(0, 5)) == 0:
            return {name: one for name, one in value.items() if name != key}
        return {**value, key: forge(data, value[key])}
    if isinstance(value, list) and value and data.draw(st.integers(0, 4)):
        place = data.draw(st.integers(0, len(value) - 1))
        if data.draw(st.integers(0, 5)) == 0:
            return value[:place] + value[place + 1 :]
        return [*value[:place], forge(data, value[place]), *value[place + 1 :]]
    return data.draw(st.sampled_from(VALUES))


@family("folders")
@given(data=st.data())
def test_forged_folders_with_a_right_seal(originals: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(FOLDERS)))
    _, read, inside = FOLDERS[name]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(shutil.copytree(originals / name, Path(folder) / "copy"))
        target = place / inside if inside else place
        manifest = json.loads((target / "manifest.json").read_bytes())
        for _ in range(data.draw(st.integers(1, 3))):
            file = data.draw(st.sampled_from(["metadata", *sorted(manifest["files"])]))
            if file == "metadata":
                manifest["metadata"] = forge(data, manifest["metadata"])
                continue
            content = (target / file).read_bytes()
            if file.endswith(".json"):
                content = json.dumps(forge(data, json.loads(content))).encode()
            else:
                content = data.draw(damaged(content))
            (target / file).write_bytes(content)
            manifest["files"][file] = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
        manifest.pop("sha256", None)
        manifest["sha256"] = _folder.seal_of(manifest)
        (target / "manifest.json").write_text(json.dumps(manifest))
        outcome("folders", lambda: read(place))


WORDS = ["", "-", "--help", "--json", "-q", "--label", "class", "--out", "--out=", "-m", "model", "-k", "3", "-1"]
WORDS += ["0", "--seed", "1e9", "nowhere.csv", "t.csv", "t.npy", "rubbish.csv", "--config", "bad.yaml", "bad.json"]
WORDS += ["bytes.yaml", "\0", "ä", "--kind", "hnsw", ".", "/", "--epochs", "--method", "rca", "e.npy", "e.csv", "i"]
WORDS += ["--data", "--quick", "x.onnx", "--time", "nan", "--components", "99", "--held-out", "2", "--split"]
# Minutes of work, not of reading input.
LONG_COMMANDS = {"demo", "reproduce", "doctor"}


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    around = tmp_path_factory.mktemp("work")
    (around / "t.csv").write_text("a,b,c,class\n" + "".join(f"{i % 5},{i % 3},{i},{i % 2}\n" for i in range(12)))
    np.save(around / "t.npy", ROWS)
    (around / "rubbish.csv").write_bytes(bytes(range(256)))
    (around / "bad.yaml").write_text("a: &x [*x, *x]\n" + "[" * 500)
    (around / "bad.json").write_text("[" * 5000 + "9" * 5000)
    (around / "bytes.yaml").write_bytes(b"data: \xff\xfe")
    models(around / "model")
    return around


@family("commands")
@given(data=st.data())
def test_commands(workplace: Path, data: st.DataObject) -> None:
    names = sorted(set(get_command(app).commands) - LONG_COMMANDS)  # type: ignore[attr-defined]
    words = [data.draw(st.sampled_from(names)), *data.draw(st.lists(st.sampled_from(WORDS), max_size=6))]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        shutil.copytree(workplace, folder, dirs_exist_ok=True)
        patch.chdir(folder)
        patch.setattr("uvicorn.Server.run", lambda *_: None)  # what would serve until it is stopped, stops
        # `/` is a folder of images to a reader, and a long way to walk.
        words = [word for word in words if word != "/" or "fit" not in words]
        outcome("commands", lambda: _run(words))


def _run(words: list[str]) -> int:
    result = CliRunner().invoke(app, words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code in (0, 1, 2), words
    return result.exit_code
