"""ISDML: crowded regions hold together, by a graph that is weighted with the density of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import linalg

from nearer._checks import check_choice, check_int, check_number
from nearer.estimators._matrices import Array, ridged, symmetric
from nearer.estimators.partial._lrml import unit_determinant_minimizer
from nearer.estimators.partial._partly_labeled import (
    EdgeList,
    PartlyLabeledLearner,
    edge_scatter,
    labeled_scatters,
    neighbor_edges,
    safe_weight,
)
from nearer.graph._shared import parzen_density


def density_edges(X: Array, k: int, *, v: float = 10.0) -> EdgeList:
    """Edges with weight `(β_i + β_j)·exp(−‖x_i − x_j‖²/2σ²)`, `σ = d_min + (d_max − d_min)/v`, β Parzen's density.

    σ is over the distances of the edges. Weights below 1e-30 are left out.

    >>> density_edges(np.array([[0.0], [1.0]]), 1).weight.round(4)
    array([1.2131])
    """
    edges = neighbor_edges(X, k)
    squared = np.square(X[edges.left] - X[edges.right]).sum(axis=1)
    distance = np.sqrt(squared)
    width = float(distance.min() + (distance.max() - distance.min()) / v)
    if width == 0:
        return edges
    density = parzen_density(X, width=width).numpy()
    weight = (density[edges.left] + density[edges.right]) * np.exp(-squared / (2 * width**2))
    kept = weight >= 1e-30
    return EdgeList(edges.left[kept], edges.right[kept], weight[kept])


def geodesic_descent(matrix: Array, *, max_iter: int = 500, tol: float = 1e-8) -> tuple[Array, int]:
    """Minimise `Tr(AM)` over `det M = 1` by steepest descent along geodesics; M (p, p) and the iterations.

    `G = A − (Tr(AM)/p)M⁻¹`, `M ← C exp(−ηCᵀGC)Cᵀ` with `M = CCᵀ`, Armijo on η. Convex along geodesics for A ≻ 0,
    so the limit is `unit_determinant_minimizer(A)`.

    >>> geodesic_descent(np.diag([1.0, 4.0]))[0].round(4) + 0.0
    array([[2. , 0. ],
           [0. , 0.5]])
    """
    p = len(matrix)
    A = symmetric(matrix) / (np.trace(matrix) / p)
    M, step = np.eye(p), 1.0
    value = float(np.trace(A))
    for iteration in range(1, max_iter + 1):
        lower = linalg.cholesky(M, lower=True)
        inner = symmetric(lower.T @ A @ lower)
        slope = inner - np.trace(inner) / p * np.eye(p)
        size = float(np.square(slope).sum())
        if size <= (tol * value) ** 2:
            return M, iteration
        values, vectors = linalg.eigh(slope)
        for _ in range(40):
            # exp(−η slope) has determinant one, because the trace of the slope is zero.
            side = (lower @ vectors) * np.exp(-step * values / 2)
            fresh = symmetric(side @ side.T)
            cost = float(np.einsum("ij,ji->", A, fresh))
            if cost <= value - 1e-4 * step * size:
                break
            step /= 2
        else:
            return M, iteration
        M, value, step = fresh, cost, 2 * step
    return M, max_iter


@dataclass(kw_only=True, eq=False, repr=False)
class ISDML(PartlyLabeledLearner):
    """`A = Σ_S − ωΣ_D + ν·Xᵀ𝓛_βX` with a density-weighted graph, and the metric with det M = 1 that minimises
    Tr(MA).

    X (n, p) and y (n,) with −1 for unlabelled rows -> (n, d). ω is 0.9 of the largest with a minimum. `solver` is
    "closed" (the formula) or "descent" (steps along geodesics, as published); they agree. `blend` mixes M with the
    identity: "auto" takes what agrees best with labels spread over the graph of the rows, 0.0 is the published
    method.

    Reference: Ying, Wen, Lin (2017), of which the details are a reconstruction.

    >>> X = np.array([[0.0, 0], [0, 3], [9, 0], [9, 3]])
    >>> M = ISDML(n_neighbors=1, blend=0.0).fit(X, [0, 0, 1, 1]).mahalanobis_matrix()
    >>> bool(M[0, 0] > 100 * M[1, 1])
    True

    Args:
        n_components: dimensions to keep; None keeps all columns.
        n_neighbors: how many neighbors of a row count.
        graph_weight: weight of the edges of the graph.
        solver: which algorithm; the class text says what each is.
        max_iter: the most iterations; a warning says when they did not suffice.
        ridge: share of the identity added to a scatter before it is inverted.
        blend: share of the identity in the metric; 0 is the published method, "auto" chooses it without test
            labels.
        random_state: seed or generator for everything that is drawn; None takes numpy's own.

    Attributes:
        components_: A (d, p), the learned map: distances are those of `XAᵀ`.
        blend_: share of the identity in the metric, as given or as chosen.
        n_iter_: steps of the descent; 1 for the closed form.
        classes_: the classes of y, (c,), sorted.
        n_features_in_: columns of the X it was fitted on.
    """

    n_neighbors: int = 6
    graph_weight: float = 1.0
    solver: Literal["closed", "descent"] = "closed"
    max_iter: int = 500
    ridge: float = 1e-3

    def _learn(self, X: Array, codes: Array, rng: np.random.RandomState) -> Array:
        check_choice(self.solver, "solver", ["closed", "descent"])
        nu = check_number(self.graph_weight, "graph_weight", minimum=0)
        scatters = labeled_scatters(X, codes)
        base = scatters.similar + nu * edge_scatter(X, density_edges(X, check_int(self.n_neighbors, "n_neighbors")))
        base = ridged(base, np.diag(base), check_number(self.ridge, "ridge", minimum=0))
        matrix = base - safe_weight(base, scatters.dissimilar) * scatters.dissimilar
        self.n_iter_ = 1
        if self.solver == "closed":
            return unit_determinant_minimizer(matrix)
        learned, self.n_iter_ = geodesic_descent(matrix, max_iter=check_int(self.max_iter, "max_iter"))
        return learned
