"""What every pair loss shares: the call, the dense twin, the public weights, and the sharded form."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from nearer._checks import check_choice
from nearer._tracing import at_once, leave_to_eager, readable, require
from nearer._validation import as_tensor, check_finite
from nearer.exceptions import LabelError, ParameterError, ShapeError
from nearer.pairwise import Miner, Panel
from nearer.pairwise._shared import (
    Gradient,
    ListedPairs,
    Pairing,
    PeerMiner,
    Reduction,
    Select,
    Shards,
    as_columns,
    check_squares,
    check_untransformed,
    differentiate,
    normalize_rows,
    nothing,
    pairs_of,
    settings_of,
    widen,
    without_autocast,
)
from nearer.relations import Relation
from nearer.relations._shared import relate

_DIRECT = "donot_use_mm_for_euclid_dist"


class PairLoss(nn.Module, ABC):
    """A loss on pairs: `loss(embeddings, labels)`, or against a database of other items.

    `labels` are integers (classes) or any relation of `nearer.relations`. The result is a scalar on the graph;
    a batch without a valid pair gives 0 with a zero gradient.

    The calls of pytorch-metric-learning work too: the tuple of a miner as third argument (`indices_tuple`; only its
    pairs count, whatever the labels say of them), `ref_emb` and `ref_labels` for a database, and its miners as
    `miner=`.

    >>> from nearer.losses import TripletLoss
    >>> loss = TripletLoss(margin=0.1)
    >>> isinstance(loss, PairLoss), loss(torch.eye(2), torch.tensor([0, 1])).item()  # no positive pair
    (True, 0.0)

    Args:
        reduction: what the sum is divided by; the first of `reductions` is the default.
        miner: which pairs count; all of them if None.
        normalize: whether rows are brought to length one first.
    """

    mineable: bool = True  # the loss is made of pairs that can be chosen, one by one
    distance: bool = False  # panels must hold squared distances
    rowwise: bool = False  # each anchor's part needs only its own row, so the work can be sharded by anchors
    reductions: tuple[Reduction, ...] = ("mean", "sum")
    one_set: bool = False  # there can be no `database`
    cubic: bool = False  # `traceable` compares three items at a time
    untraceable: str = ""  # why there is no `traceable`: then torch.compile leaves the loss to eager

    def __init__(self, *, reduction: str, miner: Miner | None = None, normalize: bool = True) -> None:
        super().__init__()
        if miner is not None and (isinstance(miner, type) or not callable(getattr(miner, "prepare", None))):
            if not callable(miner) or isinstance(miner, type):
                raise ParameterError(
                    f"`miner` must be a miner of nearer.mining or of pytorch-metric-learning, got {miner!r}."
                )
            miner = PeerMiner(miner)
        self.reduction = cast(Reduction, check_choice(reduction, "reduction", self.reductions))
        self.miner = miner
        self.normalize = normalize

    @abstractmethod
    def formula(self, panel: Panel) -> Tensor:
        """The loss as printed, on the whole dense matrix; differentiable by autograd. The reference."""

    def traceable(self, panel: Panel) -> Tensor:
        """The same without a look at any value, for torch.compile and accelerators: `formula` where it is that."""
        return self.formula(panel)

    @abstractmethod
    def program(self, pairing: Pairing, anchor_values: Tensor | None, gradient: bool) -> Gradient:
        """Value and gradient by the driver that fits."""

    @abstractmethod
    def dense_weights(self, panel: Panel) -> Tensor:
        """The weight ∂L/∂s (∂L/∂D² for a loss of distances) of each pair of the whole dense matrix."""

    def anchor_values(self, relation: Relation) -> Tensor | None:
        """One learned number per anchor, for the losses that have one."""
        return None

    def penalty(self) -> Tensor | None:
        """What is added to the loss and does not come from pairs."""
        return None

    def of_triplets(self, queries: Tensor, database: Tensor | None, triplets: Tensor, dense: bool) -> Tensor | None:
        """The loss of exactly the listed triplets (m, 3), for the losses that are made of triplets."""
        return None

    def forward(
        self,
        embeddings: Tensor,
        labels: Any = None,
        indices_tuple: Any = None,
        ref_emb: Tensor | None = None,
        ref_labels: Any = None,
        *,
        database: Tensor | None = None,
        database_labels: Any = None,
    ) -> Tensor:
        """The loss of `embeddings` (n, d) among themselves, or as queries against `database` (m, d).

        `indices_tuple` is (a, p, n) or (a1, p, a2, n), row numbers (m,) each; with it `labels` may be left out.
        `ref_emb` and `ref_labels` are other names of `database` and `database_labels`.
        """
        if ref_emb is not None or ref_labels is not None:
            database, database_labels = other_set(database, database_labels, ref_emb, ref_labels)
        if indices_tuple is not None or labels is None or isinstance(self.miner, PeerMiner):
            return self._of_indices(False, embeddings, labels, indices_tuple, database, database_labels)
        queries, database, relation = check_call(
            embeddings, labels, database, database_labels, finite=not self.normalize
        )
        return self._stream(queries, database, relation)

    def _stream(self, queries: Tensor, database: Tensor | None, relation: Relation) -> Tensor:
        if self._traced_here(queries, relation):
            return self._traced(queries, database, relation)

        def compute(
            layer: Relation, q: Tensor, d: Tensor | None, values: Tensor | None, gradient: bool
        ) -> Gradient:
            pairing = make_pairing(q, d, layer, unit=self.normalize)
            if pairing.queries.shape[0] == 0 or pairing.database.shape[0] == 0:
                return nothing(pairing, values)
            return self.program(pairing, values, gradient)

        return run(self, compute, queries, database, relation)

    def dense(
        self,
        embeddings: Tensor,
        labels: Any = None,
        indices_tuple: Any = None,
        ref_emb: Tensor | None = None,
        ref_labels: Any = None,
        *,
        database: Tensor | None = None,
        database_labels: Any = None,
    ) -> Tensor:
        """The same loss by the printed formula and plain autograd, with the whole matrix in memory."""
        if ref_emb is not None or ref_labels is not None:
            database, database_labels = other_set(database, database_labels, ref_emb, ref_labels)
        if indices_tuple is not None or labels is None or isinstance(self.miner, PeerMiner):
            return self._of_indices(True, embeddings, labels, indices_tuple, database, database_labels)
        return self._dense(*check_call(embeddings, labels, database, database_labels))

    def _traced_here(self, queries: Tensor, relation: Relation) -> bool:
        """Whether the whole matrix is what to compute where values cannot be read."""
        # Of a cube there are many more intermediate results than of a square.
        entries = relation.n_queries * relation.n_database * (16 * relation.n_database if self.cubic else 1)
        if not at_once(queries, entries):
            return False
        reason = self.untraceable or getattr(self.miner, "untraceable", "")
        if reason:
            leave_to_eager(f"{type(self).__name__} cannot be compiled: {reason}.")
        return not reason

    def _traced(
        self, queries: Tensor, database: Tensor | None, relation: Relation, listed: Miner | None = None
    ) -> Tensor:
        """The loss on the whole matrix by tensors alone, differentiated by autograd or by the compiler."""
        if database is not None and self.one_set:
            raise ParameterError(
                f"{type(self).__name__} takes no `database`: it needs the rows of both items of a pair."
            )
        with without_autocast(queries.device.type):
            q, d = widen(queries), None if database is None else widen(database)
            if not self.normalize:
                check_squares(q)
                check_squares(d)
            return self._dense(q, d, relation, formula=self.traceable, listed=listed)

    def _dense(
        self,
        queries: Tensor,
        database: Tensor | None,
        relation: Relation,
        *,
        formula: Callable[[Panel], Tensor] | None = None,
        listed: Miner | None = None,
    ) -> Tensor:
        q = normalize_rows(queries)[0] if self.normalize else queries
        d = None if database is None else normalize_rows(database, "database")[0] if self.normalize else database
        total = q.sum() * 0 if d is None else q.sum() * 0 + d.sum() * 0
        if not len(queries) or (database is not None and not len(database)):
            return total
        for share, layer in relation.layers():
            pairing = make_pairing(q, d, layer, unit=self.normalize)
            with torch.no_grad():
                miner = listed or self.miner
                select = None if miner is None else miner.prepare(pairing)
            panel = whole_panel(
                pairing, self.distance, select, self.anchor_values(layer), compact=formula is not None
            )
            value = self.formula(panel) if formula is None else formula(panel)
            total = total + (value if share == 1 else share * value)
        extra = self.penalty()
        return total if extra is None else total + extra

    def _of_indices(
        self, dense: bool, embeddings: Any, labels: Any, indices: Any, database: Any, database_labels: Any
    ) -> Tensor:
        """The loss of the pairs that a tuple lists, given or found by a miner of another library."""
        name = type(self).__name__
        peer = self.miner if isinstance(self.miner, PeerMiner) else None
        if labels is None and (indices is None or database_labels is not None):
            raise ParameterError(
                "`labels` must be given unless `indices_tuple` is, which then stands for all labels."
            )
        if indices is not None and self.miner is not None:
            raise ParameterError(f"`indices_tuple` must not be given to a loss with its own miner, {self.miner!r}.")
        if indices is not None and not self.mineable:
            raise ParameterError(f"`indices_tuple` must be left out: {name} is not made of single pairs.")
        queries = check_embeddings(embeddings, "embeddings")
        relation: Relation | None = None
        if labels is not None:
            queries, database, relation = check_call(queries, labels, database, database_labels)
        elif database is not None:
            database = check_database(database, queries)
        if peer is not None:
            leave_to_eager("A miner that lists pairs cannot be compiled. Take one of nearer.mining.")
        if peer is not None and relation is not None:
            indices = peer.indices(queries, database, relation)
        n, m = len(queries), None if database is None else len(database)
        columns = as_columns(indices, n, m, queries.device)
        if len(columns) == 3 and len(columns[0]):
            exact = self.of_triplets(queries, database, torch.stack(columns, dim=1), dense)
            if exact is not None:
                return exact
        if not dense and relation is not None and self._traced_here(queries, relation):
            return self._traced(queries, database, relation, ListedPairs(columns) if n and m != 0 else None)
        leave_to_eager("A tuple of indices without labels cannot be compiled: pass the labels too.")
        twin = copy(self)  # the same parameters and state, with the pairs as its miner
        twin.miner = None if n == 0 or m == 0 else ListedPairs(columns)
        if relation is None:
            if twin.miner is None:
                return queries.sum() * 0
            relation = pairs_of(columns, n, m)
        return twin._dense(queries, database, relation) if dense else twin._stream(queries, database, relation)

    def weights(self, similarity: Any, relation: Any) -> Tensor:
        """The weight G = ∂L/∂S that each pair gets, (q, n) like `similarity`; what is not mined gets 0.

        `relation` is class labels or a relation. A square matrix is a batch against itself: its diagonal is
        nobody's pair. For a loss of distances the weight is still by similarity, on unit vectors (D² = 2 − 2s).
        """
        s = as_tensor(similarity, "similarity")
        if s.ndim != 2:
            raise ShapeError(f"`similarity` must have shape (q, n), got {tuple(s.shape)}.")
        s = s.detach() if s.dtype in (torch.float32, torch.float64) else s.detach().float()
        check_finite(s, "similarity")
        related = (
            relation.to(s.device)
            if isinstance(relation, Relation)
            else relate(relation, n=s.shape[0], device=s.device)
        )
        if (related.n_queries, related.n_database) != tuple(s.shape):
            raise ShapeError(
                f"`relation` must fit the shape {tuple(s.shape)} of `similarity`, got "
                f"({related.n_queries}, {related.n_database})."
            )
        shared = [(share, self._layer_weights(s, layer)) for share, layer in related.layers()]
        if len(shared) == 1:
            return shared[0][1]
        return torch.stack([share * weight for share, weight in shared]).sum(0)

    def _layer_weights(self, s: Tensor, relation: Relation) -> Tensor:
        # S = S·I: the rows of S against unit vectors are embeddings with exactly these similarities.
        unit = torch.eye(s.shape[1], dtype=s.dtype, device=s.device)
        pairing = Pairing(s, unit, relation, 0 if s.shape[0] == s.shape[1] else None, width=0)
        select = None if self.miner is None else self.miner.prepare(pairing)
        values = self.anchor_values(relation)
        panel = whole_panel(pairing, False, select, None if values is None else values.detach())
        if not self.distance:
            return self.dense_weights(panel)
        panel.squared = (2 - 2 * s).clamp(min=0)
        return -2 * self.dense_weights(panel)

    def __repr__(self) -> str:
        return settings_of(self)


class ShardedLoss(nn.Module):
    """A pair loss over the joint batch of all `torch.distributed` processes, exact in value and gradient.

    Each process passes its own embeddings and labels. Every process returns the loss of the joint batch; the
    gradient by the own embeddings is that of the joint loss. With `averaged` (the default) it is multiplied by
    the number of processes, because DistributedDataParallel averages the gradients of the encoder.
    Losses that are made of rows share the work; the others (histogram, quadruplet, angular, original lifted)
    repeat it in every process.

    >>> from nearer.losses import RAWLoss
    >>> ShardedLoss(RAWLoss()).averaged  # under torchrun: ShardedLoss(RAWLoss())(embeddings, labels)
    True

    Args:
        loss: the pair loss.
        averaged: whether gradients are averaged over processes afterwards, as `DistributedDataParallel` does.
    """

    def __init__(self, loss: PairLoss, *, averaged: bool = True) -> None:
        super().__init__()
        if not isinstance(loss, PairLoss):
            raise ParameterError(f"`loss` must be a pair loss of nearer.losses, got {type(loss).__name__}.")
        self.loss = loss
        self.averaged = averaged

    def forward(self, embeddings: Tensor, labels: Any, indices_tuple: None = None) -> Tensor:
        """The loss of the joint batch; `embeddings` (n, d) and `labels` are this process's shard."""
        if indices_tuple is not None:
            raise ParameterError(
                "`indices_tuple` must be left out: it knows one process's rows. Give the loss a miner of "
                "nearer.mining, which chooses from the joint batch."
            )
        leave_to_eager("ShardedLoss cannot be compiled: it talks to other processes.")
        queries, _, relation = check_call(embeddings, labels, None, None)
        loss = self.loss

        def compute(
            layer: Relation, q: Tensor, d: Tensor | None, values: Tensor | None, gradient: bool
        ) -> Gradient:
            shards = Shards(len(q), q.device, averaged=self.averaged)
            if loss.rowwise:
                pairing = shards.pairing(q, layer, unit=loss.normalize)
                return shards.collect(loss.program(pairing, values, gradient))
            values = None if values is None else shards.gather(values)
            return shards.own_part(loss.program(shards.joint(q, layer, unit=loss.normalize), values, gradient))

        return run(loss, compute, queries, None, relation)


# As `Compute`, for one layer of a relation.
ComputeLayer = Callable[[Relation, Tensor, Tensor | None, Tensor | None, bool], Gradient]


def run(
    loss: PairLoss, compute: ComputeLayer, queries: Tensor, database: Tensor | None, relation: Relation
) -> Tensor:
    """Hand it to autograd, once for each layer of a soft relation, and add what does not come from pairs."""
    total: Tensor | None = None
    for share, layer in relation.layers():
        values = loss.anchor_values(layer)
        value = differentiate(partial(compute, layer), queries, database, values, normalize=loss.normalize)
        value = value if share == 1 else share * value
        total = value if total is None else total + value
    if total is None:
        raise TypeError(f"{type(relation).__name__} has no layers.")
    extra = loss.penalty()
    return total if extra is None else total + extra


def other_set(database: Any, database_labels: Any, ref_emb: Any, ref_labels: Any) -> tuple[Any, Any]:
    """The database under either of its names."""
    if database is not None or database_labels is not None:
        raise ParameterError(
            "`ref_emb`, `ref_labels` and `database`, `database_labels` are the same: give one pair."
        )
    return ref_emb, ref_labels


def check_call(
    embeddings: Any, labels: Any, database: Any, database_labels: Any, *, finite: bool = True
) -> tuple[Tensor, Tensor | None, Relation]:
    """Embeddings, database and their relation, checked; `finite` False leaves that check to the normalisation."""
    queries = check_embeddings(embeddings, "embeddings", finite=finite)
    n_database = None
    if database is not None:
        database = check_database(database, queries, finite=finite)
        n_database = database.shape[0]
    if (database is None) != (database_labels is None) and not isinstance(labels, Relation):
        raise ParameterError("`database` and `database_labels` must be given together.")
    relation = relate(labels, database_labels, n=queries.shape[0], n_database=n_database, device=queries.device)
    return queries, database, relation


def check_database(value: Any, queries: Tensor, *, finite: bool = True) -> Tensor:
    """Embeddings of other items, as wide as the queries."""
    database = check_embeddings(value, "database", finite=finite)
    if database.shape[1] != queries.shape[1]:
        raise ShapeError(
            f"`database` must have {queries.shape[1]} columns like the embeddings, got {database.shape[1]}."
        )
    return database


def check_embeddings(value: Any, name: str, *, finite: bool = True) -> Tensor:
    """Finite floating-point embeddings (n, d), kept in their dtype and on their graph."""
    tensor = as_tensor(value, name)
    check_untransformed(tensor)
    if tensor.ndim != 2 or tensor.shape[1] == 0:
        raise ShapeError(f"`{name}` must have shape (n, d), got {tuple(tensor.shape)}.")
    if not tensor.is_floating_point():
        tensor = tensor.to(torch.float32)
    if finite and readable(tensor):
        check_finite(tensor, name)
    elif finite:
        require(name, "be finite", torch.isfinite(tensor.detach()))
    return tensor


def check_range(labels: Tensor, n: int, what: str, advice: str = "") -> None:
    """Refuse labels that name none of the n things that a loss has for classes."""
    if not readable(labels):
        require("labels", f"lie in 0..{n - 1}, {what}", (labels >= 0) & (labels < n))
    elif len(labels) and (int(labels.min()) < 0 or int(labels.max()) >= n):
        raise LabelError(
            f"`labels` must lie in 0..{n - 1}, {what}, got {int(labels.min())} to {int(labels.max())}.{advice}"
        )


def make_pairing(queries: Tensor, database: Tensor | None, relation: Relation, *, unit: bool) -> Pairing:
    """Items among themselves, or against a database of other things."""
    if database is None:
        return Pairing(queries, queries, relation, 0, unit)
    return Pairing(queries, database, relation, None, unit)


def whole_panel(
    pairing: Pairing,
    distance: bool,
    select: Select | None,
    anchor_values: Tensor | None,
    *,
    compact: bool = False,
) -> Panel:
    """The whole batch as one panel, on the graph of its embeddings; `compact`: differentiable once."""
    q, d = pairing.queries, pairing.database
    positive, negative = pairing.relation.masks()
    if pairing.offset is not None:
        positive.diagonal(pairing.offset).fill_(False)
        negative.diagonal(pairing.offset).fill_(False)
    squared = None
    if distance:
        # Both forms are exact for near items; the compact one needs no (q, n, d) array.
        squared = (
            torch.cdist(q, d, compute_mode=_DIRECT).square() if compact else (q[:, None] - d[None]).square().sum(2)
        )
    panel = Panel(q @ d.T, positive, negative, slice(0, len(q)), squared, anchor_values, relation=pairing.relation)
    if select is None:
        return panel
    with torch.no_grad():
        return panel.chosen(*select(panel))
