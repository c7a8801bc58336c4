"""Checksums that are remembered, and files that are found by them."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from nearer.datasets._dataset import DataFile
from nearer.exceptions import CorruptFileError
from nearer_papers.data import _obtain as local


def test_a_checksum_is_read_once_and_again_after_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one")
    assert local.sha256_of(path) == hashlib.sha256(b"one").hexdigest()
    calls = []
    real = hashlib.file_digest
    monkeypatch.setattr(hashlib, "file_digest", lambda *a: calls.append(1) or real(*a))
    local.sha256_of(path)
    assert not calls
    path.write_bytes(b"two")
    os.utime(path, ns=(1, 1))
    assert local.sha256_of(path) == hashlib.sha256(b"two").hexdigest()
    assert calls


def test_find(tmp_path: Path) -> None:
    file = DataFile("file", hashlib.sha256(b"one").hexdigest())
    assert local.find(file, tmp_path) is None
    (tmp_path / "file").write_bytes(b"one")
    assert local.find(file, tmp_path) == tmp_path / "file"
    (tmp_path / "file").write_bytes(b"other")
    with pytest.raises(CorruptFileError, match=f"must have SHA-256 {file.sha256}, got"):
        local.find(file, tmp_path)
    assert local.find(file, tmp_path, verify=False) == tmp_path / "file"
