"""The printed definitions of the retrieval scores, as loops over sorted lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nearer.evaluation._engine import _nearest as nearest
from nearer.evaluation._engine import _ranking as ranking
from nearer.evaluation._engine import _tiles as tiles

Oracle = Callable[..., dict[str, float]]


def similarities(queries: np.ndarray, database: np.ndarray, similarity: str) -> np.ndarray:
    a, b = queries.astype(np.float64), database.astype(np.float64)
    if similarity == "cosine":
        a = a / np.where(np.linalg.norm(a, axis=1) > 0, np.linalg.norm(a, axis=1), 1)[:, None]
        b = b / np.where(np.linalg.norm(b, axis=1) > 0, np.linalg.norm(b, axis=1), 1)[:, None]
    if similarity == "euclidean":
        return -((a[:, None] - b[None]) ** 2).sum(axis=2)
    return a @ b.T


def naive_scores(
    queries: np.ndarray,
    labels: Any,
    database: np.ndarray | None = None,
    database_labels: Any = None,
    *,
    ks: tuple[int, ...] = (1, 2, 4, 8),
    similarity: str = "cosine",
    ties: str = "index",
) -> dict[str, float]:
    """Sort the database for every query, one after the other; {} when no query has anything to find."""
    same = database is None
    items = queries if database is None else database
    item_labels = labels if same else database_labels
    values = similarities(queries, items, similarity)
    each: list[dict[str, float]] = []
    for i, label in enumerate(labels):
        others = [j for j in range(len(items)) if not (same and i == j)]
        total = sum(item_labels[j] == label for j in others)
        if not total:
            continue
        rules: dict[str, Callable[[int], Any]] = {
            "index": lambda j: j,
            "pessimistic": lambda j, label=label: item_labels[j] == label,
            "optimistic": lambda j, label=label: item_labels[j] != label,
        }
        others.sort(key=lambda j, i=i: (-values[i, j], rules[ties](j)))
        right = [bool(item_labels[j] == label) for j in others]
        score = {f"recall@{k}": float(any(right[:k])) for k in ks}
        score |= {f"precision@{k}": sum(right[:k]) / k for k in ks}
        score["r-precision"] = sum(right[:total]) / total
        score["map@r"] = sum(sum(right[: p + 1]) / (p + 1) for p in range(total) if right[p]) / total
        score["mrr"] = 1 / (right.index(True) + 1)
        each.append(score)
    return {name: float(np.mean([score[name] for score in each])) for name in each[0]} if each else {}


@pytest.fixture
def oracle() -> Oracle:
    return naive_scores


@pytest.fixture(params=["one tile", "many tiles", "strips"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The ways through the engine: small data in one tile, in many, and one strip of queries at a time."""
    if request.param != "one tile":
        monkeypatch.setattr(tiles, "SIDE", 24)
        monkeypatch.setattr(tiles, "SHORTEST", 24)
        monkeypatch.setattr(ranking, "SIDE", 24)
        monkeypatch.setattr(nearest, "SAMPLE", 20)
        monkeypatch.setattr(nearest, "SMALLEST_SAMPLE", 20)
    if request.param == "strips":
        monkeypatch.setattr(ranking, "TOGETHER", -1)
    return str(request.param)
