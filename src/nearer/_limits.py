"""What a file may ask for: every limit of every reader, in one table, each an environment variable.

A file says how large it wants to become before it becomes so: an array by its header, a compressed member by its
directory, an image by its sizes. Readers compare that with these limits before they allocate. A limit is never
met by honest data of ordinary size, and the message names the variable that raises it.

>>> limit("NEARER_MAX_DEPTH")
100
"""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any

import numpy as np

from nearer.exceptions import LimitError, ParameterError

# Name -> (default, what it bounds). docs/guarantees.md shows this table, and a test compares the two.
LIMITS: dict[str, tuple[int, str]] = {
    "NEARER_MAX_BYTES": (1 << 30, "bytes in memory that a small file may become (a larger one: 20 times its size)"),
    "NEARER_MAX_TEXT": (1 << 30, "bytes of a JSON or YAML document"),
    "NEARER_MAX_DEPTH": (100, "levels of lists and dictionaries in JSON or YAML"),
    "NEARER_MAX_DIGITS": (4300, "digits of a whole number in JSON, YAML or a label"),
    "NEARER_MAX_PIXELS": (89_478_485, "pixels of an image"),
    "NEARER_MAX_FILES": (10_000, "files in a saved folder, members of an archive, layers of a network"),
    "NEARER_MAX_FIELDS": (1_000, "different fields of the metadata of one index"),
    "NEARER_MAX_DOWNLOAD": (16 << 30, "bytes of a download"),
    "NEARER_LOCK_SECONDS": (60, "seconds to wait for another process that writes the same folder"),
}
# What honest data reaches when it is compressed well; a bomb reaches a thousand and more.
EXPANSION = 20


def limit(name: str) -> int:
    """The value of a limit: that of the environment variable, else the default."""
    default, about = LIMITS[name]
    text = os.environ.get(name)
    if text is None or not text.strip():
        return default
    if not re.fullmatch(r"\s*[0-9]{1,18}\s*", text):
        raise ParameterError(f"`{name}` must be a whole number ({about}), got {text!r}. Unset it for {default:,}.")
    return int(text)


def check_limit(name: str, asked: int, what: str) -> None:
    """Refuse what asks for more than a limit.

    >>> check_limit("NEARER_MAX_DEPTH", 101, "`a.json`")
    Traceback (most recent call last):
    ...
    nearer.exceptions.LimitError: `a.json` must keep to 100 levels of lists ..., got 101. If you trust it, set
    NEARER_MAX_DEPTH.
    """
    allowed = limit(name)
    if asked > allowed:
        shown = f"{asked:,}" if asked < 10**18 else "more than 10^18"
        raise LimitError(
            f"{what} must keep to {allowed:,} {LIMITS[name][1]}, got {shown}. If you trust it, set {name}."
        )


def check_expansion(asked: int, stored: int, what: str) -> None:
    """Refuse a file of `stored` bytes that would become `asked` bytes in memory.

    >>> check_expansion(2 << 30, 2 << 20, "`a.npz`")
    Traceback (most recent call last):
    ...
    nearer.exceptions.LimitError: `a.npz` must keep to 1,073,741,824 bytes in memory ...
    """
    if asked > EXPANSION * stored:
        check_limit("NEARER_MAX_BYTES", asked, what)


def size_on_disk(status: os.stat_result) -> int:
    """The bytes that a file takes on the disk: a file with holes claims more than it has."""
    blocks = getattr(status, "st_blocks", None)
    return status.st_size if blocks is None else min(status.st_size, 512 * blocks)


def check_json(data: bytes, what: str) -> None:
    """Refuse a JSON text that is too long or nested too deep, before it is parsed or written."""
    check_limit("NEARER_MAX_TEXT", len(data), what)
    if data.count(b"[") + data.count(b"{") > limit("NEARER_MAX_DEPTH"):
        check_limit("NEARER_MAX_DEPTH", _depth(data), what)


def parse_json(data: bytes, what: str) -> Any:
    """A JSON document within the limits; UnicodeDecodeError and JSONDecodeError are left to the caller.

    >>> parse_json(b'{"a": [1]}', "`a.json`")
    {'a': [1]}
    """
    check_json(data, what)
    text = data.decode("utf-8")
    digits = limit("NEARER_MAX_DIGITS")

    def whole(number: str) -> int:
        check_limit("NEARER_MAX_DIGITS", len(number.lstrip("-")), what)
        return int(number)

    # Python refuses longer numbers by itself, and a function for every number would make long documents slow.
    own = sys.get_int_max_str_digits()
    try:
        return json.loads(text, parse_int=None if digits == own else whole, parse_constant=_refuse_constant)
    except ValueError as error:
        if "integer string conversion" in str(error):
            raise LimitError(f"{what} must keep to {own:,} digits of a whole number. Shorten it.") from error
        raise


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number of JSON")


def _depth(data: bytes) -> int:
    """The deepest nesting of a JSON text; brackets inside of strings do not count."""
    plain = re.sub(rb'"(?:[^"\\]|\\.)*"', b"", data) if b'"' in data else data
    steps = np.zeros(256, np.int8)
    steps[list(b"[{")] = 1
    steps[list(b"]}")] = -1
    deepest = level = 0
    for start in range(0, len(plain), 1 << 20):
        levels = level + np.cumsum(steps[np.frombuffer(plain[start : start + (1 << 20)], np.uint8)], dtype=np.int64)
        deepest, level = max(deepest, int(levels.max())), int(levels[-1])
    return deepest
