"""Where an iterative learner of the map A starts, and how far apart rows are there."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from nearer._checks import check_choice
from nearer.estimators._matrices import Array
from nearer.estimators.neighbors._near import nearest_rows
from nearer.exceptions import ParameterError, ShapeError

Init = Literal["auto", "identity", "pca", "lda", "random"]


def start_components(init: Any, X: Any, codes: Array | None, d: int, rng: np.random.RandomState) -> Array:
    """The first map A, (d, p): the identity, PCA, Fisher's directions or random numbers.

    "auto" takes Fisher's directions when d is below the number of classes (dense rows only), PCA when d < p, else
    the identity. An array (d, p) is taken as it is.

    >>> start_components("auto", np.ones((3, 2)), None, 2, np.random.RandomState(0))
    array([[1., 0.],
           [0., 1.]])
    """
    n, p = X.shape
    if isinstance(init, np.ndarray):
        if init.shape != (d, p):
            raise ShapeError(f"`init` must have shape ({d}, {p}), got {init.shape}.")
        return init.astype(np.float64)
    kind = check_choice(init, "init", ["auto", "identity", "pca", "lda", "random"])
    n_classes = 0 if codes is None else int(codes.max()) + 1
    if kind == "auto":
        fisher = d <= min(p, n_classes - 1) and d < p and not sparse.issparse(X)
        kind = "lda" if fisher else "pca" if d < min(p, n) else "identity"
    if kind == "identity":
        return np.eye(d, p)
    if kind == "random":
        return rng.standard_normal((d, p)) / np.sqrt(p)
    components = np.eye(d, p)
    if kind == "lda" and n_classes > 1:
        if sparse.issparse(X):
            raise ParameterError("`init` must be pca, identity or random for sparse rows, got 'lda'.")
        analysis = LinearDiscriminantAnalysis(n_components=min(d, n_classes - 1, p), solver="eigen", shrinkage=1e-3)
        rows = analysis.fit(X, codes).scalings_.T[: min(d, n_classes - 1, p)]
    elif sparse.issparse(X) and d < min(n, p):
        rows = PCA(d, svd_solver="arpack", random_state=rng).fit(X).components_
    elif sparse.issparse(X):
        return np.eye(d, p)
    else:
        rows = PCA(min(d, n, p), svd_solver="full").fit(X).components_
    components[: len(rows)] = rows
    return components


def canonical_starts(left: Array, right: Array, d: int, shrink: float) -> tuple[Array, Array]:
    """The canonical directions of two centered descriptions of the same rows: U (p, d) and V (p', d).

    The pairs of directions of the largest correlation ρ, for rows of unit variance after `shrink` times the mean
    variance was added, each times √ρ: U and V bring the two descriptions of a row together, and count a direction
    by how well it is known from the other side. Columns beyond min(p, p') are zeros.

    >>> x = np.array([[1.0, 0.5], [-1.0, 0.5], [0.0, -1.0]])
    >>> U, V = canonical_starts(x, -3 * x[:, :1], 1, 0.0)
    >>> bool(np.abs(x @ U - -3 * x[:, :1] @ V).max() < 1e-9)
    True
    """
    whitened = []
    for side in (left, right):
        values, vectors = np.linalg.eigh(side.T @ side / len(side))
        floor = max(shrink * float(values.mean()), float(values[-1]) * len(values) * np.finfo(np.float64).eps)
        whitened.append((vectors / np.sqrt(np.maximum(values, 0) + floor + np.finfo(np.float64).tiny)) @ vectors.T)
    first, correlations, second = np.linalg.svd(whitened[0] @ (left.T @ right / len(left)) @ whitened[1])
    most = min(d, len(correlations))
    U, V = np.zeros((left.shape[1], d)), np.zeros((right.shape[1], d))
    roots = np.sqrt(correlations[:most])
    U[:, :most], V[:, :most] = whitened[0] @ first[:, :most] * roots, whitened[1] @ second[:most].T * roots
    return U, V


def centered(X: Any) -> Any:
    """Rows about their mean, which keeps digits and changes no distance; sparse rows are left where they are.

    >>> centered(np.array([[1.0], [3.0]]))
    array([[-1.],
           [ 1.]])
    """
    return X if sparse.issparse(X) else X - X.mean(axis=0)


def working_unit(X: Any) -> float:
    """What rows are divided by before a descent: 1, or a power of two for entries whose squares leave float32.

    A descent takes its first step in the units of the map; where rows are of 1e30 and the map is of 1e−30, that
    step is out of reach of any line search.

    >>> working_unit(np.array([[3.0, -200.0]])), working_unit(np.array([[1e30]])) > 1e29
    (1.0, True)
    """
    largest = float(abs(X).max()) if min(X.shape) else 0.0
    return 1.0 if largest <= 1e8 else float(2.0 ** np.ceil(np.log2(largest)))


def bring_neighbors_near(components: Array, X: Any, rng: np.random.RandomState, *, most: float = 200.0) -> Array:
    """Scale A down when nearest neighbours are so far apart that exp(−d²) rounds to 0 and nothing could be learned.

    Looks at no more than 500 rows. A median squared distance to the nearest neighbour above `most` becomes 10.

    >>> bring_neighbors_near(np.eye(1), np.array([[0.0], [100.0]]), np.random.RandomState(0)).round(4)
    array([[0.0316]])
    """
    n = X.shape[0]
    rows = np.arange(n) if n <= 500 else rng.permutation(n)[:500]
    # Only differences count: sparse rows need not be centred before they are mapped.
    mapped = (X[rows] if sparse.issparse(X) else X[rows] - X[rows].mean(axis=0)) @ components.T
    near = nearest_rows(mapped, mapped, 1, own=np.arange(len(rows)))[:, 0]
    squared = np.square(mapped - mapped[near]).sum(axis=1)
    squared = squared[squared > 0]
    if not len(squared) or np.median(squared) <= most:
        return components
    return components * np.sqrt(10.0 / np.median(squared))
