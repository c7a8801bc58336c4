"""Two forms of every fault test: a quick one in `make test`, and the long one of `make faults`, which counts."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import saved_versions

LONG = os.environ.get("NEARER_FAULTS") == "long"
COUNTS: dict[str, int] = {}


@pytest.fixture
def effort():
    """`effort(quick, long)` is the first number in `make test` and the second in `make faults`."""
    return lambda quick, long: long if LONG else quick


@pytest.fixture
def count():
    """Add to a named count of the result file."""

    def add(name: str, number: int = 1) -> None:
        COUNTS[name] = COUNTS.get(name, 0) + number

    return add


@pytest.fixture(params=["exchange", "two renames"])
def switch(request: pytest.FixtureRequest) -> Iterator[str]:
    """Both ways to give a new version its name: that of Linux, and that of file systems without it."""
    with saved_versions.two_renames() if request.param == "two renames" else contextlib.nullcontext():
        yield request.param


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    # Each of several processes has only a part of the counts.
    if LONG and COUNTS and exitstatus == 0 and "PYTEST_XDIST_WORKER" not in os.environ:
        root = Path(__file__).resolve().parents[2]
        sys.path.insert(0, str(root / "benchmarks"))
        import record

        sys.argv = [__file__, "# by make faults"]
        rows = [{"what": name, "count": number} for name, number in sorted(COUNTS.items())]
        record.save("faults", rows, key=["what"], lost=0, mixed=0, false_alarms=0, left_over=0)
