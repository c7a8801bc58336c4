"""The examples as notebooks: every script becomes build/notebooks/NAME.ipynb, with its output if it is run.

A line `# %% Title` begins a cell; what stands before the first one is the introduction and the imports. The code
of a notebook is the code of the script, line for line.

    python docs/notebooks.py [--execute] [NAME ...]
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
CELL = re.compile(r"^# %% (.+)\n", re.MULTILINE)


def _cell(number: int, kind: str, text: str) -> dict[str, Any]:
    lines = text.strip("\n").splitlines(keepends=True)
    cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": lines}
    return cell if kind == "markdown" else {**cell, "execution_count": None, "outputs": []}


def notebook(script: Path) -> dict[str, Any]:
    """A script as a notebook (nbformat 4.5), without output."""
    text = script.read_text()
    said = ast.get_docstring(ast.parse(text)) or ""
    first, _, rest = said.partition("\n")
    rest = re.sub(r"^Run: .*\n?", "", rest, flags=re.MULTILINE).strip("\n")
    code = text.split('"""', 2)[2]
    begin, *titled = CELL.split(code)
    cells = [("markdown", f"# {first}\n\n{rest}"), ("code", begin)]
    for title, part in zip(titled[::2], titled[1::2], strict=True):
        cells += [("markdown", f"## {title}"), ("code", part)]
    made = [_cell(number, kind, part) for number, (kind, part) in enumerate(cells) if part.strip()]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def execute(book: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The notebook with its output; a cell that fails ends everything."""
    import nbformat
    from nbclient import NotebookClient

    node = nbformat.reads(json.dumps(book), as_version=4)
    nbformat.validate(node)
    NotebookClient(node, timeout=600, resources={"metadata": {"path": str(folder)}}).execute()
    done: dict[str, Any] = json.loads(nbformat.writes(node))
    return done


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("names", nargs="*", help="scripts to convert, all by default")
    options.add_argument("--execute", action="store_true", help="run them too (nbclient and ipykernel)")
    options.add_argument("--out", type=Path, default=ROOT / "build" / "notebooks")
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for script in SCRIPTS:
        if given.names and script.stem not in given.names:
            continue
        start = time.perf_counter()
        book = notebook(script)
        if given.execute:
            book = execute(book, given.out)
        (given.out / f"{script.stem}.ipynb").write_text(json.dumps(book, indent=1, ensure_ascii=False) + "\n")
        print(f"{script.stem}.ipynb, {len(book['cells'])} cells, {time.perf_counter() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
