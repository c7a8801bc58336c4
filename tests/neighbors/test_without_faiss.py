"""Without faiss and matplotlib: what learns, scores and searches exactly works, the rest names what is missing."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
sys.modules["faiss"] = sys.modules["matplotlib"] = None  # as if neither were installed
import numpy as np, torch
from nearer.estimators import NCA
from nearer.evaluation import evaluate
from nearer.exceptions import NearerError
from nearer.index import BitIndex, Index
from nearer.losses import RAWLoss
from nearer.neighbors import _exact, search

random = np.random.default_rng(0)
X, y = random.normal(size=(300, 6)).astype(np.float32), np.arange(300) % 3
X[:, 0] += 3 * y
mapped = NCA(max_iter=3, tol=1.0, random_state=0).fit(X, y).transform(X)
z = torch.from_numpy(X).requires_grad_()
RAWLoss()(z, torch.from_numpy(y)).backward()
assert evaluate(mapped, y)["recall@1"] > 0.5

few = search(X, k=4)
_exact.WITHOUT_FAISS = 1000  # blocks of three queries, as for a large table
for similarity in ("euclidean", "cosine", "dot"):
    apart = np.linalg.norm(X[:, None] - X[None], axis=2)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True) if similarity == "cosine" else X
    values = -apart if similarity == "euclidean" else unit @ unit.T
    np.fill_diagonal(values, -np.inf)
    expected = np.argsort(-values, axis=1, kind="stable")[:, :4]
    found = search(X, k=4, similarity=similarity).indices.numpy()
    assert (found == expected).mean() > 0.999, similarity
assert torch.equal(search(X, k=4).indices, few.indices)

index = Index(6)
index.add(X)
assert index.search(X[:5], k=1).ids[:, 0].tolist() == [0, 1, 2, 3, 4]
bits = BitIndex(8)
bits.add(random.normal(size=(300, 8)))
for refused in (
    lambda: search(X, k=4, method="approximate"),
    lambda: bits.search(random.normal(size=(1, 8)), k=1),
):
    try:
        refused()
    except NearerError as error:
        assert "Run: pip install 'nearer[search]'" in str(error), error
    else:
        raise AssertionError("faiss was not missed")
"""


def test_learning_scoring_and_exact_search_need_neither() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
