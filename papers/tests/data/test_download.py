"""Fetching from a server on this machine: whole, wrong, broken off, refused; and never half a file."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import io
import socket
import struct
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from nearer.datasets._dataset import Download
from nearer.exceptions import CorruptFileError, MissingDataError, ParameterError
from nearer_papers.data import _mnist as mnist
from nearer_papers.data._download import download_file
from nearer_papers.data._mnist import load_mnist
from nearer_papers.data._obtain import obtain

BODY = bytes(range(256)) * 4000
SHA = hashlib.sha256(BODY).hexdigest()


class Handler(BaseHTTPRequestHandler):
    files: dict[str, bytes]
    asked: list[str]

    def do_GET(self) -> None:
        type(self).asked.append(self.path)
        if self.path not in self.files:
            self.send_error(404, "not here")
            return
        body = self.files[self.path]
        self.send_response(200)
        if self.path != "/unsized":
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if self.path == "/truncated" else body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    Handler.files = dict.fromkeys(("/good", "/truncated", "/unsized"), BODY)
    Handler.asked = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


@pytest.mark.parametrize("path", ["/good", "/unsized"])
def test_a_good_file_arrives(server: str, tmp_path: Path, path: str) -> None:
    target = tmp_path / "new folder" / "file.bin"
    assert download_file(f"{server}{path}", target, sha256=SHA) == target
    assert target.read_bytes() == BODY
    assert [entry.name for entry in target.parent.iterdir()] == ["file.bin"]
    assert target.stat().st_mode & 0o444 == 0o444


def test_progress_is_shown(server: str, tmp_path: Path) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    download_file(f"{server}/good", tmp_path / "file", sha256=SHA, console=console)
    assert "good" in screen.getvalue()
    assert "MB" in screen.getvalue()


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        ("/truncated", MissingDataError, "connection ended after 512,000 of 1,024,000 bytes"),
        ("/absent", MissingDataError, "not here"),
    ],
)
def test_a_bad_answer_leaves_what_was_there(
    server: str, tmp_path: Path, path: str, error: type[Exception], message: str
) -> None:
    target = tmp_path / "file"
    target.write_text("old")
    with pytest.raises(error, match=message):
        download_file(f"{server}{path}", target, sha256=SHA)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_wrong_checksum_says_both(server: str, tmp_path: Path) -> None:
    with pytest.raises(CorruptFileError, match=f"must have SHA-256 {'0' * 64}, got {SHA}"):
        download_file(f"{server}/good", tmp_path / "file", sha256="0" * 64)
    assert list(tmp_path.iterdir()) == []


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


def test_a_refused_connection(tmp_path: Path) -> None:
    address = f"http://127.0.0.1:{free_port()}/file"
    with pytest.raises(MissingDataError, match=f"Fetching {address} failed: .*refused.*fetch it by hand"):
        download_file(address, tmp_path / "file", sha256=SHA)
    assert list(tmp_path.iterdir()) == []


def test_a_silent_server_is_given_up(tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/file"
        with pytest.raises(MissingDataError, match="timed out"):
            download_file(address, tmp_path / "file", sha256=SHA, timeout=0.2)


def test_only_web_addresses(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="`address` must begin with http"):
        download_file("file:///etc/hostname", tmp_path / "file", sha256=SHA)


def test_a_folder_that_cannot_be_written(server: str, tmp_path: Path) -> None:
    (tmp_path / "a file").write_text("in the way")
    with pytest.raises(MissingDataError, match=r"cannot be written: .*NEARER_DATA"):
        download_file(f"{server}/good", tmp_path / "a file" / "below", sha256=SHA)


def idx(array: np.ndarray) -> bytes:
    header = struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    return gzip.compress(header + array.astype(np.uint8).tobytes())


def test_a_loader_fetches_once_and_then_reads_from_disk(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = np.arange(2 * 4).reshape(2, 2, 2), np.array([1, 0])
    bodies = [idx(x), idx(y), idx(x + 1), idx(y)]
    downloads = tuple(
        Download(file.name, f"{server}/{place}", hashlib.sha256(body).hexdigest())
        for place, (file, body) in enumerate(zip(mnist.MNIST.downloads, bodies, strict=True))
    )
    Handler.files |= {f"/{place}": body for place, body in enumerate(bodies)}
    monkeypatch.setattr(mnist, "MNIST", dataclasses.replace(mnist.MNIST, downloads=downloads))
    first = load_mnist(folder=tmp_path)
    assert np.array_equal(first.train.x, x)
    assert first.test.y.tolist() == [1, 0]
    assert len(Handler.asked) == 4
    again = load_mnist(folder=tmp_path)
    assert len(Handler.asked) == 4
    assert again.fingerprint() == first.fingerprint()
    damaged = tmp_path / "mnist" / "train-labels-idx1-ubyte.gz"
    damaged.write_bytes(idx(y + 1))
    with pytest.raises(CorruptFileError, match=r"`train-labels-idx1-ubyte.gz` in .* must have SHA-256"):
        load_mnist(folder=tmp_path)
    assert load_mnist(folder=tmp_path, verify=False).train.y.tolist() == [2, 1]


def test_offline_and_absent_says_file_folder_and_address(tmp_path: Path) -> None:
    address = f"http://127.0.0.1:{free_port()}/x.gz"
    source = dataclasses.replace(mnist.MNIST, downloads=(Download("mnist/x.gz", address, SHA),))
    with pytest.raises(MissingDataError) as caught:
        obtain(source, tmp_path, verify=True, allow_download=True)
    for part in ("mnist/x.gz", "mnist.npz", str(tmp_path), source.address, address, "refused"):
        assert part in str(caught.value)


def test_a_full_disk_leaves_nothing(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nearer_papers.data._download._copy", full)
    with pytest.raises(MissingDataError, match="No space left on device"):
        download_file(f"{server}/good", tmp_path / "file", sha256=SHA)
    assert list(tmp_path.iterdir()) == []
