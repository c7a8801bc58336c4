"""The semi-supervised method of the paper: affinities on the graph, triplets in neighbourhoods, an orthogonal L.

`NeighborhoodAngular` is the method as printed (with its proven slips corrected, or `literal=True`).
`PseudoLabelAngular` is what we recommend: positives and negatives by the two-sided label affinity `F K Fᵀ`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from nearer._checks import check_int, check_number
from nearer.geometry import Mahalanobis, OrthogonalMap, normalize
from nearer.graph import class_shares, nearest_neighbors, propagate
from nearer.graph._shared import two_sided_affinity
from nearer.losses._shared import angular_factor_gradient, angular_margins, tangent_weight
from nearer.mining._shared import mine_neighborhood, mine_signed
from nearer.neighbors import Neighbors
from nearer.training._riemannian import RiemannianAdam, riemannian_conjugate_gradient


class NeighborhoodAngular:
    """Affinities by propagation, rank-aligned triplets in the k-neighbourhood, angular loss behind an orthogonal L.

    Embeddings of length one of `in_features` columns are projected to `embedding_dim`. Per batch L takes
    `metric_steps` iterations of Riemannian conjugate gradients on the batch, then the encoder takes one step.
    `literal` has the weight ν = 1 of the paper instead of the balanced 1/(c − 1).

    >>> learner = NeighborhoodAngular(8, 4, k=6)
    >>> learner.count(100)  # three triplets per item
    300

    Reference: Dutta, Harandi, Sekhar (2021). Two unlabelled neighbours are ordered by the graph alone, and all that
    is compared lies in one neighbourhood: where neighbours are of one class already, positives are pushed apart.

    Args:
        in_features: columns that come in.
        embedding_dim: dimensions of the embedding.
        k: how many neighbors.
        gamma: probability of going on along an edge of the graph.
        alpha: the angle of the loss, in degrees.
        metric_steps: steps on the map for each batch.
        literal: the setting of the paper, to the letter.
        generator: draws the first weights; torch's own if None.
    """

    def __init__(
        self,
        in_features: int,
        embedding_dim: int,
        *,
        k: int = 10,
        gamma: float = 0.99,
        alpha: float = 40.0,
        metric_steps: int = 10,
        literal: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        self.k, self.gamma = check_int(k, "k", minimum=2), gamma
        self.weight = tangent_weight(alpha, "alpha")
        self.metric_steps = check_int(metric_steps, "metric_steps", minimum=0)
        self.literal = literal
        self.module: Any = OrthogonalMap(in_features, embedding_dim, generator=generator)
        self.module.requires_grad_(False)
        self.triplets = torch.zeros(0, 3, dtype=torch.int64)

    def count(self, n: int) -> int:
        """⌊k/2⌋ triplets for each of n items."""
        return n * (min(self.k, n - 1) // 2)

    def prepare(self, embeddings: Tensor, labels: Tensor) -> None:
        """The graph of the current embeddings, affinities of its edges, and the triplets."""
        near = _graph(embeddings, self.k)
        nu = 1.0 if self.literal else None
        affinity = propagate(near, labels, gamma=self.gamma, negative_weight=nu).edges
        self.triplets = mine_neighborhood(near, affinity)

    def batch(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """The items of some triplets, each once, and the triplets among them."""
        # With fewer anchors than items, an epoch goes through the same triplets more than once.
        chosen = self.triplets[numbers % max(1, len(self.triplets))]
        places, local = torch.unique(chosen, return_inverse=True)
        return places, local

    def refine(self, embeddings: Tensor, content: Tensor) -> None:
        """L by conjugate gradients on the triplets of the batch."""
        if not self.metric_steps:
            return
        z = normalize(embeddings)
        a, p, n = (z[column] for column in content.T)
        near, far = a - p, n - (a + p) / 2
        factor = self.module.factor
        descent = riemannian_conjugate_gradient(
            lambda L: angular_factor_gradient(near, far, L, self.weight), factor.data, max_iter=self.metric_steps
        )
        factor.data.copy_(descent.point)

    def loss(self, embeddings: Tensor, content: Tensor) -> Tensor:
        """`Σ softplus(m)` over the triplets of the batch."""
        margins = angular_margins(normalize(embeddings), content, self.module.factor, self.weight)
        return nn.functional.softplus(margins).sum()

    def state_dict(self) -> dict[str, Any]:
        """The triplets."""
        return {"triplets": self.triplets}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The triplets of an interrupted partition."""
        self.triplets = state["triplets"]


class PseudoLabelAngular:
    """Positives and negatives by the two-sided affinity `F K Fᵀ`, the same loss and the same orthogonal L.

    Per partition `F = RŶ` is computed on the graph of the current embeddings, its columns are brought to one sum
    and its rows to shares of the classes; labels that are given count as certain. An epoch goes through the items;
    in a batch of them the affinity of every pair is known, labelled or not, and its sign says if it is a positive.
    `pseudo_labeled` is the share of the items, the surest first, that takes part. L moves by Riemannian Adam.
    `orthogonal=False` drops the constraint on L (plain Adam on a free factor).

    >>> PseudoLabelAngular(8, 4).count(100)
    100

    Args:
        in_features: columns that come in.
        embedding_dim: dimensions of the embedding.
        k: how many neighbors.
        gamma: probability of going on along an edge of the graph.
        alpha: the angle of the loss, in degrees.
        pseudo_labeled: share of the unlabelled items, the surest first, whose pseudo-label is used.
        metric_rate: learning rate of the map.
        orthogonal: keep the columns of the map orthonormal.
        generator: draws the first weights; torch's own if None.
    """

    def __init__(
        self,
        in_features: int,
        embedding_dim: int,
        *,
        k: int = 10,
        gamma: float = 0.99,
        alpha: float = 40.0,
        pseudo_labeled: float = 0.9,
        metric_rate: float = 1e-3,
        orthogonal: bool = True,
        generator: torch.Generator | None = None,
    ) -> None:
        self.k, self.gamma = check_int(k, "k"), gamma
        self.weight = tangent_weight(alpha, "alpha")
        self.pseudo_labeled = check_number(pseudo_labeled, "pseudo_labeled", above=0.0, maximum=1.0)
        self.orthogonal, self.generator = orthogonal, generator
        start = OrthogonalMap(in_features, embedding_dim, generator=generator)
        self.module: Any = start if orthogonal else Mahalanobis.from_factor(start.factor)
        rate = check_number(metric_rate, "metric_rate", above=0.0)
        factor = [self.module.factor]
        self.optimizer: Any = RiemannianAdam(factor, lr=rate) if orthogonal else torch.optim.Adam(factor, lr=rate)
        self.shares, self.members = torch.zeros(0, 0), torch.zeros(0, dtype=torch.int64)

    def count(self, n: int) -> int:
        """Every item once."""
        return n

    def prepare(self, embeddings: Tensor, labels: Tensor) -> None:
        """Class shares of every item from the graph of the current embeddings."""
        spread = class_shares(_graph(embeddings, self.k), labels, gamma=self.gamma)
        self.shares = spread.shares.float()
        lead = spread.lead.float()
        self.members = (lead >= lead.quantile(1 - self.pseudo_labeled)).nonzero()[:, 0]

    def batch(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """The items with these numbers, and their class shares."""
        places = torch.unique(self.members[numbers % max(1, len(self.members))])
        return places, self.shares[places]

    def refine(self, embeddings: Tensor, content: Tensor) -> None:
        """One Riemannian step of L on the triplets of the batch."""
        factor = self.module.factor
        with torch.enable_grad():
            value = self._cost(embeddings, content, factor)
            (factor.grad,) = torch.autograd.grad(value, factor)
        self.optimizer.step()
        factor.grad = None

    def loss(self, embeddings: Tensor, content: Tensor) -> Tensor:
        """The mean of softplus(m) over the triplets of the batch."""
        return self._cost(embeddings, content, self.module.factor.detach())

    def _cost(self, embeddings: Tensor, shares: Tensor, factor: Tensor) -> Tensor:
        z = normalize(embeddings)
        with torch.no_grad():
            mapped = z @ factor
            affinity = two_sided_affinity(shares, shares)
            triplets = mine_signed(torch.cdist(mapped, mapped), affinity, generator=self.generator)
        if not len(triplets):
            return z.sum() * 0 + factor.sum() * 0
        return nn.functional.softplus(angular_margins(z, triplets, factor, self.weight)).mean()

    def state_dict(self) -> dict[str, Any]:
        """The class shares, where the optimiser of L stands, and the random numbers to come."""
        drawn = {} if self.generator is None else {"random": self.generator.get_state()}
        return {"shares": self.shares, "members": self.members, "optimizer": self.optimizer.state_dict(), **drawn}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Those of an interrupted partition."""
        self.shares, self.members = state["shares"], state["members"]
        self.optimizer.load_state_dict(state["optimizer"])
        if self.generator is not None and "random" in state:
            self.generator.set_state(state["random"])


def _graph(embeddings: Tensor, k: int) -> Neighbors:
    # An encoder that ends in a ReLU maps some images to zero: they stay there, at one from all others, and a long
    # run goes on; features that a user brings with a row of zeros are refused by nearest_neighbors itself.
    return nearest_neighbors(normalize(embeddings), k=k, normalized=False)
