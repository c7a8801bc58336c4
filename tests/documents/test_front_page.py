"""README.md: short, and nothing in it that is not exported, or exported and not in it."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import typer.main

import nearer
from nearer.app.cli import app

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
LINES = ("asymmetric", "joint-representations", "pair-weighting", "relation-alignment", "semi-supervised")


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 120


def test_the_table_of_folders_is_what_is_exported() -> None:
    listed = re.findall(r"`nearer\.(\w+)`", README.partition("## What there is")[2].partition("## ")[0])
    packages = [name for name in nearer.__all__ if inspect.ismodule(getattr(nearer, name))]
    assert sorted(listed) == sorted(packages)


def test_every_name_in_it_exists() -> None:
    """A name in the table of a package, and a command after `nearer`."""
    for package, name in re.findall(r"from nearer\.(\w+) import (\w+)", README):
        assert hasattr(importlib.import_module(f"nearer.{package}"), name)
    exported = {name for module in nearer.__all__ for name in getattr(getattr(nearer, module), "__all__", ())}
    for learner in re.findall(r"\b(LMNN|NCA|ITML|GMML|RAML|HRAML|VTHM|RAW|JRD|JRS|AMSoftmax)\b", README):
        assert any(name.startswith(learner) for name in exported), learner
    commands = set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    assert set(re.findall(r"`nearer ([a-z]+)", README)) <= commands


def test_the_five_lines_have_a_picture_and_a_page() -> None:
    for line in LINES:
        assert f"docs/lines/{line}.md" in README
        assert f"docs/images/line-{line}.svg" in README
    for picture in re.findall(r'(?:src|srcset)="([^"]+)"', README):
        assert (ROOT / picture).is_file(), picture


def test_the_status_says_the_version_and_nothing_stale() -> None:
    status = README.partition("## Status")[2]
    assert nearer.__version__ in status
    # What is there must not be called missing: the words of the pages and folders that exist.
    missing = status.partition("Not there:")[2].partition("\n")[0]
    there = {*nearer.__all__, "site", "search", "service", *(page.stem for page in (ROOT / "docs").glob("*.md"))}
    assert not [word for word in re.findall(r"[a-z-]+", missing.lower()) if word in there]


def test_the_output_is_what_the_code_prints() -> None:
    from sklearn.datasets import load_wine

    model = nearer.fit(load_wine(as_frame=True).frame, "target")
    shown = README.partition("table: 178 rows")[2].partition("```")[0]
    for page in (README, (ROOT / "docs" / "index.md").read_text()):
        assert shown in page

    def without_seconds(text: str) -> list[str]:
        return [re.sub(r"about [\d.]+ s\.|\([\d.]+ s\)", "", line).rstrip() for line in text.strip().splitlines()]

    assert without_seconds("table: 178 rows" + shown) == without_seconds(str(model))
