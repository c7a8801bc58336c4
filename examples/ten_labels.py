"""Ten labels per class and many rows without one: what the unlabelled digits add to a metric.

Run: python examples/ten_labels.py
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

import nearer

# %% 1,200 digits, of which 100 have a label
X, y = load_digits(return_X_y=True)
train, test = np.arange(1200), np.arange(1200, len(y))
rng = np.random.default_rng(0)
labels = np.full(1200, -1)  # -1 says: nobody has looked
for digit in range(10):
    chosen = rng.permutation(np.flatnonzero(y[train] == digit))[:10]
    labels[chosen] = digit

# %% Learn from all rows, or from those with a label alone
everything = nearer.fit(X[train], labels, method="semi-supervised")
labeled = labels >= 0
alone = nearer.fit(X[train][labeled], labels[labeled], method="lmnn")

# %% Name digits that taught nothing: unlabelled rows vote with the class that reached them
all_rows, few_rows = everything.score(X[test], y[test]), alone.score(X[test], y[test])
print("597 new digits named right")
print(f"  from 100 labels alone                {few_rows:.3f}")
print(f"  with 1,100 unlabelled digits beside  {all_rows:.3f}")
assert all_rows > few_rows
