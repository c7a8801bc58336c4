"""Several linear embeddings of one feature vector, of growing width, used together: the last layer of BIER."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nearer._checks import check_int
from nearer._validation import as_matrix
from nearer.exceptions import ParameterError
from nearer.geometry._similarity import normalize
from nearer_papers.systems._linear_start import start_linear

__all__ = ["BoostedHeads"]


class BoostedHeads(nn.Module):
    """M linear maps side by side, each part of length d_m/d: (n, p) -> (n, d), d = Σ d_m.

    z = [(d₁/d)·u(W₁x + b₁), …, (d_M/d)·u(W_M x + b_M)] with u(x) = x/‖x‖: a cosine of whole rows is then the mean
    of the parts' cosines, each weighted by the square of its share. `BIERLoss` sees each part by its own cosine.
    Rows of W start with length about one.

    >>> z = BoostedHeads(8, (2, 6))(torch.rand(3, 8))
    >>> z.shape, z[:, :2].norm(dim=1).round(decimals=4).tolist()
    (torch.Size([3, 8]), [0.25, 0.25, 0.25])

    Reference: Opitz et al. 2018.

    Args:
        in_features: columns p of the input.
        widths: columns of each part.
        generator: draws the first weights; torch's own if None.
    """

    def __init__(
        self,
        in_features: int,
        widths: Sequence[int] = (96, 160, 256),
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.in_features = check_int(in_features, "in_features")
        self.widths = tuple(check_int(width, "widths") for width in widths)
        if not self.widths:
            raise ParameterError("`widths` must have one number or more, got none.")
        self.parts = nn.ModuleList(nn.Linear(self.in_features, width) for width in self.widths)
        start_linear(self, generator)

    def raw(self, features: Any) -> list[Tensor]:
        """What the maps give before it is brought to length: (n, p) -> M times (n, d_m)."""
        x = as_matrix(features, "features", columns=self.in_features, minimum_rows=0)
        x = x.to(next(self.parameters()).dtype)
        return [part(x) for part in self.parts]

    def forward(self, features: Any) -> Tensor:
        total = sum(self.widths)
        return torch.cat([normalize(part) * (part.shape[1] / total) for part in self.raw(features)], dim=1)
