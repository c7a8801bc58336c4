"""What keeps the two maps of an asymmetric distance small: norms of W, of its blocks, or of the maps themselves.

`W = [U; −V][U; −V]ᵀ` for U (p, d) and V (p', d), one column per output (the paper prints the transposes). Norms of
W and of its blocks are taken from d×d matrices, in O(p d²): `‖W‖_F = ‖UᵀU + VᵀV‖_F`.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch
from torch import Tensor

from nearer._checks import check_choice
from nearer._validation import as_matrix
from nearer.exceptions import ParameterError, ShapeError

RegularizerName = Literal["squared_w", "w", "grams", "factors", "query_gram", "database_gram", "query", "database"]


def asymmetric_regularizer(
    query_factor: Any,
    database_factor: Any,
    *,
    norm: RegularizerName = "squared_w",
    variant: Literal["correct", "as_printed"] = "correct",
) -> Tensor:
    """A norm of the maps U (p, d) and V (p', d), as a scalar on their graph.

    | `norm`            | value      | gradient by U            |
    |-------------------|------------|--------------------------|
    | "squared_w"       | `‖W‖_F²`   | `4 U(UᵀU + VᵀV)`         |
    | "w"               | `‖W‖_F`    | `2 U(UᵀU + VᵀV)/‖W‖_F`   |
    | "grams"           | `‖UUᵀ‖_F + ‖VVᵀ‖_F` | `2 UUᵀU/‖UUᵀ‖_F` |
    | "factors"         | `‖U‖_F + ‖V‖_F` | `U/‖U‖_F`           |
    | "query_gram"      | `‖UUᵀ‖_F`  | `2 UUᵀU/‖UUᵀ‖_F`         |
    | "database_gram"   | `‖VVᵀ‖_F`  | 0                        |
    | "query"           | `‖U‖_F`    | `U/‖U‖_F`                |
    | "database"        | `‖V‖_F`    | 0                        |

    The last four hold one map only: the other may grow. Where a norm is 0 its gradient is 0.

    Eqs 11 and 12 as printed, `2UUᵀU + 4VVᵀU` and `2VVᵀV + 4UUᵀV` in the layout of the paper, are the gradient of
    neither `‖W‖_F` nor its square: they count the cross blocks twice. `variant="as_printed"` (only with
    "squared_w") is the function they are the gradient of, `½‖UUᵀ‖² + ½‖VVᵀ‖² + 2‖UVᵀ‖²`.

    >>> U, V = torch.tensor([[1.0]]), torch.tensor([[2.0]])
    >>> asymmetric_regularizer(U, V).item(), asymmetric_regularizer(U, V, norm="w").item()
    (25.0, 5.0)
    >>> asymmetric_regularizer(U, V, variant="as_printed").item()
    16.5
    """
    U, V = as_matrix(query_factor, "query_factor"), as_matrix(database_factor, "database_factor")
    if U.shape[1] != V.shape[1]:
        raise ShapeError(
            f"`database_factor` must have the {U.shape[1]} columns of `query_factor`, got {V.shape[1]}."
        )
    name = check_choice(norm, "norm", get_args(RegularizerName))
    if check_choice(variant, "variant", ["correct", "as_printed"]) == "as_printed":
        if name != "squared_w":
            raise ParameterError(f"`norm` must be 'squared_w' for the printed equations, got {name!r}.")
        query, database = U.T @ U, V.T @ V
        # ‖UVᵀ‖² is the inner product of the two d×d matrices.
        return query.square().sum() / 2 + database.square().sum() / 2 + 2 * (query * database).sum()
    if name == "squared_w":
        return (U.T @ U + V.T @ V).square().sum()
    matrices = {
        "w": lambda: [U.T @ U + V.T @ V],
        "grams": lambda: [U.T @ U, V.T @ V],
        "factors": lambda: [U, V],
        "query_gram": lambda: [U.T @ U],
        "database_gram": lambda: [V.T @ V],
        "query": lambda: [U],
        "database": lambda: [V],
    }[name]()
    # torch's norm has the sub-gradient 0 at 0.
    return torch.stack([torch.linalg.matrix_norm(matrix) for matrix in matrices]).sum()
