"""What the site needs beyond the pages of docs/: the version in its path, whole folders in the nav, pages from
the root of the repository, the examples, and every result file as CSV. MkDocs calls the `on_…` functions.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import re
import tomllib
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
ROOT_PAGES = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}
ROWS = re.compile(r"^<!-- rows: ([\w ]+) -->$", re.MULTILINE)
LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")


def version() -> str:
    """The version of the package that the site describes."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])


def generated() -> dict[str, str]:
    """The pages that are not in docs/: two from the root, and one for each script of examples/."""
    pages = {name: (ROOT / origin).read_text() for name, origin in ROOT_PAGES.items()}
    for script in sorted((ROOT / "examples").glob("*.py")):
        title, _, code = script.read_text().partition('"""\n')
        first, _, more = title.removeprefix('"""').strip().partition("\n")
        pages[f"examples/{script.stem}.md"] = (
            f"# {script.stem.replace('_', ' ').capitalize()}\n\n{first}\n{more}\n\n"
            f"`examples/{script.name}` runs in the tests, in less than a minute on one core; "
            f"[the same as a notebook]({script.stem}.ipynb).\n\n"
            f"```py\n{code.strip()}\n```\n{_printed(notebook_of(script))}"
        )
    return pages


def notebook_of(script: Path) -> dict[str, Any]:
    """An example as a notebook, with its output where `make notebooks` has run it."""
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "docs" / "notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    plain: dict[str, Any] = maker.notebook(script)
    done = ROOT / "build" / "notebooks" / f"{script.stem}.ipynb"
    if not done.exists():
        return plain
    executed: dict[str, Any] = json.loads(done.read_text())
    same = [cell["source"] for cell in executed["cells"]] == [cell["source"] for cell in plain["cells"]]
    return executed if same else plain  # the script has changed since


def _printed(notebook: dict[str, Any]) -> str:
    """What the cells of a notebook printed, as a section."""
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    text = "".join("".join(one["text"]) for one in outputs if one.get("name") == "stdout").strip()
    return f"\nIt prints:\n\n```text\n{text}\n```\n" if text else ""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the version into the path, and every page of a starred folder into the nav."""
    if Path(config.site_dir).name == "site":
        config.site_dir = str(Path(config.site_dir) / version())
    config.extra["version_name"] = version()
    docs = Path(config.docs_dir)
    pages = {str(page.relative_to(docs)) for page in docs.rglob("*.md")} | set(generated())
    named = {entry for entry in _strings(config.nav) if not entry.endswith("/*")}
    config.nav = _expand(config.nav, sorted(pages - named, key=_place), pages)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages, and each result file as CSV."""
    for name, text in generated().items():
        files.append(File.generated(config, name, content=text))
    for script in sorted((ROOT / "examples").glob("*.py")):
        book = json.dumps(notebook_of(script), indent=1, ensure_ascii=False)
        files.append(File.generated(config, f"examples/{script.stem}.ipynb", content=book))
    for result in sorted((*ROOT.glob("benchmarks/results/*.json"), *ROOT.glob("papers/results/*.json"))):
        files.append(File.generated(config, f"benchmarks/csv/{result.stem}.csv", content=as_csv(result)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links that leave docs/ lead to the page made from that file, or become text; tables get theirs to CSV."""
    here = Path(page.file.src_uri).parent
    above = "../" * len(here.parts)
    markdown = ROWS.sub(
        lambda match: (
            "\nRows as CSV: "
            + ", ".join(f"[{name}]({above}benchmarks/csv/{name}.csv)" for name in match[1].split())
            + "\n"
        ),
        markdown,
    )
    from_root = page.file.src_uri in ROOT_PAGES

    def repair(match: re.Match[str]) -> str:
        target, _, anchor = match["target"].partition("#")
        if "://" in target or not target:
            return match[0]
        base = ROOT if from_root else ROOT / "docs" / here
        path = (base / target).resolve()
        if not path.is_relative_to(ROOT) or (not from_root and path.is_relative_to(ROOT / "docs")):
            return match[0]
        inside = str(path.relative_to(ROOT))
        made = {origin: name for name, origin in ROOT_PAGES.items()}
        if inside.startswith("docs/"):
            goal = inside.removeprefix("docs/")
        elif inside in made:
            goal = made[inside]
        elif inside.startswith("examples/") and inside.endswith(".py"):
            goal = inside.removesuffix(".py") + ".md"
        else:
            return match["text"]
        up = "../" * (0 if from_root else len(here.parts))
        return f"{match['picture']}[{match['text']}]({up}{goal}{'#' + anchor if anchor else ''})"

    return LINK.sub(repair, markdown)


def on_post_build(config: MkDocsConfig) -> None:
    """The folder above the versions leads to this one."""
    site = Path(config.site_dir)
    if site.name == version() and site.parent.name == "site":
        (site.parent / "index.html").write_text(
            f'<!doctype html><meta http-equiv="refresh" content="0; url={version()}/index.html">'
            f'<a href="{version()}/index.html">nearer {version()}</a>\n'
        )


def as_csv(result: Path) -> str:
    """The rows of a result file with one column for each number, settings of the run last."""
    rows = [_flat(row) for row in json.loads(result.read_text())["rows"]]
    columns = sorted(dict.fromkeys(key for row in rows for key in row), key=lambda key: key.startswith("made."))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _flat(row: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = json.dumps(value) if isinstance(value, list) else value
    return flat


def _place(name: str) -> tuple[bool, str]:
    """An index stands before the other pages of its folder."""
    return (Path(name).name != "index.md", name)


def _strings(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    return [entry for part in parts for entry in _strings(part)]


def _expand(nav: Any, left: list[str], pages: set[str]) -> Any:
    """The nav with each star replaced; a named page that does not exist (any more) is left out."""
    if isinstance(nav, list):
        wide: list[Any] = []
        for entry in nav:
            if isinstance(entry, str) and entry.endswith("/*"):
                wide += [name for name in left if name.startswith(entry[:-1])]
            elif not isinstance(entry, str) or entry in pages:
                wide.append(_expand(entry, left, pages))
        return wide
    if isinstance(nav, dict):
        return {title: _expand(part, left, pages) for title, part in nav.items()}
    return nav
