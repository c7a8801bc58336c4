"""A Griffe extension: the doctests of a docstring are shown as sessions of the interpreter, not as quotations."""

from __future__ import annotations

import re
from typing import Any

import griffe

SESSION = re.compile(r"(?:^>>> .*\n?(?:^(?!\s*$|>>> ).*\n?)*)+", re.MULTILINE)


def fence(text: str) -> str:
    """The text with a fence around each run of `>>>` lines and what they print.

    >>> print(fence("Sum.\\n\\n>>> 1 + 1\\n2\\n\\nDone."))
    Sum.
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    <BLANKLINE>
    Done.
    """
    return SESSION.sub(lambda match: f"```pycon\n{match[0].rstrip()}\n```\n", text)


class Doctests(griffe.Extension):
    """Rewrites each docstring once, when the object is made."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring and ">>> " in obj.docstring.value:
            obj.docstring.value = fence(obj.docstring.value)
