"""What is wrong with the data: labels that were flipped, and rows that come twice.

Run: python examples/audit_and_dedupe.py
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

from nearer.index import find_duplicates
from nearer.judging import find_issues

# %% Digits with sixty labels that we flipped
X, y = load_digits(return_X_y=True)
rng = np.random.default_rng(0)
flipped = rng.permutation(len(y))[:60]
labels = y.copy()
labels[flipped] = (labels[flipped] + rng.integers(1, 10, 60)) % 10

# %% Which labels look wrong?
found = find_issues(X, labels)
right = np.isin(found.suspects[:60], flipped).mean()
print(f"of the 60 labels that look most wrong {right:.0%} were flipped by us")
assert right > 0.7

# %% And which rows come twice?
twins = np.concatenate([X, X[:25] + 0.01 * rng.normal(size=(25, X.shape[1]))])
groups = find_duplicates(twins)
print(groups)
assert (groups.groups[-25:] >= 0).all()
