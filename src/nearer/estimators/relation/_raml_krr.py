"""RAML-KRR: kernel ridge regression of a relation on outer products of differences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg
from scipy.sparse.linalg import LinearOperator, cg

from nearer._checks import check_choice, check_int, check_number
from nearer.estimators._matrices import Array, symmetric
from nearer.estimators._optimize import report, warn_if_stopped_early
from nearer.estimators.relation._raml import RelationLearner
from nearer.estimators.relation._raml_pairs import PairSums

_KERNEL_PAIRS = 2000


def krr_by_kernel(
    delta: Array, g: Array, *, ridge: float, ridge_on: str = "metric", bias: bool = True
) -> tuple[Array, float]:
    """M and b from the kernel `K_pq = (Δ_p·Δ_q)²` of the pairs: O(m³) time, for few pairs.

    `ridge_on="metric"`: `min Σ(g − ⟨M, T⟩ − b)² + λ‖M‖²`, that is `α = (K + λI)⁻¹ g`. `ridge_on="alpha"`, as the
    authors released it: `α = (K² + λI)⁻¹ K g`. M = Σ α_p T_p. With a bias K and g are centred.

    >>> M, b = krr_by_kernel(np.array([[1.0], [2.0], [3.0]]), np.array([3.0, 9.0, 19.0]), ridge=1e-9)
    >>> M.round(4), round(b, 4)
    (array([[2.]]), 1.0)
    """
    kernel = np.square(delta @ delta.T)
    middle = kernel.mean(axis=0) if bias else np.zeros(len(g))
    target = g - g.mean() if bias else g
    if bias:
        kernel = kernel - middle - middle[:, None] + middle.mean()
    if ridge_on == "metric":
        alpha = linalg.solve(kernel + ridge * np.eye(len(g)), target, assume_a="pos")
    else:
        values, vectors = linalg.eigh(kernel)
        alpha = vectors @ (values / (values**2 + ridge) * (vectors.T @ target))
    if bias:
        alpha = alpha - alpha.mean()
    matrix = symmetric((delta * alpha[:, None]).T @ delta)
    fitted = np.einsum("ij,ij->i", delta @ matrix, delta)
    return matrix, float((g - fitted).mean()) if bias else 0.0


def krr_by_gradients(
    sums: PairSums, g: Array, *, ridge: float, bias: bool = True, max_iter: int = 200, tol: float = 1e-6
) -> tuple[Array, float, int, bool]:
    """The same M and b (ridge on the metric) by conjugate gradients on `M ↦ Σ ⟨M, T⟩T + λM`: any number of pairs.

    O(m p²) per iteration and no matrix larger than (p, p). Returns the iterations and whether it converged.

    >>> sums = PairSums(np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([[0, 1], [0, 2], [0, 3]]))
    >>> M, b, _, _ = krr_by_gradients(sums, np.array([3.0, 9.0, 19.0]), ridge=1e-9)
    >>> M.round(4), round(b, 4)
    (array([[2.]]), 1.0)
    """
    right = sums.scatter(g - g.mean() if bias else g)
    # For Gaussian differences of covariance S the operator is 2m S⊗S + λ, up to the mean that a bias takes away; in
    # the eigenbasis of S that is a number for each entry, which leaves few iterations whatever the scales are.
    values, basis = linalg.eigh(sums.mean_scatter())
    curvature = 2 * len(sums) * np.outer(values.clip(min=0), values.clip(min=0)) + ridge
    inverse = 1 / np.maximum(curvature, curvature.max() * 1e-14 + 1e-300)
    count = 0

    def apply(flat: Array) -> Array:
        direction = flat.reshape(right.shape)
        return (sums.apply(direction, centered=bias) + ridge * direction).ravel()

    def precondition(flat: Array) -> Array:
        nonlocal count
        count += 1  # once in every iteration
        report(0, "RAMLKRR", count, float(np.linalg.norm(flat)), most=max_iter)
        return (basis @ (inverse * (basis.T @ flat.reshape(right.shape) @ basis)) @ basis.T).ravel()

    system, rough = (LinearOperator(2 * [right.size], work, dtype=right.dtype) for work in (apply, precondition))
    flat, left_over = cg(system, right.ravel(), rtol=tol, maxiter=max_iter, M=rough)
    matrix = flat.reshape(right.shape)
    offset = float(g.mean() - np.vdot(sums.mean_scatter(), matrix)) if bias else 0.0
    return symmetric(matrix), offset, count, not left_over


@dataclass(kw_only=True, eq=False, repr=False)
class RAMLKRR(RelationLearner):
    """RAML-KRR: `⟨M, (x−x')(x−x')ᵀ⟩ + b` regressed on how far apart two rows should be, with a ridge.

    X (n, p) and y of any kind: classes, a 0/1 matrix of label sets, distributions, numbers; -> (n, d). The pairs
    are each row's k nearest (with classes k of its class and k of others) and `n_random` random ones. `ridge` is in
    units of the mean eigenvalue of the kernel, so it means the same for every data set. The negative part of M is
    cut off. `blend` mixes M with the identity: "auto" takes the share whose neighbours predict the training labels
    best, 0.0 is the published method.

    Reference: Zhu et al. (2018). `ridge_on="alpha"` is the ridge of the released code, which needs the kernel of
    all pairs (at most `max_pairs`, 2,000 then).

    >>> X = np.array([[0.0, 0], [0, 4], [1, 0], [1, 4], [2, 0], [2, 4]])
    >>> M = RAMLKRR(blend=0.0, ridge=1e-3).fit(X, [0.0, 0.0, 0.5, 0.5, 1.0, 1.0]).mahalanobis_matrix()
    >>> bool(M[0, 0] > 100 * M[1, 1])
    True

    Args:
        n_components: dimensions to keep; None keeps all columns.
        relation: how near two label rows should be; "auto" is L1.
        kind: what the labels are; "auto" finds it.
        ridge: of the kernel ridge regression.
        ridge_on: what the ridge pulls to zero: the metric or the dual weights.
        bias: learn a constant beside the metric.
        n_neighbors: how many neighbors of a row count.
        n_random: random partners of each row, besides its neighbors.
        max_pairs: the most pairs that are used; rows beyond what they need are left out at random.
        solver: which algorithm; the class text says what each is.
        max_iter: the most iterations; a warning says when they did not suffice.
        tol: stop when an iteration improves the objective by less, relatively.
        blend: share of the identity in the metric; 0 is the published method, "auto" chooses it without test
            labels.
        random_state: seed or generator for everything that is drawn; None takes numpy's own.

    Attributes:
        components_: A (d, p), the learned map: distances are those of `XAᵀ`.
        bias_: the constant beside the metric.
        blend_: share of the identity in the metric, as given or as chosen.
        n_iter_: iterations that were made.
        converged_: whether the solver met its rule to stop; True in closed form.
        classes_: the classes of y, (c,); only where y are classes.
        n_features_in_: columns of the X it was fitted on.
    """

    ridge: float = 0.1
    ridge_on: str = "metric"
    bias: bool = True
    max_pairs: int = 1_000_000
    max_iter: int = 200

    def _most_pairs(self) -> int:
        most = check_int(self.max_pairs, "max_pairs", minimum=2)
        return min(most, _KERNEL_PAIRS) if self.ridge_on == "alpha" or self.solver == "kernel" else most

    def _regress(self, sums: PairSums, g: Array) -> tuple[Array, float]:
        matrix, offset, _ = self._solve(sums, g)
        warn_if_stopped_early(self)
        return matrix, offset

    def _solve(self, sums: PairSums, g: Array) -> tuple[Array, float, float]:
        """M, the bias, and the ridge in the units of the pairs."""
        ridge_on = check_choice(self.ridge_on, "ridge_on", ["metric", "alpha"])
        solver = check_choice(self.solver, "solver", ["auto", "kernel", "gradients"])
        max_iter, tol = check_int(self.max_iter, "max_iter"), check_number(self.tol, "tol", above=0)
        bias = bool(self.bias)
        p = sums.size
        mean_eigenvalue = self._mean_eigenvalue(sums)
        ridge = check_number(self.ridge, "ridge", minimum=0) * mean_eigenvalue + 1e-12 * mean_eigenvalue
        few = len(sums) <= _KERNEL_PAIRS and len(sums) < p * (p + 1) // 2
        self.converged_, self.n_iter_ = True, 1
        if ridge_on == "alpha" or solver == "kernel" or (solver == "auto" and few):
            delta = np.concatenate([part for _, part in sums.blocks()]).astype(np.float64)
            # The ridge of the released code is on α, whose equations hold the square of the kernel.
            strength = ridge if ridge_on == "metric" else ridge * mean_eigenvalue
            matrix, offset = krr_by_kernel(delta, g, ridge=strength, ridge_on=ridge_on, bias=bias)
        else:
            matrix, offset, self.n_iter_, self.converged_ = krr_by_gradients(
                sums, g, ridge=ridge, bias=bias, max_iter=max_iter, tol=tol
            )
        return matrix, offset, ridge
