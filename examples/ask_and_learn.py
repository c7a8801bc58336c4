"""Sixty answers instead of two hundred: label the digits that teach most, and compare with labels at random.

Run: python examples/ask_and_learn.py
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

import nearer
from nearer.judging import suggest_items

# %% Digits, of which nobody knows the labels yet
X, y = load_digits(return_X_y=True)
train, test = np.arange(1200), np.arange(1200, len(y))


def learned(labels: np.ndarray) -> float:
    """The share of new digits that a model from these labels names right."""
    return nearer.fit(X[train], labels, method="semi-supervised").score(X[test], y[test])


# %% Sixty answers to the questions that teach most, and to sixty at random
asked = np.full(len(train), -1)
for _ in range(3):
    rows = suggest_items(None, X[train], asked, n=20)
    asked[rows] = y[rows]  # here a person would answer

by_chance = []
for seed in range(3):
    labels = np.full(len(train), -1)
    rows = np.random.default_rng(seed).permutation(train)[:60]
    labels[rows] = y[rows]
    by_chance.append(learned(labels))

# %% What they taught
mine, chance = learned(asked), float(np.mean(by_chance))
print(f"Right after 60 answers: {mine:.3f} to chosen questions, {chance:.3f} to random ones (mean of three draws)")
assert mine > chance
