"""The files as their authors publish them: rebuilt here from the prepared arrays or made small, and read back."""

from __future__ import annotations

import bz2
import dataclasses
import gzip
import hashlib
import io
import string
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from scipy.io import savemat

from nearer.datasets import Dataset
from nearer.exceptions import CorruptFileError, LimitError, MissingDataError
from nearer_papers.data import _cifar10 as cifar10
from nearer_papers.data._cifar10 import load_cifar10, read_cifar10_archive
from nearer_papers.data._fashion import load_fashion_mnist
from nearer_papers.data._idx import read_idx
from nearer_papers.data._mnist import load_mnist
from nearer_papers.data._omniglot import load_omniglot, read_omniglot_archive
from nearer_papers.data._shapes import load_binary_alphadigits
from nearer_papers.data._uci import load_letter, load_satimage, read_letter, read_satimage
from nearer_papers.data._usps import load_usps, read_libsvm

Real = Callable[[str], Dataset]


def idx(array: np.ndarray) -> bytes:
    header = struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(np.uint8).tobytes()


@given(st.lists(st.integers(0, 4), min_size=1, max_size=3), st.binary(min_size=64, max_size=64))
def test_idx_reads_back(shape: list[int], values: bytes) -> None:
    import tempfile

    array = np.frombuffer(values, np.uint8)[: int(np.prod(shape))].reshape(shape)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.gz"
        path.write_bytes(gzip.compress(idx(array), 1, mtime=0))
        assert np.array_equal(read_idx(path), array)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not gzip", "must be a gzip file"),
        (gzip.compress(idx(np.zeros((3, 3))), mtime=0)[:-12], "must be a gzip file"),
        (gzip.compress(b"", mtime=0), "header of an IDX file"),
        (gzip.compress(b"\0\0\x0d\x01" + b"\0" * 8, mtime=0), "header of an IDX file"),
        (gzip.compress(b"\0\0\x08\x03\0\0", mtime=0), "header of an IDX file"),
        (gzip.compress(idx(np.zeros((3, 3)))[:-1], mtime=0), r"must hold \(3, 3\) bytes by its header, got 8"),
        (gzip.compress(b"\0\0\x08\x02" + b"\0\0\x09\x09" * 2, mtime=0), "by its header, got 0"),
    ],
)
def test_idx_refuses(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "t.gz").write_bytes(content)
    with pytest.raises(CorruptFileError, match=message):
        read_idx(tmp_path / "t.gz")


def test_idx_asks_for_too_much(tmp_path: Path) -> None:
    (tmp_path / "t.gz").write_bytes(gzip.compress(b"\0\0\x08\x02" + b"\xff" * 8, mtime=0))
    with pytest.raises(LimitError, match=r"`t\.gz` must keep to 1,073,741,824 bytes in memory"):
        read_idx(tmp_path / "t.gz")


def test_mnist_from_its_four_files_is_the_same_data(tmp_path: Path, real: Real) -> None:
    data = real("mnist")
    (tmp_path / "mnist").mkdir()
    checksums = []
    for name, array in (
        ("train-images-idx3", data.train.x),
        ("train-labels-idx1", data.train.y),
        ("t10k-images-idx3", data.test.x),
        ("t10k-labels-idx1", data.test.y),
    ):
        content = idx(array)
        checksums.append(hashlib.md5(content).hexdigest()[:8])
        (tmp_path / "mnist" / f"{name}-ubyte.gz").write_bytes(gzip.compress(content, 1, mtime=0))
    # The well-known sums of the unpacked files.
    assert checksums == ["6bbc9ace", "a25bea73", "2646ac64", "27ae3e4e"]
    assert load_mnist(folder=tmp_path, verify=False, download=False).fingerprint() == data.fingerprint()


def test_fashion_has_its_own_folder(tmp_path: Path) -> None:
    (tmp_path / "mnist").mkdir()
    with pytest.raises(MissingDataError, match=r"fashion_mnist/train-images-idx3-ubyte\.gz"):
        load_fashion_mnist(folder=tmp_path, download=False)


def test_letter_from_its_published_file_is_the_same_data(tmp_path: Path, real: Real) -> None:
    data = real("letter")
    lines = [
        ",".join([data.class_names[code], *(f"{value:.0f}" for value in row)])
        for row, code in zip(data.all.x, data.all.y, strict=True)
    ]
    (tmp_path / "letter").mkdir()
    # Written like this, the rows are the published file byte for byte, so its checksum is verified here.
    (tmp_path / "letter" / "letter-recognition.data").write_text("\n".join(lines) + "\n")
    assert load_letter(folder=tmp_path, download=False).fingerprint() == data.fingerprint()


def test_satimage_from_its_published_files_is_the_same_data(tmp_path: Path, real: Real) -> None:
    data = real("satimage")
    codes = {"red soil": 1, "cotton crop": 2, "grey soil": 3, "damp grey soil": 4, "vegetation stubble": 5,
             "very damp grey soil": 7}  # fmt: skip
    (tmp_path / "satimage").mkdir()
    for name, part in (("sat.trn", data.train), ("sat.tst", data.test)):
        lines = [
            " ".join([*(f"{value:.0f}" for value in row), str(codes[data.class_names[code]])])
            for row, code in zip(part.x, part.y, strict=True)
        ]
        (tmp_path / "satimage" / name).write_text("\n".join(lines) + "\n")
    # The checksums of the published files are verified: the split of the prepared file is the published one.
    assert load_satimage(folder=tmp_path, download=False).fingerprint() == data.fingerprint()


@pytest.mark.parametrize("text", ["A,1,2\n", "a,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16\n", "\ufeffbinary"])
def test_letter_refuses(tmp_path: Path, text: str) -> None:
    (tmp_path / "t").write_text(text)
    with pytest.raises(CorruptFileError, match="a letter and 16 numbers on each line"):
        read_letter(tmp_path / "t")


@pytest.mark.parametrize("text", ["1 2 3\n", " ".join(["1"] * 36) + " 6\n", "x\n"])
def test_satimage_refuses(tmp_path: Path, text: str) -> None:
    (tmp_path / "t").write_text(text)
    with pytest.raises(CorruptFileError, match="36 numbers and a soil on each line"):
        read_satimage(tmp_path / "t")


def test_usps_from_libsvm_files(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    (tmp_path / "usps").mkdir()
    expected = []
    for name, rows in (("usps.bz2", 5), ("usps.t.bz2", 3)):
        x = generator.integers(-1000, 1001, size=(rows, 256)) / 1000
        y = generator.integers(0, 10, size=rows)
        lines = [
            " ".join([str(code + 1), *(f"{place + 1}:{value:g}" for place, value in enumerate(row))])
            for row, code in zip(x, y, strict=True)
        ]
        (tmp_path / "usps" / name).write_bytes(bz2.compress(("\n".join(lines) + "\n").encode()))
        expected.append((x.astype(np.float32).reshape(-1, 16, 16), y))
    data = load_usps(folder=tmp_path, verify=False, download=False)
    for part, (x, y) in zip((data.train, data.test), expected, strict=True):
        assert np.array_equal(part.x, x)
        assert np.array_equal(part.y, y)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"text", "LIBSVM file in bzip2"),
        (bz2.compress(b"1 1:0.5 2:0.25\n"), r"a digit and 256 values, got \(1, 2\)"),
        (bz2.compress(b"one 1:0.5\n"), "LIBSVM file in bzip2"),
        (bz2.compress(b"1 0.5\n"), "LIBSVM file in bzip2"),
        (bz2.compress(("11 " + " ".join(f"{i}:0" for i in range(256))).encode()), "a digit and 256 values"),
        (bz2.compress(b"1 1:0\n" * 100)[:-8], "LIBSVM file in bzip2"),
    ],
)
def test_libsvm_refuses(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "t.bz2").write_bytes(content)
    with pytest.raises(CorruptFileError, match=message):
        read_libsvm(tmp_path / "t.bz2")


def test_alphadigits_from_the_matlab_file(tmp_path: Path, real: Real) -> None:
    data = real("binary_alphadigits")
    cells = np.empty((36, 39), dtype=object)
    for place, image in enumerate(data.all.x):
        cells[place // 39, place % 39] = image.astype(np.uint8)
    (tmp_path / "binary_alphadigits").mkdir()
    savemat(tmp_path / "binary_alphadigits" / "binaryalphadigs.mat", {"dat": cells}, do_compression=True)
    again = load_binary_alphadigits(folder=tmp_path, verify=False, download=False)
    assert again.fingerprint() == data.fingerprint()
    assert data.class_names == tuple(string.digits + string.ascii_uppercase)


def cifar_archive(
    path: Path, per_batch: int = 2, leave_out: str = "", spoil: bool = False
) -> tuple[np.ndarray, ...]:
    """A small archive of the published layout, and the images and labels in it."""
    generator = np.random.default_rng(0)
    x = generator.integers(0, 256, size=(6, per_batch, 32, 32, 3)).astype(np.uint8)
    y = generator.integers(0, 10, size=(6, per_batch)).astype(np.uint8)
    names = [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, images, labels in zip(names, x, y, strict=True):
            if name == leave_out:
                continue
            planes = np.moveaxis(images, -1, 1).reshape(per_batch, -1)
            content = np.concatenate([labels[:, None], planes], axis=1).tobytes()[: -1 if spoil else None]
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return x[:5].reshape(-1, 32, 32, 3), y[:5].reshape(-1), x[5], y[5]


def test_cifar10_archive(tmp_path: Path) -> None:
    expected = cifar_archive(tmp_path / "cifar10" / "cifar-10-binary.tar.gz")
    data = load_cifar10(folder=tmp_path, verify=False, download=False)
    assert np.array_equal(data.train.x, expected[0])
    assert np.array_equal(data.train.y, expected[1])
    assert np.array_equal(data.test.x, expected[2])
    assert np.array_equal(data.test.y, expected[3])
    assert data.note == ""


def test_cifar10_archive_refuses(tmp_path: Path) -> None:
    path = tmp_path / "t.tar.gz"
    cifar_archive(path, leave_out="data_batch_3.bin")
    with pytest.raises(CorruptFileError, match=r"and lacks data_batch_3\.bin"):
        read_cifar10_archive(path)
    cifar_archive(path, spoil=True)
    with pytest.raises(CorruptFileError, match="must be the CIFAR-10 binary archive"):
        read_cifar10_archive(path)
    cifar_archive(path)
    content = path.read_bytes()
    for bad in (b"text", content[: len(content) // 2]):
        path.write_bytes(bad)
        with pytest.raises(CorruptFileError, match="must be the CIFAR-10 binary archive"):
            read_cifar10_archive(path)


def encode(x: np.ndarray) -> np.ndarray:
    """The differences that the prepared files hold: the naive inverse of the loader."""
    planes = np.stack([x[..., 0] - x[..., 1], x[..., 1], x[..., 2] - x[..., 1]])
    columns = np.diff(planes, axis=3, prepend=np.zeros((*planes.shape[:3], 1), np.uint8))
    return np.diff(columns, axis=2, prepend=np.zeros((*columns.shape[:2], 1, 32), np.uint8))


def halves(folder: Path, count: int = 4) -> list[np.ndarray]:
    """Small prepared files of random images; returns the images of both halves and the test part."""
    images = []
    for number, name in enumerate(("cifar10_train_1", "cifar10_train_2", "cifar10_test")):
        x = np.random.default_rng(number).integers(0, 256, size=(count, 32, 32, 3)).astype(np.uint8)
        np.savez(folder / f"{name}.npz", delta=encode(x), y=np.full(count, number, np.uint8))
        images.append(x)
    return images


def test_cifar10_half_is_said_and_can_be_refused(tmp_path: Path) -> None:
    first, _, test = halves(tmp_path)
    (tmp_path / "cifar10_train_2.npz").unlink()
    data = load_cifar10(folder=tmp_path, verify=False)
    assert np.array_equal(data.train.x, first)
    assert np.array_equal(data.test.x, test)
    assert "cifar10_train_2.npz is not there" in data.note
    with pytest.raises(MissingDataError, match=r"has the first 25,000: put cifar10_train_2\.npz or"):
        load_cifar10(folder=tmp_path, verify=False, complete=True, download=False)
    cifar_archive(tmp_path / "cifar10" / "cifar-10-binary.tar.gz")
    assert len(load_cifar10(folder=tmp_path, verify=False).train) == 10


def test_cifar10_second_half_is_used_and_its_statistics_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    halves(tmp_path)
    with pytest.raises(CorruptFileError, match="must complete the training part to 50,000 images"):
        load_cifar10(folder=tmp_path, verify=False)


@pytest.mark.slow
def test_cifar10_a_true_second_half_is_accepted(tmp_path: Path, real: Real) -> None:
    data = real("cifar10")
    if len(data.train) == 50000:
        assert not data.note
        return
    # Flat images whose colours and labels complete the first half to the published means and counts.
    first = data.train
    labels = np.repeat(np.arange(10), 5000 - np.bincount(first.y, minlength=10)).astype(np.uint8)
    target = np.array(cifar10._MEANS) * 255 * 2 - first.x.mean(axis=(0, 1, 2))
    ranks = np.linspace(0, 1, 25000, endpoint=False)[:, None]
    flat = np.floor(target + ranks).astype(np.uint8)
    delta = np.zeros((3, 25000, 32, 32), np.uint8)
    delta[:, :, 0, 0] = np.stack([flat[:, 0] - flat[:, 1], flat[:, 1], flat[:, 2] - flat[:, 1]])
    np.savez(tmp_path / "cifar10_train_2.npz", delta=delta, y=labels)
    for file in data.source.files:
        (tmp_path / file.name).symlink_to(_real_file(file.name))
    whole = load_cifar10(folder=tmp_path, complete=True, download=False)
    assert whole.train.x.shape == (50000, 32, 32, 3)
    assert np.array_equal(whole.train.x[25000, 5, 7], flat[0])
    assert whole.note == ""


def _real_file(name: str) -> Path:
    from nearer_papers.data._obtain import data_folder

    return data_folder() / name


def test_cifar10_prepared_file_of_another_shape(tmp_path: Path) -> None:
    for name in ("cifar10_train_1", "cifar10_test"):
        np.savez(tmp_path / f"{name}.npz", delta=np.zeros((2, 3)), y=np.zeros(3))
    with pytest.raises(
        CorruptFileError, match=r"must hold `delta` of bytes \(3, n, 32, 32\), got float64 \(2, 3\)"
    ):
        load_cifar10(folder=tmp_path, verify=False)


def omniglot_archive(path: Path, drawings: int = 20) -> np.ndarray:
    ink = np.random.default_rng(0).random((3, drawings, 105, 105)) < 0.1
    characters = [("Greek", 1), ("Greek", 2), ("Braille", 1)]
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("images_background/Greek/", b"")
        for (alphabet, number), drawn in zip(characters, ink, strict=True):
            for drawer, one in enumerate(drawn):
                file = io.BytesIO()
                Image.fromarray(~one).convert("1").save(file, "png")
                name = f"images_background/{alphabet}/character{number:02d}/0394_{drawer + 1:02d}.png"
                archive.writestr(name, file.getvalue())
    return ink


def test_omniglot_archive(tmp_path: Path) -> None:
    ink = omniglot_archive(tmp_path / "omniglot" / "images_background.zip")
    data = load_omniglot(pixels="105", folder=tmp_path, verify=False, download=False)
    assert data.class_names == ("Braille/01", "Greek/01", "Greek/02")
    assert np.array_equal(data.all.x[:20], ink[2])
    assert np.array_equal(data.all.x[40:], ink[1])
    assert data.all.extra["alphabet"].tolist() == [0] * 20 + [1] * 40
    small = load_omniglot(folder=tmp_path, verify=False, download=False).all.x
    assert small.shape == (60, 28, 28)
    assert abs(small.mean() / 255 - ink.mean()) < 0.02


def test_omniglot_archive_refuses(tmp_path: Path) -> None:
    path = tmp_path / "t.zip"
    path.write_bytes(b"text")
    with pytest.raises(CorruptFileError, match="must be the Omniglot zip file"):
        read_omniglot_archive(path)
    omniglot_archive(path, drawings=3)
    with pytest.raises(CorruptFileError, match="20 drawings of one size"):
        read_omniglot_archive(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("images_background/A/character01/0001_01.png", b"not an image")
    with pytest.raises(CorruptFileError, match="must be the Omniglot zip file"):
        read_omniglot_archive(path)


def test_a_source_can_be_changed_only_by_making_another() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        cifar10.CIFAR10.name = "other"  # type: ignore[misc]
