"""The two lines that each page of docs/migrate begins with, taken at their word: both loops are run."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from sklearn.datasets import load_iris
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch.utils.data import DataLoader

from peer_rows import PAGES


def loops(page: str) -> tuple[str, str]:
    """The program before and after the change, from the first diff of a page."""
    found = re.search(r"^```diff\n(.*?)^```", (PAGES / f"{page}.md").read_text(), re.MULTILINE | re.DOTALL)
    assert found
    lines = [line for line in found[1].splitlines() if line.strip() != "..."]
    removed, added = ([line for line in lines if line.startswith(sign)] for sign in "-+")
    assert 0 < len(removed) <= 4
    assert len(removed) == len(added)
    before, after = ("\n".join(line[1:] for line in lines if not line.startswith(sign)) for sign in "+-")
    return before, after


def in_a_pipeline() -> dict[str, Any]:
    X, y = load_iris(return_X_y=True)
    return {
        "X": X,
        "y": y,
        "make_pipeline": make_pipeline,
        "StandardScaler": StandardScaler,
        "KNeighborsClassifier": KNeighborsClassifier,
        "cross_val_score": cross_val_score,
    }


@pytest.mark.filterwarnings("ignore")
def test_a_loop_of_pytorch_metric_learning_ends_in_the_same_place() -> None:
    pytest.importorskip("pytorch_metric_learning", reason="the extra 'peers' is not installed")
    ends = []
    for program in loops("pytorch-metric-learning"):
        torch.manual_seed(0)
        y = torch.arange(8).repeat_interleave(4)
        x = torch.randn(8, 16)[y] + torch.randn(32, 16)
        model = torch.nn.Linear(16, 8)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        calls = ("optimizer.zero_grad()", "loss.backward()", "optimizer.step()", "values.append(loss.item())")
        step = "".join(f"\n    {call}" for call in calls)
        names: dict[str, Any] = {"model": model, "loader": [(x, y)] * 5, "optimizer": optimizer, "values": []}
        exec(program + step, names)
        assert names["values"][-1] < names["values"][0], "it learns"
        ends.append((model.weight.detach(), names["values"]))
    (theirs, before), (ours, after) = ends
    assert after == pytest.approx(before, rel=1e-5)
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-4)


@pytest.mark.filterwarnings("ignore")
def test_a_pipeline_of_scikit_learn() -> None:
    scores = []
    for program in loops("scikit-learn"):
        names = in_a_pipeline()
        exec(program, names)
        scores.append(names["pipeline"].score(names["X"], names["y"]))
    assert min(scores) > 0.95
    assert scores[1] == pytest.approx(scores[0], abs=0.02)


@pytest.mark.filterwarnings("ignore")
def test_a_pipeline_of_metric_learn() -> None:
    _, after = loops("metric-learn")
    names = in_a_pipeline()
    exec(after.replace("cross_val_score(", "score = cross_val_score("), names)
    assert names["score"].mean() > 0.9


def test_a_loop_of_open_metric_learning() -> None:
    _, after = loops("open-metric-learning")
    torch.manual_seed(0)
    labels = torch.arange(16).repeat_interleave(4)
    x = torch.randn(16, 6)[labels] + torch.randn(64, 6)
    extractor = torch.nn.Linear(6, 8)
    extractor.feat_dim = 8
    train = [{"input_tensors": row, "labels": label} for row, label in zip(x, labels, strict=True)]
    names = {"extractor": extractor, "n_classes": 16, "labels": labels, "train": train, "DataLoader": DataLoader}
    exec(after + "\n    loss.backward()\n", names)
    assert extractor.weight.grad.abs().sum() > 0


def test_a_trainer_of_sentence_transformers() -> None:
    """The trainer calls the loss with columns of features and with labels; the rest of the loop is its own."""
    _, after = loops("sentence-transformers")

    class Encoder(torch.nn.Linear):
        def forward(self, features: Any) -> Any:
            return {"sentence_embedding": super().forward(features["x"])}

    class SentenceTransformerTrainer:
        def __init__(self, model: Any, *, args: Any, train_dataset: Any, loss: Any) -> None:
            self.loss, self.data = loss, train_dataset

        def train(self) -> None:
            self.loss([{"x": self.data[0]}], self.data[1]).backward()

    model = Encoder(6, 4)
    texts = (torch.randn(12, 6, generator=torch.Generator().manual_seed(0)), torch.arange(4).repeat(3))
    names = {"model": model, "args": None, "texts_with_classes": texts}
    exec(after, names | {"SentenceTransformerTrainer": SentenceTransformerTrainer})
    assert model.weight.grad.abs().sum() > 0
