"""Forward and backward of the pair losses against their peers, a dense autograd version, and the matrix products.

The limit is S over the upper triangle of tiles once plus the full gradient product: 3·B²·D operations; "bare" is
the normalisation, S and its backward pass by autograd, for batches up to 512. All the
contestants of a row run in turn in one process, one thread, and their medians are compared; only ratios mean
anything on a shared machine. Values are checked to be equal before anything is timed.

    python benchmarks/speed/losses.py [--quick] [--memory] [--only NAME]

With --only the rows of one loss are measured again and take the place of the old ones.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from nearer.losses import (
    AngularLoss,
    BatchHardTripletLoss,
    BinomialDevianceLoss,
    CircleLoss,
    ContrastiveLoss,
    DistanceContrastiveLoss,
    FastAPLoss,
    GeneralizedLiftedLoss,
    HistogramLoss,
    InfoNCELoss,
    MarginLoss,
    NCALoss,
    NTXentLoss,
    PairLoss,
    PairSemiHardTripletLoss,
    RAWLoss,
    SemiHardTripletLoss,
    SmoothAPLoss,
    SupConLoss,
    TripletLoss,
)
from nearer.mining import VTHM
from nearer_papers.systems import EqualWeightLoss, RandomTripletLoss
from record import interleaved, save

warnings.filterwarnings("ignore")

Loss = Callable[[Tensor, Tensor], Tensor]


def peers() -> dict[str, Loss]:
    from pytorch_metric_learning import distances, losses, miners

    miner, similarity = miners.MultiSimilarityMiner(0.1), losses.MultiSimilarityLoss(alpha=2, beta=50, base=0.5)
    return {
        "RAW + VTHM": lambda x, y: similarity(x, y, miner(x, y)),
        "RAW": similarity,
        "contrastive (distance)": losses.ContrastiveLoss(),
        "contrastive (similarity)": losses.ContrastiveLoss(
            pos_margin=1, neg_margin=0.5, distance=distances.CosineSimilarity()
        ),
        "all triplets": losses.TripletMarginLoss(margin=0.1, distance=distances.CosineSimilarity()),
        "generalised lifted": losses.GeneralizedLiftedStructureLoss(pos_margin=0, neg_margin=1),
        "SupCon": losses.SupConLoss(temperature=0.1),
        "NT-Xent": losses.NTXentLoss(temperature=0.1),
        "circle": losses.CircleLoss(),
        "angular": losses.AngularLoss(alpha=40),
        "margin": losses.MarginLoss(),
        "histogram": losses.HistogramLoss(n_bins=100),
    }


OURS: dict[str, PairLoss] = {
    "RAW + VTHM": RAWLoss(miner=VTHM(margin=0.1)),
    "RAW": RAWLoss(),
    "contrastive (distance)": DistanceContrastiveLoss(),
    "contrastive (similarity)": ContrastiveLoss(),
    "all triplets": TripletLoss(margin=0.1),
    "generalised lifted": GeneralizedLiftedLoss(margin=1.0),
    "binomial": BinomialDevianceLoss(),
    "SupCon": SupConLoss(temperature=0.1),
    "NT-Xent": NTXentLoss(temperature=0.1),
    "circle": CircleLoss(),
    "angular": AngularLoss(angle=40),
    "margin": MarginLoss(over="triplets"),
    "histogram": HistogramLoss(bins=101),
}

# The other losses made of rows, for the memory figures.
ALSO: dict[str, PairLoss] = {
    "semi-hard triplets": SemiHardTripletLoss(),
    "per-pair semi-hard triplets": PairSemiHardTripletLoss(),
    "batch-hard triplets": BatchHardTripletLoss(),
    "random triplets": RandomTripletLoss(),
    "equal weights + VTHM": EqualWeightLoss(miner=VTHM(margin=0.1)),
    "InfoNCE": InfoNCELoss(),
    "NCA": NCALoss(),
    "FastAP": FastAPLoss(),
    "SmoothAP": SmoothAPLoss(),
}

# Where the peer's formula is another one (its generalised lifted loss is of distances) values are not compared.
OTHER_FORMULA = {"generalised lifted"}
# Above these sizes the peer needs more than 16 GB or more than a minute (measured in shared/PEERS.md, section 3).
PEER_LIMIT = {"NT-Xent": 256, "histogram": 256, "all triplets": 4096, "margin": 4096, "angular": 4096}
# The dense autograd version of these is B³.
DENSE_LIMIT = {"all triplets": 64, "angular": 128, "contrastive (distance)": 256, "margin": 256, "histogram": 512}


def batch(size: int, dimension: int, noise: float) -> tuple[Tensor, Tensor]:
    """Unit class centres plus unit noise times `noise`: the cosine of a positive pair is 1/(1 + noise²)."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(size) // 4

    def unit(n: int) -> Tensor:
        return torch.nn.functional.normalize(torch.randn(n, dimension, generator=generator), dim=1)

    x = torch.nn.functional.normalize(unit(size // 4)[labels] + noise * unit(size), dim=1)
    order = torch.randperm(size, generator=generator)
    return x[order], labels[order]


def products(z: Tensor, tile: int = 512) -> Tensor:
    """The matrix products alone."""
    out = torch.zeros_like(z)
    for i in range(0, len(z), tile):
        for j in range(i, len(z), tile):
            a, b = z[i : i + tile], z[j : j + tile]
            s = torch.mm(a, b.T)
            out[i : i + tile].addmm_(s, b)
            if j > i:
                out[j : j + tile].addmm_(s.T, a)
    return out


def bare(x: Tensor) -> Callable[[], None]:
    """Normalisation, the whole matrix and its backward pass by autograd: what any loss of a small batch costs."""

    def run() -> None:
        z = torch.nn.functional.normalize(x.clone().requires_grad_(), dim=1)
        (z @ z.T).sum().backward()  # type: ignore[no-untyped-call]

    return run


def step(loss: Loss, x: Tensor, y: Tensor) -> Callable[[], Tensor]:
    def run() -> Tensor:
        leaf = x.clone().requires_grad_()
        value = loss(leaf, y)
        value.backward()
        return value.detach()

    return run


def measure(name: str, size: int, dimension: int, noise: float, theirs: dict[str, Loss]) -> dict[str, Any]:
    x, y = batch(size, dimension, noise)
    contestants: dict[str, Callable[[], object]] = {"limit": lambda: products(x)}
    if size <= 512:
        contestants["bare"] = bare(x)
    contestants["nearer"] = step(OURS[name], x, y)
    # Some peers take six seconds a step at B = 4,096; in the larger dimension two of them must do.
    few = dimension == 128 or size < 4096 or name in ("RAW + VTHM", "SupCon")
    if name in theirs and size <= PEER_LIMIT.get(name, 4096) and few:
        contestants["peer"] = step(theirs[name], x, y)
        if name not in OTHER_FORMULA:
            torch.testing.assert_close(contestants["nearer"](), contestants["peer"](), rtol=1e-4, atol=1e-6)
    if size <= min(DENSE_LIMIT.get(name, 1024), 1024):
        contestants["dense"] = step(OURS[name].dense, x, y)
    start = time.perf_counter()
    for run in contestants.values():
        run()
    once = time.perf_counter() - start
    repeats = max(3, min(51, int(3 / max(once, 1e-3))))
    times = interleaved(contestants, repeats=repeats)
    row: dict[str, Any] = {"loss": name, "batch": size, "dimension": dimension, "noise": noise, "repeats": repeats}
    row |= {f"{key}_ms": round(1000 * value, 3) for key, value in times.items()}
    row["times_limit"] = round(times["nearer"] / times["limit"], 3)
    if "bare" in times:
        row["times_bare"] = round(times["nearer"] / times["bare"], 3)
    for other in ("peer", "dense"):
        if other in times:
            row[f"faster_than_{other}"] = round(times[other] / times["nearer"], 2)
    return row


def memory(name: str, size: int) -> dict[str, Any]:
    """Peak extra memory of one step, in a process of its own."""
    code = (
        "import sys, json, time; sys.path.insert(0, 'benchmarks'); sys.path.insert(0, 'benchmarks/speed')\n"
        "import torch, losses as bench\nfrom record import peak_megabytes\n"
        "torch.set_num_threads(1)\n"
        f"x, y = bench.batch({size}, 128, 1.0)\n"
        f"bench.step((bench.OURS | bench.ALSO)[{name!r}], *bench.batch(1024, 128, 1.0))()\n"
        "before = peak_megabytes(); start = time.perf_counter()\n"
        f"bench.step((bench.OURS | bench.ALSO)[{name!r}], x, y)()\n"
        "print(json.dumps([peak_megabytes() - before, time.perf_counter() - start]))\n"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    extra, seconds = json.loads(done.stdout.splitlines()[-1])
    return {"loss": name, "batch": size, "extra_megabytes": round(extra, 1), "seconds": round(seconds, 2)}


def main() -> None:
    torch.set_num_threads(1)
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else None
    rows: list[dict[str, Any]] = []
    if "--memory" in sys.argv:
        for size in (16384,) if "--quick" in sys.argv else (16384, 65536):
            everyone = OURS | ALSO if size == 16384 else OURS
            for name in everyone if only is None else [only]:
                rows.append(memory(name, size))
                print(rows[-1], flush=True)
                save("losses_memory", rows, key=["loss", "batch"], dimension=128, per_class=4, threads=1)
        return
    theirs = peers()
    sizes = [32, 128, 1024] if "--quick" in sys.argv else [32, 64, 128, 256, 512, 1024, 4096, 8192]
    for dimension in (128,) if "--quick" in sys.argv else (128, 512):
        for size in sizes if dimension == 128 else [128, 1024, 4096]:
            for name in OURS if only is None else [only]:
                if size == 8192 and name not in ("RAW + VTHM", "all triplets", "SupCon"):
                    continue
                # Positive cosine 0.2 is the batch of an untrained encoder, 0.5 of a partly trained one.
                # At 64 the only mined pair lies on the margin, and the peer's rounding leaves it out.
                for noise in (2.0, 1.0) if name == "RAW + VTHM" and size != 64 else (2.0,):
                    rows.append(measure(name, size, dimension, noise, theirs))
                    print(rows[-1], flush=True)
                    save(
                        "losses",
                        rows,
                        key=["loss", "batch", "dimension", "noise"],
                        packages=("pytorch-metric-learning",),
                        per_class=4,
                        threads=1,
                    )


if __name__ == "__main__":
    main()
