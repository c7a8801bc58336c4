"""Write the generated pages of the reference; `--check` only says whether they are up to date.

`cli.md` comes from the help texts of the commands, `reference/index.md` from the first lines of the docstrings. The
pages under `reference/` themselves are made when the site is built, from the sources.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path

import typer.main
from typer.testing import CliRunner

import nearer
from nearer.app.cli import app

DOCS = Path(__file__).parent
CLI = """# The command line

Made by `python docs/reference.py` from the help texts. What the commands do is in [models](models.md) and
[training](training.md). Every command has `--json`; exit code 2 means that the command was not understood, 1 that
it failed, 130 that Ctrl-C ended it. Why it failed is one line on stderr, with `--json` {"error": ...} on stdout.
`nearer --install-completion` sets up completion for your shell.

A whole way, from a table to a search:

```sh
nearer fit data.csv --label class          # learns, prints raw beside learned, writes model/
nearer evaluate new.csv --model model --label class
nearer index data.csv --model model --label class
nearer search index queries.csv --model model -k 3
nearer export model --out model.onnx
```
"""
NAMES = """# Every public name

One line each, made by `python docs/reference.py` from the docstrings. `import nearer` loads none of the packages;
each is loaded when it is first used. The [command line](../cli.md) has a page of its own.
"""


def commands() -> str:
    """cli.md."""
    runner = CliRunner(env={"COLUMNS": "100", "TERM": "dumb"})
    group = typer.main.get_command(app)
    parts = [CLI]
    for name in group.commands:  # type: ignore[attr-defined]
        text = runner.invoke(app, [name, "--help"], prog_name="nearer").output
        lines = "\n".join(line.rstrip() for line in text.strip("\n").splitlines())
        parts.append(f"## nearer {name}\n\n```\n{lines}\n```\n")
    return "\n".join(parts)


def packages() -> dict[str, list[str]]:
    """The public names of each package, and those of `nearer` itself, which are its functions."""
    own = [name for name in nearer.__all__ if inspect.isfunction(getattr(nearer, name))]
    modules = [f"nearer.{name}" for name in nearer.__all__ if inspect.ismodule(getattr(nearer, name))]
    modules.remove("nearer.app")
    modules += [f"nearer.app.{name}" for name in nearer.app.__all__ if name != "cli"]  # it has a page of its own
    return {"nearer": own} | {name: list(importlib.import_module(name).__all__) for name in modules}


def names() -> str:
    """reference/index.md."""
    parts = [NAMES]
    for package, public in packages().items():
        if not public:
            continue
        module = importlib.import_module(package)
        page = f"{package}.md"
        parts.append(f"## [{package}]({page})\n\n{first_sentence(module)}\n\n| name | what it is |\n|---|---|")
        for name in public:
            parts.append(f"| [`{name}`]({page}#{package}.{name}) | {first_sentence(getattr(module, name))} |")
        parts.append("")
    return "\n".join(parts)


def first_sentence(thing: object) -> str:
    """The first paragraph of a docstring on one line, with what Markdown would take for markup escaped."""
    if not (inspect.isclass(thing) or inspect.isfunction(thing) or inspect.ismodule(thing)):
        return "the values that it may have: " + ", ".join(f"`{one}`" for one in getattr(thing, "__args__", ()))
    text = " ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split())
    return text.replace("*", "\\*").replace("<", "&lt;").replace("|", "&#124;")


PAGES = {"cli.md": commands, "reference/index.md": names}

if __name__ == "__main__":
    for name, make in PAGES.items():
        page, text = DOCS / name, make()
        if "--check" not in sys.argv:
            page.write_text(text)
        elif not page.exists() or page.read_text() != text:
            sys.exit(f"docs/{name} is out of date: python docs/reference.py")
