"""Labels that are shares: items are described by how much of each mood they have, and neighbors predict it.

Run: python examples/label_distributions.py
"""

from __future__ import annotations

import numpy as np

import nearer
from nearer.estimators import AAKNN, RAMLKRR
from nearer.evaluation import evaluate_distribution

# %% Made data: five shares for each of 600 items; six columns know about them, fourteen louder ones do not
rng = np.random.default_rng(0)
shares = rng.dirichlet(np.full(5, 0.6), size=600)
knows = np.log(shares + 0.05) @ rng.normal(size=(5, 6)) + 0.3 * rng.normal(size=(600, 6))
items = np.concatenate([knows, 4 * rng.normal(size=(600, 14))], axis=1)
train, test = slice(0, 400), slice(400, None)

# %% The metric alone: are neighbors alike?
model = nearer.fit(items[train], shares[train])
print(model)

# %% Shares predicted by the neighbors, with and without a learned metric
plain = AAKNN(n_neighbors=8).fit(items[train], shares[train])
learned = AAKNN(n_neighbors=8, metric=RAMLKRR()).fit(items[train], shares[train])
before = evaluate_distribution(plain.predict(items[test]), shares[test])
after = evaluate_distribution(learned.predict(items[test]), shares[test])
for name in before:
    print(f"{name:>12}: {before[name]:.3f} with the columns as they are, {after[name]:.3f} with a learned metric")
assert after["kl"] < before["kl"]
