"""Shared set-up of the tests."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
from threadpoolctl import threadpool_limits

# Test folders share their tables of cases (`every_loss`) by importing them from here.
sys.path.insert(0, str(Path(__file__).parent))

# Two test processes on two cores: more threads in each, or in what they start, would only get in each other's way.
# `tests/everywhere.py` sets another number.
if "PYTEST_XDIST_WORKER" in os.environ:
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    LIMITS = threadpool_limits(int(os.environ["OPENBLAS_NUM_THREADS"]))
