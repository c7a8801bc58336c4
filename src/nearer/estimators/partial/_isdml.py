"""ISDML: crowded regions hold together, by a graph that is weighted with the density of the data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearer._checks import check_int, check_number
from nearer.estimators._matrices import Array, ridged
from nearer.estimators.partial._lrml import unit_determinant_minimizer
from nearer.estimators.partial._partly_labeled import (
    EdgeList,
    PartlyLabeledLearner,
    edge_scatter,
    labeled_scatters,
    neighbor_edges,
    safe_weight,
)


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
    density = parzen_density(X, width=width)
    weight = (density[edges.left] + density[edges.right]) * np.exp(-squared / (2 * width**2))
    kept = weight >= 1e-30
    return EdgeList(edges.left[kept], edges.right[kept], weight[kept])


def parzen_density(rows: Array, *, width: float, block: int = 2048) -> Array:
    """`Σ_j exp(−‖x_i − x_j‖²/2σ²)` divided by its maximum, (n, p) -> (n,): 1 where it is most crowded.

    The item itself counts, so that no sum underflows. O(n²) time, in blocks.

    >>> parzen_density(np.array([[0.0], [0.0], [9.0]]), width=1.0).tolist()
    [1.0, 1.0, 0.5]
    """
    sigma = check_number(width, "width", above=0.0)
    centered = rows - rows.mean(axis=0)
    size = np.square(centered).sum(axis=1)
    crowd = np.empty(len(rows))
    for start in range(0, len(rows), block):
        part = slice(start, start + block)
        squared = np.maximum(size[part, None] + size - 2 * centered[part] @ centered.T, 0)
        # Rounding must not move an item away from itself.
        np.fill_diagonal(squared[:, start:], 0)
        crowd[part] = np.exp(squared / (-2 * sigma**2)).sum(axis=1)
    return crowd / crowd.max()


@dataclass(kw_only=True, eq=False, repr=False)
class ISDML(PartlyLabeledLearner):
    """`A = Σ_S − ωΣ_D + ν·Xᵀ𝓛_βX` with a density-weighted graph, and the metric with det M = 1 that minimises
    Tr(MA).

    X (n, p) and y (n,) with −1 for unlabelled rows -> (n, d). ω is 0.9 of the largest with a minimum, which is
    taken from its formula; the published steps along geodesics lead to it too. `blend` mixes M with the identity:
    "auto" takes what agrees best with labels spread over the graph of the rows, 0.0 is the published method.

    Reference: Ying, Wen, Lin (2017), of which the details are a reconstruction.

    >>> X = np.array([[0.0, 0], [0, 3], [9, 0], [9, 3]])
    >>> M = ISDML(n_neighbors=1, blend=0.0).fit(X, [0, 0, 1, 1]).mahalanobis_matrix()
    >>> bool(M[0, 0] > 100 * M[1, 1])
    True

    Args:
        n_components: dimensions to keep; None keeps all columns.
        n_neighbors: how many neighbors of a row count.
        graph_weight: weight of the edges of the graph.
        ridge: share of the identity added to a scatter before it is inverted.
        blend: share of the identity in the metric; 0 is the published method, "auto" chooses it without test
            labels.
        random_state: seed or generator for everything that is drawn; None takes numpy's own.

    Attributes:
        components_: A (d, p), the learned map: distances are those of `XAᵀ`.
        blend_: share of the identity in the metric, as given or as chosen.
        classes_: the classes of y, (c,), sorted.
        n_features_in_: columns of the X it was fitted on.
    """

    n_neighbors: int = 6
    graph_weight: float = 1.0
    ridge: float = 1e-3

    def _learn(self, X: Array, codes: Array, rng: np.random.RandomState) -> Array:
        nu = check_number(self.graph_weight, "graph_weight", minimum=0)
        scatters = labeled_scatters(X, codes)
        base = scatters.similar + nu * edge_scatter(X, density_edges(X, check_int(self.n_neighbors, "n_neighbors")))
        base = ridged(base, np.diag(base), check_number(self.ridge, "ridge", minimum=0))
        return unit_determinant_minimizer(base - safe_weight(base, scatters.dissimilar) * scatters.dissimilar)
