"""`make fuzz` counts what came out and writes it down."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import random_cases


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if random_cases.LONG and random_cases.OUTCOMES:
        root = Path(__file__).resolve().parents[2]
        sys.path.insert(0, str(root / "benchmarks"))
        import record

        # A file and not the folder: its content is hashed into the record.
        sys.argv = [__file__, f"# NEARER_FUZZ={random_cases.TOTAL}"]
        counts = random_cases.OUTCOMES
        rows = [
            {"family": name, "answered": counts[name, "answered"], "refused": counts[name, "refused"]}
            for name in sorted({name for name, _ in counts})
        ]
        record.save("fuzz", rows, key=["family"], failed_tests=session.testsfailed)
