"""Shared set-up of the tests."""

from __future__ import annotations

import sys
from pathlib import Path

# Test folders share their tables of cases (`every_loss`) by importing them from here.
sys.path.insert(0, str(Path(__file__).parent))
