"""Data, models and conditions as the commands name them."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from nearer._limits import parse_json
from nearer._plain import counted
from nearer.app.cli._output import say
from nearer.datasets import Dataset
from nearer.datasets._anything import ColumnRoles, check_ids, read_frame, with_pairs
from nearer.exceptions import NearerError, ParameterError
from nearer.index._fields import kind_of
from nearer.models import Model
from nearer.models._reading import Reading, read_items
from nearer.relations import Pairs

Name = TypeVar("Name", str, str | int)


@contextmanager
def reading(option: str = "data") -> Iterator[None]:
    """Say of which option the `path` was that could not be read."""
    try:
        yield
    except NearerError as error:
        if error.argument == "path":
            error.argument = option
        raise


def load_data(path: Path, label: Sequence[str] | None, columns: ColumnRoles, how: Reading) -> Dataset:
    """A table, or photos or texts through an encoder; one label column gives classes, several sets or
    distributions.
    """
    names: list[str | int] = [_position(name, path) for name in label or ()]
    with reading():
        given = check_ids(read_items(path, as_asked(names), columns, how))
    if how.progress is not False:
        say_skipped(given)
    return given


def as_asked(label: Sequence[Name] | None) -> Name | list[Name] | None:
    """`--label` as the library takes it: a word is always a column, a list could be the labels of the rows."""
    return label[0] if label and len(label) == 1 else list(label or ()) or None


def load_for(
    model: Model,
    path: Path,
    *,
    label: Sequence[str] | None = None,
    option: str = "data",
    unreadable: str = "raise",
) -> Dataset:
    """Data for a model: its columns are found by their names, in any order."""
    with reading(option):
        given = model.inputs.read(path, as_asked(label), unreadable=unreadable)
    say_skipped(given)
    return given


def say_skipped(given: Dataset) -> None:
    """Name the photos that were left out, on stderr: what is read by programs stays as it is."""
    # Where no process was started there is one, and a search need not load what trains.
    if given.skipped and os.environ.get("RANK", "0") == "0":
        shown = ", ".join(given.skipped[:3]) + (", ..." if len(given.skipped) > 3 else "")
        say(f"nearer: left out {counted(len(given.skipped), 'file')} that could not be read: {shown}", err=True)


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
    left, right, answer = (
        ["" if cell is None else str(cell) for cell in frame[name].words()] for name in frame.names
    )
    ids = data.all.extra.get("id")
    row_of = {str(name): row for row, name in enumerate(range(len(data.all)) if ids is None else ids.tolist())}
    rows: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
    for line, (a, b, said) in enumerate(zip(left, right, answer, strict=True), start=2):
        unknown = [name for name in (a, b) if name not in row_of]
        if unknown:
            what = "an id of the data" if ids is not None else f"a row number from 0 to {len(data.all) - 1}"
            raise ParameterError(f"Line {line} of `{path.name}` must name {what}, got {unknown[0]!r}.")
        if said.lower() not in _ANSWERS:
            raise ParameterError(
                f"Line {line} of `{path.name}` must say 1 (near) or 0 (not), got {said!r} in {frame.names[2]!r}."
            )
        rows[_ANSWERS[said.lower()]].append((row_of[a], row_of[b]))
    return with_pairs(data, Pairs(len(data.all), positive=rows[True], negative=rows[False]))


_ANSWERS = dict.fromkeys(("1", "true", "yes", "same", "near"), True)
_ANSWERS |= dict.fromkeys(("0", "-1", "false", "no", "different", "far"), False)


OPERATORS = {"=": "$eq", "==": "$eq", "!=": "$ne", ">": "$gt", ">=": "$gte", "<": "$lt", "<=": "$lte"}
FORMS = (
    'NAME=VALUE, with != < <= > >= too, NAME= where there is none, or JSON such as {"Year": {"$in": [1999, 2004]}}'
)


def as_where(text: str, fields: Mapping[str, Collection[str]]) -> dict[str, Any]:
    """A condition from the command line; what a value is, is decided by what the field of an index holds.

    >>> fields = {"year": {"numbers"}, "code": {"text"}}
    >>> as_where("year>=2000", fields), as_where("code=2000", fields), as_where("code != x", fields)
    ({'year': {'$gte': 2000}}, {'code': {'$eq': '2000'}}, {'code': {'$ne': 'x'}})
    >>> as_where("code=", fields)
    {'code': {'$eq': None}}
    >>> as_where('{"year": {"$in": [1999, 2000]}}', fields)
    {'year': {'$in': [1999, 2000]}}
    """
    if text.lstrip().startswith("{"):
        try:
            condition = parse_json(text.encode(), "`--where`")
        except ValueError as error:
            raise ParameterError(f"`--where` must be {FORMS}: {error}.") from error
        return dict(condition)
    ways = [
        (text[: match.start()].strip(), match[0], text[match.end() :].strip())
        for match in re.finditer("[!<>=]=?", text)
    ]
    ways = [match for match in ways if match[0] and match[1] in OPERATORS]
    if not ways:
        raise ParameterError(f"`--where` must be {FORMS}; got {text!r}.")
    # A name may hold such signs itself; then it is the one that is there.
    name, sign, value = next((match for match in ways if match[0] in fields), ways[0])
    return {name: {OPERATORS[sign]: _typed(value, fields.get(name, ()))}}


def _typed(text: str, kinds: Collection[str]) -> Any:
    """A number, a truth value or null where the field holds them; text where it holds text."""
    if not text:
        return None  # an empty cell of a table
    try:
        value = parse_json(text.encode(), "`--where`")
        kind = kind_of(value)
    except ValueError:
        return text
    return text if "text" in kinds and kind not in kinds and value is not None else value
