"""Data for the index: clusters are easy for approximate search, uniform directions are hard."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent))
import engines


def clustered(n: int, d: int = 16, *, noise: float = 0.3, seed: int = 0) -> NDArray[np.float32]:
    generator = np.random.default_rng(seed)
    centers = np.random.default_rng(99).standard_normal((40, d))
    return (centers[generator.integers(0, 40, n)] + noise * generator.standard_normal((n, d))).astype(np.float32)


@pytest.fixture(scope="session")
def easy() -> NDArray[np.float32]:
    return clustered(3000)


@pytest.fixture(scope="session")
def hard() -> NDArray[np.float32]:
    return np.random.default_rng(0).standard_normal((4000, 64)).astype(np.float32)


@pytest.fixture(scope="session")
def new() -> NDArray[np.float32]:
    return clustered(60, seed=7)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    with engines.postgres_server() as address:
        yield address


@pytest.fixture(params=engines.ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def start(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Opens the index of an engine, the same one every time."""
    return engines.opener(engine, tmp_path, lambda: request.getfixturevalue("postgres"))
