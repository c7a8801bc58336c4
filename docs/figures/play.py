"""Build docs/play/*.html: four pages to play with, each one file without any request, from real computations.

python docs/figures/play.py [weights | learning | moons | votes]

A page is docs/figures/play/NAME.html with shared.css and shared.js put in and its data as JSON. The code of pages
computes weights, propagation steps and neighbour sets itself; tests/documents/test_play.py holds it to nearer's.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits, make_moons
from sklearn.decomposition import PCA

from nearer.estimators import LMNN, NCA
from nearer.estimators.linear._nca import nca_loss_and_gradient
from nearer.graph import nearest_neighbors
from nearer.neighbors import search

HERE = Path(__file__).resolve().parent / "play"
PLACE = HERE.parents[1] / "play"
TITLES = {
    "weights": "What a loss does to a pair",
    "learning": "A metric being learned",
    "moons": "Labels spreading over a graph",
    "votes": "The vote of neighbour sets",
}


def unit(rows: np.ndarray) -> list[list[float]]:
    return np.round(rows / np.linalg.norm(rows, axis=1, keepdims=True), 4).tolist()


def weights() -> dict[str, Any]:
    """40 digits, four of each class, embedded by principal components and by LMNN learned on other digits."""
    digits = load_digits()
    X, y = digits.data, digits.target
    random = np.random.RandomState(3)
    some = np.concatenate([random.permutation(np.flatnonzero(y == c))[:4] for c in range(10)])
    others = np.setdiff1d(np.arange(len(y)), some)[:800]
    raw = PCA(8, random_state=0).fit(X[others])
    learned = LMNN(8, random_state=0).fit(X[others], y[others])
    center = learned.transform(X[others]).mean(axis=0)
    letters = "0123456789abcdefg"
    return {
        "labels": y[some].tolist(),
        "raw": unit(raw.transform(X[some])),
        "learned": unit(learned.transform(X[some]) - center),
        "pixels": ["".join(letters[int(one)] for one in X[i]) for i in some],
    }


def learning(steps: int = 36) -> dict[str, Any]:
    """NCA of digits in two dimensions from the principal components, one gradient step after another."""
    digits = load_digits()
    classes = [1, 3, 5, 8, 9]
    random = np.random.RandomState(0)
    chosen = np.concatenate([random.permutation(np.flatnonzero(digits.target == c))[:70] for c in classes])
    X = digits.data[chosen] / 16
    X = X - X.mean(axis=0)
    y = np.repeat(np.arange(5), 70)
    held = np.tile(np.arange(70) >= 50, 5)
    train, labels = X[~held], y[~held]
    starts = np.concatenate([[0], np.cumsum(np.bincount(labels))])
    A = PCA(2, random_state=0).fit(train).components_
    frames, wrong, scores = [], [], [[], []]
    maps = [A]
    value = nca_loss_and_gradient(A, train, starts)[0]
    rate = 0.01
    while len(maps) <= steps:
        gradient = nca_loss_and_gradient(A, train, starts)[1]
        # Backtracking: the largest of a few steps that improves the objective.
        for _ in range(20):
            further = A - rate * gradient
            found = nca_loss_and_gradient(further, train, starts)[0]
            if found < value:
                break
            rate *= 0.5
        A, value, rate = further, found, rate * 1.5
        maps.append(A)
    before = None
    for A in maps:
        Z = X @ A.T
        Z = Z / np.sqrt(np.square(Z).sum(axis=1).mean())
        if before is not None:
            # A rotation changes no distance: take the one that moves the picture least.
            left, _, right = np.linalg.svd(Z.T @ before)
            Z = Z @ left @ right
        before = Z
        frames.append(Z)
        own = np.full(len(y), -1)
        rows = np.flatnonzero(~held)
        own[rows] = np.arange(len(rows))
        near = search(Z, Z[~held], 1, own=own).indices.numpy()[:, 0]
        right = labels[near] == y
        wrong.append(np.flatnonzero(~right).tolist())
        scores[0].append(round(float(right[~held].mean()), 4))
        scores[1].append(round(float(right[held].mean()), 4))
    # One scale for all frames, with outliers cut off.
    everything = np.concatenate(frames)
    low, high = np.quantile(everything, 0.002, axis=0), np.quantile(everything, 0.998, axis=0)
    shown = [np.clip(np.round(999 * (Z - low) / (high - low)), 0, 999).astype(int).ravel().tolist() for Z in frames]
    done = NCA(2, init=maps[0], max_iter=200).fit(train, labels)
    first = -nca_loss_and_gradient(maps[0], train, starts)[0] / len(train)
    return {
        "what": (
            f"{len(y)} handwritten digits of five classes, 64 pixels each, mapped to two dimensions by "
            f"neighbourhood components analysis. Step 0 is the two principal components; each step goes along the "
            f"gradient. The mean share of right votes rises from {first:.2f} to {-value / len(train):.2f}; "
            f"nearer.estimators.NCA ends at {done.objective_:.2f}."
        ),
        "classes": classes,
        "labels": y.tolist(),
        "held": held.astype(int).tolist(),
        "frames": shown,
        "wrong": wrong,
        "scores": scores,
    }


def moons() -> dict[str, Any]:
    """Two moons and the eight nearest neighbours of every point."""
    X, y = make_moons(200, noise=0.07, random_state=2)
    near = nearest_neighbors(X, k=8, normalized=False).indices.numpy()
    given = []
    for c, end in ((0, -1.0), (1, 2.0)):
        own = np.flatnonzero(y == c)
        given.append(int(own[np.argmin(abs(X[own, 0] - end))]))
    low, high = X.min(axis=0), X.max(axis=0)
    random = np.random.RandomState(0)
    return {
        "points": np.round(999 * (X - low) / (high - low)).astype(int).tolist(),
        "near": near.tolist(),
        "labels": y.tolist(),
        "given": given,
        "next": random.permutation(200)[:40].tolist(),
    }


def votes() -> dict[str, Any]:
    """Items of three classes around a query."""
    random = np.random.RandomState(4)
    centers = np.array([[-0.75, 0.2], [0.7, 0.45], [0.45, -0.6]])
    classes = np.repeat([0, 1, 2], 9)
    points = centers[classes] + 0.38 * random.standard_normal((27, 2))
    return {
        "points": np.round(points.clip([-1.5, -1.05], [1.5, 1.05]), 3).tolist(),
        "classes": classes.tolist(),
        "query": [-0.05, 0.05],
    }


PAGES: dict[str, Callable[[], dict[str, Any]]] = {
    "weights": weights,
    "learning": learning,
    "moons": moons,
    "votes": votes,
}


def build(name: str, data: str) -> str:
    """A whole page from its template and its data as JSON."""
    body = (HERE / f"{name}.html").read_text().replace("/*SHARED*/", (HERE / "shared.js").read_text())
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<link rel="icon" href="data:,">\n<title>{TITLES[name]}</title>\n'
        f"<style>\n{(HERE / 'shared.css').read_text()}</style>\n</head>\n<body>\n"
        f'<script id="data" type="application/json">{data}</script>\n{body}</body>\n</html>\n'
    )


def data_of(page: str) -> str:
    """The data that a built page carries."""
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert found
    return found[1]


def main(names: list[str]) -> None:
    PLACE.mkdir(exist_ok=True)
    for name in names or PAGES:
        file = PLACE / f"{name}.html"
        file.write_text(build(name, json.dumps(PAGES[name](), separators=(",", ":"))))
        print(file.name, f"{file.stat().st_size / 1024:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
