"""A loop of pytorch-metric-learning with two lines changed: the same numbers, then without the list of pairs.

Run: python examples/migrate_loop.py        (compares with that library where it is installed)
"""

from __future__ import annotations

import importlib.util

import torch
from sklearn.datasets import load_digits

from nearer import losses, mining  # before: from pytorch_metric_learning import losses, miners

# %% Their loop: a network, a loss, a miner whose tuple goes into the loss
digits = load_digits()
x, y = torch.from_numpy(digits.data).float() / 16, torch.from_numpy(digits.target)
miner, loss_fn = mining.VTHM(0.1), losses.MultiSimilarityLoss()  # before: miners.MultiSimilarityMiner(epsilon=0.1)


def train(loss_of) -> list[float]:
    """Twenty steps with one seed; the losses on the way."""
    torch.manual_seed(0)
    model = torch.nn.Linear(64, 16)
    adam = torch.optim.Adam(model.parameters(), lr=1e-3)
    course = []
    for step in range(20):
        rows = torch.arange(step * 60, step * 60 + 60)
        loss = loss_of(model(x[rows]), y[rows])
        adam.zero_grad()
        loss.backward()
        adam.step()
        course.append(loss.item())
    return course


listed = train(lambda z, labels: loss_fn(z, labels, miner(z, labels)))

# %% The miner inside the loss: no list of pairs is made, which is what makes large batches fast
inside = losses.MultiSimilarityLoss(miner=mining.VTHM(0.1))
course = train(inside)
print(f"loss after 20 steps: {listed[-1]:.6f} with tuples, {course[-1]:.6f} with the miner inside")
assert max(abs(a - b) for a, b in zip(listed, course, strict=True)) < 1e-4

# %% The library itself, if it is there
if importlib.util.find_spec("pytorch_metric_learning"):
    from pytorch_metric_learning import losses as theirs
    from pytorch_metric_learning import miners as their_miners

    their_miner, their_loss = their_miners.MultiSimilarityMiner(epsilon=0.1), theirs.MultiSimilarityLoss()
    reference = train(lambda z, labels: their_loss(z, labels, their_miner(z, labels)))
    print(f"the same loop with pytorch-metric-learning: {reference[-1]:.6f}")
    assert max(abs(a - b) for a, b in zip(listed, reference, strict=True)) < 1e-3
