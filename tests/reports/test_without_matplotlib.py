"""Without matplotlib a picture says which extra brings it, before any work is done."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nearer.app.cli._output import check_drawable
from nearer.exceptions import MissingDataError
from nearer.reports import training_curve


def test_a_picture_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("matplotlib", "matplotlib.style"):
        monkeypatch.setitem(sys.modules, name, None)
    words = r"which is not installed\. Run: pip install 'nearer\[plot\]'"
    with pytest.raises(MissingDataError, match=words):
        training_curve({"loss": [2.0, 1.0]})
    with pytest.raises(MissingDataError, match=words):
        check_drawable(Path("page.html"))
    check_drawable(None)
