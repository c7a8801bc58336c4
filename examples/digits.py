"""The demo as a script: learn a metric for digits from ten labels per class and write a report.

Run: python examples/digits.py
"""

from __future__ import annotations

import subprocess
import sys

# %% The same as `nearer demo`
page = "demo-report.html"
subprocess.run([sys.executable, "-m", "nearer", "demo", "--epochs", "30", "--quiet", "--out", page], check=True)
