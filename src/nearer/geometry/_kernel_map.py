"""The map of a kernel learner as a module: kernels to the landmark rows, then one matrix."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from nearer._checks import check_choice, check_int, check_number
from nearer._validation import as_matrix
from nearer.exceptions import ShapeError
from nearer.geometry._saving import SavedModule
from nearer.geometry._similarity import squared_euclidean_distance


class KernelMap(SavedModule):
    """`x → k(x)ᵀB` with the kernels k(x) (m,) of x to m landmarks and B (m, d): (n, p) -> (n, d).

    `kernel` is "rbf" (`exp(−γ‖a − b‖²)`), "poly" (`(γ a·b + 1)^degree`) or "linear". B can be moved
    by descent. Work and memory grow with the landmarks: n·m kernels at a time.

    >>> part = KernelMap.from_parts([[0.0], [2.0]], [[1.0], [0.0]], kernel="linear")
    >>> part([[3.0]]).item(), KernelMap.from_parts([[0.0]], [[2.0]], kernel="rbf", gamma=1.0)([[0.0]]).item()
    (0.0, 2.0)
    """

    landmarks: Tensor

    def __init__(
        self,
        in_features: int,
        n_landmarks: int,
        embedding_dim: int,
        *,
        kernel: str = "rbf",
        gamma: float = 1.0,
        degree: int = 3,
    ) -> None:
        super().__init__()
        p, m, d = (
            check_int(value, name)
            for value, name in (
                (in_features, "in_features"),
                (n_landmarks, "n_landmarks"),
                (embedding_dim, "embedding_dim"),
            )
        )
        self.settings: dict[str, Any] = {
            "in_features": p,
            "n_landmarks": m,
            "embedding_dim": d,
            "kernel": check_choice(kernel, "kernel", ["rbf", "poly", "linear"]),
            "gamma": check_number(gamma, "gamma", above=0),
            "degree": check_int(degree, "degree"),
        }
        self.register_buffer("landmarks", torch.zeros(m, p))
        self.factor = nn.Parameter(torch.zeros(m, d))

    @classmethod
    def from_parts(cls, landmarks: Any, factor: Any, **settings: Any) -> KernelMap:
        """The map of given landmarks (m, p) and B (m, d)."""
        rows, B = as_matrix(landmarks, "landmarks"), as_matrix(factor, "factor")
        if len(rows) != len(B):
            raise ShapeError(f"`factor` must have a row for each of the {len(rows)} landmarks, got {len(B)}.")
        part = cls(rows.shape[1], len(rows), B.shape[1], **settings)
        part.landmarks = rows.detach().to(torch.float32)
        part.factor = nn.Parameter(B.detach().to(torch.float32))
        return part

    def forward(self, x: Any) -> Tensor:
        rows = as_matrix(x, "x", columns=self.settings["in_features"], minimum_rows=0).to(self.factor.dtype)
        kernel, gamma = self.settings["kernel"], self.settings["gamma"]
        if kernel == "rbf":
            values = (-gamma * squared_euclidean_distance(rows, self.landmarks)).exp()
        else:
            values = rows @ self.landmarks.t()
            if kernel == "poly":
                values = (gamma * values + 1) ** self.settings["degree"]
        return values @ self.factor
