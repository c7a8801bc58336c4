"""One BLAS thread: the matrices of these tests are tiny, and waiting threads are what takes the time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> Iterator[None]:
    with threadpool_limits(1):
        yield
