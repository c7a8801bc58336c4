"""DoubletSVM: a support vector machine that tells similar differences from dissimilar ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.svm import SVC

from nearer._checks import check_int, check_number
from nearer.estimators._matrices import Array, project_psd
from nearer.estimators._sampling import near_pairs
from nearer.estimators._scatter import take_differences
from nearer.estimators._supervision import MatrixLearner, PairSupervision, nonzero_pairs

__all__ = ["DoubletSVM", "doublet_svm"]


def doublet_svm(delta: Array, similar: Array, *, C: float = 1.0) -> tuple[Array, float]:
    """The matrix before projection and the bias of `min ½‖M‖² + C Σ ξ`, `h (⟨M, vvᵀ⟩ + b) ≥ 1 − ξ`.

    h is +1 for dissimilar and −1 for similar differences v, rows of `delta` (m, p). It is an SVM with the kernel
    `(v·w)²`; `M = Σ h α vvᵀ` is symmetric but can be indefinite.

    >>> M, b = doublet_svm(np.array([[1.0], [3.0]]), np.array([True, False]))
    >>> (M * np.array([1.0, 9.0]) + b).round(3).tolist()
    [[-1.0, 1.0]]
    """
    kernel = np.square(delta @ delta.T)
    machine = SVC(C=C, kernel="precomputed", cache_size=500).fit(kernel, np.where(similar, -1, 1))
    support = delta[machine.support_]
    return (support * machine.dual_coef_.ravel()[:, None]).T @ support, float(machine.intercept_[0])


class DoubletSVM(PairSupervision, MatrixLearner):
    """DoubletSVM: near and far pairs separated with the largest margin, then the nearest PSD matrix.

    X (n, p) -> (n, d). From labels, each of at most `max_anchors` rows meets its k nearest hits and misses; the
    kernel has the square of the number of pairs entries. Differences are brought to unit mean length, so C means
    the same for every data set. `blend` mixes M with the identity: "auto" takes the share that votes best on the
    training rows, 0.0 is the published method.

    Reference: Wang, Zuo, Zhang, Meng, Zhang (2015).

    >>> X = np.array([[0.0, 0], [0, 4], [9, 0], [9, 4]])
    >>> M = DoubletSVM(blend=0.0, n_neighbors=1).fit(X, [0, 0, 1, 1]).mahalanobis_matrix()
    >>> bool(M[0, 0] > 10 * M[1, 1])
    True

    Args:
        n_components: dimensions to keep; None keeps all columns.
        C: cost of a violated constraint.
        n_neighbors: how many neighbors of a row count.
        max_anchors: rows that constraints are drawn for.
        blend: share of the identity in the metric; 0 is the published method, "auto" chooses it without test
            labels.
        random_state: seed or generator for everything that is drawn; None takes numpy's own.

    Attributes:
        components_: A (d, p), the learned map: distances are those of `XAᵀ`.
        bias_: the offset of the decision, in units of the mean squared difference.
        blend_: share of the identity in the metric, as given or as chosen.
        classes_: the classes of y, (c,), sorted.
        n_features_in_: columns of the X it was fitted on.
    """

    _takes_sparse = True

    def __init__(
        self,
        n_components: int | None = None,
        *,
        C: float = 1.0,
        n_neighbors: int = 2,
        max_anchors: int = 1000,
        blend: float | str = "auto",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.C = C
        self.n_neighbors = n_neighbors
        self.max_anchors = max_anchors
        self.blend = blend
        self.random_state = random_state

    def _learn_labels(self, X: Any, codes: Array, rng: np.random.RandomState) -> Array:
        dense = X.toarray() if hasattr(X, "toarray") else X
        most = check_int(self.max_anchors, "max_anchors")
        pairs, similar = near_pairs(dense, codes, check_int(self.n_neighbors, "n_neighbors"), rng, most=most)
        return self._learn_pairs(dense, pairs, similar, rng)

    def _learn_pairs(self, X: Any, pairs: Array, similar: Array, rng: np.random.RandomState) -> Array:
        C = check_number(self.C, "C", above=0)
        delta = take_differences(X, pairs[:, 0], pairs[:, 1])
        kept = nonzero_pairs(delta, "DoubletSVM")
        unit = float(np.sqrt(np.square(delta[kept]).sum(axis=1).mean()))
        matrix, self.bias_ = doublet_svm(delta / unit, similar, C=C)
        return project_psd(matrix) / unit**2
