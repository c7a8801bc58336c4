"""Symmetric matrices: projection to the PSD cone, roots, factors, and a ridge that respects the scales."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from nearer._plain import Array as Array


def symmetric(matrix: Array) -> Array:
    """The symmetric part `(M + Mᵀ)/2`, shape (p, p).

    >>> symmetric(np.array([[0.0, 2.0], [0.0, 0.0]]))
    array([[0., 1.],
           [1., 0.]])
    """
    return (matrix + matrix.T) / 2


def have_unit_length(rows: Array) -> bool:
    """Whether all rows (n, p) have length one, but for what float32 rounds.

    >>> have_unit_length(np.array([[0.6, 0.8]])), have_unit_length(np.array([[1e30, 0.0]], dtype=np.float32))
    (True, False)
    """
    return bool(np.allclose(np.square(rows, dtype=np.float64).sum(axis=1), 1, atol=2e-3))


def project_psd(matrix: Array) -> Array:
    """The nearest positive semi-definite matrix: `V max(Λ, 0) Vᵀ` of the symmetric part, shape (p, p).

    >>> project_psd(np.array([[2.0, 0.0], [0.0, -1.0]]))
    array([[2., 0.],
           [0., 0.]])
    """
    values, vectors = linalg.eigh(symmetric(matrix))
    result: Array = (vectors * values.clip(min=0)) @ vectors.T
    return symmetric(result)


def fix_signs(rows: Array) -> Array:
    """Turn each row so that its largest entry is positive: the same answer on every machine.

    >>> fix_signs(np.array([[1.0, -3.0]]))
    array([[-1.,  3.]])
    """
    if rows.size == 0:
        return rows
    largest = np.abs(rows).argmax(axis=1)
    signs = np.sign(rows[np.arange(len(rows)), largest])
    return rows * np.where(signs == 0, 1.0, signs)[:, None]


def factor_psd(matrix: Array) -> Array:
    """Rows `A` of shape (p, p) with `AᵀA = M`, the largest eigenvalue first; directions that M ignores are 0.

    >>> factor_psd(np.array([[4.0, 0.0], [0.0, 0.0]]))
    array([[2., 0.],
           [0., 0.]])
    """
    values, vectors = linalg.eigh(symmetric(matrix))
    values, vectors = values[::-1], vectors[:, ::-1]
    # Eigenvalues below the rounding of the largest one are noise, of either sign.
    floor = max(float(values[0]), 0.0) * len(values) * np.finfo(np.float64).eps if len(values) else 0.0
    roots = np.sqrt(np.where(values > floor, values, 0.0))
    return fix_signs(vectors.T * roots[:, None]) + 0.0


def ridged(matrix: Array, scales: Array, strength: float) -> Array:
    """`M + strength·diag(scales)`: a ridge in the units of each feature, so that 1e6 between scales is harmless.

    `scales` (p,) are variances of the features; a constant feature has variance 0 and gets a ridge of 1, which
    keeps the matrix invertible and gives that feature a finite weight.

    >>> ridged(np.zeros((2, 2)), np.array([4.0, 0.0]), 0.5)
    array([[2. , 0. ],
           [0. , 0.5]])
    """
    safe = np.where(scales > np.finfo(np.float64).tiny * 1e10, scales, 1.0)
    return symmetric(matrix) + strength * np.diag(safe)


def root_and_inverse_root(matrix: Array) -> tuple[Array, Array]:
    """`M^½` and `M^{−½}` of a positive definite matrix; a numerically zero eigenvalue gets the inverse 0.

    >>> root_and_inverse_root(np.diag([4.0, 1.0]))[1]
    array([[0.5, 0. ],
           [0. , 1. ]])
    """
    values, vectors = linalg.eigh(symmetric(matrix))
    floor = max(float(values[-1]), 0.0) * len(values) * np.finfo(np.float64).eps
    roots = np.sqrt(values.clip(min=0))
    inverse = np.zeros_like(roots)
    np.divide(1.0, roots, out=inverse, where=values > floor)
    return (vectors * roots) @ vectors.T, (vectors * inverse) @ vectors.T
