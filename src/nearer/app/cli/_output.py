"""What all commands share: JSON on stdout, failures as one line on stderr, and a look at the output path first."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from nearer.exceptions import NearerError, ParameterError

# What a terminal obeys instead of showing it: the controls of ASCII and of Latin-1 but for tab and line feed, and
# those that turn the direction of writing around; and what of a file name is no UTF-8. Names of classes, ids,
# columns and files come from the data.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def plain(text: str) -> str:
    r"""A text in which no character is a command to the terminal; such characters are shown by their numbers.

    >>> print(plain("a\x1b[31mred\x07\u202e"))
    a\x1b[31mred\x07\u202e
    """
    return _CONTROLS.sub(lambda match: ascii(match[0])[1:-1], text)


def say(text: str, *, err: bool = False) -> None:
    """A line for people, on stdout or on stderr; every command writes through here or through `screen`."""
    typer.echo(plain(text), err=err)


def as_utf8(text: str) -> bytes:
    r"""A file of text; what of a file name is no UTF-8 is written by its number.

    >>> as_utf8("a\udcff")
    b'a\\udcff'
    """
    return text.encode("utf-8", "backslashreplace")


def print_json(document: Mapping[str, Any]) -> None:
    """One JSON document on stdout."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    typer.echo(_CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text))


def answer(as_json: bool, document: Mapping[str, Any], line: str) -> None:
    """What a command has done: a JSON document for programs, or a line for people."""
    if as_json:
        print_json(document)
    else:
        say(line)


class Terminated(KeyboardInterrupt):
    """SIGTERM: someone ended the program, as Ctrl-C would."""


@contextmanager
def failures_reported(as_json: bool, worded: Callable[[Exception], str] = str) -> Iterator[None]:
    """Turn what the library or the system refuses into one line, or one JSON document on stdout, and exit code 1; a
    defect keeps its traceback. `worded` makes the line of an error.
    """
    try:
        with _termination_raised():
            yield
    except BrokenPipeError as error:
        # Whoever read the output has seen enough (`| head`). What is still buffered must not fail at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(128 + 13) from error
    except (NearerError, OSError) as error:
        message = worded(error)
        if as_json:
            print_json({"error": message})
        else:
            say(f"nearer: {message}", err=True)
        raise typer.Exit(1) from error
    except KeyboardInterrupt as stop:
        say(f"nearer: interrupted. {stop}".rstrip(), err=True)
        # What shells report of a program that a signal ended: 128 and its number, 2 for Ctrl-C, 15 for SIGTERM.
        number = getattr(stop, "signal", signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT)
        raise typer.Exit(128 + int(number)) from stop


@contextmanager
def _termination_raised() -> Iterator[None]:
    """Let SIGTERM end the program with its messages and its cleaning up, unless someone else listens for it."""
    if threading.current_thread() is not threading.main_thread() or (
        signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    ):
        yield
        return

    def stop(number: int, frame: object) -> None:
        raise Terminated

    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def check_is_here(out: object) -> None:
    """Refuse an address of the hub before anything is learned: a model is looked at before it is given away."""
    from nearer.models._reading import on_hub

    if on_hub(str(out)):
        raise ParameterError(
            f"`--out` must be a folder of this machine, got {str(out)!r}. Name a folder, then write it there: "
            "nearer export FOLDER --out hf://owner/name."
        )


def check_new(*, out: Path | None = None, report: Path | None = None, force: bool = False) -> None:
    """Refuse to overwrite a file without `--force`, and refuse at once what could not be written at the end."""
    for option, path in (("--out", out), ("--report", report)):
        if path is None:
            continue
        if path.exists() and not force:
            raise ParameterError(f"`{path}` must not exist yet. Choose another name, or add `force=True`.")
        check_writable(path, option)
    if report is not None and report.suffix != ".html":
        raise ParameterError(f"`--report` must end in .html, got {report.name!r}.")


def check_drawable(report: Path | None) -> None:
    """Say that a page cannot have its pictures before the work begins, not when it is done."""
    if report is not None:
        from nearer.reports._style import load_matplotlib

        load_matplotlib()


def check_writable(path: Path, option: str = "--out") -> None:
    """Refuse at once what could not be written at the end.

    >>> import tempfile
    >>> check_writable(Path(tempfile.mkdtemp()) / "page.html")
    """
    if path.is_dir():
        raise ParameterError(
            f"`{option}` must be a file, got the folder {path}. Add a name, such as {path}/report.html."
        )
    folder = path.absolute().parent
    # Missing folders are made when the file is written, inside the nearest one that exists.
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        reason = "cannot be written to" if folder.is_dir() else "is not a folder"
        raise ParameterError(f"`{option}` must be in a folder that can be written to, and {folder} {reason}.")
