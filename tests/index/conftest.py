"""Data for the index: clusters are easy for approximate search, uniform directions are hard."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray


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
