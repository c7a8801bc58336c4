"""Every row of docs/migrate/pytorch-metric-learning.md, built as printed on both sides."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest
import torch

import nearer.losses
import nearer.mining
from nearer.evaluation import evaluate

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "migrate" / "pytorch-metric-learning.md").read_text()
ROWS = re.findall(r"^\| `(\w+Loss\(.*?\))` \| `(\w+\(.*?\))` \| (\w+)", PAGE, re.MULTILINE)

RANDOM = torch.Generator().manual_seed(0)
CENTERS = 2 * torch.randn(4, 8, generator=RANDOM, dtype=torch.float64)
Y = torch.arange(4).repeat_interleave(4)
X = torch.nn.functional.normalize(CENTERS[Y] + torch.randn(16, 8, generator=RANDOM, dtype=torch.float64), dim=1)

pytest.importorskip("pytorch_metric_learning", reason="the extra 'peers' is not installed")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from pytorch_metric_learning import distances, losses, miners, reducers
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
    from pytorch_metric_learning.utils.inference import CustomKNN

THEIRS = {**vars(losses), **vars(distances), **vars(reducers)}
OURS = {name: getattr(nearer.losses, name) for name in nearer.losses.__all__}


def proxies_of(loss: torch.nn.Module) -> torch.Tensor | None:
    return next((getattr(loss, name) for name in ("W", "proxies", "weight", "fc") if hasattr(loss, name)), None)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("theirs", "ours", "number"), ROWS, ids=[row[0] for row in ROWS])
def test_a_row_of_the_table(theirs: str, ours: str, number: str) -> None:
    torch.manual_seed(0)
    peer, loss = eval(theirs, THEIRS), eval(ours, OURS).double()
    table = proxies_of(peer)
    if isinstance(table, torch.nn.Parameter):
        table = table if table.shape == loss.proxies.shape else table.t()
        loss.proxies.data.copy_(table)
    if "VICReg" in ours:
        found, expected = loss(X, ref_emb=X.flip(0)), peer(X, ref_emb=X.flip(0))
    elif "Manifold" in ours:
        peer.proxies.data = peer.proxies.data.double()
        found, expected = loss(X, Y), peer(X, indices_tuple=Y)
    else:
        y = torch.arange(16) if "Instance" in ours else Y
        found, expected = loss(X, y), peer(X, y)
    same = found.item() == pytest.approx(float(expected), rel=5e-4 if "RankedList" in ours else 2e-5)
    assert same == (number == "same"), (found, expected)
    assert found > 0 or "Dynamic" in ours


def test_every_shared_name_and_every_absent_one_is_on_the_page() -> None:
    assert len(ROWS) >= 30
    bases = {"BaseLossWrapper", "BaseMetricLossFunction", "GenericPairLoss", "CrossBatchMemory"}
    public = {name for name, value in vars(losses).items() if isinstance(value, type)} - bases
    public -= {"EmbeddingRegularizerMixin", "WeightRegularizerMixin"}
    assert {name for name in public if name not in PAGE} == set()
    listed = {row[0].partition("(")[0] for row in ROWS}
    assert {name for name in public & set(OURS) if name not in listed} == set()


@pytest.mark.filterwarnings("ignore")
def test_the_miners_of_the_table() -> None:
    x = X + 0.5 * torch.randn(16, 8, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    cosine = distances.CosineSimilarity()
    for ours, theirs in (
        (nearer.mining.VTHM(0.1), miners.MultiSimilarityMiner(0.1)),
        (nearer.mining.BatchHard(), miners.BatchHardMiner()),
        (
            nearer.mining.SemiHardTriplets(0.1),
            miners.TripletMarginMiner(0.1, type_of_triplets="semihard", distance=cosine),
        ),
    ):
        found, expected = ours(x, Y), theirs(x, Y)
        expected = expected if len(expected) == 4 else (*expected[:2], expected[0], expected[2])
        for side in (slice(0, 2), slice(2, 4)):
            a, b = ({*zip(*(one.tolist() for one in part[side]), strict=True)} for part in (found, expected))
            assert a == b, type(ours).__name__
            assert a


@pytest.mark.filterwarnings("ignore")
def test_the_scores_of_the_table() -> None:
    x = X + 0.6 * torch.randn(16, 8, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    names = {
        "precision_at_1": "recall@1",
        "r_precision": "r-precision",
        "mean_average_precision_at_r": "map@r",
        "mean_reciprocal_rank": "mrr",
    }
    theirs = AccuracyCalculator(include=tuple(names), k=15, knn_func=CustomKNN(distances.CosineSimilarity()))
    expected = theirs.get_accuracy(x, Y)
    found = evaluate(x, Y, scores=list(names.values()), similarity="cosine").scores
    for name, score in names.items():
        assert found[score] == pytest.approx(expected[name]), name
        assert 0 < found[score] < 1
