"""The demo as a script: learn a metric for digits from ten labels per class and write a report.

Run: python examples/digits.py [report.html]
"""

from __future__ import annotations

import subprocess
import sys

# %% The same as `nearer demo`
page = sys.argv[1] if len(sys.argv) > 1 else "demo-report.html"
subprocess.run([sys.executable, "-m", "nearer", "demo", "--epochs", "30", "--quiet", "--out", page], check=True)
