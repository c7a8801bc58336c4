"""A loss of your own: the formula is all that is written; tiles, miners, databases and gradients are the engine's.

Run: python examples/custom_loss.py
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import nn

from nearer.evaluation import evaluate
from nearer.geometry import MLP, embed
from nearer.losses import RowLoss
from nearer.mining import VTHM
from nearer.pairwise import Panel, Terms
from nearer.training import ClassSampler

# %% The formula, on some anchors against everything: no loop, no B x B array, no gradient by hand


class SoftMarginLoss(RowLoss):
    """Mean over positives of (1 - s), plus t * log(1 + sum over negatives of e^(s/t))."""

    reductions = ("active", "mean", "sum")

    def __init__(self, *, temperature: float = 0.1, reduction: str = "active", miner=None) -> None:
        super().__init__(reduction=reduction, miner=miner)
        self.temperature = temperature

    def value(self, panel: Panel) -> Terms:
        s, n_p = panel.similarity, panel.positive.sum(1)
        pull = ((1 - s) * panel.positive).sum(1) / n_p.clamp(min=1)
        far = (s / self.temperature).masked_fill(~panel.negative, -torch.inf)
        zero = torch.zeros_like(s[:, :1])
        push = torch.logsumexp(torch.cat([far, zero], dim=1), dim=1) * self.temperature
        return Terms((pull + push) * (n_p > 0), n_p > 0)


# %% It is the formula: the engine and plain autograd agree, with a miner and a database too
torch.manual_seed(0)
z = nn.functional.normalize(torch.randn(64, 8, dtype=torch.float64)).requires_grad_()
y = torch.arange(8).repeat(8)
loss = SoftMarginLoss(miner=VTHM(margin=0.1))
value, plain = loss(z, y), loss.dense(z, y)
(by_engine,), (by_autograd,) = torch.autograd.grad(value, z), torch.autograd.grad(plain, z)
gap = (by_engine - by_autograd).abs().max()
print(f"value {value:.6f}, by plain autograd {plain:.6f}; gradients differ by {gap:.1e}")
assert torch.allclose(by_engine, by_autograd, atol=1e-10)
loss(z, y, database=z.detach().flip(0), database_labels=y.flip(0)).backward()

# %% And it learns: digits that it never saw
digits = load_digits()
x, y = torch.from_numpy(digits.data).float() / 16, torch.from_numpy(digits.target)
seen = torch.arange(len(y)) < 1000
encoder = MLP(64, 32, hidden=(128,))
adam = torch.optim.Adam(encoder.parameters(), lr=1e-3)
before = evaluate(embed(encoder, x[~seen]), y[~seen])
for rows in ClassSampler(y[seen], n_classes=10, per_class=8, batches=100, seed=0):
    adam.zero_grad()
    loss(encoder(x[seen][rows]), y[seen][rows]).backward()
    adam.step()
after = evaluate(embed(encoder, x[~seen]), y[~seen])
print(f"MAP@R on digits it never saw: {before['map@r']:.3f} untrained, {after['map@r']:.3f} trained")
assert after["map@r"] > before["map@r"] + 0.1
