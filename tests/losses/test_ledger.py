"""Errors of the papers, shown: the default is the correct formula, the printed one has its own name."""

from __future__ import annotations

import torch
from torch import Tensor

from every_loss import batch
from nearer.losses import GeneralizedLiftedLoss, LiftedStructureLoss, RAWLoss, TripletLoss


def test_lifted_as_printed_weighs_the_easiest_negative_most() -> None:
    """Eqs 9 and 11: the sign of s in the negative term makes the weights a softmin."""
    s = torch.tensor([[1.0, 0.5, 0.9, -0.9], [0.5, 1.0, 0.0, 0.0], [0.9, 0.0, 1.0, 0.0], [-0.9, 0.0, 0.0, 1.0]])
    labels = torch.tensor([0, 0, 1, 2])
    correct = GeneralizedLiftedLoss(margin=1.0).weights(s, labels)[0]
    printed = GeneralizedLiftedLoss(margin=-2.0, variant="as_printed").weights(s, labels)[0]
    assert correct[2] > correct[3] > 0, "the hardest negative must weigh most"
    assert printed[3] > printed[2] > 0, "as printed it weighs least"
    torch.testing.assert_close(correct[2:].sum(), printed[2:].sum())


def test_lifted_as_printed_falls_with_its_own_margin() -> None:
    x, y = batch(24, 6)
    correct = [GeneralizedLiftedLoss(margin=m)(x, y).item() for m in (0.0, 1.0)]
    printed = [GeneralizedLiftedLoss(margin=m, variant="as_printed")(x, y).item() for m in (-3.0, -2.0)]
    assert correct[1] > correct[0]
    assert printed[1] < printed[0]


def test_printed_raw_weights_lack_one_over_m() -> None:
    """Eqs 15 and 16 give the row weights; eq 17 is the mean over m anchors."""
    x, y = batch(12, 4)
    z = torch.nn.functional.normalize(x, dim=1)
    s = z @ z.T
    g = RAWLoss().weights(s, y)
    i = 0
    same = y == y[i]
    same[i] = False
    n = s[i][y != y[i]]
    printed = torch.exp(50 * (n - 0.5)) / (1 + torch.exp(50 * (n - 0.5)).sum())
    torch.testing.assert_close(g[i][y != y[i]], printed / 12)
    p = s[i][same]
    torch.testing.assert_close(g[i][same], -torch.exp(-2 * (p - 0.5)) / (1 + torch.exp(-2 * (p - 0.5)).sum()) / 12)
    assert g.abs().sum(1).max() <= 2 / 12 + 1e-12


def test_original_lifted_equals_the_double_loop() -> None:
    x, y = batch(14, 4, seed=2)
    terms: list[Tensor] = []
    d = torch.cdist(x, x)
    for i in range(14):
        for j in range(i + 1, 14):
            if y[i] == y[j]:
                inner = torch.exp(1 - d[i][y != y[i]]).sum() + torch.exp(1 - d[j][y != y[j]]).sum()
                terms.append((inner.log() + d[i, j]).clamp(min=0) ** 2)
    torch.testing.assert_close(LiftedStructureLoss()(x, y), torch.stack(terms).sum() / (2 * len(terms)))


def test_all_triplets_equal_the_triple_loop_with_ties_and_duplicates() -> None:
    generator = torch.Generator().manual_seed(0)
    for seed in range(8):
        x = torch.randint(-1, 2, (15, 3), generator=generator).double()
        x[x.abs().sum(1) == 0] = 1.0
        x[7] = x[2]
        y = torch.randint(0, 1 + seed % 4 + 1, (15,), generator=generator)
        z = torch.nn.functional.normalize(x, dim=1)
        s = (z @ z.T).tolist()
        total, violated = 0.0, 0
        weights = torch.zeros(15, 15, dtype=torch.float64)
        for a in range(15):
            for p in range(15):
                for n in range(15):
                    if p != a and y[p] == y[a] and y[n] != y[a]:
                        hinge = s[a][n] - s[a][p] + 0.13
                        if hinge > 0:
                            total += hinge
                            violated += 1
                            weights[a, p] -= 1
                            weights[a, n] += 1
        loss = TripletLoss(margin=0.13, reduction="sum")
        torch.testing.assert_close(loss(x, y).item(), total)
        torch.testing.assert_close(loss.weights(z @ z.T, y), weights)
        active = TripletLoss(margin=0.13)(x, y).item()
        torch.testing.assert_close(active, total / max(violated, 1))
