"""A loss and a miner in a plain PyTorch loop: a small network for the digits, scored on digits it never saw.

Run: python examples/torch_loop.py
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits

from nearer.evaluation import evaluate
from nearer.geometry import MLP, embed
from nearer.losses import RAWLoss
from nearer.mining import VTHM
from nearer.training import ClassSampler

# %% Digits, of which 797 are for the scores alone
torch.manual_seed(0)
digits = load_digits()
x, y = torch.from_numpy(digits.data).float() / 16, torch.from_numpy(digits.target)
seen = torch.arange(len(y)) < 1000  # the others are for the scores alone

# %% An ordinary loop: batches by class, a loss with its miner inside
encoder = MLP(64, 32, hidden=(128,))
loss = RAWLoss(miner=VTHM(margin=0.1))
adam = torch.optim.Adam(encoder.parameters(), lr=1e-3)
before = evaluate(embed(encoder, x[~seen]), y[~seen])
for rows in ClassSampler(y[seen], n_classes=10, per_class=12, batches=150, seed=0):
    value = loss(encoder(x[seen][rows]), y[seen][rows])
    adam.zero_grad()
    value.backward()
    adam.step()

# %% Did it help?
after = evaluate(embed(encoder, x[~seen]), y[~seen])
print(f"MAP@R on digits it never saw: {before['map@r']:.3f} untrained, {after['map@r']:.3f} trained")
assert after["map@r"] > before["map@r"]
