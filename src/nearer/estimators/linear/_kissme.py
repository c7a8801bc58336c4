"""KISSME: the log-likelihood ratio of "similar" against "dissimilar" as a distance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearer._checks import check_number
from nearer.estimators._matrices import Array, project_psd
from nearer.estimators._moments import FromPairScatters
from nearer.estimators._scatter import PairScatters
from nearer.estimators._supervision import MatrixLearner
from nearer.estimators.linear._covariance import inverse_with_ridge
from nearer.exceptions import LabelError


def check_both_kinds(scatters: PairScatters) -> None:
    """Refuse labels that make no similar or no dissimilar pair."""
    if not scatters.n_dissimilar:
        raise LabelError("`y` must hold at least two classes, got one. Without two classes nothing is dissimilar.")
    if not scatters.n_similar:
        raise LabelError(
            "`y` must hold a class with at least two rows, got only classes of one row. Without one nothing is "
            "similar."
        )


def kissme_matrix(scatters: PairScatters, *, ridge: float = 1e-2) -> Array:
    """`M = PSD(Σ_S⁻¹ − Σ_D⁻¹)` of the mean scatters of similar and dissimilar pairs, (p, p).

    Both are shrunk by `ridge` times the variance of each feature. The rank of Σ_S from labels is at most n − c:
    with fewer rows than features the published matrix does not exist, and ridge=0 is refused.

    >>> kissme_matrix(PairScatters(np.array([[2.0]]), np.array([[16.0]]), 2, 4), ridge=0.0)
    array([[0.75]])
    """
    check_both_kinds(scatters)
    similar = scatters.similar / scatters.n_similar
    dissimilar = scatters.dissimilar / scatters.n_dissimilar
    scales = (np.diag(similar) + np.diag(dissimilar)) / 2
    near = inverse_with_ridge(similar, scales, ridge, "scatter of similar pairs")
    far = inverse_with_ridge(dissimilar, scales, ridge, "scatter of dissimilar pairs")
    return project_psd(near - far)


@dataclass(kw_only=True, eq=False, repr=False)
class KISSME(FromPairScatters, MatrixLearner):
    """KISSME, `M = PSD(Σ_S⁻¹ − Σ_D⁻¹)`: closed form, from labels (all pairs, O(n p²)) or from listed pairs.

    X (n, p) -> (n, d). `ridge` shrinks both scatters in the units of each feature. `blend` mixes M with the
    identity: "auto" takes the share that votes best on the training rows, 0.0 is the published method.

    Reference: Köstinger, Hirzer, Wohlhart, Roth, Bischof (2012).

    >>> X = np.array([[0.0], [2.0], [10.0], [12.0]])
    >>> KISSME(ridge=0.0, blend=0.0).fit(X, [0, 0, 1, 1]).mahalanobis_matrix().round(4)
    array([[0.2402]])

    Args:
        n_components: dimensions kept; all if None.
        ridge: shrinks both scatters, in the units of each feature.
        blend: share of the identity; "auto" chooses it, 0.0 is the published method.
        random_state: draws the rows on which `blend` is chosen.

    Attributes:
        components_: A (d, p), the learned map: distances are those of `XAᵀ`.
        blend_: share of the identity in the metric, as given or as chosen.
        classes_: the classes of y, (c,), sorted.
        n_features_in_: columns of the X it was fitted on.
    """

    _takes_sparse = True

    ridge: float = 1e-2

    def _solve(self, scatters: PairScatters) -> Array:
        return kissme_matrix(scatters, ridge=check_number(self.ridge, "ridge", minimum=0))
