"""Griffe extensions: doctests are shown as sessions of the interpreter, not as quotations, and what the stub of a
package imports under its own name is public.
"""

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


class Exports(griffe.Extension):
    """Gives a package the list of names that its stub exports, one import for each."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        for module in [pkg, *_packages(pkg)]:
            names = [
                name for name, member in module.members.items() if member.is_alias and not name.startswith("_")
            ]
            if not module.exports and names:
                module.exports = [name for name in names if module.members[name].target_path.startswith("nearer.")]  # type: ignore[union-attr]


def _packages(module: griffe.Module) -> list[griffe.Module]:
    """The public packages below a module."""
    inside = [
        member
        for name, member in module.members.items()
        if not member.is_alias and isinstance(member, griffe.Module) and not name.startswith("_")
    ]
    return [*inside, *(deeper for one in inside for deeper in _packages(one))]
