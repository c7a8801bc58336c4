"""What a contributor of a loss meets: a rule makes terms of a panel, and, where that is faster, has a statistic.

A row-statistic loss is h(Σ_N e(s), positives) of each anchor. Only e touches all pairs; h sees n numbers and small
blocks of positives, so autograd differentiates h at no cost.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from nearer.pairwise._precision import full_precision
from nearer.relations import Relation
from nearer.relations._shared import TableRelation

if TYPE_CHECKING:
    from nearer.pairwise._distributed import Shards
    from nearer.pairwise._near import Near

_UNSHOWN = object()
OUT_OF_THE_WAY = 1e4  # added to a similarity that must not be an extreme; what is not moved stays exact
LOG2E = math.log2(math.e)


@dataclass(slots=True)
class Pairing:
    """Who meets whom: queries, database, their relation, and which database items the queries themselves are.

    Query i is database item i + `offset`; with `offset` None the two sets are different things. `shared` says
    that both are one tensor, whose gradient is then the sum of both roles.
    """

    queries: Tensor  # (q, d)
    database: Tensor  # (n, d)
    relation: Relation
    offset: int | None = None
    unit: bool = False  # all rows have length one (or zero), so no similarity exceeds 1
    width: int | None = None  # of the embeddings, where `queries` are not they; 0 for the rank of `queries`
    shards: Shards | None = None  # the processes whose joint batch the database is

    @property
    def shared(self) -> bool:
        return self.queries is self.database

    @property
    def dimension(self) -> int:
        """How many coordinates the embeddings have."""
        if self.width is None:
            return self.queries.shape[1]
        return self.width or int(torch.linalg.matrix_rank(self.queries))

    @property
    def anchors(self) -> int:
        """How many anchors all processes have together."""
        return len(self.queries) if self.shards is None else self.shards.total

    def all_sum(self, tensor: Tensor) -> Tensor:
        """The sum of a tensor over all processes, the same in every one."""
        return tensor if self.shards is None else self.shards.all_sum(tensor)

    def joint(self) -> Pairing:
        """The whole batch of which this may be one process's part; for what must be known of all anchors."""
        relation = self.relation
        if (
            self.offset is None
            or len(self.queries) == len(self.database)
            or not isinstance(relation, TableRelation)
        ):
            return self
        among_database = relation.between(relation.database, relation.database)
        return Pairing(self.database, self.database, among_database, 0, self.unit, self.width)


class Panel:
    """Some anchors against the whole database: what a loss or a miner sees.

    The masks never overlap and never hold an item and itself. They are kept as they come, true or false or 1 and 0
    in the type of the similarities, and turned into the other form when that is asked for: comparisons and products
    of numbers are several times as fast as those of truth values.

    >>> same = torch.tensor([[False, True, False]])
    >>> panel = Panel(torch.tensor([[1.0, 0.8, 0.3]]), same, torch.tensor([[False, False, True]]), slice(0, 1))
    >>> round(panel.near.amin().item(), 1), round(panel.far.amax().item(), 1)  # hardest positive, hardest negative
    (0.8, 0.3)

    Args:
        similarity: (r, n), up = closer.
        positive: (r, n), which pairs are positive.
        negative: (r, n), which pairs are negative; None for all that are not positive.
        anchors: which queries the rows are.
        squared: (r, n) squared distances, for a rule with `distance`.
        anchor_values: (r,) one number per anchor that the loss learns (margin's β).
        bound: no |similarity| exceeds it.
        first: the first anchor's number in the joint batch.
        relation: whose degrees a loss may ask for; the masks are all that most need.
        diagonal: where the pairs of an item and itself are, if `negative` is None.
    """

    def __init__(
        self,
        similarity: Tensor,
        positive: Tensor,
        negative: Tensor | None,
        anchors: slice,
        squared: Tensor | None = None,
        anchor_values: Tensor | None = None,
        *,
        bound: float = math.inf,
        first: int = 0,
        relation: Relation | None = None,
        diagonal: int | None = None,
    ) -> None:
        self.similarity = similarity
        self.anchors = anchors
        self.squared = squared
        self.anchor_values = anchor_values
        self.bound = bound
        self.first = first
        self.relation = relation
        self._positive, self._negative, self._diagonal = positive, negative, diagonal

    @property
    def positive(self) -> Tensor:
        """(r, n): true for positives."""
        return self._positive.bool()

    @property
    def negative(self) -> Tensor:
        """(r, n): true for negatives."""
        return (self.n if self._negative is None else self._negative).bool()

    @property
    def p(self) -> Tensor:
        """(r, n): 1 for positives, 0 otherwise."""
        if self._positive.dtype != self.similarity.dtype:
            self._positive = self._positive.to(self.similarity.dtype)
        return self._positive

    @property
    def n(self) -> Tensor:
        """(r, n): 1 for negatives, 0 otherwise."""
        if self._negative is None:
            self._negative = self._on_diagonal(torch.rsub(self._positive, 1), 0.0)
        elif self._negative.dtype != self.similarity.dtype:
            self._negative = self._negative.to(self.similarity.dtype)
        return self._negative

    def _on_diagonal(self, values: Tensor, fill: float) -> Tensor:
        """Write to the pairs of an item and itself."""
        if self._diagonal is not None:
            values.diagonal(self._diagonal).fill_(fill)
        return values

    def only_pairs(self, values: Tensor) -> Tensor:
        """Set what is neither positive nor negative to zero, in place."""
        return self._on_diagonal(values, 0.0) if self._negative is None else values.mul_(self.p + self.n)

    @property
    def near(self) -> Tensor:
        """(r, n): the similarities to positives, everything else far above them; for minima."""
        if self.bound > 2:
            return self.similarity.masked_fill(~self.positive, math.inf)
        return torch.add(self.similarity, torch.rsub(self.p, 1), alpha=OUT_OF_THE_WAY)

    @property
    def far(self) -> Tensor:
        """(r, n): the similarities to negatives, everything else far below them; for maxima."""
        if self.bound > 2:
            return self.similarity.masked_fill(~self.negative, -math.inf)
        if self._negative is None:  # what is not negative is positive, or is the item itself
            moved = torch.add(self.similarity, self.p, alpha=-OUT_OF_THE_WAY)
            return self._on_diagonal(moved, -OUT_OF_THE_WAY)
        return torch.add(self.similarity, torch.rsub(self.n, 1), alpha=-OUT_OF_THE_WAY)

    @property
    def numbers(self) -> Tensor:
        """(r,) the anchors' numbers in the joint batch, which random draws belong to."""
        return torch.arange(self.first, self.first + len(self.similarity), device=self.similarity.device)

    def chosen(self, positive: Tensor, negative: Tensor, similarity: Tensor | None = None) -> Panel:
        """The same with other pairs, or with other similarities too."""
        return Panel(
            self.similarity if similarity is None else similarity,
            positive,
            negative,
            self.anchors,
            self.squared,
            self.anchor_values,
            bound=self.bound,
            first=self.first,
            relation=self.relation,
        )

    def is_empty(self) -> bool:
        """Whether there is no pair at all."""
        return not bool(self.n.any()) and not bool(self._positive.any())

    def measured(self) -> Tensor:
        """The squared distances of a loss that has asked for them."""
        if self.squared is None:
            raise TypeError("the panel of a loss with `distance = True` must hold squared distances")
        return self.squared


@dataclass(slots=True)
class Terms:
    """What a loss makes of each anchor, before the reduction.

    Two columns, positives and negatives, for a loss whose sides are averaged apart (reduction "sides").

    >>> Terms(torch.tensor([1.0, 0.0]), count=torch.tensor([2, 0])).value.sum().item()
    1.0
    """

    value: Tensor  # (r,) or (r, 2)
    count: Tensor | None = None  # the same shape: how many terms the reductions "active" and "tuples" count
    by_anchor: Tensor | None = None  # (r,): ∂value/∂anchor_values, where the weights are written by hand


class Rule:
    """A loss of rows: `value` is the printed formula, `weigh` and `statistic` are there for speed.

    >>> from nearer.losses import RAWLoss
    >>> isinstance(RAWLoss(), Rule)
    True
    """

    distance: bool = False  # panels must hold squared distances, and weights are by D²

    def value(self, panel: Panel) -> Terms:
        """The printed formula, one number per anchor, differentiable by autograd."""
        raise NotImplementedError

    def weigh(self, panel: Panel) -> tuple[Terms, Tensor | tuple[Tensor, Tensor]]:
        """The terms, and the weight ∂value/∂s of each pair (r, n): by autograd here, by hand where it matters.

        Terms of two columns have two weights, of the positives and of the negatives.
        """
        with torch.enable_grad():
            leaf = (panel.measured() if self.distance else panel.similarity).detach().requires_grad_()
            values = None if panel.anchor_values is None else panel.anchor_values.detach().requires_grad_()
            copy = panel.chosen(panel.p, panel.n)
            copy.anchor_values = values
            if self.distance:
                copy.squared = leaf
            else:
                copy.similarity = leaf
            terms = self.value(copy)
            wanted = [leaf] if values is None else [leaf, values]
            columns = terms.value.unbind(1) if terms.value.ndim == 2 else [terms.value]
            slopes = [
                torch.autograd.grad(column.sum(), wanted, retain_graph=True, materialize_grads=True)
                if column.requires_grad
                else [torch.zeros_like(tensor) for tensor in wanted]
                for column in columns
            ]
        by_anchor = None if values is None else torch.stack([slope[1] for slope in slopes]).sum(0)
        terms = Terms(terms.value.detach(), terms.count, by_anchor)
        return terms, (slopes[0][0], slopes[1][0]) if len(slopes) == 2 else slopes[0][0]

    def statistic(self, bound: float) -> Statistic | None:
        """The loss as a function of Σ_N e(s) and the positives, if e is safe for |s| up to `bound`."""
        return None


@dataclass(slots=True)
class Far:
    """What is known of each anchor's negatives.

    >>> Far(sum=torch.tensor([2.0]), count=torch.tensor([3])).sum.log1p().item()  # log(1 + Σ_N e)
    1.0986...
    """

    sum: Tensor  # (n,): Σ e(s)
    count: Tensor  # (n,): how many there are, or how many have e > 0 if the statistic `counts`


@dataclass(frozen=True)
class Statistic:
    """Σ_N e(s) over tiles, and the rest of the loss as a function of it.

    >>> from nearer.losses import RAWLoss
    >>> RAWLoss().statistic(1.0).scale > 0, RAWLoss().statistic(1e6) is None  # e^{β s} would overflow
    (True, True)

    Args:
        tile: from scale·s of a tile and a spare buffer, in place, e and ∂e/∂s up to the factor `slope`; both may be
            one tensor.
        head: from `Far` and `Near` the terms of each anchor; differentiated by autograd.
        scale: folded into one operand of the product.
        slope: what the second result of `tile` lacks.
        quiet: whether a tile of scale·s has neither value nor weight, so that it can be left out.
        linear: the head is linear in the sums, with factors that only counts enter: one pass will do.
        counts: `Far.count` is of negatives with e > 0.
        distance: the head's positives are squared distances, not similarities.
        ordered: `tile` is 2^(scale·s), its own slope and in the order of s.
    """

    tile: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
    head: Callable[[Far, Near], Terms]
    scale: float = 1.0
    slope: float = 1.0
    quiet: Callable[[Tensor], bool] | None = None
    linear: bool = False
    counts: bool = False
    distance: bool = False
    ordered: bool = False


def exponential(exponent: float, head: Callable[[Far, Near], Terms]) -> Statistic:
    """e(s) = e^{exponent·s}: the factor is folded into one operand, so that 2^tile is the whole exponent."""

    def tile(scaled: Tensor, spare: Tensor) -> tuple[Tensor, Tensor]:
        return scaled.exp2_(), scaled

    return Statistic(tile, head, scale=exponent * LOG2E, slope=exponent, ordered=True)


@dataclass(slots=True)
class Gradient:
    """A loss and its gradient by each input; `database` is None when the two sets are one tensor."""

    value: Tensor
    queries: Tensor | None
    database: Tensor | None = None
    anchor_values: Tensor | None = None


Select = Callable[[Panel], tuple[Tensor, Tensor]]


class Edges(NamedTuple):
    """The choice of a threshold miner: negatives above `edge`, positives by a rule that sees the best negative."""

    edge: Tensor  # (n,)
    choose: Callable[[Tensor, Tensor, Tensor], Tensor]  # (s, edge, high) of positive pairs -> which are chosen


class Miner:
    """Chooses pairs; those that are not chosen get the weight zero.

    >>> from nearer.mining import VTHM
    >>> isinstance(VTHM(margin=0.1), Miner)
    True
    """

    untraceable: ClassVar[str] = ""  # why it cannot choose without a look at values, if it cannot

    def prepare(self, pairing: Pairing) -> Select:
        """Learn what must be known of the whole batch (draws, thresholds), and return the choice for a panel.

        The choice must not depend on how the batch is cut into panels.
        """
        raise NotImplementedError

    def edges(self, near: Near) -> Edges | None:
        """The choice as one threshold per anchor, if it is one: then it works in tiles with every statistic."""
        return None

    @full_precision
    def __call__(
        self, embeddings: Any, labels: Any, ref_emb: Any = None, ref_labels: Any = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The chosen pairs as a miner of pytorch-metric-learning gives them: (a1, p, a2, n), row numbers (m,) each.

        By cosine similarity; with `ref_emb` (m, d) the positives and negatives are rows of it. For losses of that
        library, or to look at; a loss of nearer takes the miner itself (`miner=`) and never lists pairs.

        >>> from nearer.mining import VTHM
        >>> [one.tolist() for one in VTHM()([[1.0, 0.0], [0.0, 1.0], [1.0, 0.1]], [0, 0, 1])]
        [[0, 1], [1, 0], [0, 1], [2, 2]]
        """
        from nearer.pairwise._mined import mined_pairs

        return mined_pairs(self, embeddings, labels, ref_emb, ref_labels)

    def __repr__(self) -> str:
        return settings_of(self)


@dataclass(frozen=True, repr=False)
class Prepared(Miner):
    """A choice that has been made already, so that what is drawn is drawn once."""

    select: Select

    def prepare(self, pairing: Pairing) -> Select:
        return self.select


def settings_of(thing: Any, *, named: bool = False) -> str:
    """`Name(setting=value, …)`, from the parameters of the constructor and the attributes of the same names.

    >>> class Half:
    ...     def __init__(self, size: int, *, sharp: bool = True) -> None:
    ...         self.size, self.sharp = size, sharp
    >>> settings_of(Half(3))
    'Half(3, sharp=True)'
    """
    shown = []
    for name, parameter in inspect.signature(type(thing).__init__).parameters.items():
        value = getattr(thing, name, _UNSHOWN)
        if isinstance(value, Tensor):
            value = value.item() if value.numel() == 1 else _UNSHOWN
        if value is _UNSHOWN or name == "generator" or (callable(value) and not isinstance(value, Miner)):
            continue
        bare = (
            parameter.kind is parameter.POSITIONAL_OR_KEYWORD and parameter.default is parameter.empty and not named
        )
        shown.append(f"{value!r}" if bare else f"{name}={value!r}")
    return f"{type(thing).__name__}({', '.join(shown)})"


def inner_settings(module: Any) -> str:
    """The same for `extra_repr` of a module: without the name of the class, but with that of every setting."""
    return settings_of(module, named=True).partition("(")[2][:-1]
