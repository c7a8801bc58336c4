"""The semi-supervised method as an estimator: labels spread over a graph, triplets, an orthogonal projection."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import torch
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from nearer._checks import check_choice, check_int
from nearer.estimators._blending import (
    SPREAD_AMOUNTS,
    check_blend,
    halves,
    judged_rows,
    mix_with_identity,
    spread_agreement,
    step_back,
)
from nearer.estimators._learner import mapped_distances
from nearer.estimators._matrices import Array, factor_psd, fix_signs
from nearer.estimators._scatter import total_scatter
from nearer.estimators._supervision import reduce_components
from nearer.estimators.partial._partly_labeled import PartlyLabeledLearner
from nearer.exceptions import NearerWarning, ParameterError
from nearer.geometry import embed, normalize
from nearer.graph import class_shares, nearest_neighbors, propagate
from nearer.graph._shared import two_sided_affinity
from nearer.losses._shared import angular_factor_gradient, tangent_weight
from nearer.mining._shared import mine_neighborhood, mine_signed
from nearer.neighbors import Neighbors
from nearer.training import NeighborhoodAngular, Plan, PseudoLabelAngular, alternate
from nearer.training._shared import riemannian_conjugate_gradient

BLOCK = 500


@dataclass(kw_only=True, eq=False, repr=False)
class SemiSupervisedMetric(PartlyLabeledLearner):
    """An orthogonal projection from few labels: affinities on the graph, triplets, the angular loss; LᵀL = I.

    X (n, p) and y (n,) with −1 for unlabelled rows -> (n, d), d = ⌈p/2⌉ by default: with d = p an orthogonal map
    changes no distance. `triplets` is "signed" (positives and negatives by the two-sided affinity, our default)
    or "neighborhood" (halves of each neighbourhood by propagated affinity). The latter is the published mining
    with two differences: other classes weigh ν = 1/(c − 1) instead of 1, and rows keep their lengths, because the
    map is for the rows as they are; `nearer.training.NeighborhoodAngular(literal=True)` is the method to the
    letter. Without labels only "neighborhood" can be learnt. `max_iter` are the iterations of Riemannian conjugate
    gradients.

    `blend` mixes LLᵀ with the identity; what is mixed has all p directions unless `n_components` says otherwise. As
    this learner is trained on labels that were spread over the graph, they cannot judge it: "auto" learns from one
    half of the given labels at a time and takes what agrees best with the other half. 0.0 is the projection alone.

    With `encoder`, any torch module from rows (n, p) to embeddings, a copy of it is trained in turn with the
    projection for `max_iter` epochs (`nearer.training.alternate`), and `transform` goes through it; there "auto"
    is 0.0 and another `blend` is refused.

    Reference: Dutta, Harandi, Sekhar (2021).

    >>> rng = np.random.default_rng(0)
    >>> X = np.r_[rng.normal(size=(30, 4)), rng.normal(size=(30, 4)) + [4, 0, 0, 0]]
    >>> y = [0] * 3 + [-1] * 27 + [1] * 3 + [-1] * 27
    >>> learner = SemiSupervisedMetric(1, blend=0.0, random_state=0).fit(X, y)
    >>> bool(abs(learner.components_[0, 0]) > 0.9)  # the column that tells the classes apart
    True

    Args:
        n_components: dimensions to keep; None keeps all columns.
        n_neighbors: how many neighbors of a row count.
        gamma: probability of going on along an edge of the graph.
        alpha: the angle of the loss, in degrees.
        triplets: how triplets are mined: "signed" (ours) or "neighborhood".
        max_iter: the most iterations; a warning says when they did not suffice.
        encoder: the network in front; None learns on the features themselves.
        blend: share of the identity in the metric; 0 is the published method, "auto" chooses it without test
            labels.
        random_state: seed or generator for everything that is drawn; None takes numpy's own.

    Attributes:
        components_: A (d, p), the learned map: distances are those of `XAᵀ`.
        encoder_: the trained copy of `encoder`; only where one is given.
        blend_: share of the identity in the metric, as given or as chosen.
        n_iter_: iterations of the projection; epochs with an encoder.
        classes_: the classes of y, (c,), sorted.
        n_features_in_: columns of the X it was fitted on.
    """

    n_neighbors: int = 10
    gamma: float = 0.99
    alpha: float = 40.0
    triplets: Literal["signed", "neighborhood"] = "signed"
    max_iter: int = 50
    encoder: Any = None

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from rows X (n, p) and classes y (n,), −1 for rows without one."""
        check_choice(self.triplets, "triplets", ["signed", "neighborhood"])
        max_iter = check_int(self.max_iter, "max_iter")
        X, codes = self._check_partly_labeled(X, y)
        labels = torch.from_numpy(codes)
        rng = check_random_state(self.random_state)
        generator = torch.Generator().manual_seed(int(rng.randint(2**31 - 1)))
        self.__dict__.pop("encoder_", None)
        asked = check_blend(self.blend)
        if self.encoder is not None:
            if asked:
                raise ParameterError(
                    f"`blend` must be 'auto' or 0 with an encoder, got {self.blend}: there is no M."
                )
            self._fit_encoder(X, labels, generator, max_iter)
            self.blend_ = 0.0
            return self
        width = self._width(X.shape[1])
        rows = X.astype(np.float64)
        rows -= rows.mean(axis=0)
        size = float(np.sqrt(np.square(rows).sum(axis=1).mean()))
        z = torch.from_numpy(rows / size if size > 0 else rows)
        factor, self.n_iter_ = self._project(z, labels, width, generator, max_iter)
        components = fix_signs(factor.T.numpy())
        self.blend_ = self._judge(z, codes, width, max_iter, rng) if asked is None else asked
        if self.blend_ > 0:
            covariance = total_scatter(rows) / len(rows)
            mixed = mix_with_identity(components.T @ components, covariance, self.blend_)
            most = X.shape[1] if self.n_components is None else width
            components = reduce_components(factor_psd(mixed), covariance, most)
        self.components_ = components.astype(X.dtype, copy=False)
        return self

    def _judge(self, z: Tensor, codes: Array, width: int, max_iter: int, rng: np.random.RandomState) -> float:
        """The amount of identity, judged by labels that took no part in the learning."""
        if not (codes >= 0).any():
            return 0.0
        half = halves(codes, rng)
        rows = judged_rows(codes, rng)
        agreement = np.zeros(len(SPREAD_AMOUNTS))
        for number in (0, 1):
            seen, hidden = np.where(half == number, -1, codes), np.where(half == number, codes, -1)
            if not (seen >= 0).any() or not (hidden >= 0).any():
                # One label cannot learn and judge; then nothing speaks for leaving the features as they are.
                return 1.0
            generator = torch.Generator().manual_seed(int(rng.randint(2**31 - 1)))
            factor = self._project(z, torch.from_numpy(seen), width, generator, max_iter)[0].numpy()
            agreement += spread_agreement(z.numpy()[rows], seen[rows], factor @ factor.T, hidden=hidden[rows])
        return step_back(SPREAD_AMOUNTS, agreement)

    def _width(self, p: int) -> int:
        if self.n_components is None:
            return -(-p // 2)
        width = self._check_targets(p)
        if width == p and p > 1:
            warnings.warn(
                f"`n_components` should be below the {p} features: a square orthogonal map changes no distance.",
                NearerWarning,
                stacklevel=3,
            )
        return width

    def _project(
        self, z: Tensor, labels: Tensor, width: int, generator: torch.Generator, max_iter: int
    ) -> tuple[Tensor, int]:
        near = nearest_neighbors(z, k=check_int(self.n_neighbors, "n_neighbors"), normalized=False)
        triplets = self._mine(z, near, labels, generator)
        start = torch.linalg.qr(torch.randn(z.shape[1], width, generator=generator, dtype=z.dtype)).Q
        if not len(triplets):
            return start, 1
        a, p, n = (z[column] for column in triplets.T)
        closer, farther, weight = a - p, n - (a + p) / 2, tangent_weight(self.alpha, "alpha")
        descent = riemannian_conjugate_gradient(
            lambda L: angular_factor_gradient(closer, farther, L, weight), start, max_iter=max_iter
        )
        return descent.point, max(1, len(descent.values) - 1)

    def _mine(self, z: Tensor, near: Neighbors, labels: Tensor, generator: torch.Generator) -> Tensor:
        known = labels != -1
        if self.triplets == "neighborhood" or not known.any():
            with warnings.catch_warnings():
                # That there are no labels has been said already.
                warnings.simplefilter("ignore", NearerWarning)
                return mine_neighborhood(near, propagate(near, labels, gamma=self.gamma).edges)
        shares = class_shares(near, labels, gamma=self.gamma).shares
        parts = []
        # In random blocks, so that no matrix of all pairs is made.
        for rows in torch.split(torch.randperm(len(z), generator=generator), BLOCK):
            affinity = two_sided_affinity(shares[rows], shares[rows])
            parts.append(rows[mine_signed(torch.cdist(z[rows], z[rows]), affinity, generator=generator)])
        return torch.cat(parts)

    def _fit_encoder(self, X: Array, labels: Tensor, generator: torch.Generator, max_iter: int) -> None:
        self.encoder_ = copy.deepcopy(self.encoder)
        items = torch.from_numpy(np.ascontiguousarray(X))
        columns = embed(self.encoder_, items[:2]).shape[1]
        width = self._width(columns)
        known = bool((labels != -1).any())
        kind = PseudoLabelAngular if self.triplets == "signed" and known else NeighborhoodAngular
        learner: Any = kind(
            columns, width, k=self.n_neighbors, gamma=self.gamma, alpha=self.alpha, generator=generator
        )
        optimizer = torch.optim.Adam(self.encoder_.parameters(), lr=1e-3)
        seed = int(torch.randint(2**31 - 1, (), generator=generator))
        plan = Plan(partitions=max(1, max_iter // 10), epochs=min(10, max_iter), seed=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NearerWarning)
            if kind is PseudoLabelAngular:
                # The labels alone first: a graph of random embeddings would spread them anywhere.
                start = Plan(partitions=1, epochs=max_iter, unlabeled=0, seed=seed)
                if int((labels != -1).sum()) >= 3:
                    alternate(self.encoder_, learner, optimizer, items, labels, plan=start)
            alternate(self.encoder_, learner, optimizer, items, labels, plan=plan)
        self.n_iter_ = plan.total
        self.components_ = learner.module.factor.detach().T.numpy().astype(X.dtype, copy=True)

    def transform(self, X: Any) -> Array:
        """Map rows so that Euclidean distance is the learned one, (n, p) -> (n, d)."""
        check_is_fitted(self)
        if not hasattr(self, "encoder_"):
            return super().transform(X)
        rows = self._check_X(X, reset=False)
        z = normalize(embed(self.encoder_, torch.from_numpy(np.ascontiguousarray(rows)))).numpy()
        return np.asarray(z @ self.components_.T.astype(z.dtype), dtype=rows.dtype)

    def pair_distance(self, left: Any, right: Any) -> Array:
        """The learned distance of row i of `left` to row i of `right`, (m, p) twice -> (m,)."""
        if not hasattr(self, "encoder_"):
            return super().pair_distance(left, right)
        return mapped_distances(self.transform(left), self.transform(right))
