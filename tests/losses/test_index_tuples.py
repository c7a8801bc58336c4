"""The calls of pytorch-metric-learning: index tuples, its miners, `ref_emb`; and our miners called like its own."""

from __future__ import annotations

import inspect
import warnings

import pytest
import torch

import nearer.losses
import nearer.mining
import nearer_papers.systems
from every_loss import CASES, LOSSES, ONE_SET_ONLY, batch, value_and_gradient
from nearer.exceptions import LabelError, NearerError, ParameterError, ShapeError
from nearer.losses import (
    AngularTripletLoss,
    ContrastiveLoss,
    CrossBatchMemory,
    MarginLoss,
    MultiSimilarityLoss,
    PairLoss,
    ProxyAnchorLoss,
    SemiHardTripletLoss,
    ShardedLoss,
    SupConLoss,
    TripletLoss,
)
from nearer.mining import VTHM, BatchHard, DistanceWeighted, SemiHardTriplets
from nearer.pairwise import Miner
from nearer.pairwise._panels import tile_size
from nearer.relations import ClassLabels, MultiLabels, Triplets

MINEABLE = [kind for kind in LOSSES if kind.mineable]


def all_pairs(y, d=None):
    positive, negative = ClassLabels(y, d).masks()
    if d is None:
        positive.fill_diagonal_(False)
    return (*positive.nonzero(as_tuple=True), *negative.nonzero(as_tuple=True))


@pytest.mark.parametrize("kind", MINEABLE)
def test_a_tuple_of_all_pairs_changes_nothing(kind: type[PairLoss]) -> None:
    x, y = batch(18, 5)
    make = CASES[f"{kind.__name__}()"]
    expected = value_and_gradient(make().double(), x, y)
    for call in (make().double(), make().double().dense):
        with tile_size(5):
            found = value_and_gradient(call, x, y, all_pairs(y))
        torch.testing.assert_close(found[0], expected[0], rtol=1e-9, atol=1e-11)
        torch.testing.assert_close(found[1], expected[1], rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("kind", MINEABLE)
def test_a_tuple_is_what_the_miner_would_choose(kind: type[PairLoss]) -> None:
    x, y = batch(20, 5, seed=2)
    x = torch.nn.functional.normalize(x, dim=1)  # a miner that is called sees cosines, a loss may not normalise
    make = CASES[f"{kind.__name__}()"]
    mined = make().double()
    mined.miner = VTHM(0.1)
    expected = value_and_gradient(mined, x, y)
    found = value_and_gradient(make().double(), x, y, VTHM(0.1)(x, y))
    torch.testing.assert_close(found[0], expected[0], rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(found[1], expected[1], rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("kind", [kind for kind in LOSSES if not kind.mineable])
def test_losses_that_are_not_made_of_pairs_refuse_a_tuple(kind: type[PairLoss]) -> None:
    x, y = batch(12, 4)
    with pytest.raises(ParameterError, match=f"{kind.__name__} is not made of single pairs"):
        kind()(x, y, all_pairs(y))


@pytest.mark.parametrize("kind", [kind for kind in MINEABLE if kind.__name__ not in ONE_SET_ONLY])
def test_ref_emb_is_the_database(kind: type[PairLoss]) -> None:
    x, y = batch(10, 4)
    d, k = batch(14, 4, seed=1)
    make = CASES[f"{kind.__name__}()"]
    expected = make().double()(x, y, database=d, database_labels=k)
    assert torch.equal(make().double()(x, y, None, d, k), expected)
    assert torch.equal(make().double()(x, y, ref_emb=d, ref_labels=k), expected)
    listed = make().double()(x, y, all_pairs(y, k), d, k)
    torch.testing.assert_close(listed, expected, rtol=1e-9, atol=1e-11)


def test_labels_may_be_left_out_when_pairs_are_listed() -> None:
    x, y = batch(16, 4)
    indices = VTHM()(x, y)
    torch.testing.assert_close(SupConLoss()(x, indices_tuple=indices), SupConLoss(miner=VTHM())(x, y))
    empty = torch.empty(0, dtype=torch.int64)
    value, gradient = value_and_gradient(SupConLoss(), x, y, (empty, empty, empty))
    assert value == 0
    assert gradient.abs().max() == 0
    assert SupConLoss()(x[:0], y[:0], (empty, empty, empty)) == 0
    assert SupConLoss()(x[:0], None, (empty, empty, empty)) == 0
    with pytest.raises(ParameterError, match="`labels` must be given unless"):
        SupConLoss()(x)


def test_the_labels_of_listed_pairs_are_still_known_to_the_loss() -> None:
    x, y = batch(16, 4)
    loss = MarginLoss(n_classes=4)
    assert loss(x, y, VTHM()(x, y)).isfinite()
    with pytest.raises(NearerError, match="class"):
        loss(x, indices_tuple=VTHM()(x, y))


def test_listed_triplets_are_taken_one_by_one() -> None:
    x, y = batch(8, 2, even=True)
    z = torch.nn.functional.normalize(x, dim=1)
    triplets = [(0, 2, 1), (0, 4, 3), (0, 4, 3), (1, 3, 0)]
    gaps = torch.stack([(z[a] * z[n]).sum() - (z[a] * z[p]).sum() for a, p, n in triplets])
    columns = [list(column) for column in zip(*triplets, strict=True)]
    hinge = (gaps + 0.3).clamp(min=0)
    for reduction, expected in {
        "sum": hinge.sum(),
        "tuples": hinge.mean(),
        "mean": hinge.sum() / 8,
        "active": hinge.sum() / (hinge > 0).sum(),
    }.items():
        loss = TripletLoss(margin=0.3, reduction=reduction)
        torch.testing.assert_close(loss(x, y, columns), expected)
        torch.testing.assert_close(loss(x, y, columns, x, y), expected)
    semi = (hinge * (gaps < 0)).sum()
    torch.testing.assert_close(SemiHardTripletLoss(margin=0.3, reduction="sum")(x, y, columns), semi)
    leaf = x.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda e: TripletLoss(margin=0.3)(e, y, columns), leaf)
    assert TripletLoss()(x.half(), y, columns).dtype == torch.float32
    angular = AngularTripletLoss()
    torch.testing.assert_close(angular(x, y, columns), angular(x, Triplets(8, triplets)))
    with pytest.raises(ParameterError, match="take no `database`"):
        angular(x, y, columns, x, y)


WRONG = {
    "two columns": (([0], [1]), ShapeError, "got 2 columns"),
    "a tensor": (torch.zeros(3, 2, dtype=torch.int64), ShapeError, "got Tensor"),
    "fractions": (([0.5], [1], [2]), ShapeError, "whole numbers"),
    "two dimensions": (([[0]], [[1]], [[2]]), ShapeError, r"got `a` of shape \(1, 1\)"),
    "ragged": (([0, 1], [1], [2]), ShapeError, "of equal lengths, got 2, 1, 1"),
    "another batch": (([0], [1], [99]), ParameterError, r"`n` of `indices_tuple` must lie in 0..7, got 99 to 99"),
    "itself": (([0], [0], [1]), ParameterError, "must not pair an item with itself"),
    "both sides": (([0], [1], [0], [1]), LabelError, "positive and as negative"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_tuples(name: str) -> None:
    indices, error, message = WRONG[name]
    x, y = batch(8, 3)
    with pytest.raises(error, match=message):
        SupConLoss()(x, y, indices)


def test_long_lists_are_looked_up_instead_of_held_as_masks(monkeypatch) -> None:
    x, y = batch(16, 4)
    indices = VTHM()(x, y)
    expected = SupConLoss()(x, y, indices)
    monkeypatch.setattr("nearer.pairwise._indices._SMALL", 10)
    with tile_size(5):
        torch.testing.assert_close(SupConLoss()(x, y, indices), expected)
    with pytest.raises(LabelError, match="positive and as negative"):
        SupConLoss()(x, y, ([0], [1], [0], [1]))


def test_wrong_calls() -> None:
    x, y = batch(8, 3)
    with pytest.raises(ShapeError, match="`database` must have 8 columns like the embeddings, got 7"):
        SupConLoss()(x, indices_tuple=([0], [1], [2]), ref_emb=x[:, :7])
    indices = VTHM()(x, y)
    with pytest.raises(ParameterError, match="must not be given to a loss with its own miner, BatchHard"):
        SupConLoss(miner=BatchHard())(x, y, indices)
    with pytest.raises(ParameterError, match="are the same: give one pair"):
        SupConLoss()(x, y, None, x, y, database=x, database_labels=y)
    with pytest.raises(ParameterError, match="must be given together"):
        SupConLoss()(x, y, ref_emb=x)
    with pytest.raises(ParameterError, match="it knows one process's rows"):
        ShardedLoss(SupConLoss())(x, y, indices)
    with pytest.raises(ParameterError, match="ProxyAnchorLoss compares items with class vectors"):
        ProxyAnchorLoss(3, 8)(x.float(), y, indices)
    with pytest.raises(ParameterError, match=r"`miner` must be a miner of nearer.mining or of pytorch-metric"):
        SupConLoss(miner=3)
    with pytest.raises(ParameterError, match=r"`miner` must be a miner of nearer.mining or of pytorch-metric"):
        SupConLoss(miner=VTHM)
    foreign = SupConLoss(miner=lambda embeddings, labels: VTHM()(embeddings, labels))
    with pytest.raises(ParameterError, match="for MultiLabels, got function, which knows class labels only"):
        foreign(x, MultiLabels(torch.eye(8)))
    with pytest.raises(ParameterError, match="and for `weights`, got function"):
        foreign.weights(x @ x.T, y)


def test_a_memory_takes_a_tuple_for_its_batch() -> None:
    x, y = batch(12, 4)
    indices = VTHM()(x, y)
    memory = CrossBatchMemory(ContrastiveLoss(), size=24, embedding_dim=8).double()
    torch.testing.assert_close(memory(x, y, indices), ContrastiveLoss()(x, y, indices))
    d = batch(12, 4, seed=4)[0]
    against = ContrastiveLoss()(d, y, database=x, database_labels=y)
    torch.testing.assert_close(memory(d, y, VTHM()(d, y)), ContrastiveLoss()(d, y, VTHM()(d, y)) + against)


MINERS = [kind for name in nearer.mining.__all__ if issubclass(kind := getattr(nearer.mining, name), Miner)]
MINERS.append(nearer_papers.systems.RandomPairs)


@pytest.mark.parametrize("kind", MINERS)
def test_a_miner_lists_what_its_masks_choose(kind: type[Miner]) -> None:
    x, y = batch(14, 4)

    def make() -> Miner:
        settings = {"generator": torch.Generator().manual_seed(1)} if "generator" in dir_of(kind) else {}
        return kind(0.5, **settings) if "fraction" in dir_of(kind) else kind(**settings)

    with tile_size(4):
        a1, p, a2, n = make()(x, y)
    z = torch.nn.functional.normalize(x, dim=1)
    weights = nearer_papers.systems.EqualWeightLoss(miner=make()).weights(z @ z.T, y)
    if kind is DistanceWeighted:  # it draws by the dimension, which a matrix of similarities does not have
        assert bool((y[a1] == y[p]).all())
        assert bool((y[a2] != y[n]).all())
        return
    for found, expected in (((a1, p), weights < 0), ((a2, n), weights > 0)):
        assert torch.equal(torch.stack(found, 1), expected.nonzero())


def dir_of(kind: type) -> list[str]:
    return list(inspect.signature(kind).parameters)


def test_a_miner_across_two_sets() -> None:
    x, y = batch(6, 3)
    d, k = batch(9, 3, seed=1)
    indices = VTHM(0.1)(x, y, d, k)
    expected = SupConLoss(miner=VTHM(0.1))(x, y, database=d, database_labels=k)
    torch.testing.assert_close(SupConLoss()(x, y, indices, d, k), expected)
    assert [len(one) for one in VTHM()(x[:0], y[:0])] == [0, 0, 0, 0]
    with pytest.raises(ParameterError, match="`ref_emb` and `ref_labels` must be given together"):
        VTHM()(x, y, d)
    with pytest.raises(ShapeError, match="`ref_emb` must have 8 columns, got 7"):
        VTHM()(x, y, d[:, :7], k)


def test_first_arguments_of_miners_by_position() -> None:
    assert VTHM(0.3).margin == SemiHardTriplets(0.3).margin == 0.3
    assert DistanceWeighted(0.4).cutoff == 0.4
    assert repr(VTHM(0.3)) == "VTHM(margin=0.3)"


@pytest.mark.parametrize("package", [nearer.losses, nearer.mining])
def test_a_misspelt_keyword_names_the_class_that_was_called(package) -> None:
    for name in package.__all__:
        kind = getattr(package, name)
        if inspect.isclass(kind) and name not in ("PairLoss", "RowLoss"):
            with pytest.raises(TypeError, match=rf"^{kind.__name__}(\.__init__)?\(\)"):  # an alias has one name
                kind(margn=0.1)


# --- beside the library itself ---------------------------------------------------------------------------------


@pytest.fixture
def peers():
    module = pytest.importorskip("pytorch_metric_learning", reason="the extra 'peers' is not installed")
    warnings.simplefilter("ignore")
    from pytorch_metric_learning import distances, losses, miners

    assert module is not None
    return losses, miners, distances


def both(name, peers):
    losses, miners, distances = peers
    cosine = distances.CosineSimilarity()
    return {
        "multi-similarity": (MultiSimilarityLoss, losses.MultiSimilarityLoss(), miners.MultiSimilarityMiner(0.1)),
        "batch hard": (SupConLoss, losses.SupConLoss(), miners.BatchHardMiner()),
        "pair margin": (MultiSimilarityLoss, losses.MultiSimilarityLoss(), miners.PairMarginMiner(0.2, 0.8)),
        "semi-hard triplets": (
            TripletLoss,
            losses.TripletMarginLoss(0.1, distance=cosine),
            miners.TripletMarginMiner(0.2, type_of_triplets="semihard", distance=cosine),
        ),
        "hard triplets into pairs": (
            SupConLoss,
            losses.SupConLoss(),
            miners.TripletMarginMiner(0.2, type_of_triplets="hard"),
        ),
    }[name]


@pytest.mark.parametrize(
    "name", ["multi-similarity", "batch hard", "pair margin", "semi-hard triplets", "hard triplets into pairs"]
)
def test_their_miners_and_their_losses(name: str, peers) -> None:
    kind, theirs, miner = both(name, peers)
    x, y = batch(24, 6, even=True, spread=1.5)
    x = x.float()
    indices = miner(x, y)
    expected = value_and_gradient(theirs, x, y, indices)
    assert expected[0] > 0
    for found in (value_and_gradient(kind(), x, y, indices), value_and_gradient(kind(miner=miner), x, y)):
        torch.testing.assert_close(found[0], expected[0], rtol=2e-5, atol=1e-6)
        torch.testing.assert_close(found[1], expected[1], rtol=2e-3, atol=2e-6)
    torch.testing.assert_close(kind(miner=miner).dense(x, y), expected[0], rtol=2e-5, atol=1e-6)
    q, k = x[:5] + 0.1, y[:5]
    expected = theirs(q, k, miner(q, k, x, y), x, y)
    torch.testing.assert_close(kind(miner=miner)(q, k, None, x, y), expected, rtol=2e-5, atol=1e-6)


def test_our_miner_in_front_of_their_loss(peers) -> None:
    losses, miners, _ = peers
    x, y = batch(24, 6, spread=1.5)
    found, expected = VTHM(0.1)(x, y), miners.MultiSimilarityMiner(epsilon=0.1)(x, y)
    for side in (slice(0, 2), slice(2, 4)):
        assert {*zip(*map(torch.Tensor.tolist, found[side]), strict=True)} == {
            *zip(*map(torch.Tensor.tolist, expected[side]), strict=True)
        }
    torch.testing.assert_close(
        losses.MultiSimilarityLoss()(x, y, found), MultiSimilarityLoss(miner=VTHM(0.1))(x, y), rtol=1e-6, atol=1e-8
    )
