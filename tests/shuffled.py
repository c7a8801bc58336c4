"""A plugin of pytest: the tests in another order each day, file by file and within each file."""

from __future__ import annotations

import os
import random
import time

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # The same in every worker, or xdist refuses: they are children of one process, and inherit its day.
    seed = os.environ.setdefault("NEARER_SHUFFLE", str(int(time.time()) // 86_400))
    random.Random(seed).shuffle(items)
