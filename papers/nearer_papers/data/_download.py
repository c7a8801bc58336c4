"""Fetch one file: a progress bar, a checksum, and never a half-written file under the final name."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from nearer._limits import check_limit
from nearer._storage._disk import flush_folder
from nearer._storage._scratch import locked, remove
from nearer.exceptions import CorruptFileError, MissingDataError, ParameterError

__all__ = ["download_file"]

_CHUNK = 1 << 18


def download_file(
    address: str,
    path: str | os.PathLike[str],
    *,
    sha256: str,
    timeout: float = 30.0,
    console: Console | None = None,
) -> Path:
    """Fetch `address` into `path` and return the path; the file appears only when its SHA-256 is right.

    The bytes go to a temporary file beside `path`, which is flushed to disk and renamed at the end, so a crash,
    a lost connection or a wrong file leaves what was there before; the next attempt sweeps what a kill left. One
    process fetches a file at a time. Progress is written to `console` (standard error by default). An address that
    cannot be reached or breaks off is a MissingDataError, other bytes than expected are a CorruptFileError.
    """
    if not address.startswith(("http://", "https://")):
        raise ParameterError(f"`address` must begin with http:// or https://, got {address!r}.")
    target = Path(path)
    with _temporary(target) as file:
        try:
            came = _copy(address, file, timeout, console or Console(stderr=True))
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise MissingDataError(
                f"Fetching {address} failed: {reason}. Try again later or fetch it by hand."
            ) from error
        if came != sha256:
            raise CorruptFileError(
                f"The file at {address} must have SHA-256 {sha256}, got {came}. Nothing was kept; the address may "
                f"have changed, or something on the way altered the file."
            )
        file.flush()
        os.fsync(file.fileno())
        file.close()
        os.replace(file.name, target)
        flush_folder(target.parent)
    return target


def _copy(address: str, file: IO[bytes], timeout: float, console: Console) -> str:
    """Stream the response into the file and return its SHA-256."""
    request = urllib.request.Request(address, headers={"User-Agent": "nearer"})
    digest = hashlib.sha256()
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(),
               TimeRemainingColumn())  # fmt: skip
    with (
        urllib.request.urlopen(request, timeout=timeout) as response,
        Progress(*columns, console=console, transient=True) as progress,
    ):
        length = response.headers.get("Content-Length")
        total = int(length) if length and length.isascii() and length.isdecimal() and len(length) < 20 else None
        check_limit("NEARER_MAX_DOWNLOAD", total or 0, f"The file at {address}")
        task = progress.add_task(address.rsplit("/", 1)[-1], total=total)
        received = 0
        while chunk := response.read(_CHUNK):
            digest.update(chunk)
            file.write(chunk)
            received += len(chunk)
            check_limit("NEARER_MAX_DOWNLOAD", received, f"The file at {address}")
            progress.update(task, completed=received)
    if total is not None and received < total:
        raise ConnectionError(f"the connection ended after {received:,} of {total:,} bytes")
    return digest.hexdigest()


@contextlib.contextmanager
def _temporary(target: Path) -> Iterator[IO[bytes]]:
    """A file beside the target that is gone afterwards unless it was renamed."""
    with contextlib.ExitStack() as stack:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            scratch = stack.enter_context(locked(target))
            remove(scratch / "new")
            file = stack.enter_context(open(scratch / "new", "wb"))
        except OSError as error:
            raise MissingDataError(
                f"`{target}` cannot be written: {error.strerror or error}. Set NEARER_DATA (or folder=) to a "
                f"folder that can be."
            ) from error
        yield file
