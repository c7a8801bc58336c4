"""Tables and messages by rich, in which nothing that comes from the data is a command."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from nearer.app.cli._output import plain

__all__ = ["screen"]


class _Screen(Console):
    """A console for which text is text: no markup in it, and no sequence that a terminal would obey."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Every string of a message or of a cell comes by here."""
        return super().render_str(plain(text), **options)


def screen(*, stderr: bool = False, quiet: bool = False) -> Console:
    """Where a command shows tables and what it is doing.

    >>> screen().print("[bold]a\\x1b[31mb")
    [bold]a\\x1b[31mb
    """
    return _Screen(stderr=stderr, quiet=quiet, markup=False)
