"""What a file asks for is compared with a stated limit before it gets it, in every reader."""

from __future__ import annotations

import bz2
import gzip
import http.server
import io
import json
import sqlite3
import struct
import tarfile
import threading
import time
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nearer
from nearer._limits import LIMITS, limit, parse_json
from nearer._storage import read_folder, write_folder
from nearer.app.cli._config import read_config
from nearer.datasets import load_files, load_image_folder
from nearer.datasets._image_files import load_image
from nearer.exceptions import CorruptFileError, LimitError, NearerError, NotFiniteError, ParameterError, ShapeError
from nearer.geometry import Mahalanobis
from nearer.index import Index
from nearer.models import Model
from nearer.models._inputs import Inputs
from nearer.models._reading import read_items
from nearer.training import Checkpoints
from nearer_papers.data._cifar10 import read_cifar10_archive
from nearer_papers.data._download import download_file
from nearer_papers.data._idx import read_idx
from nearer_papers.data._matlab import read_mat
from nearer_papers.data._omniglot import read_omniglot_archive
from nearer_papers.data._usps import read_libsvm

MEGABYTE = 1 << 20


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit of 8 MB, so that the bombs of these tests need not be large."""
    monkeypatch.setenv("NEARER_MAX_BYTES", str(8 * MEGABYTE))


def npz(path: Path) -> Path:
    np.savez_compressed(path, x=np.zeros((4 * MEGABYTE, 1)), y=np.zeros(4))
    return path


def parquet(path: Path) -> Path:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet as pq

    pq.write_table(pa.table({"a": np.zeros(4 * MEGABYTE), "class": np.zeros(4 * MEGABYTE, np.int8)}), path)
    return path


def mat(path: Path) -> Path:
    plain = struct.pack("<II", 14, 64 * MEGABYTE) + bytes(64 * MEGABYTE)
    packed = zlib.compress(plain, 9)
    path.write_bytes(b" " * 124 + b"\x00\x01IM" + struct.pack("<II", 15, len(packed)) + packed)
    return path


def tar(path: Path) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        member = tarfile.TarInfo("data_batch_1.bin")
        member.size = 64 * MEGABYTE
        archive.addfile(member, io.BytesIO(bytes(member.size)))
    return path


def zipped(path: Path) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("images_background/Greek/character01/0001_01.png", bytes(64 * MEGABYTE))
    return path


def packed(path: Path, pack: Callable[[bytes], bytes], head: bytes = b"") -> Path:
    path.write_bytes(pack(head + bytes(64 * MEGABYTE)))
    return path


def sparse(path: Path) -> Path:
    """An array of a terabyte that takes a few bytes on the disk."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (1 << 37, 1)})
    path.write_bytes(header.getvalue())
    with open(path, "r+b") as file:
        file.truncate(len(header.getvalue()) + (1 << 40))
    return path


def wide_label(path: Path) -> Path:
    path.write_text("a,class\n" + "1,x\n2,x\n" * 25_000 + "1," + "y" * 100_000 + "\n")
    return path


def long_list(path: Path) -> Path:
    """A million zeros in one row: a few hundred bytes that would become a million columns."""
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet as pq

    pq.write_table(pa.table({"a": pa.array([np.zeros(1 << 18)]), "class": ["x"]}), path)
    return path


BOMBS: dict[str, Callable[[Path], object]] = {
    "npz": lambda p: load_files(npz(p / "a.npz")),
    "npy": lambda p: load_files(sparse(p / "a.npy")),
    "parquet": lambda p: load_files(parquet(p / "a.parquet"), label="class"),
    "lists": lambda p: load_files(long_list(p / "a.parquet"), label="class"),
    "lists of a frame": lambda p: read_items(long_list(p / "a.parquet"), "class"),
    "mat": lambda p: read_mat(mat(p / "a.mat"), ["x"]),
    "idx": lambda p: read_idx(
        packed(p / "a.gz", gzip.compress, b"\0\0\x08\x01" + struct.pack(">I", 64 * MEGABYTE))
    ),
    "bz2": lambda p: read_libsvm(packed(p / "a.bz2", bz2.compress)),
    "tar": lambda p: read_cifar10_archive(tar(p / "a.tar.gz")),
    "zip": lambda p: read_omniglot_archive(zipped(p / "a.zip")),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_a_small_file_that_asks_for_much_is_refused(tmp_path: Path, kind: str) -> None:
    with pytest.raises(LimitError, match=r"must keep to 8,388,608 bytes in memory.*set NEARER_MAX_BYTES"):
        BOMBS[kind](tmp_path)


@pytest.mark.parametrize("kind", ["npz", "npy"])
def test_it_is_refused_before_it_is_allocated(tmp_path: Path, kind: str) -> None:
    make = {"npz": npz, "npy": sparse}[kind]
    path = make(tmp_path / f"a.{kind}")
    tracemalloc.start()
    with pytest.raises(LimitError):
        load_files(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * MEGABYTE


@pytest.mark.parametrize("read", [load_files, read_items])
def test_one_long_cell_takes_the_room_of_one(tmp_path: Path, read: Callable[..., Any]) -> None:
    path = wide_label(tmp_path / "a.csv")
    read(path, **({"label": "class"} if read is load_files else {"y": "class"}))
    tracemalloc.start()
    data = read(path, **({"label": "class"} if read is load_files else {"y": "class"}))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert data.n_classes == 2
    assert peak < 32 * MEGABYTE, "50,000 rows of 100,000 letters each would be 20 GB"


@pytest.mark.parametrize("read", [load_files, read_items])
def test_a_long_text_that_comes_often_is_one_text(tmp_path: Path, read: Callable[..., Any]) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet as pq

    words = pa.array(np.array(["x" * 4000, "y" * 4000])[np.arange(20_000) % 2])
    pq.write_table(pa.table({"a": np.arange(20_000.0) % 7, "class": words}), tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").stat().st_size < MEGABYTE / 4
    before = pa.default_memory_pool().max_memory()
    del words
    data = read(tmp_path / "a.parquet", **({"label": "class"} if read is load_files else {"y": "class"}))
    assert data.n_classes == 2
    assert pa.default_memory_pool().max_memory() == before, "no more than making it took: 80 MB of text"


@pytest.mark.parametrize("cell", ["inf", "-Infinity", "1e999"])
def test_infinity_is_named_with_its_column(tmp_path: Path, cell: str) -> None:
    (tmp_path / "a.csv").write_text(f"a,size,class\n1,2,x\n3,{cell},y\n5,6,x\n")
    with pytest.raises(NotFiniteError, match=r"The column 'size' must hold finite numbers, got -?inf in row 1 "):
        read_items(tmp_path / "a.csv", "class")
    with pytest.raises(NotFiniteError, match=r"the first in row 2 of column 'size'"):
        load_files(tmp_path / "a.csv", label="class")


def test_the_limit_is_raised_by_its_variable_and_never_met_by_large_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "large.npy", np.random.default_rng(0).random((2 * MEGABYTE, 1)))
    assert len(load_files(tmp_path / "large.npy").all) == 2 * MEGABYTE, "16 MB of data are 16 MB of file"
    path = npz(tmp_path / "a.npz")
    monkeypatch.setenv("NEARER_MAX_BYTES", str(64 * MEGABYTE))
    with pytest.raises(ShapeError, match="one label for each"):
        load_files(path)
    for wrong in ("many", "-1", "1e9"):
        monkeypatch.setenv("NEARER_MAX_BYTES", wrong)
        with pytest.raises(ParameterError, match=f"`NEARER_MAX_BYTES` must be a whole number .*, got '{wrong}'"):
            limit("NEARER_MAX_BYTES")
    monkeypatch.setenv("NEARER_MAX_BYTES", " ")
    assert limit("NEARER_MAX_BYTES") == LIMITS["NEARER_MAX_BYTES"][0]


def test_a_table_of_sixty_million_rows_in_half_a_megabyte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet as pq

    monkeypatch.delenv("NEARER_MAX_BYTES")
    with pq.ParquetWriter(tmp_path / "a.parquet", pa.schema([("a", pa.int8()), ("class", pa.string())])) as writer:
        part = pa.table({"a": np.zeros(10**7, np.int8), "class": pa.DictionaryArray.from_arrays(
            np.zeros(10**7, np.int32), pa.array(["x"])).cast(pa.string())})  # fmt: skip
        for _ in range(6):
            writer.write_table(part)
    assert (tmp_path / "a.parquet").stat().st_size < MEGABYTE
    start = time.monotonic()
    with pytest.raises(LimitError, match="got 1,920,000,000"):
        load_files(tmp_path / "a.parquet", label="class")
    assert time.monotonic() - start < 5


def test_repeated_label_text_of_a_parquet_is_read_once_and_right(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet as pq

    for values in (["b", None, "a", "b"], [2, None, 1, 2], [2.0, None, 1.0, 2.0], [True, None, False, True]):
        pq.write_table(pa.table({"x": [1.0, 2.0, 3.0, 4.0], "class": values}), tmp_path / "a.parquet")
        assert load_files(tmp_path / "a.parquet", label="class").all.y.tolist() == [1, -1, 0, 1]


def test_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image_module = pytest.importorskip("PIL.Image")
    image_module.new("L", (300, 300)).save(tmp_path / "a.png")
    monkeypatch.setenv("NEARER_MAX_PIXELS", "80000")
    with pytest.raises(
        LimitError, match=r"must keep to 80,000 pixels of an image, got 90,000\..*NEARER_MAX_PIXELS"
    ):
        load_image(tmp_path / "a.png")
    with pytest.raises(CorruptFileError, match="80,000 pixels"):
        load_image_folder(tmp_path)
    monkeypatch.delenv("NEARER_MAX_PIXELS")
    assert load_image(tmp_path / "a.png").shape == (300, 300, 3)
    (tmp_path / "a.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n")
    with pytest.raises(CorruptFileError, match="it is not an image"):
        load_image(tmp_path / "a.png")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 10_000 + "]" * 10_000, "100 levels of lists and dictionaries .*, got 10,000"),
        ('{"a":' * 101 + "1" + "}" * 101, "100 levels .*, got 101"),
        ("9" * 5000, "4,300 digits of a whole number"),
    ],
)
def test_json(text: str, message: str) -> None:
    with pytest.raises(LimitError, match=f"`a.json` must keep to {message}"):
        parse_json(text.encode(), "`a.json`")


def test_json_counts_only_what_it_nests_and_can_be_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse_json(json.dumps(["[" * 500, '"[' * 500, "\\"]).encode(), "a") == ["[" * 500, '"[' * 500, "\\"]
    assert parse_json(b"[" * 100 + b"]" * 100, "a") is not None
    assert parse_json(b'["' + b"9" * 5000 + b'"]', "a") == ["9" * 5000]
    with pytest.raises(ValueError, match="NaN is not a number of JSON"):
        parse_json(b"NaN", "a")
    monkeypatch.setenv("NEARER_MAX_DIGITS", "3")
    assert parse_json(b"-123", "a") == -123
    with pytest.raises(LimitError, match=r"3 digits .*, got 4\. If you trust it, set NEARER_MAX_DIGITS"):
        parse_json(b"1234", "a")
    monkeypatch.setenv("NEARER_MAX_TEXT", "3")
    with pytest.raises(LimitError, match="3 bytes of a JSON or YAML document, got 4"):
        parse_json(b"1234", "a")


@pytest.mark.parametrize(
    ("name", "content", "kind", "message"),
    [
        ("a.json", b"[" * 10_000, LimitError, "100 levels"),
        ("a.json", b'{"epochs": ' + b"9" * 5000 + b"}", LimitError, "4,300 digits"),
        ("a.json", b"\xff\xfe", ParameterError, "must be text in UTF-8"),
        ("a.json", b'{"epochs": NaN}', ParameterError, "must be JSON: NaN"),
        ("a.yaml", b"a: " + b"[" * 5000, LimitError, "100 levels"),
        ("a.yaml", b"epochs: " + b"9" * 5000, LimitError, "4,300 digits"),
        ("a.yaml", b"data: \xff\xfe", ParameterError, r"must be text in UTF-8: .* Save it again"),
        ("a.yaml", b"a: &x [1]\nb: *x\n", ParameterError, r"must not use aliases, got \*x"),
        ("a.yaml", b"a: \x07", ParameterError, "must be YAML"),
    ],
)
def test_configs(tmp_path: Path, name: str, content: bytes, kind: type[NearerError], message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(kind, match=message):
        read_config(tmp_path / name)


def test_downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            if self.path != "/silent":
                self.send_header("Content-Length", "9" * 5000 if self.path == "/digits" else str(1 << 50))
            self.end_headers()
            try:
                for _ in range(100):
                    self.wfile.write(bytes(MEGABYTE))
            except OSError:
                return

        def log_message(self, *_: object) -> None:
            return

    monkeypatch.setenv("NEARER_MAX_DOWNLOAD", str(3 * MEGABYTE))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endless) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for path in ("/long", "/silent", "/digits"):
            with pytest.raises(
                LimitError, match=r"must keep to 3,145,728 bytes of a download.*NEARER_MAX_DOWNLOAD"
            ):
                download_file(f"http://127.0.0.1:{server.server_port}{path}", tmp_path / "a", sha256="")
        server.shutdown()
    assert list(tmp_path.iterdir()) == []


def forged(place: Path, format: str, change: Callable[[dict], object]) -> Path:
    """The same folder with other metadata and a right seal."""
    folder = read_folder(place, format=format, version=1)
    change(folder.metadata)
    tensors, documents = folder.tensors, folder.documents
    return write_folder(
        place, format=format, version=1, tensors=tensors, documents=documents, metadata=folder.metadata
    )


def test_a_forged_index_gets_no_memory_for_its_dimension(tmp_path: Path) -> None:
    index = Index(3)
    place = index.save(tmp_path / "i")
    with sqlite3.connect(place / "index.sqlite") as connection:
        connection.execute("UPDATE about SET value = '10000000000' WHERE name = 'dimension'")
    connection.close()
    with pytest.raises(NearerError, match="`dimension` must be between 1 and"):
        Index.load(place)


@pytest.mark.parametrize(
    "change",
    [
        lambda about: about.update(classes=3),
        lambda about: about.update(parameters=[1]),
        lambda about: about["inputs"].update(kind="sounds"),
        lambda about: about["inputs"].update(size=["x"]),
        lambda about: about["inputs"].update(size=[2, 2]),
        lambda about: about["inputs"].update(names=["a"]),
        lambda about: about["encoder"].update({"class": "MLP", "settings": {"hidden": [1] * 20_000}}),
        lambda about: about["encoder"].update({"class": ["x"]}),
        lambda about: about["encoder"].update(settings={"in_features": 10**400}),
    ],
)
def test_forged_models(tmp_path: Path, change: Callable[[dict], object]) -> None:
    model = Model(Mahalanobis.from_factor([[1.0], [2.0]]), Inputs("features", ("a", "b"), (2,)), method="m")
    with pytest.raises(CorruptFileError, match="must hold a model of nearer"):
        nearer.load(forged(model.save(tmp_path / "m"), "nearer.model", change))


@pytest.mark.parametrize(
    "state", [{"$tuple": 3}, {"$tensor": [1]}, {"$pairs": [1]}, {"$float": "x"}, {"$float": 10**400}]
)
def test_forged_checkpoints(tmp_path: Path, state: object) -> None:
    write_folder(
        tmp_path / "step-00000001", format="nearer.checkpoint", version=1, tensors={"tensors": {}},
        documents={"state": state},
    )  # fmt: skip
    with pytest.raises(CorruptFileError, match="The newest checkpoint cannot be used"):
        Checkpoints(tmp_path).load()


def test_arrays_without_columns_are_refused(tmp_path: Path) -> None:
    for shape in ((0, 0), (3, 0)):
        np.save(tmp_path / "a.npy", np.zeros(shape))
        with pytest.raises(ShapeError, match="at least one column, and has none"):
            load_files(tmp_path / "a.npy")


def test_a_table_with_a_very_wide_first_line_is_read(tmp_path: Path) -> None:
    names = [f"gene_{number:06d}" for number in range(30_000)]
    (tmp_path / "a.csv").write_text(
        ",".join([*names, "class"]) + "\n" + "1," * 30_000 + "x\n" + "2," * 30_000 + "y\n"
    )
    assert load_files(tmp_path / "a.csv", label="class").all.x.shape == (2, 30_000)


def test_labels_of_many_digits_are_numbers_or_names(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"a,class\n1,{'9' * 400}\n2,{'8' * 400}\n3,7\n")
    assert load_files(tmp_path / "a.csv", label="class").all.y.tolist() == [2, 1, 0]


def test_numbers_that_do_not_fit_are_refused_and_not_turned_negative() -> None:
    import torch

    from nearer._validation import as_labels, as_matrix

    for value in (np.array([[2**63]], np.uint64), torch.tensor([[2**63]], dtype=torch.uint64)):
        with pytest.raises(
            ParameterError, match=r"must be below 2\*\*63 as whole numbers, got 9223372036854775808"
        ):
            as_matrix(value, "x")
    with pytest.raises(ParameterError, match=r"below 2\*\*63"):
        as_labels(np.array([2**64 - 1], np.uint64), "labels")
    assert as_matrix(torch.tensor([[7]], dtype=torch.uint16), "x").tolist() == [[7.0]]
    with pytest.raises(ShapeError, match=r"real numbers, got torch\.complex64"):
        as_matrix(torch.ones(1, 1, dtype=torch.complex64), "x")


def test_an_id_or_metadata_that_is_no_text_is_refused_at_once(tmp_path: Path) -> None:
    index = Index(2)
    with pytest.raises(ParameterError, match="64 bits or text"):
        index.add([[1, 1]], ids=["\ud800"])
    with pytest.raises(ParameterError, match="`metadata` must be JSON"):
        index.add([[1, 1]], metadata=[{"a": "\ud800"}])
    deep: list[object] = []
    for _ in range(99):
        deep = [deep]
    with pytest.raises(LimitError, match="`metadata` must keep to 100 levels"):
        index.add([[1, 1]], metadata=[{"a": deep}])
    index.add([[1, 1]], ids=[2**63 - 1])
    with pytest.raises(ParameterError, match="numbers of 64 bits are used up"):
        index.add([[1, 2]])
    assert Index.load(index.save(tmp_path / "i")).ids == [2**63 - 1]
