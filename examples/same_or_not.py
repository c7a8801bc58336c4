"""Are these two the same person? A threshold whose error holds for people that nobody has seen.

Run: python examples/same_or_not.py
"""

from __future__ import annotations

import numpy as np

from nearer.judging import SamePair

# %% Embeddings of people
rng = np.random.default_rng(0)


def photos(people: int) -> tuple[np.ndarray, np.ndarray]:
    """Eight embeddings of each of so many people."""
    who = np.repeat(np.arange(people), 8)
    return rng.normal(size=(people, 16))[who] + 0.5 * rng.normal(size=(len(who), 16)), who


# %% A threshold from sixty people
same = SamePair(error=0.01).calibrate(*photos(60))
print(same)

# %% Its errors on fifty others
new, who = photos(50)
left, right = np.triu_indices(len(new), 1)
answers = same.decide(new[left], new[right])
strangers = who[left] != who[right]
wrong = (answers[strangers] == "same").mean()
found = (answers[~strangers] == "same").mean()
print(f"new people: {wrong:.4f} of the strangers are called the same, {found:.3f} of the same are found")
assert wrong <= 0.02
