"""The steps of "Add an estimator" in CONTRIBUTING.md, followed word for word in a copy of the package."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from sklearn.utils.estimator_checks import check_estimator

from contributing import code, copy_of_the_package, run_on_the_copy, steps

TITLE = "Add an estimator"


def test_written_and_exported_it_comes_under_the_checks(tmp_path: Path) -> None:
    assert len(steps(TITLE)) == 3
    copy_of_the_package(tmp_path, TITLE, written=[1], exported=2)
    here = Path(__file__)
    passed = run_on_the_copy(
        tmp_path,
        str(here.with_name("test_attributes.py")),
        str(here.parents[1] / "test_docstrings.py"),
        str(here.parents[1] / "test_exports.py"),
        "-k",
        "ShrunkWhitening or (test_the_stub_imports and estimators) or _shrunk_whitening",
    )
    assert passed == 5


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_accepts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shrunk_whitening.py").write_text(code(TITLE, 1), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    check_estimator(importlib.import_module("shrunk_whitening").ShrunkWhitening())
