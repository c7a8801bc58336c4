"""Data and models as the commands name them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from nearer.datasets import Dataset
from nearer.datasets._anything import Columns, check_ids, read_frame, with_pairs
from nearer.exceptions import NearerError, ParameterError
from nearer.models import Model
from nearer.models._encoded import Reading, read_items
from nearer.relations import Pairs

__all__ = ["as_asked", "load_data", "load_for", "paired"]

# The words of the library and those of the command line.
_WORDS = (
    ("`path`", "DATA"),
    ("label=", "--label "),
    ("ignore=", "--ignore "),
    ("unreadable='skip'", "--unreadable skip"),
)


@contextmanager
def told_as_flags() -> Iterator[None]:
    """Say what was wrong in the words of the command line."""
    try:
        yield
    except NearerError as error:
        text = str(error)
        for word, flag in _WORDS:
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
    most: int | None = None,
) -> Dataset:
    """A table, or photos or texts through an encoder; one label column gives classes, several sets or
    distributions.
    """
    named: list[str | int] = [_position(one, path) for one in label]
    columns = Columns(ids=ids, keep=tuple(keep), ignore=tuple(ignore), features=tuple(features), most=most)
    with told_as_flags():
        reading = Reading(
            encoder,
            text=text,
            unreadable=unreadable,
            unlabeled=unlabeled,
            progress=None if progress else False,
        )
        return check_ids(
            read_items(path, (named[0] if len(named) == 1 else named) if named else None, columns, reading)
        )


def as_asked(label: Sequence[str]) -> str | list[str] | None:
    """`--label` as the library takes it: a word is always a column, a list could be the labels of the rows."""
    return label[0] if len(label) == 1 else list(label) or None


def load_for(model: Model, path: Path, *, label: Sequence[str] = ()) -> Dataset:
    """Data for a model: its columns are found by their names, in any order."""
    with told_as_flags():
        return model.inputs.read(path, as_asked(label))


def _position(name: str, path: Path) -> str | int:
    """Columns of arrays have no names: a number is a position there."""
    return int(name) if path.suffix == ".npy" and name.lstrip("-").isdigit() else name


def paired(data: Dataset, path: Path) -> Dataset:
    """The data with the pairs of a table: two columns of row numbers, or of ids where there are some, and answers.

    The answer is 1, true, yes or same for near ones, and 0, -1, false, no or different for the others.
    """
    frame = read_frame(path, exact=None)
    if len(frame.names) != 3:
        raise ParameterError(
            f"`--pairs` must have three columns, two rows and whether they are near, `{path.name}` has "
            f"{len(frame.names)}: {', '.join(frame.names[:5])}."
        )
    left, right, answer = (["" if one is None else str(one) for one in frame[name].words()] for name in frame.names)
    ids = data.all.extra.get("id")
    places = {str(number): number for number in range(len(data.all))}
    if ids is not None:
        places = {str(one): place for place, one in enumerate(ids.tolist())}
    rows: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
    for line, (a, b, said) in enumerate(zip(left, right, answer, strict=True), start=2):
        unknown = [one for one in (a, b) if one not in places]
        if unknown:
            what = "an id of the data" if ids is not None else f"a row number from 0 to {len(data.all) - 1}"
            raise ParameterError(f"Line {line} of `{path.name}` must name {what}, got {unknown[0]!r}.")
        if said.lower() not in _ANSWERS:
            raise ParameterError(
                f"Line {line} of `{path.name}` must say 1 (near) or 0 (not), got {said!r} in {frame.names[2]!r}."
            )
        rows[_ANSWERS[said.lower()]].append((places[a], places[b]))
    return with_pairs(data, Pairs(len(data.all), positive=rows[True], negative=rows[False]))


_ANSWERS = dict.fromkeys(("1", "true", "yes", "same", "near"), True)
_ANSWERS |= dict.fromkeys(("0", "-1", "false", "no", "different", "far"), False)
