"""Laplacian regularised metric learning: near by labels, near on the graph, far by labels, in closed form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from nearer._checks import check_int, check_number
from nearer.estimators._matrices import Array, ridged, symmetric
from nearer.estimators.partial._partly_labeled import (
    PartlyLabeledLearner,
    edge_scatter,
    labeled_scatters,
    neighbor_edges,
    safe_weight,
)
from nearer.exceptions import ParameterError


def unit_determinant_minimizer(matrix: Array) -> Array:
    """`argmin Tr(MA)` over `M ≻ 0, log det M ≥ 0`: `det(A)^{1/p} A⁻¹`, for a positive definite A (p, p).

    With an eigenvalue of A that is negative the value has no lower bound, with one of 0 no minimum: refused.

    >>> unit_determinant_minimizer(np.diag([1.0, 4.0]))
    array([[2. , 0. ],
           [0. , 0.5]])
    """
    try:
        lower = linalg.cholesky(symmetric(matrix), lower=True)
    except linalg.LinAlgError as error:
        raise ParameterError(
            f"the matrix of the objective must be positive definite, got a smallest eigenvalue of "
            f"{linalg.eigvalsh(symmetric(matrix))[0]:.3g}: the objective has no minimum. Lower `dissimilar_weight` "
            f"(None chooses it), or raise `ridge`."
        ) from error
    scale = np.exp(2 * np.log(np.diag(lower)).mean())
    half = linalg.solve_triangular(lower, np.eye(len(lower)), lower=True)
    return symmetric(scale * (half.T @ half))


def lrml_matrix(
    graph: Array,
    similar: Array,
    dissimilar: Array,
    *,
    similar_weight: float = 1.0,
    dissimilar_weight: float | None = None,
    ridge: float = 1e-3,
) -> Array:
    """`min Tr(MA), log det M ≥ 0` with `A = Xᵀ𝓛X + γ_S Σ_S − γ_D Σ_D`, all (p, p).

    `dissimilar_weight` γ_D None takes 0.9 of the largest weight with a minimum. `ridge` adds that share of the
    scale of each feature to A before that.

    >>> lrml_matrix(np.eye(2), np.diag([1.0, 7.0]), np.zeros((2, 2)), ridge=0.0)
    array([[2. , 0. ],
           [0. , 0.5]])
    """
    base = graph + similar_weight * similar
    base = ridged(base, np.diag(base), ridge)
    weight = safe_weight(base, dissimilar) if dissimilar_weight is None else dissimilar_weight
    return unit_determinant_minimizer(base - weight * dissimilar)


@dataclass(kw_only=True, eq=False, repr=False)
class LRML(PartlyLabeledLearner):
    """Laplacian regularised metric learning, closed form `M = det(A)^{1/p}A⁻¹`, `A = Xᵀ𝓛X + γ_SΣ_S − γ_DΣ_D`.

    X (n, p) and y (n,) with −1 for unlabelled rows -> (n, d). The graph joins every row to its k nearest, both
    ways, with the symmetric normalised Laplacian of the original experiments unless `normalized=False`. All three
    terms are means, over edges and over pairs. A γ_D that is too large has no minimum and is refused. `blend` mixes
    M with the identity: "auto" takes what agrees best with labels spread over the graph of the rows, 0.0 is the
    published method.

    Reference: Hoi, Liu, Chang (2010); the closed form is ours.

    >>> X = np.array([[0.0, 0], [0, 3], [9, 0], [9, 3]])
    >>> M = LRML(n_neighbors=1, normalized=False, blend=0.0).fit(X, [0, 0, 1, 1]).mahalanobis_matrix()
    >>> bool(M[0, 0] > 100 * M[1, 1])
    True

    Args:
        n_components: dimensions to keep; None keeps all columns.
        n_neighbors: how many neighbors of a row count.
        similar_weight: weight of labelled pairs of one class.
        dissimilar_weight: weight of labelled pairs of two classes; None balances them.
        ridge: share of the identity added to a scatter before it is inverted.
        normalized: use the normalized Laplacian of the graph.
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
    similar_weight: float = 1.0
    dissimilar_weight: float | None = None
    ridge: float = 1e-3
    normalized: bool = True

    def _learn(self, X: Array, codes: Array, rng: np.random.RandomState) -> Array:
        scatters = labeled_scatters(X, codes)
        weight = self.dissimilar_weight
        return lrml_matrix(
            edge_scatter(
                X, neighbor_edges(X, check_int(self.n_neighbors, "n_neighbors")), normalized=self.normalized
            ),
            scatters.similar,
            scatters.dissimilar,
            similar_weight=check_number(self.similar_weight, "similar_weight", minimum=0),
            dissimilar_weight=None if weight is None else check_number(weight, "dissimilar_weight", minimum=0),
            ridge=check_number(self.ridge, "ridge", minimum=0),
        )
