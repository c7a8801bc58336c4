"""Arrays that are never unpickled."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

from nearer.datasets import _numpy_files as local
from nearer.exceptions import CorruptFileError, MissingDataError


class Trap:
    """Unpickling this would leave a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return open, (str(self.path), "w")


def test_npz_and_npy_read_back(tmp_path: Path) -> None:
    a, b = np.arange(6).reshape(2, 3), np.array(["ä", "bc"])
    np.savez_compressed(tmp_path / "t.npz", a=a, b=b, c=np.asfortranarray(a.astype(np.float16)), d=np.float32(2))
    stored = local.read_npz(tmp_path / "t.npz")
    assert list(stored) == ["a", "b", "c", "d"]
    assert np.array_equal(stored["a"], a)
    assert stored["b"].tolist() == ["ä", "bc"]
    assert stored["c"].dtype == np.float16
    assert stored["d"] == 2
    assert list(local.read_npz(tmp_path / "t.npz", ["b"])) == ["b"]
    np.save(tmp_path / "t.npy", a)
    assert np.array_equal(local.read_npy(tmp_path / "t.npy"), a)


def test_lacking_arrays_are_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", a=np.zeros(1))
    with pytest.raises(CorruptFileError, match=r"must hold the arrays a, z, and lacks z \(it holds a\)"):
        local.read_npz(tmp_path / "t.npz", ["a", "z"])


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def as_npz(content: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("x.npy", content)
    return buffer.getvalue()


WHOLE = npy(np.arange(100.0))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cannot be read"),
        (b"a,b\n1,2\n", "cannot be read"),
        (pickle.dumps([1, 2]), "cannot be read"),
        (npy(np.array([1, "a"], dtype=object)), "pickled Python objects"),
        (WHOLE[:-50], "promises 800 bytes|cannot be read"),
        (WHOLE[:40], "cannot be read"),
        (b"\x93NUMPY\x01\x00\x76\x00garbage" + b" " * 200, "cannot be read"),
        (b"\x93NUMPY\x09\x00\x76\x00{}", r"version \(9, 0\)"),
    ],
)
def test_files_that_are_not_what_they_claim(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "t.npy").write_bytes(content)
    with pytest.raises(CorruptFileError, match=message):
        local.read_npy(tmp_path / "t.npy")
    (tmp_path / "t.npz").write_bytes(as_npz(content))
    with pytest.raises(CorruptFileError, match=message):
        local.read_npz(tmp_path / "t.npz")
    (tmp_path / "raw.npz").write_bytes(content)
    with pytest.raises(CorruptFileError, match="cannot be read as one"):
        local.read_npz(tmp_path / "raw.npz")


def test_a_header_that_promises_too_much_allocates_nothing(tmp_path: Path) -> None:
    # The header is padded with blanks, so a larger number fits without moving the data.
    content = WHOLE.replace(b"(100,), }" + b" " * 10, b"(9000000000100,), }")
    assert len(content) == len(WHOLE)
    (tmp_path / "t.npy").write_bytes(content)
    (tmp_path / "t.npz").write_bytes(as_npz(content))
    for read, name in ((local.read_npy, "t.npy"), (local.read_npz, "t.npz")):
        with pytest.raises(CorruptFileError, match="promises 72,000,000,000,800 bytes"):
            read(tmp_path / name)


def test_a_truncated_or_altered_npz(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "t.npz", x=np.random.default_rng(0).normal(size=1000))
    content = (tmp_path / "t.npz").read_bytes()
    (tmp_path / "short.npz").write_bytes(content[: len(content) // 2])
    altered = bytearray(content)
    altered[len(content) // 2] ^= 255
    (tmp_path / "altered.npz").write_bytes(bytes(altered))
    for name in ("short.npz", "altered.npz"):
        with pytest.raises(CorruptFileError, match=f"{name}` must be an .npz file"):
            local.read_npz(tmp_path / name)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    trap = np.array([Trap(tmp_path / "sprung")], dtype=object)
    (tmp_path / "t.npz").write_bytes(as_npz(npy(trap)))
    (tmp_path / "t.npy").write_bytes(npy(trap))
    with pytest.raises(CorruptFileError, match="pickled Python objects"):
        local.read_npz(tmp_path / "t.npz")
    with pytest.raises(CorruptFileError, match="pickled Python objects"):
        local.read_npy(tmp_path / "t.npy")
    assert not (tmp_path / "sprung").exists()


def test_an_absent_file_is_missing_not_corrupt(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="cannot be opened: No such file"):
        local.read_npz(tmp_path / "none.npz")
    with pytest.raises(MissingDataError, match="cannot be opened"):
        local.read_npy(tmp_path)
