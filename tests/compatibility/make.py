"""Write the folders of this version into tests/compatibility/<version>, once, before a release; they are kept.

python tests/compatibility/make.py

Refuses to write a version again: what a released version wrote cannot change.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch

import nearer
from nearer.geometry import MLP, Mahalanobis
from nearer.index import HNSW, IVF, Index
from nearer.models import Model
from nearer.models._inputs import Inputs
from nearer.training import Checkpoints

HERE = Path(__file__).parent
QUERIES = [[1.0, 0.5], [-0.25, 2.0]]


def answers(folder: Path) -> dict[str, object]:
    """What the folders of a version say when they are opened."""
    model = nearer.load(folder / "model")
    told: dict[str, object] = {
        "model": [model.transform(QUERIES).tolist(), list(model.classes), list(model.inputs.names), model.method]
    }
    told["network"] = nearer.geometry.load(folder / "network")(torch.tensor(QUERIES)).tolist()
    for kind in ("exact", "hnsw", "ivf"):
        found = Index.load(folder / kind).search(QUERIES, k=3)
        told[kind] = [found.ids.tolist(), found.similarities.tolist(), found.metadata]
    state = Checkpoints(folder / "run").load()
    assert state is not None
    told["run"] = [state["weight"].tolist(), list(state["pair"]), {str(k): v for k, v in state["inner"].items()}]
    return told


def main() -> None:
    folder = HERE / nearer.__version__
    folder.mkdir()
    random = np.random.default_rng(0)
    encoder = Mahalanobis.from_factor([[1.0, 0.5], [0.0, 2.0]])
    model = Model(encoder, Inputs("features", ("a", "ä"), (2,)), method="by hand", classes=("x", "y"))
    model.save(folder / "model", pages={"README.md": b"# A model card\n"})
    torch.manual_seed(0)
    MLP(2, 2, hidden=[3]).save(folder / "network")
    exact = Index(2, similarity="euclidean")
    exact.add(random.standard_normal((5, 2)) + 100, ids=["a", "b", "ä", "d", "e"], metadata={"n": range(5)})
    exact.save(folder / "exact")
    for name, kind in (("hnsw", HNSW(neighbors=2, build_width=8)), ("ivf", IVF(cells=4, probes=4))):
        index = Index(2, similarity="dot", kind=kind)
        index.add(random.standard_normal((1000, 2)))
        index.save(folder / name)
    state = {"weight": torch.arange(3.0), "pair": (1, 0.5), "inner": {3: [None, True]}}
    Checkpoints(folder / "run").save(7, state)
    (folder / "answers.json").write_text(json.dumps(answers(folder), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
