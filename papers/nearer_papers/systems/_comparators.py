"""Learning without any label, for comparison: instances, rotations, clusters and made-up samples.

Each is a step for `train`: it is called with row numbers, changes the encoder, and keeps what else it learns
(heads, a memory, assignments) in its state. The losses are plain functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, logsigmoid
from torch.optim import Optimizer

from nearer._checks import check_int, check_number
from nearer.exceptions import ParameterError
from nearer.geometry import embed, normalize
from nearer_papers.systems._synthetic import SyntheticLoss
from nearer_papers.systems._views import exemplar_views, rotations

__all__ = [
    "DeepClusterStep",
    "ExemplarStep",
    "InstanceStep",
    "RotNetStep",
    "SyntheticStep",
    "balanced_rows",
    "instance_logits",
]

Views = Callable[[Tensor], Tensor]


class _PlainStep:
    """Encoder, one more module, one optimiser for both: what all steps here share."""

    def __init__(self, encoder: nn.Module, head: nn.Module, optimizer: Optimizer, items: Tensor) -> None:
        self.encoder, self.head, self.optimizer, self.items = encoder, head, optimizer, items
        self.module = nn.ModuleDict({"encoder": encoder, "head": head})
        optimizer.add_param_group({"params": list(head.parameters())})

    def value(self, rows: Tensor) -> Tensor:
        """The loss of a batch, on the graph."""
        raise NotImplementedError

    def after(self) -> None:
        """What happens once the parameters have moved."""

    def __call__(self, rows: Tensor) -> float:
        """One step on the items of these rows."""
        self.encoder.train()
        self.optimizer.zero_grad()
        value = self.value(rows)
        value.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.after()
        return float(value.detach())

    def state_dict(self) -> dict[str, Any]:
        """Parameters, buffers and optimiser."""
        return {"module": dict(self.module.state_dict()), "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from where `state_dict` was taken."""
        self.module.load_state_dict(state["module"])
        self.optimizer.load_state_dict(state["optimizer"])


class ExemplarStep(_PlainStep):
    """Exemplar-CNN: every item is a class of its own, seen in random views; softmax over all items.

    Above `sampled` items the softmax is over the items of the batch and that many random others.

    >>> encoder = nn.Sequential(nn.Flatten(), nn.Linear(16, 4))
    >>> sgd = torch.optim.SGD(encoder.parameters(), lr=0.1)
    >>> step = ExemplarStep(encoder, sgd, torch.rand(6, 1, 4, 4), 4)
    >>> abs(step(torch.arange(6)) - math.log(6)) < 0.1  # at the start
    True
    """

    def __init__(
        self,
        encoder: nn.Module,
        optimizer: Optimizer,
        items: Tensor,
        width: int,
        *,
        views: Views = exemplar_views,
        sampled: int = 100_000,
    ) -> None:
        head = nn.Linear(width, len(items))
        nn.init.zeros_(head.weight)
        nn.init.zeros_(head.bias)
        super().__init__(encoder, head, optimizer, items)
        self.views, self.sampled = views, check_int(sampled, "sampled", minimum=2)

    def value(self, rows: Tensor) -> Tensor:
        z = self.encoder(self.views(self.items[rows]))
        if len(self.items) <= self.sampled:
            return cross_entropy(self.head(z), rows)
        others = torch.cat([rows, torch.randint(len(self.items), (self.sampled,))])
        chosen, places = torch.unique(others, return_inverse=True)
        head: Any = self.head
        return cross_entropy(z @ head.weight[chosen].T + head.bias[chosen], places[: len(rows)])


class RotNetStep(_PlainStep):
    """RotNet: every item enters with its four quarter turns, and the turn is to be predicted.

    It predicts rotations, so the embedding is anything but blind to them.

    >>> encoder = nn.Sequential(nn.Flatten(), nn.Linear(16, 4))
    >>> sgd = torch.optim.SGD(encoder.parameters(), lr=0.1)
    >>> abs(RotNetStep(encoder, sgd, torch.rand(6, 1, 4, 4), 4)(torch.arange(6)) - math.log(4)) < 0.1
    True

    Reference: Gidaris, Singh, Komodakis (2018).
    """

    def __init__(self, encoder: nn.Module, optimizer: Optimizer, items: Tensor, width: int) -> None:
        head = nn.Linear(width, 4)
        nn.init.zeros_(head.weight)
        nn.init.zeros_(head.bias)
        super().__init__(encoder, head, optimizer, items)

    def value(self, rows: Tensor) -> Tensor:
        turned = rotations(self.items[rows])
        return cross_entropy(self.head(self.encoder(turned)), torch.arange(4).repeat_interleave(len(rows)))


def instance_logits(scores: Tensor, log_total: float, log_odds: float) -> Tensor:
    """`log h/(1 − h)` of `h = P/(P + m/n)`, `P = e^{score}/Z`: score − log Z − log(m/n).

    >>> torch.sigmoid(instance_logits(torch.tensor(0.0), 0.0, 0.0)).item()
    0.5
    """
    return scores - log_total - log_odds


class InstanceStep(_PlainStep):
    """Instance discrimination by noise-contrastive estimation against a memory of all embeddings.

    `−log h(i) − Σ_m log(1 − h)`, `P(i|f) = exp(v_i·f/τ)/Z`; Z is fixed from the first batch; the memory becomes
    norm(½v + ½f) after the step. An item is never its own negative (in the released code it can be). With at least
    as many `negatives` as other items the exact softmax is taken.

    >>> encoder = nn.Sequential(nn.Flatten(), nn.Linear(16, 4))
    >>> sgd = torch.optim.SGD(encoder.parameters(), lr=0.1)
    >>> InstanceStep(encoder, sgd, torch.rand(6, 1, 4, 4), 4)(torch.arange(6)) > 0
    True

    Reference: Wu, Xiong, Yu, Lin (2018).
    """

    def __init__(
        self,
        encoder: nn.Module,
        optimizer: Optimizer,
        items: Tensor,
        width: int,
        *,
        negatives: int = 4096,
        temperature: float = 0.07,
        views: Views | None = None,
    ) -> None:
        super().__init__(encoder, nn.Module(), optimizer, items)
        self.temperature = check_number(temperature, "temperature", above=0.0)
        self.negatives, self.views = check_int(negatives, "negatives"), views
        bound = 1 / math.sqrt(width / 3)
        self.head.register_buffer("memory", normalize(torch.empty(len(items), width).uniform_(-bound, bound)))
        self.head.register_buffer("log_total", torch.tensor(math.nan))
        self._latest: tuple[Tensor, Tensor] | None = None

    def value(self, rows: Tensor) -> Tensor:
        batch = self.items[rows]
        z = normalize(self.encoder(batch if self.views is None else self.views(batch)))
        memory: Any = self.head.memory
        n = len(memory)
        self._latest = (rows, z.detach())
        if self.negatives >= n - 1:
            return cross_entropy(z @ memory.T / self.temperature, rows)
        # One of the others: numbers from the own one on move up by one.
        drawn = torch.randint(n - 1, (len(rows), self.negatives))
        drawn += drawn >= rows[:, None]
        own = (z * memory[rows]).sum(dim=1) / self.temperature
        other = torch.einsum("bd,bmd->bm", z, memory[drawn]) / self.temperature
        total: Any = self.head.log_total
        if torch.isnan(total):
            total.fill_(math.log(n) + float(torch.logsumexp(other.detach().flatten(), 0)) - math.log(other.numel()))
        odds = math.log(self.negatives / n)
        right = logsigmoid(instance_logits(own, float(total), odds))
        wrong = logsigmoid(-instance_logits(other, float(total), odds)).sum(dim=1)
        return -(right + wrong).mean()

    @torch.no_grad()
    def after(self) -> None:
        if self._latest is not None:
            rows, z = self._latest
            memory: Any = self.head.memory
            memory[rows] = normalize((memory[rows] + z) / 2)


def balanced_rows(assignments: Tensor, count: int) -> Tensor:
    """`count` rows with every cluster that is not empty equally likely, (count,).

    >>> rows = balanced_rows(torch.tensor([0] * 99 + [1]), 1000)
    >>> 300 < int((rows == 99).sum()) < 700
    True
    """
    sizes = torch.bincount(assignments)
    weight = (1 / sizes.clamp_min(1).double())[assignments]
    return torch.multinomial(weight, count, replacement=True)


class DeepClusterStep(_PlainStep):
    """DeepCluster: cluster the embeddings, then classify the clusters; a new head after every clustering.

    `cluster(features)` gives assignments (n,), for example k-means; features are whitened to at most `whitened`
    principal components and brought to length one. It happens before every `every` steps. Batches are drawn
    uniformly over clusters whatever rows the step is called with, so that one large cluster is no solution.

    >>> encoder = nn.Sequential(nn.Flatten(), nn.Linear(16, 4))
    >>> sgd = torch.optim.SGD(encoder.parameters(), lr=0.1)
    >>> step = DeepClusterStep(encoder, sgd, torch.rand(6, 1, 4, 4), 4, cluster=lambda z: torch.arange(6) % 2)
    >>> abs(step(torch.arange(6)) - math.log(2)) < 0.1
    True

    Reference: Caron, Bojanowski, Joulin, Douze (2018).
    """

    def __init__(
        self,
        encoder: nn.Module,
        optimizer: Optimizer,
        items: Tensor,
        width: int,
        *,
        cluster: Callable[[Tensor], Any],
        every: int = 100,
        whitened: int = 256,
    ) -> None:
        super().__init__(encoder, nn.Module(), optimizer, items)
        self.width, self.cluster = check_int(width, "width"), cluster
        self.every, self.whitened = check_int(every, "every"), check_int(whitened, "whitened")
        self.assignments = torch.zeros(0, dtype=torch.int64)
        self._count = 0

    def reassign(self) -> None:
        """Cluster what the encoder says now."""
        z = embed(self.encoder, self.items).double()
        z = z - z.mean(dim=0)
        U, s, _ = torch.linalg.svd(z, full_matrices=False)
        kept = int((s > s.max() * 1e-6).sum())
        if kept == 0:
            raise ParameterError("the embeddings must differ to be clustered, got one point for all items.")
        features = normalize(U[:, : min(self.whitened, kept)])
        self.assignments = torch.as_tensor(self.cluster(features)).to(torch.int64)
        self._new_head(int(self.assignments.max()) + 1)

    def _new_head(self, clusters: int) -> None:
        head = nn.Linear(self.width, clusters)
        nn.init.normal_(head.weight, std=0.01)
        nn.init.zeros_(head.bias)
        self.head = head
        self.module["head"] = head
        # The old head is gone, and so are its group and its moments.
        for old in self.optimizer.param_groups.pop()["params"]:
            self.optimizer.state.pop(old, None)
        self.optimizer.add_param_group({"params": list(head.parameters())})

    def state_dict(self) -> dict[str, Any]:
        """Parameters, optimiser, and the clusters they belong to."""
        return {**super().state_dict(), "assignments": self.assignments, "count": self._count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on with the clusters and the head of then."""
        self.assignments, self._count = state["assignments"], int(state["count"])
        if len(self.assignments):
            self._new_head(int(self.assignments.max()) + 1)
        super().load_state_dict(state)

    def value(self, rows: Tensor) -> Tensor:
        if self._count % self.every == 0:
            self.reassign()
            self.encoder.train()
            self.optimizer.zero_grad()
        self._count += 1
        chosen = balanced_rows(self.assignments, len(rows))
        return cross_entropy(self.head(self.encoder(self.items[chosen])), self.assignments[chosen])


class SyntheticStep(_PlainStep):
    """SUML: random triplets of a batch under `SyntheticLoss`.

    >>> encoder = nn.Sequential(nn.Flatten(), nn.Linear(16, 4))
    >>> sgd = torch.optim.SGD(encoder.parameters(), lr=0.1)
    >>> isinstance(SyntheticStep(encoder, sgd, torch.rand(6, 1, 4, 4), SyntheticLoss(4, 2))(torch.arange(6)), float)
    True
    """

    def __init__(
        self, encoder: nn.Module, optimizer: Optimizer, items: Tensor, loss: SyntheticLoss, *, triplets: int = 1000
    ) -> None:
        super().__init__(encoder, loss, optimizer, items)
        self.triplets = check_int(triplets, "triplets")

    def value(self, rows: Tensor) -> Tensor:
        z = normalize(self.encoder(self.items[rows]))
        order = torch.rand(self.triplets, len(rows)).topk(3, dim=1).indices
        found: Tensor = self.head(z, order)
        return found
