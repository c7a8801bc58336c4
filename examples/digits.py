"""The demo as a script: learn a metric for digits from ten labels per class and write a report.

python examples/digits.py [report.html]
"""

from __future__ import annotations

import sys

from nearer.recipes import learn_digits

result = learn_digits(epochs=30)
print(result.comparison)
print(result.verdict)
if len(sys.argv) > 1:
    print("written:", result.save_report(sys.argv[1], command=" ".join(["python", *sys.argv])))
assert result.learned["map@r"] > result.raw["map@r"]
