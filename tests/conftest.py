"""Shared set-up of the tests."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch

# Test folders share their tables of cases (`every_loss`) by importing them from here.
sys.path.insert(0, str(Path(__file__).parent))

# Two test processes on two cores: more threads in each would only get in each other's way.
if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)
