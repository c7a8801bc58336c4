"""Data and models as the commands name them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from nearer.datasets import Dataset
from nearer.datasets._anything import Columns
from nearer.exceptions import NearerError
from nearer.models import Model
from nearer.models._encoded import Reading, read_items

__all__ = ["load_data", "load_for"]

# The words of the library and those of the command line.
_WORDS = (("label=", "--label "), ("ignore=", "--ignore "), ("unreadable='skip'", "--unreadable skip"))
_NAMES = (
    ("`label`", "`--label`"),
    ("`ignore`", "`--ignore`"),
    ("`path`", "DATA"),
    ("`features`", "`--features`"),
    ("`encoder`", "`--encoder`"),
    ("`text`", "`--text`"),
)


@contextmanager
def told_as_flags() -> Iterator[None]:
    """Say what was wrong in the words of the command line."""
    try:
        yield
    except NearerError as error:
        text = str(error)
        for word, flag in (*_WORDS, *_NAMES):
            text = text.replace(word, flag)
        if text == str(error):
            raise
        raise type(error)(text) from error


def load_data(
    path: Path,
    *,
    label: Sequence[str] = (),
    features: Sequence[str] = (),
    ignore: Sequence[str] = (),
    ids: str | None = None,
    keep: Sequence[str] = (),
    unlabeled: str | None = "-1",
    unreadable: str = "raise",
    encoder: str | None = None,
    text: str | None = None,
    progress: bool = True,
) -> Dataset:
    """A table, or photos or texts through an encoder; one label column gives classes, several sets or
    distributions.
    """
    named: list[str | int] = [_position(one, path) for one in label]
    columns = Columns(ids=ids, keep=tuple(keep), ignore=tuple(ignore), features=tuple(features))
    with told_as_flags():
        reading = Reading(
            encoder,
            text=text,
            unreadable=unreadable,
            unlabeled=unlabeled,
            progress=None if progress else False,
        )
        return read_items(path, (named[0] if len(named) == 1 else named) if named else None, columns, reading)


def load_for(model: Model, path: Path, *, label: Sequence[str] = ()) -> Dataset:
    """Data for a model: its columns are found by their names, in any order."""
    with told_as_flags():
        return model.inputs.read(path, list(label) or None)


def _position(name: str, path: Path) -> str | int:
    """Columns of arrays have no names: a number is a position there."""
    return int(name) if path.suffix == ".npy" and name.lstrip("-").isdigit() else name
