"""Queries that look different from the database: left halves of digits are asked for, right halves are stored.

Run: python examples/two_views.py
"""

from __future__ import annotations

import numpy as np

from nearer.datasets import load, stratified_split
from nearer.estimators import LMNN, AsymmetricKNN
from nearer.neighbors import search, vote

# %% Left halves, and right halves seen in a mirror
digits = load("digits").all
images = digits.x.astype(np.float64) / 16
left, right = images[:, :, :4].reshape(len(images), -1), images[:, :, :3:-1].reshape(len(images), -1)
train, test = stratified_split(digits.y, test=0.3, seed=0)


def error(queries, database) -> float:
    """Of the vote of the three nearest stored halves."""
    near = search(queries, database, 3).indices
    return float((vote(digits.y[train][np.asarray(near)]) != digits.y[test]).mean())


# %% One map for both sides, and a map for each
both = np.concatenate([left[train], right[train]])
single = LMNN(random_state=0).fit(both, np.concatenate([digits.y[train]] * 2))
two = AsymmetricKNN(16, n_neighbors=3, random_state=0).fit_views(left[train], right[train], digits.y[train])

# %% How often the vote of the three nearest halves is wrong
one_map = error(single.transform(left[test]), single.transform(right[train]))
two_maps = error(two.transform_queries(left[test]), two.transform_database(right[train]))
print(f"error of one map for both sides {one_map:.1%}, of two maps {two_maps:.1%}")
assert two_maps < one_map
