"""Items with several tags: a metric whose neighbors share tags, scored by what neighbors predict.

Run: python examples/tags.py
"""

from __future__ import annotations

import numpy as np

import nearer

# %% Made data: five tags, and columns of which most are noise
rng = np.random.default_rng(0)
tags = (rng.random((800, 5)) < 0.35).astype(int)  # which of five tags each item has
meaning = tags @ rng.normal(size=(5, 6))  # six columns say something about them
noise = 3 * rng.normal(size=(800, 14))  # fourteen do not, and are louder
items = np.concatenate([meaning + 0.3 * rng.normal(size=(800, 6)), noise], axis=1)

# %% Learn, and read the proof on held-out rows
model = nearer.fit(items, tags, method="raml-krr")
print(model)
gain = model.fitted.comparison.gains["average-precision"]
assert gain > 0.02
