"""The rows of docs/migrate, and the numbers that other libraries give for them.

Some libraries that people come from do not install beside ours: metric-learn 0.7.0 needs an older scikit-learn,
sentence-transformers and open-metric-learning pull in far more than a test should. Their side of each row is
therefore evaluated once, in an environment of theirs, and kept with its versions:

    PYTHON tests/peer_rows.py metric-learn          # PYTHON has the library; nearer is not needed
    PYTHON tests/peer_rows.py metric-learn --print  # says them, and keeps nothing

Our side is evaluated by the tests, as printed. A row that is changed has no kept number, and its test fails.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

PAGES = Path(__file__).resolve().parents[1] / "docs" / "migrate"
KEPT = Path(__file__).resolve().parent / "migrate" / "recorded"
ROW = re.compile(
    r"^\| `(?P<theirs>.+?)` \| `(?P<ours>.+?)` \| (?P<number>same|other)(?P<note>.*?) \|$", re.MULTILINE
)


def rows(page: str) -> list[tuple[str, str, str, str]]:
    """Theirs, ours, "same" or "other", and the note of every row of a page whose sides can be evaluated."""
    text = (PAGES / f"{page}.md").read_text()
    return [(one["theirs"], one["ours"], one["number"], one["note"]) for one in ROW.finditer(text)]


def tables() -> dict[str, Any]:
    """Rows of iris with classes, pairs, quadruplets and chunks: what the classical learners take."""
    from sklearn.datasets import load_iris

    X, y = load_iris(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    random = np.random.RandomState(0)
    pairs = random.randint(len(X), size=(200, 2))
    pairs = pairs[np.square(X[pairs[:, 0]] - X[pairs[:, 1]]).sum(axis=1) > 0]
    similar = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1)
    few = min((similar > 0).sum(), (similar < 0).sum())
    quadruplets = np.hstack([pairs[similar > 0][:few], pairs[similar < 0][:few]])
    lengths = np.square(X[quadruplets[:, ::2].ravel()] - X[quadruplets[:, 1::2].ravel()]).sum(axis=1)
    chunks = np.where(np.arange(len(X)) % 2, y, -1)
    return {
        "X": X,
        "y": y,
        "pairs": pairs,
        "similar": similar,
        "quadruplets": quadruplets,
        "unit": np.sqrt(lengths.mean()),
        "chunks": chunks,
    }


def batch() -> dict[str, Any]:
    """Embeddings of 24 items, as classes, as pairs of columns and as triplets: what the losses take."""
    import torch

    random = np.random.RandomState(0)
    y = np.arange(6).repeat(4)
    x = random.standard_normal((6, 8))[y] * 0.8 + random.standard_normal((24, 8))
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    x, y = torch.from_numpy(x), torch.from_numpy(y)
    a, p, n = x[0::4], x[1::4], x[[*range(6, 24, 4), 2]]
    return {
        "x": x,
        "y": y,
        "a": a,
        "p": p,
        "n": n,
        "ids": torch.arange(6),
        "left": x[:12],
        "right": x[12:].flip(0),
        "near": torch.tensor([0, 1] * 6),
        "i": torch.arange(1, 12, 2),
        "j": torch.arange(0, 12, 2),
        "proxies": torch.from_numpy(random.standard_normal((6, 8))),
        "cat": torch.cat,
    }


def _metric_learn() -> dict[str, Any]:
    import metric_learn

    return {**{name: getattr(metric_learn, name) for name in metric_learn.__all__}, **tables()}


def _sentence_transformers() -> dict[str, Any]:
    from sentence_transformers import losses
    from sentence_transformers.losses import BatchHardTripletLossDistanceFunction, SiameseDistanceMetric
    from sentence_transformers.losses import TripletDistanceMetric as Triplet

    def given_embeddings(kind: Any) -> Any:
        return lambda *settings, **more: kind(*settings, **more).compute_loss_from_embeddings

    named = {name: given_embeddings(value) for name, value in vars(losses).items() if name.endswith("Loss")}
    cosine = BatchHardTripletLossDistanceFunction.cosine_distance
    both = ("query_to_doc", "query_to_query")
    kinds = {"cosine": cosine, "Siamese": SiameseDistanceMetric, "Triplet": Triplet, "both": both}
    return {**named, **batch(), **kinds, "model": None}


def _open_metric_learning() -> dict[str, Any]:
    import oml.losses as losses
    import oml.miners as miners
    from oml.functional import metrics

    named = {name: value for module in (losses, miners, metrics) for name, value in vars(module).items()}
    given = batch()

    def with_proxies(*settings: Any, **more: Any) -> Any:
        loss = losses.ArcFaceLoss(*settings, **more).double()
        loss.weight.data.copy_(given["proxies"])
        return loss

    x, y = given["x"], given["y"]
    order = (x @ x.T).fill_diagonal_(-2).argsort(1, descending=True)[:, :-1]
    top, right = list(y[order] == y[:, None]), [3] * len(y)
    return {**named, **given, "ArcFaceLoss": with_proxies, "top": top, "R": right, "mean": lambda one: one.mean()}


NAMES = {
    "metric-learn": _metric_learn,
    "sentence-transformers": _sentence_transformers,
    "open-metric-learning": _open_metric_learning,
}


def numbers(value: Any) -> Any:
    """A learner as its matrix M, a loss as a number."""
    if hasattr(value, "get_mahalanobis_matrix"):
        return value.get_mahalanobis_matrix().tolist()
    if hasattr(value, "mahalanobis_matrix"):
        return value.mahalanobis_matrix().tolist()
    return np.asarray(value.detach() if hasattr(value, "detach") else value, dtype=float).tolist()


def kept(page: str) -> dict[str, Any]:
    """The versions and the numbers that were recorded for a page."""
    found: dict[str, Any] = json.loads((KEPT / f"{page}.json").read_text())
    return found


def evaluated(page: str) -> dict[str, Any]:
    """What a library gives for its side of every row."""
    names = NAMES[page]()
    return {one[0]: numbers(eval(one[0], dict(names))) for one in rows(page)}


def main(page: str) -> None:
    warnings.simplefilter("ignore")
    if "--print" in sys.argv:
        print(json.dumps(evaluated(page)))
        return
    versions = {}
    for package in (page, "torch", "scikit-learn", "numpy"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    values = evaluated(page)
    KEPT.mkdir(exist_ok=True)
    (KEPT / f"{page}.json").write_text(json.dumps({"versions": versions, "values": values}, indent=1) + "\n")
    print(f"{len(values)} rows of {page} {versions[page]}")


if __name__ == "__main__":
    main(sys.argv[1])
