"""Folders are written whole or not at all, and every kind of damage is named."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nearer import _storage
from nearer._storage import MANIFEST, _disk, _folder, _scratch, read_folder, remove_folder, write_file, write_folder
from nearer._storage._tensors import tensor_bytes
from nearer.exceptions import (
    CorruptFileError,
    LimitError,
    LockedError,
    MissingDataError,
    ParameterError,
    WriteError,
)


def write(place: Path, value: float = 1.0, **changes: object) -> Path:
    arguments: dict[str, object] = {
        "format": "nearer.note",
        "version": 1,
        "tensors": {"part": {"x": torch.full((4, 3), value)}},
        "documents": {"items": {"ids": ["ä", "b"]}},
        "metadata": {"value": value},
    }
    return write_folder(place, **(arguments | changes))  # type: ignore[arg-type]


def read(place: Path, **changes: object) -> _storage.Folder:
    arguments: dict[str, object] = {"format": "nearer.note", "version": 1}
    return read_folder(place, **(arguments | changes))  # type: ignore[arg-type]


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_what_is_written_is_read(tmp_path: Path) -> None:
    tensors = {
        "floats": {"f16": torch.rand(3).half(), "f32": torch.rand(2, 3), "f64": torch.rand(2).double()},
        "others": {"bytes": torch.arange(5, dtype=torch.uint8), "flags": torch.tensor([True, False])},
    }
    place = write(tmp_path / "deep" / "note", tensors=tensors)
    folder = read(place)
    for part, content in tensors.items():
        for name, tensor in content.items():
            assert folder.tensors[part][name].dtype == tensor.dtype
            assert torch.equal(folder.tensors[part][name], tensor)
    assert folder.documents == {"items": {"ids": ["ä", "b"]}}
    assert folder.metadata == {"value": 1.0}
    assert (folder.format, folder.version) == ("nearer.note", 1)
    assert names(place) == [
        f"{part}" for part in ("floats.safetensors", "items.json", MANIFEST, "others.safetensors")
    ]
    assert names(place.parent) == ["note"]


def test_views_shared_memory_and_gradients_are_written_without_touching_them(tmp_path: Path) -> None:
    x = torch.arange(12.0).reshape(3, 4).requires_grad_()
    folder = read(write(tmp_path / "a", tensors={"p": {"whole": x, "turned": x.T, "again": x, "empty": x[:0]}}))
    assert torch.equal(folder.tensors["p"]["turned"], x.detach().T)
    assert torch.equal(folder.tensors["p"]["again"], x.detach())
    assert folder.tensors["p"]["empty"].shape == (0, 4)
    assert x.requires_grad


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.integers(), inner, max_size=3),
    max_leaves=8,
)


@given(metadata=st.dictionaries(st.text(), json_values, max_size=4))
@settings(max_examples=25, deadline=None)
def test_any_json_metadata_survives(tmp_path_factory: pytest.TempPathFactory, metadata: dict[str, object]) -> None:
    place = tmp_path_factory.mktemp("json") / "note"
    try:
        expected = json.loads(json.dumps(metadata))
        json.dumps(metadata, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # a lone surrogate is no text
        with pytest.raises(ParameterError, match="must be JSON"):
            write(place, metadata=metadata)
        return
    assert read(write(place, metadata=metadata)).metadata == expected


def test_tuples_and_number_keys_become_what_json_makes_of_them(tmp_path: Path) -> None:
    place = write(tmp_path / "a", metadata={"shape": (2, 3), "by": {10: "x", 9: "y"}})
    assert read(place).metadata == {"shape": [2, 3], "by": {"10": "x", "9": "y"}}


def test_the_files_are_as_public_as_the_folder(tmp_path: Path) -> None:
    place = write(tmp_path / "a")
    modes = {stat.S_IMODE((place / name).stat().st_mode) for name in names(place)}
    assert modes == {stat.S_IMODE(place.stat().st_mode) & 0o666}


def test_a_folder_replaces_the_older_one_and_leaves_nothing_behind(tmp_path: Path) -> None:
    write(tmp_path / "a", 1.0)
    write(tmp_path / "a", 2.0, documents={})
    folder = read(tmp_path / "a")
    assert folder.metadata == {"value": 2.0}
    assert float(folder.tensors["part"]["x"][0, 0]) == 2.0
    assert names(tmp_path) == ["a"]
    assert names(tmp_path / "a") == [MANIFEST, "part.safetensors"]


def test_a_link_is_followed(tmp_path: Path) -> None:
    write(tmp_path / "real", 1.0)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write(tmp_path / "link", 2.0)
    assert (tmp_path / "link").is_symlink()
    assert read(tmp_path / "real").metadata == {"value": 2.0}


def full_disk(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.fixture(params=["exchange", "two renames"])
def switch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to give a new version its name: that of Linux, and that of file systems without it."""
    if request.param == "two renames":
        monkeypatch.setattr(_disk, "_renameat2", lambda: None)
    return str(request.param)


@pytest.mark.parametrize("step", ["write", "fsync", "mkdir", "open"])
def test_a_full_disk_leaves_the_older_folder_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    write(tmp_path / "a", 1.0)
    monkeypatch.setattr(os, step, full_disk)
    with pytest.raises(WriteError, match=r"`.*a` could not be written: No space left.* is as it was") as caught:
        write(tmp_path / "a", 2.0)
    assert isinstance(caught.value, OSError)
    assert caught.value.errno == 28
    monkeypatch.undo()
    assert read(tmp_path / "a").metadata == {"value": 1.0}
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("failing_call", [1, 2])
def test_a_failing_rename_puts_the_older_folder_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing_call: int
) -> None:
    write(tmp_path / "a", 1.0)
    rename, calls = os.rename, []
    monkeypatch.setattr(_disk, "_renameat2", lambda: None)

    def sometimes(source: Path, target: Path) -> None:
        calls.append(source)
        if len(calls) == failing_call:
            full_disk()
        rename(source, target)

    monkeypatch.setattr(os, "rename", sometimes)
    with pytest.raises(OSError, match="No space left"):
        write(tmp_path / "a", 2.0)
    assert read(tmp_path / "a").metadata == {"value": 1.0}
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("older", [True, False], ids=["replaced", "first"])
def test_a_version_that_cannot_be_made_durable_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, switch: str, older: bool
) -> None:
    if older:
        write(tmp_path / "a", 1.0)
    flush = _scratch.flush_folder
    monkeypatch.setattr(
        _scratch, "flush_folder", lambda folder: full_disk() if folder == tmp_path else flush(folder)
    )
    with pytest.raises(WriteError, match="No space left"):
        write(tmp_path / "a", 2.0)
    assert names(tmp_path) == (["a"] if older else [])
    if older:
        assert read(tmp_path / "a").metadata == {"value": 1.0}


def test_a_real_write_error_of_the_system_leaves_the_older_folder_as_it_was(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource", reason="the limit on file sizes is a POSIX one")
    write(tmp_path / "a", 1.0)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(OSError, match=r"a` could not be written: File too large"):
            write(tmp_path / "a", 2.0, tensors={"part": {"x": torch.rand(99_999)}})
        with pytest.raises(OSError, match="File too large"):
            write(tmp_path / "a", 2.0, documents={"items": "x" * 200_000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert read(tmp_path / "a").metadata == {"value": 1.0}
    assert names(tmp_path) == ["a"]


def test_a_loaded_tensor_does_not_depend_on_the_file_any_more(tmp_path: Path) -> None:
    folder = read(write(tmp_path / "a", tensors={"part": {"x": torch.ones(100_000)}}))
    os.truncate(tmp_path / "a" / "part.safetensors", 10)
    assert float(folder.tensors["part"]["x"].sum()) == 100_000


def cut(place: Path, name: str) -> None:
    os.truncate(place / name, (place / name).stat().st_size // 2)


def flip(place: Path, name: str) -> None:
    data = bytearray((place / name).read_bytes())
    data[-2] ^= 1
    (place / name).write_bytes(bytes(data))


def edit(place: Path, change: Callable[[dict[str, object]], object], *, forge: bool = False) -> None:
    manifest = json.loads((place / MANIFEST).read_text())
    change(manifest)
    if forge:
        manifest.pop("sha256")
        manifest["sha256"] = _folder.seal_of(manifest)
    (place / MANIFEST).write_text(json.dumps(manifest))


def fingerprint(file: Path) -> dict[str, object]:
    data = file.read_bytes()
    return {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "tensors cut": (lambda p: cut(p, "part.safetensors"), r"part\.safetensors` must be as it was written"),
    "tensors emptied": (lambda p: (p / "part.safetensors").write_bytes(b""), "must be as it was written"),
    "tensors changed": (lambda p: flip(p, "part.safetensors"), "must be as it was written"),
    "tensors missing": (lambda p: (p / "part.safetensors").unlink(), r"part\.safetensors` is missing"),
    "document changed": (lambda p: flip(p, "items.json"), r"items\.json` must be as it was written"),
    "document missing": (lambda p: (p / "items.json").unlink(), "is missing"),
    "manifest cut": (lambda p: cut(p, MANIFEST), "must be JSON"),
    "manifest binary": (lambda p: (p / MANIFEST).write_bytes(b"\xff\xfe\x00"), "must be JSON"),
    "manifest a list": (lambda p: (p / MANIFEST).write_text("[]"), "lacks its fields"),
    "manifest missing": (lambda p: (p / MANIFEST).unlink(), "must hold a manifest.json"),
    "metadata changed": (lambda p: edit(p, lambda m: m.update(metadata={"value": 9})), "was changed after"),
    "seal removed": (lambda p: edit(p, lambda m: m.pop("sha256")), "was changed after"),
    "newer version": (lambda p: edit(p, lambda m: m.update(version=2)), "reads up to version 1. Update nearer"),
    "no version": (lambda p: edit(p, lambda m: m.pop("version")), "must name a format version, got None"),
    "another format": (lambda p: edit(p, lambda m: m.update(format="nearer.index")), "says 'nearer.index'"),
    "a path out": (
        lambda p: edit(p, lambda m: m["files"].update({"../../etc/passwd": {}}), forge=True),  # type: ignore[attr-defined]
        "names a file outside its folder",
    ),
    "forged checksum": (
        lambda p: (
            (p / "part.safetensors").write_bytes(b"not tensors"),
            edit(
                p,
                lambda m: m["files"].update({"part.safetensors": fingerprint(p / "part.safetensors")}),  # type: ignore[attr-defined]
                forge=True,
            ),
        ),
        "must be a safetensors file",
    ),
    "entry without checksum": (
        lambda p: edit(p, lambda m: m["files"].update({"items.json": None}), forge=True),  # type: ignore[attr-defined]
        "must be as it was written",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda name: name.replace(" ", "-"))
def test_damage_is_named(tmp_path: Path, damage: str) -> None:
    spoil, message = DAMAGE[damage]
    place = write(tmp_path / "a")
    spoil(place)
    with pytest.raises(CorruptFileError, match=message):
        read(place)


@given(position=st.integers(0, 10**6), bit=st.integers(0, 7), name=st.sampled_from(["part.safetensors", MANIFEST]))
@settings(max_examples=40, deadline=None)
def test_no_flipped_bit_goes_unnoticed(
    tmp_path_factory: pytest.TempPathFactory, position: int, bit: int, name: str
) -> None:
    place = write(tmp_path_factory.mktemp("bits") / "a")
    data = bytearray((place / name).read_bytes())
    data[position % len(data)] ^= 1 << bit
    (place / name).write_bytes(bytes(data))
    try:
        folder = read(place)
    except CorruptFileError:
        return
    # White space of the manifest carries no meaning; everything that does is unchanged.
    assert folder.metadata == {"value": 1.0}
    assert torch.equal(folder.tensors["part"]["x"], torch.ones(4, 3))


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match=r"there is no such folder\. Check the path"):
        read(tmp_path / "a")
    with pytest.raises(ParameterError, match="must be the name of a file or folder, got ''"):
        write_folder("", format="nearer.note", version=1, tensors={})


def stranded(place: Path, name: str, value: float, *, age: int = 0) -> Path:
    """A version that a killed process left in the scratch folder of `place`."""
    copy = _scratch.scratch_of(place) / name
    write(copy, value)
    os.utime(copy / MANIFEST, ns=(10**18 - age, 10**18 - age))
    return copy


def test_after_a_kill_between_two_renames_the_newest_whole_version_gets_its_name_back(tmp_path: Path) -> None:
    place = tmp_path / "a"
    stranded(place, "old", 1.0, age=10)
    stranded(place, "new", 2.0)
    assert read(place).metadata == {"value": 2.0}
    assert names(tmp_path) == ["a"], "nothing is left over"
    place.rename(tmp_path / "away")
    stranded(place, "old", 1.0, age=10)
    cut(stranded(place, "new", 2.0), "part.safetensors")
    assert read(place).metadata == {"value": 1.0}, "half of a new version is none"
    assert names(tmp_path) == ["a", "away"]


def test_without_the_right_to_rename_the_whole_copy_is_read_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranded(tmp_path / "a", "old", 1.0)
    monkeypatch.setattr(os, "mkdir", full_disk)  # as in a folder that may only be read
    assert read(tmp_path / "a").metadata == {"value": 1.0}


def test_a_reader_whose_looks_fall_between_the_renames_of_two_saves_waits_for_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = write(tmp_path / "a", 1.0)
    away, waiting = threading.Event(), threading.Event()

    def save() -> None:
        with _scratch.locked(place):
            os.rename(place, tmp_path / "away")
            away.set()
            waiting.wait(60)
            os.rename(tmp_path / "away", place)

    def watched(folder: Path, *, wait: float | None = None) -> object:
        waiting.set()
        return _scratch.locked(folder, wait=wait)

    writer = threading.Thread(target=save)
    writer.start()
    assert away.wait(60)
    monkeypatch.setattr(_folder, "locked", watched)
    try:
        # No version has its name, and none is in the scratch folder.
        assert read(place).metadata == {"value": 1.0}
    finally:
        waiting.set()
        writer.join()
    assert names(tmp_path) == ["a"]


def test_the_error_about_a_damaged_folder_names_the_newest_whole_copy(tmp_path: Path) -> None:
    place = write(tmp_path / "a", 3.0)
    flip(place, "part.safetensors")
    stranded(place, "old", 1.0, age=10)
    newer = stranded(place, "new", 2.0)
    with pytest.raises(CorruptFileError, match=r"The newest whole earlier copy is in `.*\.a\.saving/new`"):
        read(place)
    flip(newer, "part.safetensors")
    with pytest.raises(CorruptFileError, match=r"The newest whole earlier copy is in `.*\.a\.saving/old`"):
        read(place)


def test_leftovers_of_a_killed_save_are_swept_at_the_next_open_and_at_the_next_save(tmp_path: Path) -> None:
    place = write(tmp_path / "a", 1.0)
    cut(stranded(place, "new", 2.0), "part.safetensors")
    assert read(place).metadata == {"value": 1.0}
    assert names(tmp_path) == ["a"]
    stranded(place, "old", 0.0)
    write(place, 3.0)
    assert names(tmp_path) == ["a"]
    assert read(place).metadata == {"value": 3.0}


def test_a_second_writer_waits_and_is_then_told_who_holds_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = write(tmp_path / "a", 1.0)
    monkeypatch.setenv("NEARER_LOCK_SECONDS", "0")
    with _scratch.locked(place):
        with pytest.raises(LockedError, match=rf"process {os.getpid()} on .* since 2.* is writing it\. Waited 0"):
            write(place, 2.0)
        assert read(place).metadata == {"value": 1.0}, "a reader does not wait"
    monkeypatch.setenv("NEARER_LOCK_SECONDS", "60")
    entered = threading.Event()

    def hold() -> None:
        with _scratch.locked(place):
            entered.set()
            time.sleep(0.2)

    holder = threading.Thread(target=hold)
    holder.start()
    entered.wait()
    write(place, 2.0)
    holder.join()
    assert read(place).metadata == {"value": 2.0}
    assert names(tmp_path) == ["a"]


def test_a_file_system_without_locks_is_written_to_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(handle: int, what: int) -> None:
        if what != fcntl.LOCK_UN:
            raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    assert read(write(tmp_path / "a", 2.0)).metadata == {"value": 2.0}
    monkeypatch.setattr(fcntl, "flock", full_disk)
    with pytest.raises(WriteError, match="No space left"):
        write(tmp_path / "a", 3.0)


def test_a_reader_that_has_the_old_version_open_finishes_with_it(tmp_path: Path, switch: str) -> None:
    place = write(tmp_path / "a", 1.0)
    with _folder.Snapshot(place) as snapshot:
        manifest = snapshot.manifest()
        snapshot.hold(list(manifest["files"]))
        write(place, 2.0)
        name = "part.safetensors"
        assert torch.equal(
            _folder._tensors(snapshot.checked(name, manifest["files"][name]), place)["x"], torch.ones(4, 3)
        )
        assert not snapshot.is_current()
    assert read(place).metadata == {"value": 2.0}


def test_a_folder_that_may_not_be_opened_is_named_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = write(tmp_path / "a")

    def denied(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", denied)
    start = time.monotonic()
    with pytest.raises(CorruptFileError, match="a` cannot be opened: Permission denied"):
        read(place)
    assert time.monotonic() - start < 10, "nothing to wait for"


def test_a_removed_folder_is_gone_at_once(tmp_path: Path) -> None:
    remove_folder(write(tmp_path / "a"))
    assert names(tmp_path) == []
    with pytest.raises(WriteError, match="could not be written: No such file"):
        remove_folder(tmp_path / "a")


def test_the_tensors_are_those_of_the_safetensors_library_and_the_other_way_round(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    kinds = [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int16, torch.uint8, torch.bool]
    tensors = {f"{kind}-{n}": (torch.rand(n, 3) * 9).to(kind) for kind in kinds for n in (0, 1, 5)}
    tensors["scalar"] = torch.tensor(7)
    (tmp_path / "ours").write_bytes(b"".join(bytes(piece) for piece in tensor_bytes(tensors)))
    for name, tensor in load_file(tmp_path / "ours").items():
        assert torch.equal(tensor, tensors[name])
    save_file(tensors, tmp_path / "theirs")
    data = np.frombuffer(bytearray((tmp_path / "theirs").read_bytes()), np.uint8)
    loaded = _folder._tensors(data, tmp_path)
    assert set(loaded) == set(tensors)
    assert all(
        torch.equal(loaded[name], tensors[name]) and loaded[name].dtype == tensors[name].dtype for name in tensors
    )


def header(text: str, numbers: bytes = b"") -> np.ndarray:
    return np.frombuffer(bytearray(len(text).to_bytes(8, "little") + text.encode() + numbers), np.uint8)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.zeros(3, np.uint8), "header is longer than the file"),
        (np.full(20, 255, np.uint8), "header is longer than the file"),
        (header("[]"), "header must be a dictionary"),
        (header("{"), "Expecting property name"),
        (header('{"x": 1}'), "'x' has no place"),
        (header('{"x": {"data_offsets": [0, -1]}}'), "'x' has no place"),
        (header('{"x": {"data_offsets": [0, true]}}'), "'x' has no place"),
        (header('{"x": {"data_offsets": [0, 4], "dtype": "F99", "shape": [1]}}', b"1234"), "has the type 'F99'"),
        (header('{"x": {"data_offsets": [0, 4], "dtype": [], "shape": [1]}}', b"1234"), "has the type"),
        (header('{"x": {"data_offsets": [0, 4], "dtype": "F32", "shape": [-1]}}', b"1234"), r"the shape \[-1\]"),
        (header('{"x": {"data_offsets": [0, 4], "dtype": "F32", "shape": [2]}}', b"1234"), "with 2 numbers"),
        (header('{"x": {"data_offsets": [4, 8], "dtype": "F32", "shape": [1]}}', b"12345678"), "must lie from 0"),
        (header('{"x": {"data_offsets": [0, 8], "dtype": "F32", "shape": [2]}}', b"1234"), "must lie from 0"),
        (header('{"x": {"data_offsets": [0, 4], "dtype": "F32", "shape": [1]}}', b"12345"), "must fill 5 bytes"),
    ],
)
def test_a_forged_header_of_tensors_is_refused(data: np.ndarray, message: str) -> None:
    with pytest.raises(CorruptFileError, match=f"must be a safetensors file: .*{message}"):
        _folder._tensors(data, Path("x"))


def test_tensors_that_another_program_wrote_without_padding_are_read() -> None:
    text = '{"x": {"data_offsets": [0, 8], "dtype": "F64", "shape": [1]}}'
    assert len(text) % 8
    loaded = _folder._tensors(header(text, np.array([2.5]).tobytes()), Path("x"))
    assert loaded["x"].tolist() == [2.5]


def test_nothing_foreign_is_ever_replaced(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ParameterError, match=r"is a file\. Choose another path"):
        write(tmp_path / "file")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "one.jpg").write_bytes(b"jpg")
    with pytest.raises(ParameterError, match="a folder that nearer wrote"):
        write(tmp_path / "photos")
    write(tmp_path / "other", format="nearer.other")
    with pytest.raises(ParameterError, match=r"holds 'nearer\.other'"):
        write(tmp_path / "other")
    place = write(tmp_path / "a")
    (place / "notes.txt").write_text("mine")
    with pytest.raises(ParameterError, match=r"also holds 'notes\.txt'"):
        write(place)
    assert (place / "notes.txt").read_text() == "mine"
    (tmp_path / "empty").mkdir()
    assert read(write(tmp_path / "empty")).metadata == {"value": 1.0}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"metadata": {"value": float("nan")}}, "`metadata` must be JSON"),
        ({"metadata": {"value": torch.ones(1)}}, "`metadata` must be JSON"),
        ({"documents": {"items": {1, 2}}}, r"`documents\['items'\]` must be JSON"),
        ({"documents": {"manifest": {}}}, "the manifest has it"),
        ({"tensors": {"part": {"x": [1.0]}}}, r"`tensors\['x'\]` must be a tensor, got list"),
        ({"tensors": {"../part": {}}}, "must be letters, digits"),
        ({"documents": {".hidden": {}}}, "must be letters, digits"),
    ],
)
def test_what_cannot_be_stored_is_refused_and_nothing_is_left(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(ParameterError, match=message):
        write(tmp_path / "a", **changes)
    assert names(tmp_path) == []


def test_one_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_file(tmp_path / "new" / "page.html", b"first")
    write_file(file, b"second")
    assert file.read_bytes() == b"second"
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_file(file, b"third")
    assert file.read_bytes() == b"second"
    assert names(file.parent) == ["page.html"]


LIMITED: dict[str, tuple[Callable[[Path], object], str]] = {
    "deep": (lambda p: (p / MANIFEST).write_text("[" * 10_000), "must keep to 100 levels .*, got 10,000"),
    "digits": (lambda p: (p / MANIFEST).write_text("9" * 5_000), "must keep to 4,300 digits"),
    "holes": (lambda p: os.truncate(p / MANIFEST, 1 << 40), "bytes in memory .*, got 1,099,511,627,776"),
    "files": (
        lambda p: edit(p, lambda m: m.update(files={f"f{n}.json": {} for n in range(10_001)}), forge=True),
        "must keep to 10,000 files",
    ),
}


@pytest.mark.parametrize("kind", LIMITED)
def test_what_asks_for_too_much_is_refused_before_it_gets_it(tmp_path: Path, kind: str) -> None:
    spoil, message = LIMITED[kind]
    place = write(tmp_path / "a")
    spoil(place)
    with pytest.raises(LimitError, match=message):
        read(place)


def test_what_could_not_be_read_back_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep: list[object] = []
    for _ in range(150):
        deep = [deep]
    with pytest.raises(LimitError, match=r"`documents\['items'\]` must keep to 100 levels .*, got 151"):
        write(tmp_path / "a", documents={"items": deep})
    monkeypatch.setenv("NEARER_MAX_TEXT", "2000")
    with pytest.raises(LimitError, match="2,000 bytes of a JSON"):
        write(tmp_path / "a", metadata={"text": "x" * 3000})
    assert names(tmp_path) == []


def test_a_pipe_in_the_place_of_a_file_does_not_hang_the_reader(tmp_path: Path) -> None:
    place = write(tmp_path / "a")
    (place / "items.json").unlink()
    os.mkfifo(place / "items.json")
    with pytest.raises(CorruptFileError, match=r"items\.json` cannot be opened: it is not an ordinary file"):
        read(place)
