"""Write docs/cli.md from the help texts of the commands; `--check` only says whether it is up to date."""

from __future__ import annotations

import sys
from pathlib import Path

import typer.main
from typer.testing import CliRunner

from nearer.cli import app

PAGE = Path(__file__).with_name("cli.md")
HEAD = """# The command line

Made by `python docs/reference.py` from the help texts. What the commands do is in [models](models.md) and
[training](training.md). Every command has `--json`; exit code 2 means that the command was not understood, 1 that
it failed, 130 that Ctrl-C ended it. `nearer --install-completion` sets up completion for your shell.

A whole way, from a table to a search:

```sh
nearer fit data.csv --label class          # learns, prints raw beside learned, writes model/
nearer evaluate new.csv --model model --label class
nearer index data.csv --model model --label class
nearer search index queries.csv --model model -k 3
nearer export model --out model.onnx
```
"""


def page() -> str:
    """The whole page."""
    runner = CliRunner(env={"COLUMNS": "100", "TERM": "dumb"})
    group = typer.main.get_command(app)
    parts = [HEAD]
    for name in group.commands:  # type: ignore[attr-defined]
        text = runner.invoke(app, [name, "--help"], prog_name="nearer").output
        lines = "\n".join(line.rstrip() for line in text.strip("\n").splitlines())
        parts.append(f"## nearer {name}\n\n```\n{lines}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.read_text() == page() else "docs/cli.md is out of date: python docs/reference.py")
    PAGE.write_text(page())
