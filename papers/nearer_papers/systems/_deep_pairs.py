"""The five semi-supervised baselines behind an encoder: metrics for `nearer.training.alternate`.

Each learns M on all embeddings of a partition (`prepare`), by the same closed form or solver as its linear form;
the encoder then takes steps on mini-batches of labelled items and of edges of the graph, with M fixed. Embeddings
have length one and M has trace d, so that distances stay in one range. Edge terms are means over edges.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from nearer._checks import check_int, check_number
from nearer.estimators._matrices import Array, factor_psd
from nearer.estimators.partial._apllr import APIT, APLLR, affinity_edges
from nearer.estimators.partial._isdml import ISDML, density_edges
from nearer.estimators.partial._lrml import LRML
from nearer.estimators.partial._partly_labeled import EdgeList, PartlyLabeledLearner, neighbor_edges
from nearer.estimators.partial._seraph import SERAPH
from nearer.geometry import Mahalanobis, normalize

__all__ = ["DeepAPIT", "DeepAPLLR", "DeepISDML", "DeepLRML", "DeepPairMetric", "DeepSERAPH"]

LABELED_IN_BATCH = 60


class PairBatch(NamedTuple):
    """What a batch is made of: labelled items, their classes, and edges with weights, all by place in the batch."""

    labeled: Tensor
    classes: Tensor
    left: Tensor
    right: Tensor
    weight: Tensor


class DeepPairMetric:
    """A metric that a linear learner finds on the embeddings of a partition; subclasses say what a batch costs.

    `in_features` is the width of the embeddings, `learner` the linear form.
    """

    def __init__(self, in_features: int, learner: PartlyLabeledLearner, *, edge_weight: float = 1.0) -> None:
        d = check_int(in_features, "in_features")
        self.learner = learner
        self.edge_weight = check_number(edge_weight, "edge_weight", minimum=0)
        self.module: Any = Mahalanobis(d)
        self.module.requires_grad_(False)
        self._labeled = torch.zeros(0, dtype=torch.int64)
        self._classes = torch.zeros(0, dtype=torch.int64)
        self._edges = torch.zeros(0, 2, dtype=torch.int64)
        self._weight = torch.zeros(0)

    def edges(self, embeddings: Array, codes: Array) -> EdgeList:
        """The graph that the encoder is to respect."""
        raise NotImplementedError

    def cost(self, squared: Tensor, same: Tensor) -> Tensor:
        """What labelled pairs cost, from squared distances (m,) and whether the classes agree (m,)."""
        raise NotImplementedError

    def edge_cost(self, squared: Tensor, weight: Tensor) -> Tensor:
        """What edges cost: the weighted mean of squared distances."""
        return (weight * squared).sum() / weight.sum().clamp_min(1e-12)

    def count(self, n: int) -> int:
        """As many numbers as items."""
        return n

    def prepare(self, embeddings: Tensor, labels: Tensor) -> None:
        """M by the linear form on all embeddings, and the graph."""
        z = normalize(embeddings).double().numpy()
        codes = labels.numpy()
        matrix = self.learner.fit(z, codes).mahalanobis_matrix()
        edges = self.edges(z, codes)
        factor = factor_psd(matrix * (len(matrix) / max(float(np.trace(matrix)), 1e-300))).T
        self.module.factor.data.copy_(torch.from_numpy(factor.copy()))
        self._labeled = (labels != -1).nonzero()[:, 0]
        self._classes = labels[self._labeled]
        self._edges = torch.from_numpy(np.stack([edges.left, edges.right], axis=1))
        self._weight = torch.from_numpy(edges.weight).float()

    def batch(self, numbers: Tensor) -> tuple[Tensor, PairBatch]:
        """Random labelled items and random edges; the numbers are the seed."""
        generator = torch.Generator().manual_seed(int(numbers.sum()) * 1009 + int(numbers[0]))
        chosen = torch.randperm(len(self._labeled), generator=generator)[:LABELED_IN_BATCH]
        many = max(1, (len(numbers) - len(chosen)) // 2)
        edges = torch.randint(max(1, len(self._edges)), (many if len(self._edges) else 0,), generator=generator)
        wanted = torch.cat([self._labeled[chosen], self._edges[edges].T.reshape(-1)])
        places, local = torch.unique(wanted, return_inverse=True)
        mine, left, right = local.split([len(chosen), len(edges), len(edges)])
        return places, PairBatch(mine, self._classes[chosen], left, right, self._weight[edges])

    def refine(self, embeddings: Tensor, content: PairBatch) -> None:
        """Nothing: M belongs to the partition."""

    def loss(self, embeddings: Tensor, content: PairBatch) -> Tensor:
        """Labelled pairs and edges of the batch under the fixed metric."""
        z = normalize(embeddings) @ self.module.factor
        mine = z[content.labeled]
        i, j = torch.triu_indices(len(mine), len(mine), 1, device=mine.device)
        total: Tensor = z.sum() * 0
        if len(i):
            squared = (mine[i] - mine[j]).square().sum(dim=1)
            total = total + self.cost(squared, content.classes[i] == content.classes[j])
        if len(content.left) and self.edge_weight:
            far = (z[content.left] - z[content.right]).square().sum(dim=1)
            total = total + self.edge_weight * self.edge_cost(far, content.weight)
        return total

    def state_dict(self) -> dict[str, Any]:
        """The labelled items and the graph of the partition."""
        return {"tensors": [self._labeled, self._classes, self._edges, self._weight]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Those of an interrupted partition."""
        self._labeled, self._classes, self._edges, self._weight = state["tensors"]


def _mean(values: Tensor, chosen: Tensor) -> Tensor:
    return values[chosen].sum() / max(1, int(chosen.sum()))


class DeepLRML(DeepPairMetric):
    """LRML behind an encoder: `γ_S mean_S δ² − γ_D mean_D δ² + mean over edges δ²`, bounded by unit embeddings.

    >>> DeepLRML(8).count(100)
    100

    Args:
        in_features: columns of an embedding.
        k: neighbors in the graph.
        dissimilar_weight: γ_D / γ_S, the weight of dissimilar labelled pairs.
    """

    def __init__(self, in_features: int, *, k: int = 6, dissimilar_weight: float = 1.0) -> None:
        super().__init__(in_features, LRML(n_neighbors=k, blend=0.0))
        self.k, self.dissimilar_weight = k, dissimilar_weight

    def edges(self, embeddings: Array, codes: Array) -> EdgeList:
        return neighbor_edges(embeddings, self.k)

    def cost(self, squared: Tensor, same: Tensor) -> Tensor:
        return _mean(squared, same) - self.dissimilar_weight * _mean(squared, ~same)


class DeepISDML(DeepPairMetric):
    """ISDML behind an encoder: `mean_S δ² − mean_D δ²` and the density-weighted mean over edges.

    >>> DeepISDML(8).count(100)
    100

    Args:
        in_features: columns of an embedding.
        k: neighbors in the graph.
        dissimilar_weight: weight of dissimilar labelled pairs.
    """

    def __init__(self, in_features: int, *, k: int = 6, dissimilar_weight: float = 1.0) -> None:
        super().__init__(in_features, ISDML(n_neighbors=k, blend=0.0))
        self.k, self.dissimilar_weight = k, dissimilar_weight

    def edges(self, embeddings: Array, codes: Array) -> EdgeList:
        return density_edges(embeddings, self.k)

    def cost(self, squared: Tensor, same: Tensor) -> Tensor:
        return _mean(squared, same) - self.dissimilar_weight * _mean(squared, ~same)


class DeepSERAPH(DeepPairMetric):
    """SERAPH behind an encoder: `−mean log p(y)` of labelled pairs and `μ mean H(p)` of unlabelled ones, no graph.

    The unlabelled pairs of a batch are pairs of random items.

    >>> DeepSERAPH(8).count(100)
    100

    Args:
        in_features: columns of an embedding.
        mu: μ, the weight of the entropy of unlabelled pairs.
        eta: the squared distance at which a pair is undecided.
    """

    def __init__(self, in_features: int, *, mu: float = 0.5, eta: float = 1.0) -> None:
        super().__init__(in_features, SERAPH(mu=mu, eta=eta, blend=0.0, random_state=0), edge_weight=mu)
        self.eta = eta

    def edges(self, embeddings: Array, codes: Array) -> EdgeList:
        random = np.random.default_rng(0)
        left, right = random.integers(0, len(codes), (2, 20_000))
        open_ = ((codes[left] < 0) | (codes[right] < 0)) & (left != right)
        return EdgeList(left[open_], right[open_], np.ones(int(open_.sum())))

    def cost(self, squared: Tensor, same: Tensor) -> Tensor:
        u = self.eta - squared
        return torch.where(same, -logsigmoid(u), -logsigmoid(-u)).mean()

    def edge_cost(self, squared: Tensor, weight: Tensor) -> Tensor:
        u = self.eta - squared
        p = torch.sigmoid(u)
        return (-p * logsigmoid(u) - (1 - p) * logsigmoid(-u)).mean()


class DeepAPLLR(DeepPairMetric):
    """APLLR behind an encoder: `mean softplus(y(δ² − b))` of labelled pairs and the affinity-weighted mean of
    edges.

    The objective of M alone is least for a constant embedding, so the labelled term is needed.

    >>> DeepAPLLR(8).count(100)
    100

    Args:
        in_features: columns of an embedding.
        k: neighbors in the graph.
        gamma: how far labels walk over the graph, below 1.
        threshold: b, the squared distance at which a labelled pair is undecided.
    """

    def __init__(self, in_features: int, *, k: int = 10, gamma: float = 0.99, threshold: float = 1.0) -> None:
        super().__init__(in_features, APLLR(n_neighbors=k, gamma=gamma, blend=0.0))
        self.k, self.gamma, self.threshold = k, gamma, threshold

    def edges(self, embeddings: Array, codes: Array) -> EdgeList:
        return affinity_edges(embeddings, codes, k=self.k, gamma=self.gamma)

    def cost(self, squared: Tensor, same: Tensor) -> Tensor:
        return softplus(torch.where(same, 1.0, -1.0) * (squared - self.threshold)).mean()


class DeepAPIT(DeepPairMetric):
    """APIT behind an encoder: hinges on `δ² ≤ u` for similar, `δ² ≥ l` for dissimilar pairs, and the mean of edges.

    >>> DeepAPIT(8).count(100)
    100

    Args:
        in_features: columns that come in.
        k: how many neighbors.
        gamma: probability of going on along an edge of the graph.
        upper: distance up to which similar pairs cost nothing.
        lower: distance from which dissimilar pairs cost nothing.
    """

    def __init__(
        self,
        in_features: int,
        *,
        k: int = 10,
        gamma: float = 0.99,
        upper: float = 0.5,
        lower: float = 1.5,
    ) -> None:
        super().__init__(in_features, APIT(n_neighbors=k, gamma=gamma, blend=0.0, random_state=0))
        self.k, self.gamma, self.upper, self.lower = k, gamma, upper, lower

    def edges(self, embeddings: Array, codes: Array) -> EdgeList:
        return affinity_edges(embeddings, codes, k=self.k, gamma=self.gamma)

    def cost(self, squared: Tensor, same: Tensor) -> Tensor:
        return torch.where(same, squared - self.upper, self.lower - squared).clamp_min(0).mean()
