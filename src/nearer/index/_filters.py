"""Conditions on metadata, the same for every index: `{"year": {"$gte": 2000}, "color": "red"}`.

```
{"a": 1}                      a is 1                       {"a": {"$ne": 1}}      a is not 1, or there is no a
{"a": {"$in": [1, 2]}}        a is one of them             {"a": {"$nin": [1]}}   a is none of them
{"a": {"$gt": 1}}  $gte $lt $lte   numbers or text, in their order
{"a": 1, "b": 2}              both                         {"$and": [{...}, {...}]}   {"$or": [{...}, {...}]}
```

A value keeps its kind: the number 2000 is not the text "2000", and 1 is not true. An item without a field counts as
one that has null there. A field that no item ever had, or a value of a kind that its field never had, is a mistake
and refused: the answer would be empty for a reason that nobody sees.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearer.exceptions import ParameterError
from nearer.index._fields import FieldColumn, Kinds, kind_of
from nearer.index._notes import as_json

ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}
OPERATORS = ("$eq", "$ne", "$in", "$nin", *ORDERS)
# As deep as a person writes; a deeper one comes from a program that went wrong.
DEEPEST = 20


@dataclass(frozen=True)
class Compare:
    """A field beside values: `operator` is "$in" (one of them), "$nin" (none of them), or an order (one value)."""

    field: str
    operator: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Every:
    """All parts must hold."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class Some:
    """One part must hold."""

    parts: tuple[Condition, ...]


Condition = Compare | Every | Some
EVERYTHING = Every(())


def as_condition(where: Mapping[str, Any] | None) -> Condition | None:
    """A checked condition; None where there is nothing to check.

    >>> as_condition({"year": {"$gte": 2000}})
    Compare(field='year', operator='$gte', values=(2000,))
    """
    if where is None:
        return None
    condition = _parsed(where, "where", 0)
    return None if condition == EVERYTHING else condition


def _parsed(where: Any, name: str, depth: int) -> Condition:
    if not isinstance(where, Mapping):
        raise ParameterError(f"`{name}` must be a dictionary of metadata values, got {type(where).__name__}.")
    if depth > DEEPEST:
        raise ParameterError(f"`where` must be at most {DEEPEST} levels deep.")
    parts: list[Condition] = []
    for key, given in where.items():
        at = f"{name}[{key!r}]"
        if key in ("$and", "$or"):
            if not isinstance(given, list | tuple) or not given:
                raise ParameterError(f"`{at}` must be a list of conditions, got {given!r}.")
            inner = tuple(
                _parsed(condition, f"{at}[{number}]", depth + 1) for number, condition in enumerate(given)
            )
            if key == "$and":
                parts += [condition for condition in inner if condition != EVERYTHING]
            elif EVERYTHING not in inner:
                parts.append(Some(inner))
        elif not isinstance(key, str) or key.startswith("$"):
            raise ParameterError(f"`{name}` must name fields, $and or $or, got {key!r}.")
        elif isinstance(given, Mapping) and any(str(condition).startswith("$") for condition in given):
            parts += [_compared(key, str(condition), value, at) for condition, value in given.items()]
        else:
            parts.append(Compare(key, "$in", (as_json(given, at),)))
    return parts[0] if len(parts) == 1 else Every(tuple(parts))


def _compared(field: str, operator: str, given: Any, name: str) -> Compare:
    if operator not in OPERATORS:
        raise ParameterError(f"`{name}` must use {', '.join(OPERATORS)}, got {operator!r}.")
    value = as_json(given, f"{name}[{operator!r}]")
    if operator in ("$in", "$nin"):
        if not isinstance(value, list):
            raise ParameterError(f"`{name}[{operator!r}]` must be a list of values, got {given!r}.")
        return Compare(field, operator, tuple(value))
    if operator in ("$eq", "$ne"):
        return Compare(field, "$in" if operator == "$eq" else "$nin", (value,))
    if kind_of(value) not in ("numbers", "text"):
        raise ParameterError(f"`{name}[{operator!r}]` must be a number or text, got {given!r}.")
    return Compare(field, operator, (value,))


def check_condition(condition: Condition, kinds: Kinds) -> None:
    """Refuse a field that was never there, and a value of a kind that its field never had."""
    if isinstance(condition, Every | Some):
        for part in condition.parts:
            check_condition(part, kinds)
        return
    name = condition.field
    if name not in kinds:
        there = ", ".join(sorted(kinds)[:20]) or "none"
        from nearer._names import hint

        raise ParameterError(
            f"`where` must name fields of the metadata, {name!r} is none of them: {there}.{hint(name, kinds)}"
        )
    known = kinds[name]
    for value in condition.values:
        if value is not None and kind_of(value) not in known:
            there = " and ".join(sorted(known))
            raise ParameterError(
                f"`where[{name!r}]` must be of the kind that the field has ({there}), got {kind_of(value)}: "
                f"{value!r}."
            )


def matching(condition: Condition, column: Callable[[str], FieldColumn], n: int) -> NDArray[np.bool_]:
    """Which of n positions a condition holds for."""
    if not isinstance(condition, Compare):
        joined = np.logical_and if isinstance(condition, Every) else np.logical_or
        parts = [matching(part, column, n) for part in condition.parts]
        return joined.reduce(np.reshape(parts, (len(parts), n)), axis=0, dtype=np.bool_)
    values = column(condition.field)
    if condition.operator == "$in":
        return values.equal_to(condition.values)
    if condition.operator == "$nin":
        return ~values.equal_to(condition.values)
    (limit,) = condition.values
    kind, holds = kind_of(limit), ORDERS[condition.operator]
    return values.that(lambda value: kind_of(value) == kind and holds(value, limit))
