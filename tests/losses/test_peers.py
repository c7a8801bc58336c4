"""Equal to pytorch-metric-learning where its formula is the same; different where its formula is wrong."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from every_loss import batch
from nearer.losses import (
    AngularLoss,
    CircleLoss,
    ContrastiveLoss,
    DistanceContrastiveLoss,
    FastAPLoss,
    GeneralizedLiftedLoss,
    HistogramLoss,
    LiftedStructureLoss,
    MarginLoss,
    MultiSimilarityLoss,
    NCALoss,
    NPairsLoss,
    NTXentLoss,
    PairLoss,
    RAWLoss,
    SmoothAPLoss,
    SupConLoss,
    TripletLoss,
    TupletMarginLoss,
)
from nearer.mining import VTHM

peers = pytest.importorskip("pytorch_metric_learning", reason="the extra 'peers' is not installed")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from pytorch_metric_learning import distances, losses, miners, reducers

Peer = Callable[[Tensor, Tensor], Tensor]


def mined() -> Peer:
    miner, loss = miners.MultiSimilarityMiner(0.1), losses.MultiSimilarityLoss(alpha=2, beta=50, base=0.5)
    return lambda x, y: loss(x, y, miner(x, y))


def unit(loss: Peer) -> Peer:
    """Their angular loss leaves the negatives as they are; on unit vectors it is the paper's."""
    return lambda x, y: loss(torch.nn.functional.normalize(x, dim=1), y)


PAIRS: dict[str, tuple[PairLoss, Callable[[], Peer]]] = {
    "contrastive": (DistanceContrastiveLoss(), losses.ContrastiveLoss),
    "contrastive, cosine": (
        ContrastiveLoss(threshold=0.3),
        lambda: losses.ContrastiveLoss(pos_margin=1, neg_margin=0.3, distance=distances.CosineSimilarity()),
    ),
    "tuplet margin": (TupletMarginLoss(), losses.TupletMarginLoss),
    "N-pairs, as it comes": (NPairsLoss(l2=0.0, normalize=True), losses.NPairsLoss),
    "triplet, active": (
        TripletLoss(margin=0.1),
        lambda: losses.TripletMarginLoss(margin=0.1, distance=distances.CosineSimilarity()),
    ),
    "triplet, all": (
        TripletLoss(margin=0.1, reduction="tuples"),
        lambda: losses.TripletMarginLoss(
            margin=0.1, distance=distances.CosineSimilarity(), reducer=reducers.MeanReducer()
        ),
    ),
    "multi-similarity": (MultiSimilarityLoss(), lambda: losses.MultiSimilarityLoss(alpha=2, beta=50, base=0.5)),
    "RAW with VTHM": (RAWLoss(miner=VTHM(margin=0.1)), mined),
    "lifted": (LiftedStructureLoss(normalize=True), losses.LiftedStructureLoss),
    "lifted, raw vectors": (
        LiftedStructureLoss(),
        lambda: losses.LiftedStructureLoss(distance=distances.LpDistance(normalize_embeddings=False)),
    ),
    "SupCon": (SupConLoss(temperature=0.1), lambda: losses.SupConLoss(temperature=0.1)),
    "NT-Xent": (NTXentLoss(temperature=0.1), lambda: losses.NTXentLoss(temperature=0.1)),
    "circle": (CircleLoss(), losses.CircleLoss),
    "margin": (MarginLoss(over="triplets"), losses.MarginLoss),
    "NCA": (
        NCALoss(normalize=True),
        lambda: losses.NCALoss(distance=distances.LpDistance(power=2)),
    ),
    "FastAP": (FastAPLoss(), losses.FastAPLoss),
    "N-pairs": (
        NPairsLoss(l2=0.0, normalize=True, scale=1.0),
        lambda: losses.NPairsLoss(distance=distances.CosineSimilarity()),
    ),
    "angular": (AngularLoss(angle=40), lambda: unit(losses.AngularLoss())),
}


@pytest.mark.parametrize("name", PAIRS)
def test_same_formula_same_value_same_gradient(name: str) -> None:
    ours, make = PAIRS[name]
    x, y = batch(32, 8, even=True, spread=0.6)
    a, b = x.float().requires_grad_(), x.float().requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = make()(b, y)
        theirs.backward()
    mine = ours(a, y)
    mine.backward()
    torch.testing.assert_close(mine, theirs, rtol=2e-5, atol=1e-6)
    torch.testing.assert_close(a.grad, b.grad, rtol=2e-3, atol=2e-6)


def test_smooth_ap_that_counts_the_query_itself() -> None:
    """As many classes as items per class, in order: there theirs is right, but an item is its own positive."""
    x, _ = batch(16, 4, spread=0.6)
    y = torch.arange(4).repeat_interleave(4)
    ours = SmoothAPLoss()(x, y, database=x, database_labels=y)
    torch.testing.assert_close(ours, losses.SmoothAPLoss()(x.float(), y).double(), rtol=1e-4, atol=1e-5)


def test_our_smooth_ap_is_right_for_any_number_and_order_of_classes() -> None:
    """Theirs is right only for as many classes as items per class, in class order (and counts the query itself)."""
    x, y = batch(18, 5)
    z = torch.nn.functional.normalize(x, dim=1)
    s = z @ z.T
    precisions = []
    for i in range(18):
        others = [j for j in range(18) if j != i]
        positives = [j for j in others if y[j] == y[i]]
        if positives:
            parts = []
            for p in positives:
                soft = {j: torch.sigmoid((s[i, j] - s[i, p]) / 0.01) for j in others if j != p}
                parts.append((1 + sum(soft[j] for j in positives if j != p)) / (1 + sum(soft.values())))
            precisions.append(sum(parts) / len(parts))
    expected = 1 - torch.stack(precisions).mean()
    torch.testing.assert_close(SmoothAPLoss()(x, y), expected)


def test_our_nt_xent_has_no_wall() -> None:
    """Exact 200 at temperature 0.01, with a gradient; theirs saturates at 87.3 without one."""
    x = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0]], requires_grad=True)
    loss = NTXentLoss(temperature=0.01)(x, torch.tensor([0, 0, 1]))
    loss.backward()
    # The pair (0, 1): s_p = −1, s_n = 1, so 200; the pair (1, 0): s_p = s_n = −1, so log 2.
    torch.testing.assert_close(loss.item(), (200 + torch.log(torch.tensor(2.0)).item()) / 2)
    assert torch.isfinite(x.grad).all()


def test_our_histogram_takes_duplicates() -> None:
    """Theirs indexes past its last bin when a cosine is exactly one."""
    x = torch.ones(4, 3, requires_grad=True)
    loss = HistogramLoss()(x, torch.tensor([0, 0, 1, 1]))
    loss.backward()
    assert loss.item() == pytest.approx(1.0)


def test_our_generalized_lifted_is_zero_without_a_side() -> None:
    """Theirs returns 1.54 on singletons: an empty log-sum-exp counts as 0."""
    x, _ = batch(6, 6)
    assert GeneralizedLiftedLoss()(x, torch.arange(6)).item() == 0
