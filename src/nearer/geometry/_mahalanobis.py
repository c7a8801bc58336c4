"""The Mahalanobis distance, `δ²_M(a, b) = (a − b)ᵀM(a − b)` with `M = LLᵀ`: Euclidean after `x ↦ Lᵀx`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from nearer._checks import check_int
from nearer._validation import as_matrix
from nearer.exceptions import ParameterError, ShapeError
from nearer.geometry._saving import SavedModule
from nearer.geometry._similarity import euclidean_distance


def project_psd(matrix: Any) -> Tensor:
    """The nearest positive semi-definite matrix: symmetrise, and clip negative eigenvalues at 0.

    `matrix` (p, p) -> (p, p), `V max(Λ, 0) Vᵀ` of `(M + Mᵀ)/2 = VΛVᵀ`.

    >>> project_psd([[2, 0], [0, -1]])
    tensor([[2., 0.],
            [0., 0.]])
    """
    m = _square(matrix)
    values, vectors = torch.linalg.eigh((m.double() + m.double().T) / 2)
    projected: Tensor = (vectors * values.clamp_min(0)) @ vectors.T
    return projected.to(m.dtype)


def factor_of(matrix: Any) -> Tensor:
    """A factor `L` of shape (p, rank) with `LLᵀ = M`, for a symmetric positive semi-definite `M` (p, p).

    The columns are eigenvectors times the roots of their eigenvalues, the largest first. The zero matrix has
    rank 0 and gives one column of zeros.

    >>> factor_of([[4, 0], [0, 0]]).abs()
    tensor([[2.],
            [0.]])
    """
    m = _square(matrix)
    exact = m.double()
    scale = float(exact.abs().max())
    # What rounding in the dtype of the caller can do to a matrix that was meant to be symmetric and PSD.
    tolerance = 100 * torch.finfo(m.dtype).eps * scale
    skew = float((exact - exact.T).abs().max())
    if skew > tolerance:
        raise ParameterError(
            f"`matrix` must be symmetric, got entries that differ by {skew:.3g} from their mirror image. "
            f"Pass (M + M.T) / 2 if that is what you mean."
        )
    values, vectors = torch.linalg.eigh((exact + exact.T) / 2)
    if float(values[0]) < -tolerance:
        raise ParameterError(
            f"`matrix` must be positive semi-definite, got an eigenvalue of {float(values[0]):.3g}. "
            f"Pass project_psd(matrix) for the nearest one that is."
        )
    values, vectors = values.flip(0), vectors.flip(1)
    rank = max(1, int((values > tolerance).sum()))
    factor: Tensor = vectors[:, :rank] * values[:rank].clamp_min(0).sqrt()
    return factor.to(m.dtype).contiguous()


class LinearMap(SavedModule):
    """A factor L (p, d); `Mahalanobis` leaves it free, `OrthogonalMap` keeps its columns orthonormal."""

    factor: Tensor

    def transform(self, x: Any) -> Tensor:
        """Rows in the space where the distance is Euclidean, `Lᵀx`: (n, p) -> (n, d)."""
        rows = as_matrix(x, "x", columns=self.factor.shape[0], minimum_rows=0)
        return rows.to(self.factor.dtype) @ self.factor

    def forward(self, x: Any) -> Tensor:
        return self.transform(x)

    def distance(self, queries: Any, database: Any = None) -> Tensor:
        """The distances `‖Lᵀ(q − x)‖`, not squared: (q, p) and (n, p) -> (q, n)."""
        return euclidean_distance(self.transform(queries), None if database is None else self.transform(database))

    def extra_repr(self) -> str:
        return f"{self.factor.shape[0]} -> {self.factor.shape[1]}"


class Mahalanobis(LinearMap):
    """A learnable Mahalanobis distance with the factor `L` of shape (p, d), the identity at first.

    `transform` maps rows x to `Lᵀx`, shape (n, p) -> (n, d); distances are Euclidean after it. With d < p it
    also reduces the dimension. `M = LLᵀ` is positive semi-definite whatever `L` is.

    >>> metric = Mahalanobis.from_matrix([[4, 0], [0, 1]])
    >>> metric.distance([[0, 0]], [[1, 0], [0, 1]])
    tensor([[2., 1.]], grad_fn=<WhereBackward0>)

    Args:
        in_features: columns p of the input.
        embedding_dim: dimensions d; p if None.
    """

    def __init__(self, in_features: int, embedding_dim: int | None = None) -> None:
        super().__init__()
        p = check_int(in_features, "in_features")
        d = check_int(p if embedding_dim is None else embedding_dim, "embedding_dim")
        self.settings: dict[str, Any] = {"in_features": p, "embedding_dim": d}
        factor = torch.zeros(p, d)
        if not factor.is_meta:
            # A model that is being loaded has no numbers, and `torch.eye` would load torch's compiler for it.
            factor.fill_diagonal_(1)
        self.factor = nn.Parameter(factor)  # (p, d)

    @classmethod
    def from_factor(cls, factor: Any) -> Mahalanobis:
        """The distance of a given factor `L` (p, d), in the precision of `factor`.

        >>> Mahalanobis.from_factor([[3], [0]]).matrix().tolist()
        [[9.0, 0.0], [0.0, 0.0]]
        """
        L = as_matrix(factor, "factor")
        metric = cls(*L.shape)
        metric.factor = nn.Parameter(L.detach().clone())
        return metric

    @classmethod
    def from_matrix(cls, matrix: Any) -> Mahalanobis:
        """The distance of a given symmetric positive semi-definite `M` (p, p), in the precision of `matrix`.

        >>> Mahalanobis.from_matrix([[2, 1], [1, 2]]).matrix().round(decimals=4).tolist()
        [[2.0, 1.0], [1.0, 2.0]]
        """
        return cls.from_factor(factor_of(matrix))

    def matrix(self) -> Tensor:
        """The matrix `M = LLᵀ` (p, p)."""
        return self.factor @ self.factor.T


def _square(matrix: Any) -> Tensor:
    m = as_matrix(matrix, "matrix").detach()
    if m.shape[0] != m.shape[1]:
        raise ShapeError(f"`matrix` must have shape (p, p), got {tuple(m.shape)}. For a factor use from_factor.")
    return m
