"""What must hold for every miner, found by walking `nearer.mining`."""

from __future__ import annotations

import inspect
import itertools

import pytest
import torch
from torch import Tensor

import nearer.mining
from every_loss import batch, value_and_gradient
from nearer.exceptions import LabelError, ParameterError
from nearer.losses import (
    BinomialDevianceLoss,
    ContrastiveLoss,
    LiftedStructureLoss,
    MarginLoss,
    PairLoss,
    RAWLoss,
    TripletLoss,
)
from nearer.mining import (
    VTHM,
    BatchHard,
    DistanceWeighted,
    HardestFraction,
    SemiHard,
    SemiHardTriplets,
)
from nearer.mining._distance_weighted import log_inverse_density
from nearer.pairwise import Miner, Panel
from nearer.pairwise._panels import iterate_panels, tile_size
from nearer.pairwise._rule import Pairing
from nearer.relations import ClassLabels, MultiLabels
from nearer_papers.systems import RandomPairs, SpanningTree
from nearer_papers.systems._spanning_tree import spanning_tree

SETTINGS: dict[str, dict[str, object]] = {
    "HardestFraction": {"fraction": 0.3},
    "RandomPairs": {"positives": 1, "negatives": 4},
}
KINDS = {
    name: getattr(nearer.mining, name)
    for name in nearer.mining.__all__
    if inspect.isclass(getattr(nearer.mining, name)) and hasattr(getattr(nearer.mining, name), "prepare")
} | {"RandomPairs": RandomPairs}


def make(name: str) -> Miner:
    kind, settings = KINDS[name], dict(SETTINGS.get(name, {}))
    if "generator" in inspect.signature(kind).parameters:
        settings["generator"] = torch.Generator().manual_seed(9)
    miner: Miner = kind(**settings)
    return miner


every_miner = pytest.mark.parametrize("name", KINDS)


def mine(miner: Miner, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Panel]:
    z = torch.nn.functional.normalize(x, dim=1)
    pairing = Pairing(z, z, ClassLabels(y), 0)
    select = miner.prepare(pairing)
    chosen = [(*select(panel), panel) for panel in iterate_panels(pairing)]
    whole = next(iter(iterate_panels(pairing))) if len(chosen) == 1 else None
    positive, negative = (torch.cat([part[k] for part in chosen]) for k in (0, 1))
    return positive, negative, whole if whole is not None else chosen[0][2]


@every_miner
@pytest.mark.parametrize("tile", [1, 7, 1000])
def test_the_choice_does_not_depend_on_tiles(name: str, tile: int) -> None:
    x, y = batch(40, 11)
    expected = mine(make(name), x, y)[:2]
    with tile_size(tile):
        found = mine(make(name), x, y)[:2]
    for a, b in zip(found, expected, strict=True):
        assert torch.equal(a, b)


@every_miner
def test_only_valid_pairs_are_chosen_and_both_sides_stay(name: str) -> None:
    x, y = batch(40, 11)
    positive, negative, panel = mine(make(name), x, y)
    assert not (positive & ~panel.positive).any()
    assert not (negative & ~panel.negative).any()
    assert positive.any()
    assert negative.any()


@every_miner
@pytest.mark.parametrize(
    "loss",
    [RAWLoss, BinomialDevianceLoss, ContrastiveLoss, TripletLoss, LiftedStructureLoss, MarginLoss],
    ids=lambda kind: kind.__name__,
)
def test_streaming_equals_dense_with_any_loss(name: str, loss: type[PairLoss]) -> None:
    x, y = batch(40, 11)
    expected = value_and_gradient(loss(miner=make(name)).double().dense, x, y)
    for tile in (6, 1000):
        with tile_size(tile):
            found = value_and_gradient(loss(miner=make(name)).double(), x, y)
        torch.testing.assert_close(found[0], expected[0], rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(found[1], expected[1], rtol=1e-8, atol=1e-11)


@every_miner
@pytest.mark.parametrize("labels", [[0] * 6, [0, 1, 2, 3, 4, 5], [0, 0, 0, 1, 1, 2]])
def test_edge_batches(name: str, labels: list[int]) -> None:
    x, _ = batch(6, 3)
    x[1] = x[0]
    value, gradient = value_and_gradient(RAWLoss(miner=make(name)), x, torch.tensor(labels))
    assert torch.isfinite(value)
    assert torch.isfinite(gradient).all()


@every_miner
def test_weights_outside_the_choice_are_zero(name: str) -> None:
    x, y = batch(30, 8)
    z = torch.nn.functional.normalize(x, dim=1)
    weights = RAWLoss(miner=make(name)).weights(z @ z.T, y)
    if name != "DistanceWeighted":  # it needs the true dimension, which similarities do not tell
        positive, negative, _ = mine(make(name), x, y)
        assert torch.equal(weights != 0, positive | negative)
    assert (weights == 0).any()


def test_vthm_keeps_exactly_the_pairs_of_violated_triplets() -> None:
    for seed in range(10):
        x, y = batch(12, 4, seed=seed)
        positive, negative, panel = mine(VTHM(margin=0.1), x, y)
        s = panel.similarity
        expected_p, expected_n = torch.zeros_like(positive), torch.zeros_like(negative)
        for a, p, n in itertools.product(range(12), repeat=3):
            if panel.positive[a, p] and panel.negative[a, n] and s[a, n] - s[a, p] + 0.1 > 0:
                expected_p[a, p] = expected_n[a, n] = True
        assert torch.equal(positive, expected_p)
        assert torch.equal(negative, expected_n)
        assert torch.equal(positive.any(1), negative.any(1))


def test_semi_hard_triplets_keep_exactly_their_pairs() -> None:
    for seed, most in itertools.product(range(4), (3, 40)):
        x, y = batch(most + 9, 3, seed=seed)
        n = len(y)
        positive, negative, panel = mine(SemiHardTriplets(margin=0.2), x, y)
        s = panel.similarity
        band = (s[:, None, :] > s[:, :, None] - 0.2) & (s[:, None, :] < s[:, :, None])
        triplets = band & panel.positive[:, :, None] & panel.negative[:, None, :]
        assert n == len(s)
        assert torch.equal(positive, triplets.any(2))
        assert torch.equal(negative, triplets.any(1))


def test_semi_hard_by_extremes() -> None:
    x, y = batch(20, 5)
    positive, negative, panel = mine(SemiHard(), x, y)
    s = panel.similarity
    for i in range(20):
        p, n = s[i][panel.positive[i]], s[i][panel.negative[i]]
        assert torch.equal(negative[i], panel.negative[i] & (s[i] < (p.max() if len(p) else -9)))
        assert torch.equal(positive[i], panel.positive[i] & (s[i] > n.min()))


def test_batch_hard_keeps_one_of_each_the_first_of_equals() -> None:
    x = torch.eye(3)[[0, 0, 0, 1, 1]]
    positive, negative, _ = mine(BatchHard(), x, torch.tensor([0, 0, 0, 1, 1]))
    assert positive[0].nonzero().tolist() == [[1]]
    assert negative[0].nonzero().tolist() == [[3]]
    assert (positive.sum(1) == 1).all()


def test_hardest_fraction_is_the_exact_quantile() -> None:
    x, y = batch(30, 6)
    for fraction in (0.01, 0.2, 0.5, 1.0):
        positive, negative, panel = mine(HardestFraction(fraction), x, y)
        for chosen, mask, sign in ((positive, panel.positive, 1), (negative, panel.negative, -1)):
            values = (sign * panel.similarity[mask]).sort()[0]
            wanted = max(1, -int(-fraction * len(values) // 1))
            assert torch.equal(chosen, mask & (sign * panel.similarity <= values[wanted - 1] + 1e-12))


def test_random_pairs_draw_the_asked_number_and_every_pair_alike() -> None:
    x, y = batch(24, 4, even=True)
    hits = torch.zeros(24, 24)
    miner = RandomPairs(positives=2, negatives=3, generator=torch.Generator().manual_seed(0))
    for _ in range(400):
        positive, negative, panel = mine(miner, x, y)
        assert (positive.sum(1) == 2).all()
        assert (negative.sum(1) == 3).all()
        hits += negative
    rate = hits[panel.negative] / 400
    assert abs(rate.mean() - 3 / 18) < 1e-6
    assert rate.std() < 0.03  # binomial: √(p(1−p)/400) = 0.019


def test_distance_weights_follow_the_density_and_rows_do_not_underflow() -> None:
    # The density of distances between random unit vectors, from a histogram.
    generator = torch.Generator().manual_seed(0)
    z = torch.nn.functional.normalize(torch.randn(3000, 16, generator=generator), dim=1)
    d = torch.cdist(z[:1500], z[1500:]).flatten()
    counts = torch.histc(d, 40, 0.9, 1.9)
    middle = torch.linspace(0.9, 1.9, 41)[:-1] + 0.0125
    density = torch.exp(-log_inverse_density(middle.square(), 16))
    ratio = counts / counts.sum() / (density / density.sum())
    assert (ratio[counts > 2000] - 1).abs().max() < 0.05
    # A row whose distances are all large, beside one with small ones, in 512 dimensions.
    log_weight = log_inverse_density(torch.tensor([[1.30, 1.35], [0.5, 0.6]]).square(), 512)
    assert torch.isfinite(log_weight).all()


def test_distance_weighted_draws_with_these_probabilities() -> None:
    angle = torch.tensor([0.0, 0.02, 0.7, 0.9, 1.2])
    x = torch.stack([angle.cos(), angle.sin(), torch.zeros(5)], 1).double()
    y = torch.tensor([0, 0, 1, 2, 3])
    miner = DistanceWeighted(generator=torch.Generator().manual_seed(0))
    hits = sum(mine(miner, x, y)[1][0].double() for _ in range(3000))
    squared = (x[0] - x).square().sum(1)[2:]
    expected = torch.softmax(log_inverse_density(squared, 3), 0)
    torch.testing.assert_close(hits[2:] / 3000, expected, rtol=0, atol=0.03)


def test_distance_weighted_falls_back_to_negatives_only() -> None:
    x = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [-1.0, 0.1]])
    _, negative, panel = mine(DistanceWeighted(generator=torch.Generator()), x, torch.tensor([0, 0, 1, 1]))
    assert (negative.sum(1) == 1).all()
    assert not (negative & ~panel.negative).any()


def test_spanning_tree_has_the_greatest_weight() -> None:
    from scipy.sparse.csgraph import minimum_spanning_tree

    for seed in range(5):
        x, _ = batch(9, 3, seed=seed)
        z = torch.nn.functional.normalize(x, dim=1)
        s = z @ z.T
        edges = spanning_tree(s)
        ours = sum(2 - s[i, j] for i, j in edges.tolist())
        best = minimum_spanning_tree((2 - s).fill_diagonal_(0).numpy()).sum()
        assert float(ours) == pytest.approx(best)
    assert spanning_tree(torch.ones(1, 1)).shape == (0, 2)


def test_spanning_tree_takes_distances_when_rows_have_lengths() -> None:
    from scipy.sparse.csgraph import minimum_spanning_tree

    x, _ = batch(9, 3)
    x[::2] *= 5
    pairing = Pairing(x, x, ClassLabels(torch.zeros(9, dtype=torch.int64)), 0)
    select = SpanningTree().prepare(pairing)
    (panel,) = iterate_panels(pairing)
    chosen = select(panel)[0]
    squared = torch.cdist(x, x).square()
    tree = torch.from_numpy(minimum_spanning_tree(squared.numpy()).toarray()) > 0
    assert torch.equal(chosen, tree | tree.T)


def test_spanning_tree_across_two_sets() -> None:
    from scipy.sparse.csgraph import minimum_spanning_tree

    x, y = batch(13, 3, even=True)
    d, k = batch(9, 3, seed=4, even=True)
    pairing = Pairing(x, d, ClassLabels(y, k), None)
    select = SpanningTree().prepare(pairing)
    positive = torch.cat([select(panel)[0] for panel in iterate_panels(pairing)])
    for label in range(3):
        mine, theirs = (y == label).nonzero()[:, 0], (k == label).nonzero()[:, 0]
        squared = torch.cdist(x[mine], d[theirs]).square()
        n = len(mine) + len(theirs)
        whole = torch.zeros(n, n, dtype=torch.float64)
        whole[: len(mine), len(mine) :] = squared
        own = positive[mine][:, theirs]
        assert int(own.sum()) == n - 1
        assert float(squared[own].sum()) == pytest.approx(minimum_spanning_tree(whole.numpy()).sum())
    assert int(positive.sum()) == 13 + 9 - 3
    value = RAWLoss(miner=SpanningTree())(x, y, database=d[k < 2], database_labels=k[k < 2])  # a class on one side
    torch.testing.assert_close(
        value, RAWLoss(miner=SpanningTree()).dense(x, y, database=d[k < 2], database_labels=k[k < 2])
    )


def test_bad_settings() -> None:
    with pytest.raises(ParameterError, match="`miner` must be a miner"):
        RAWLoss(miner="hard")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="`fraction` must be at most 1"):
        HardestFraction(1.5)
    with pytest.raises(ParameterError, match="`far` must be greater than 0"):
        DistanceWeighted(far=0)
    with pytest.raises(LabelError, match="SpanningTree needs class labels, got MultiLabels"):
        RAWLoss(miner=SpanningTree())(batch(6, 2)[0], MultiLabels(torch.ones(6, 2)))
