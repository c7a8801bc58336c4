"""`--where`: conditions on metadata as people write them, Year>=1999, or as JSON."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from nearer._limits import parse_json
from nearer.exceptions import ParameterError
from nearer.index._fields import kind_of

__all__ = ["as_where"]

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
            found = parse_json(text.encode(), "`--where`")
        except ValueError as error:
            raise ParameterError(f"`--where` must be {FORMS}: {error}.") from error
        return dict(found)
    ways = [
        (text[: one.start()].strip(), one[0], text[one.end() :].strip()) for one in re.finditer("[!<>=]=?", text)
    ]
    ways = [one for one in ways if one[0] and one[1] in OPERATORS]
    if not ways:
        raise ParameterError(f"`--where` must be {FORMS}; got {text!r}.")
    # A name may hold such signs itself; then it is the one that is there.
    name, sign, value = next((one for one in ways if one[0] in fields), ways[0])
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
