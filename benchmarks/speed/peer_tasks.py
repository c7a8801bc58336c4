"""Losses, label sets and label distributions beside pytorch-metric-learning, scikit-multilearn and PyLDL.

    make benchmark                                        makes the environments, then runs everything
    python benchmarks/speed/peer_tasks.py [--quick]

Equal settings and data, every contestant a process with one thread, in turn in one run: CPU seconds (of a forward
and backward step, or of `fit` and `predict`), how far the resident memory grew, and what came out: for losses
whether the values agree, for label sets 1 − Hamming loss, for distributions the cosine, both higher is better. A
peer that does not install, or fails, has a row that says so. scikit-multilearn calls NearestNeighbors as
it was called before scikit-learn 1.0, so its name is replaced there; nothing else of a peer is changed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from peer_learners import MEMORY, run

STEP = (
    MEMORY
    + """
import json, sys, time
import torch
torch.set_num_threads(1)
setting, n, d = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
namespace = {"torch": torch}
exec(setting, namespace)
step_loss = namespace["loss"]
generator = torch.Generator().manual_seed(0)
x = torch.nn.functional.normalize(torch.randn(n, d, generator=generator))
y = torch.arange(n // 4).repeat(4)
def step():
    leaf = x.clone().requires_grad_()
    value = step_loss(leaf, y)
    value.backward()
    return value.item()
before = memory("VmRSS")
value = step()
grown = memory("VmHWM") - before
times = []
for _ in range(3):
    begin = time.process_time()
    step()
    times.append(time.process_time() - begin)
print(json.dumps([sorted(times)[1], grown, value]))
"""
)
FITTED = (
    MEMORY
    + """
import json, sys, time, warnings
import numpy as np
warnings.simplefilter("ignore")
setting, folder = sys.argv[1:3]
namespace = {"np": np}
exec(setting, namespace)
z = np.load(folder + "/data.npz")
before = memory("VmRSS")
begin = time.process_time()
found = namespace["fit_predict"](z["x"], z["y"], z["new"])
seconds = time.process_time() - begin
grown = memory("VmHWM") - before
np.save(folder + "/found.npy", np.asarray(found, dtype=float))
print(json.dumps([seconds, grown, 0.0]))
"""
)
PML = "pytorch-metric-learning"
# Ours, what both are called, our setting, the peer's setting.
LOSSES = (
    (
        "MultiSimilarityLoss(miner=VTHM)",
        "from nearer.losses import MultiSimilarityLoss\nfrom nearer.mining import VTHM\n"
        "loss = MultiSimilarityLoss(miner=VTHM(0.1))",
        "from pytorch_metric_learning import losses, miners\nm = miners.MultiSimilarityMiner(epsilon=0.1)\n"
        "f = losses.MultiSimilarityLoss()\nloss = lambda x, y: f(x, y, m(x, y))",
    ),
    (
        "SupConLoss",
        "from nearer.losses import SupConLoss\nloss = SupConLoss(temperature=0.1)",
        "from pytorch_metric_learning.losses import SupConLoss\nloss = SupConLoss(temperature=0.1)",
    ),
    (
        "NCALoss",
        "from nearer.losses import NCALoss\nloss = NCALoss()",
        "from pytorch_metric_learning.losses import NCALoss\nloss = NCALoss()",
    ),
    (
        "DistanceContrastiveLoss",
        "from nearer.losses import DistanceContrastiveLoss\nloss = DistanceContrastiveLoss()",
        "from pytorch_metric_learning.losses import ContrastiveLoss\nloss = ContrastiveLoss()",
    ),
    (
        "CircleLoss",
        "from nearer.losses import CircleLoss\nloss = CircleLoss()",
        "from pytorch_metric_learning.losses import CircleLoss\nloss = CircleLoss()",
    ),
)
OUR_SETS = """
from nearer.estimators import MLKNN
fit_predict = lambda x, y, new: MLKNN(n_neighbors=10, smoothing=1.0).fit(x, y).predict(new)
"""
THEIR_SETS = """
import skmultilearn.adapt.mlknn as peer
from sklearn.neighbors import NearestNeighbors
peer.NearestNeighbors = lambda k: NearestNeighbors(n_neighbors=k)
fit_predict = lambda x, y, new: peer.MLkNN(k=10, s=1.0).fit(x, y).predict(new).toarray()
"""
OUR_SHARES = """
from nearer.estimators import AAKNN
fit_predict = lambda x, y, new: AAKNN(n_neighbors=5).fit(x, y).predict(new)
"""
THEIR_SHARES = """
from pyldl.algorithms import AA_KNN
fit_predict = lambda x, y, new: AA_KNN(k=5).fit(x, y).predict(new)
"""
KEY = ["task", "ours", "peer", "size"]


def made(task: str, n: int) -> tuple[Any, Any, Any, Any]:
    """Training rows and labels, new rows and theirs."""
    import numpy as np
    from sklearn.datasets import make_multilabel_classification

    if task == "label sets":
        x, y = make_multilabel_classification(n, 40, n_classes=12, n_labels=3, random_state=0)
    else:
        rng = np.random.default_rng(0)
        y = rng.dirichlet(np.full(8, 0.6), size=n)
        x = np.log(y + 0.05) @ rng.normal(size=(8, 30)) + rng.normal(size=(n, 30))
    cut = n * 7 // 10
    return x[:cut], y[:cut], x[cut:], y[cut:]


def quality(task: str, found: Any, true: Any) -> float:
    """Higher is better."""
    import numpy as np

    if task == "label sets":
        return float(1 - np.mean((found > 0.5) != (true > 0.5)))
    norms = np.linalg.norm(found, axis=1) * np.linalg.norm(true, axis=1)
    return float(np.mean((found * true).sum(1) / norms))


def contest(
    row: dict[str, Any], sides: dict[str, tuple[str, list[str]]], code: str, repeats: int, limit: float
) -> Any:
    """Both sides in turn; the last output of each."""
    times: dict[str, list[float]] = {side: [] for side in sides}
    last: dict[str, Any] = {}
    for _ in range(repeats):
        for side, (python, arguments) in sides.items():
            if f"{side} failed" in row:
                continue
            found = run(python, code, arguments, limit)
            if isinstance(found, str):
                row[f"{side} failed"] = found
                continue
            times[side].append(found[0])
            row[f"{side} megabytes"], last[side] = found[1], found[2]
            if code == FITTED:
                import numpy as np

                last[side] = np.load(Path(arguments[1]) / "found.npy")
    row |= {f"{side} seconds": statistics.median(found) for side, found in times.items() if found}
    if times["ours"] and times["peer"]:
        row["faster"] = row["peer seconds"] / row["ours seconds"]
    return last


def main() -> None:
    import numpy as np

    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from environments import python_of, reason
    from record import save, save_absence

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one size of each")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--limit", type=float, default=240.0)
    options = parser.parse_args()
    cases: list[tuple[str, str, str, str, str, int]] = []
    for n in (512,) if options.quick else (512, 2048):
        cases += [("loss", name, PML, ours, theirs, n) for name, ours, theirs in LOSSES]
    for n in (2000,) if options.quick else (2000, 10000):
        cases.append(("label sets", "MLKNN", "scikit-multilearn", OUR_SETS, THEIR_SETS, n))
        cases.append(("distributions", "AAKNN", "PyLDL", OUR_SHARES, THEIR_SHARES, n))
    for task, name, peer, ours, theirs, n in cases:
        row: dict[str, Any] = {"task": task, "ours": name, "peer": peer, "size": n}
        python = python_of(peer)
        if python is None:
            save_absence("peers", row, reason(peer))
            continue
        with tempfile.TemporaryDirectory() as folder:
            if task == "loss":
                more, code = [str(n), "128"], STEP
            else:
                x, y, new, true = made(task, n)
                np.savez(Path(folder) / "data.npz", x=x, y=y, new=new)
                more, code = [folder], FITTED
            sides = {"ours": (sys.executable, [ours, *more]), "peer": (python, [theirs, *more])}
            last = contest(row, sides, code, options.repeats, options.limit)
        if task == "loss" and len(last) == 2:
            row["same value"] = bool(np.isclose(last["ours"], last["peer"], rtol=1e-3))
        elif task != "loss":
            row |= {f"{side} quality": quality(task, found, true) for side, found in last.items()}
        print(json.dumps(row), flush=True)
        save("peers", [row], key=KEY)


if __name__ == "__main__":
    main()
