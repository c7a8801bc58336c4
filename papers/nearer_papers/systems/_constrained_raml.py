"""RAML-KRR whose matrix is the best one that is positive semi-definite, instead of a free one that is cut."""

from __future__ import annotations

import numpy as np

from nearer.estimators import RAMLKRR
from nearer.estimators._matrices import Array, project_psd
from nearer.estimators._optimize import report, warn_if_stopped_early
from nearer.estimators.relation._raml_pairs import PairSums

__all__ = ["ConstrainedRAMLKRR", "constrained_krr"]


def constrained_krr(
    sums: PairSums,
    g: Array,
    start: Array,
    *,
    ridge: float,
    bias: bool = True,
    max_iter: int = 300,
    tol: float = 1e-7,
) -> tuple[Array, float, int, bool]:
    """The best M that is positive semi-definite, by FISTA from `start`: projecting the free solution is not that.

    Returns M, b, the iterations, and whether the last step moved M by less than `tol` of itself.
    """
    target = g - g.mean() if bias else g
    right = sums.scatter(target)
    top = _largest_eigenvalue(sums, bias) + ridge
    matrix = ahead = project_psd(start)
    momentum = 1.0
    count, moved = 0, np.inf
    while count < max_iter and moved > tol:
        count += 1
        gradient = sums.apply(ahead, centered=bias) + ridge * ahead - right
        new = project_psd(ahead - gradient / top)
        # Restart when the momentum points uphill.
        if np.vdot(ahead - new, new - matrix) > 0:
            momentum = 1.0
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = new + (momentum - 1) / following * (new - matrix)
        moved = float(np.linalg.norm(new - matrix)) / max(float(np.linalg.norm(new)), 1e-300)
        matrix, momentum = new, following
        report(0, "RAMLKRR", count, moved, most=max_iter)
    offset = float(g.mean() - np.vdot(sums.mean_scatter(), matrix)) if bias else 0.0
    return matrix, offset, count, moved <= tol


def _largest_eigenvalue(sums: PairSums, centered: bool) -> float:
    """Of `apply`, by power iteration, with a little room."""
    vector = sums.mean_scatter() + np.eye(sums.size) * 1e-3
    value = 0.0
    for _ in range(20):
        vector = vector / np.linalg.norm(vector)
        image = sums.apply(vector, centered=centered)
        value, before = float(np.linalg.norm(image)), value
        if value == 0 or abs(value - before) < 1e-3 * value:
            break
        vector = image
    return 1.1 * value if value > 0 else 1.0


class ConstrainedRAMLKRR(RAMLKRR):
    """`RAMLKRR` with the best M that has no negative eigenvalue, by projected gradients from the free one.

    Settings and attributes are those of `RAMLKRR`.

    >>> X = np.array([[0.0, 0], [0, 4], [1, 0], [1, 4], [2, 0], [2, 4]])
    >>> learner = ConstrainedRAMLKRR(blend=0.0, ridge=1e-3).fit(X, [0.0, 0.0, 0.5, 0.5, 1.0, 1.0])
    >>> bool(np.linalg.eigvalsh(learner.mahalanobis_matrix())[0] > -1e-9)
    True
    """

    def _regress(self, sums: PairSums, g: Array) -> tuple[Array, float]:
        start, _, ridge = self._solve(sums, g)
        matrix, offset, self.n_iter_, self.converged_ = constrained_krr(
            sums, g, start, ridge=ridge, bias=bool(self.bias), max_iter=self.max_iter, tol=self.tol
        )
        warn_if_stopped_early(self)
        return matrix, offset
