"""Geometric mean metric learning: the point between `S⁻¹` and `D` on the curve that joins them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from nearer._checks import check_number
from nearer.estimators._matrices import Array, ridged, symmetric
from nearer.estimators._moments import FromPairScatters
from nearer.estimators._scatter import PairScatters
from nearer.estimators._supervision import MatrixLearner
from nearer.estimators.linear._kissme import check_both_kinds
from nearer.exceptions import ParameterError


def geodesic_point(similar: Array, dissimilar: Array, t: float) -> Array:
    """`S⁻¹ #_t D = C⁻ᵀ (Cᵀ D C)ᵗ C⁻¹` with `S = CCᵀ`: S⁻¹ at t = 0, D at t = 1, and `M S M = D` at t = ½.

    >>> geodesic_point(np.diag([4.0, 1.0]), np.diag([1.0, 9.0]), 0.5)
    array([[0.5, 0. ],
           [0. , 3. ]])
    """
    try:
        lower = linalg.cholesky(similar, lower=True)
    except linalg.LinAlgError as error:
        raise ParameterError(
            "the scatter of similar pairs must be positive definite, got a singular one. Raise `ridge`, or use "
            "None to choose it."
        ) from error
    values, vectors = linalg.eigh(symmetric(lower.T @ dissimilar @ lower))
    side = linalg.solve_triangular(lower, vectors, lower=True, trans="T")
    return symmetric((side * values.clip(min=0) ** t) @ side.T)


def _is_singular(matrix: Array) -> bool:
    """Reciprocal condition below 1e-9 once every feature has unit scale."""
    unit = 1 / np.sqrt(np.diag(matrix).clip(min=np.finfo(np.float64).tiny))
    values = linalg.eigvalsh(matrix * unit[:, None] * unit)
    return bool(values[0] < 1e-9 * values[-1])


def gmml_matrix(scatters: PairScatters, *, t: float = 0.5, ridge: float | None = None) -> Array:
    """`argmin Tr(MS) + Tr(M⁻¹D)`, and its neighbours on the geodesic, from mean pair scatters; (p, p).

    `ridge` adds that share of the variance of each feature to S and to D, which leaves directions without data at
    M = I. None adds nothing unless S or D is singular, and 1e-3 then.

    >>> gmml_matrix(PairScatters(np.eye(2), 4 * np.eye(2), 1, 1))
    array([[2., 0.],
           [0., 2.]])
    """
    check_both_kinds(scatters)
    similar = symmetric(scatters.similar) / scatters.n_similar
    dissimilar = symmetric(scatters.dissimilar) / scatters.n_dissimilar
    if ridge is None:
        ridge = 1e-3 if _is_singular(similar) or _is_singular(dissimilar) else 0.0
    if ridge:
        scales = (np.diag(similar) + np.diag(dissimilar)) / 2
        similar, dissimilar = ridged(similar, scales, ridge), ridged(dissimilar, scales, ridge)
    return geodesic_point(similar, dissimilar, t)


@dataclass(kw_only=True, eq=False, repr=False)
class GMML(FromPairScatters, MatrixLearner):
    """Geometric mean metric learning, `M = S⁻¹ #_t D`: closed form, from labels (all pairs) or from listed pairs.

    X (n, p) -> (n, d). At t = ½ it minimises `Tr(MS) + Tr(M⁻¹D)`, the distances of similar pairs plus the inverse
    distances of dissimilar ones. Without class structure S = D and M = I. `blend` mixes M with the identity: "auto"
    takes the share that votes best on the training rows, 0.0 is the published method.

    Reference: Zadeh, Hosseini, Sra (2016).

    >>> X = np.array([[0.0, 0], [0, 3], [9, 0], [9, 3]])
    >>> GMML(blend=0.0, ridge=0.01).fit(X, [0, 0, 1, 1]).mahalanobis_matrix().round(2)
    array([[14.18,  0.  ],
           [ 0.  ,  0.71]])

    Args:
        n_components: dimensions to keep; None keeps all columns.
        t: place on the geodesic between the two scatters: 0 looks at similar pairs alone, 1 at dissimilar
            ones.
        ridge: share of the identity added to both scatters; None adds a little where they are singular.
        blend: share of the identity in the metric; 0 is the published method, "auto" chooses it without test
            labels.
        random_state: seed or generator for everything that is drawn; None takes numpy's own.

    Attributes:
        components_: A (d, p), the learned map: distances are those of `XAᵀ`.
        blend_: share of the identity in the metric, as given or as chosen.
        classes_: the classes of y, (c,), sorted.
        n_features_in_: columns of the X it was fitted on.
    """

    _takes_sparse = True

    t: float = 0.5
    ridge: float | None = None

    def _solve(self, scatters: PairScatters) -> Array:
        t = check_number(self.t, "t", minimum=0, maximum=1)
        ridge = None if self.ridge is None else check_number(self.ridge, "ridge", minimum=0)
        return gmml_matrix(scatters, t=t, ridge=ridge)
