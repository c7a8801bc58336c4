"""MATLAB files: the same values as scipy reads, and never more than an error from a damaged one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.io import loadmat, savemat

from nearer.exceptions import CorruptFileError, MissingDataError
from nearer_papers.data._matlab import read_mat
from nearer_papers.data._shapes import read_alphadigits


def cells(*values: object) -> np.ndarray:
    table = np.empty((1, len(values)), dtype=object)
    for place, value in enumerate(values):
        table[0, place] = value
    return table


def records() -> np.ndarray:
    table = np.empty((2, 2), dtype=[("name", object), ("class", object), ("box", object)])
    for place in range(4):
        table.flat[place] = (f"car {place}", place + 1, np.arange(place))
    return table


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(
    "value",
    [
        np.arange(12.0).reshape(3, 4),
        np.array([[1.5]]),
        np.arange(24, dtype=np.uint8).reshape(2, 3, 4),
        np.array([[-3, 70000]], dtype=np.int32),
        np.array([[2**40]], dtype=np.int64),
        np.array([[0.1, 0.2]], dtype=np.float32),
        np.zeros((0, 3)),
        np.array([[True, False]]),
    ],
    ids=str,
)
def test_numbers_as_scipy_reads_them(tmp_path: Path, value: np.ndarray, compressed: bool) -> None:
    path = tmp_path / "t.mat"
    savemat(path, {"before": np.eye(3), "x": value, "after": "text"}, do_compression=compressed)
    ours = read_mat(path, ["x"])["x"]
    theirs = loadmat(path)["x"]
    assert ours.shape == theirs.shape
    assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("compressed", [False, True])
def test_text_cells_and_structs(tmp_path: Path, compressed: bool) -> None:
    path = tmp_path / "t.mat"
    content = {
        "word": "übung",
        "lines": np.array(["abc", "def"]),
        "table": cells("one", "", np.eye(2), cells("inner", 7)),
        "annotations": records(),
    }
    savemat(path, content, do_compression=compressed)
    ours = read_mat(path, list(content))
    assert ours["word"] == "übung"
    assert ours["lines"] == "abc\ndef"
    assert ours["table"].shape == (1, 4)
    assert ours["table"][0, 0] == "one"
    assert len(ours["table"][0, 1]) == 0
    assert np.array_equal(ours["table"][0, 2], np.eye(2))
    assert ours["table"][0, 3][0, 0] == "inner"
    assert ours["annotations"]["name"].tolist() == [["car 0", "car 1"], ["car 2", "car 3"]]
    assert [int(value.item()) for value in ours["annotations"]["class"].flat] == [1, 2, 3, 4]
    assert ours["annotations"]["box"][1, 1].tolist() == [[0, 1, 2]]


def test_big_endian_files(tmp_path: Path) -> None:
    # By hand: version and byte mark, then one matrix "x" with the double 2.5.
    def tag(kind: int, data: bytes) -> bytes:
        return kind.to_bytes(4, "big") + len(data).to_bytes(4, "big") + data + b"\0" * (-len(data) % 8)

    sizes = np.array([1, 1], ">i4").tobytes()
    body = (
        tag(6, np.array([6, 0], ">u4").tobytes())
        + tag(5, sizes)
        + tag(1, b"x")
        + tag(9, np.array([2.5], ">f8").tobytes())
    )
    path = tmp_path / "t.mat"
    path.write_bytes(b"MATLAB 5.0".ljust(124) + b"\x01\x00MI" + tag(14, body))
    assert read_mat(path, ["x"])["x"].tolist() == [[2.5]]


def test_files_that_are_not(tmp_path: Path) -> None:
    path = tmp_path / "t.mat"
    with pytest.raises(MissingDataError, match="there is no such file"):
        read_mat(path, ["dat"])
    savemat(path, {"other": np.eye(2)})
    with pytest.raises(CorruptFileError, match="must hold the variables dat, and lacks dat"):
        read_mat(path, ["dat"])
    for value in (np.eye(2), "text", cells(np.eye(2))):
        savemat(path, {"dat": value})
        with pytest.raises(CorruptFileError, match="must hold a table `dat` of 20x16 images"):
            read_alphadigits(path)
    savemat(path, {"dat": np.random.default_rng(0).normal(size=(40, 40))}, do_compression=True)
    whole = path.read_bytes()
    for content in (b"", b"plain text", whole[:300], whole[:140] + b"\xff" * 200, whole[: len(whole) // 2]):
        path.write_bytes(content)
        with pytest.raises(CorruptFileError, match="must be a MATLAB file"):
            read_mat(path, ["dat"])


@pytest.mark.parametrize("compressed", [False, True])
def test_damaged_bytes_are_an_error_or_harmless(tmp_path: Path, compressed: bool) -> None:
    # The same damage makes the reader of scipy 1.17 crash the process.
    path = tmp_path / "t.mat"
    savemat(path, {"a": np.eye(5), "c": cells("x", "yy"), "s": records()}, do_compression=compressed)
    whole = path.read_bytes()
    generator = np.random.default_rng(0)
    refused = 0
    for _ in range(500):
        content = bytearray(whole)
        for place in generator.integers(120, len(whole), size=generator.integers(1, 6)):
            content[place] = generator.integers(256)
        path.write_bytes(bytes(content))
        try:
            read_mat(path, ["a", "c", "s"])
        except CorruptFileError:
            refused += 1
    assert refused > 100


def test_values_that_are_not_data_are_refused(tmp_path: Path) -> None:
    from scipy import sparse

    path = tmp_path / "t.mat"
    savemat(path, {"x": sparse.csc_matrix(np.eye(3))})
    with pytest.raises(CorruptFileError, match="class 5, which is neither number, text, cell nor struct"):
        read_mat(path, ["x"])
