"""Affinities of neighbours from a few labels: who the graph says belongs together.

With `R = (1 − γ)(I − γQ)⁻¹` (see `transition`) and the class indicators Ŷ of the labelled items, `F = RŶ` is the
share of every class in where walks end, and the affinity `W = (W* + W*ᵀ)/2` has

    W*_ij = F_{i,y_j} − ν(Σ_c F_ic − F_{i,y_j})   if j is labelled,
    W*_ij = R_ij                                  if it is not.

ν is the weight of other classes. The paper has ν = 1, with which a labelled neighbour of the right class counts
as a positive only if its class holds more than half of all label mass; 1/(c − 1), the default, balances them.

The pair of two unlabelled items carries no label information in W, whatever the labels are. The two-sided form
`W = F K Fᵀ`, `K = (1 + ν)I − ν11ᵀ`, does carry it, and needs no R.

Reference: Dutta, Harandi, Sekhar (2021), with (W* + W*ᵀ)/2 for the printed (W*_ij + W*_ii)/2; Liu et al. (2010).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from nearer._checks import check_choice, check_number
from nearer._validation import as_labels
from nearer.exceptions import NearerWarning
from nearer.graph._entries import Certificate, Entries, certify
from nearer.graph._local_lowrank import local_lowrank_entries
from nearer.graph._solvers import DENSE_UP_TO, blocked_entries, dense_entries, sparse_lu_entries
from nearer.graph._transition import Transition, check_gamma, solve
from nearer.neighbors import Neighbors

Mode = Literal["auto", "dense", "sparse_lu", "blocked", "local_lowrank"]

# Up to here the inverse is quicker than the parts of the low-rank form.
AUTO_DENSE_UP_TO = 2_000
AUTO_BLOCKED_UP_TO = 100_000
RANKS = (192, 384, 768)
TOLERANCE = 0.1
# A residual of float32 cannot be asked to be smaller than this.
SINGLE_FROM = 1e-5
_GATHERED = 1 << 22


@dataclass(frozen=True, eq=False)
class Propagation:
    """Affinities on the edges of a graph, the class shares behind them, and how exact they are."""

    edges: Tensor  # (n, k) float64: W of item i and its c-th neighbour
    reach: Tensor  # (n, c) float64: F
    classes: Tensor  # (c,) int64: the class of every column of `reach`
    mode: str
    certificate: Certificate | None = None
    notes: tuple[str, ...] = ()


def label_reach(
    neighbors: Neighbors, labels: Any, *, gamma: float = 0.99, rtol: float = 1e-9
) -> tuple[Tensor, Tensor]:
    """`F = (1 − γ)(I − γQ)⁻¹Ŷ` for labels (n,) with −1 for unlabelled: (n, c) and the classes (c,).

    Row i says how much of each class the walk from i ends in. No label at all gives no column. With an `rtol` of
    1e-5 or more the system is solved in float32 throughout, and F is float32.

    >>> near = Neighbors(torch.tensor([[1], [0], [3], [2]]), torch.ones(4, 1))
    >>> reach, classes = label_reach(near, [5, -1, 7, -1], gamma=0.5)
    >>> reach.round(decimals=2).tolist(), classes.tolist()
    ([[0.67, 0.0], [0.33, 0.0], [0.0, 0.67], [0.0, 0.33]], [5, 7])
    """
    check_gamma(gamma)
    given = as_labels(labels, "labels", n=neighbors.n).to(neighbors.indices.device)
    classes = torch.unique(given[given != -1])
    indicator = (given[:, None] == classes).to(torch.float32 if rtol >= SINGLE_FROM else torch.float64)
    return solve(Transition(neighbors.indices), indicator, gamma, rtol=rtol), classes


def two_sided_affinity(left: Tensor, right: Tensor, *, negative_weight: float | None = None) -> Tensor:
    """`W = F K F'ᵀ`, `K = (1 + ν)I − ν11ᵀ`, of any two sets of class shares: (m, c) and (n, c) -> (m, n).

    `negative_weight` is ν, 1/(c − 1) by default.

    >>> two_sided_affinity(torch.eye(3), torch.eye(3)).tolist()
    [[1.0, -0.5, -0.5], [-0.5, 1.0, -0.5], [-0.5, -0.5, 1.0]]
    """
    nu = _negative_weight(negative_weight, left.shape[1])
    return (1 + nu) * left @ right.T - nu * left.sum(dim=1)[:, None] * right.sum(dim=1)


def propagate(
    neighbors: Neighbors,
    labels: Any,
    *,
    gamma: float = 0.99,
    negative_weight: float | None = None,
    two_sided: bool = False,
    mode: Mode = "auto",
    tolerance: float = TOLERANCE,
    seed: int = 0,
) -> Propagation:
    """The affinities W on the edges of a graph from labels (n,), −1 for unlabelled items.

    `negative_weight` ν is 1/(c − 1) by default and 1 in the paper. `two_sided` takes `F K Fᵀ` instead of W. `mode`
    says how R is found: "dense" (one inverse, at most 15,000 items), "sparse_lu" (data of few dimensions),
    "blocked" (column by column), "local_lowrank" (any size), or "auto". Whatever the mode, R is compared with 100
    exact columns (`certificate`, a sample and no bound); where the 99th percentile of its relative errors is above
    `tolerance`, the rank is raised, and after that another mode takes over; `notes` tells. Without any label
    W = (R + Rᵀ)/2, and a warning is given.

    >>> near = Neighbors(torch.tensor([[1], [0], [3], [2]]), torch.ones(4, 1))
    >>> propagate(near, [5, -1, 7, -1], gamma=0.5).edges.round(decimals=2).ravel().tolist()
    [0.33, 0.33, 0.33, 0.33]

    Args:
        neighbors: the graph of nearest neighbors.
        labels: classes (n,), −1 for unlabelled.
        gamma: probability of going on along an edge of the graph.
        negative_weight: ν, the weight of labels of other classes; None is 1/(c − 1), the paper has 1.
        two_sided: take F K Fᵀ, what both ends belong to, instead of W.
        mode: which solver; "auto" by size.
        tolerance: largest relative error of the sampled columns that is accepted.
        seed: of everything that is drawn.
    """
    check_gamma(gamma)
    given = as_labels(labels, "labels", n=neighbors.n).to(neighbors.indices.device)
    reach, classes = label_reach(neighbors, given, gamma=gamma)
    nu = _negative_weight(negative_weight, len(classes))
    if not len(classes):
        warnings.warn(
            "`labels` should name at least one item, got only -1: affinities follow the graph alone, without any "
            "supervision.",
            NearerWarning,
            stacklevel=2,
        )
    elif two_sided:
        return Propagation(_two_sided_edges(neighbors.indices, reach, nu), reach, classes, "two_sided")
    walk = Transition(neighbors.indices)
    entries, used, certificate, notes = walk_entries(walk, gamma, mode=mode, tolerance=tolerance, seed=seed)
    edges = _combine(entries, neighbors.indices, given, reach, classes, nu)
    return Propagation(edges, reach, classes, used, certificate, notes)


def walk_entries(
    walk: Transition, gamma: float, *, mode: Mode = "auto", tolerance: float = TOLERANCE, seed: int = 0
) -> tuple[Entries, str, Certificate, tuple[str, ...]]:
    """R on the edges by some mode, the mode that gave it in the end, its certificate, and what happened on the way.

    >>> walk_entries(Transition(torch.tensor([[1], [0]])), 0.5)[1]
    'dense'
    """
    check_choice(mode, "mode", get_args(Mode))
    allowed = check_number(tolerance, "tolerance", above=0.0)
    first = mode
    if mode == "auto":
        first = "dense" if walk.n <= AUTO_DENSE_UP_TO else "local_lowrank"
    notes: list[str] = []
    if first == "local_lowrank":
        for rank in RANKS:
            entries = local_lowrank_entries(walk, gamma, rank=rank, seed=seed)
            certificate = certify(walk, gamma, entries, seed=seed)
            if certificate.percentile_99 <= allowed:
                return entries, first, certificate, tuple(notes)
            notes.append(f"rank {rank}: {certificate}, above the tolerance of {allowed:.2%} at the 99th percentile")
            if rank + 10 >= walk.n or 2 * walk.n * rank > 1 << 28:
                break
        if walk.n > AUTO_BLOCKED_UP_TO:
            warnings.warn(
                f"the certificate of mode 'local_lowrank' should be at most {allowed:.2%} at the 99th percentile, "
                f"got {certificate}. Lower `gamma`, use two_sided=True, or mode='sparse_lu' if the data has "
                f"few dimensions.",
                NearerWarning,
                stacklevel=3,
            )
            return entries, first, certificate, tuple(notes)
        first = "dense" if walk.n <= DENSE_UP_TO else "blocked"
        notes.append(f"mode '{first}' took over")
    if first == "dense":
        entries = dense_entries(walk, gamma)
    elif first == "sparse_lu":
        entries = sparse_lu_entries(walk, gamma)
    else:
        entries = blocked_entries(walk, gamma)
    return entries, first, certify(walk, gamma, entries, seed=seed), tuple(notes)


def _two_sided_edges(indices: Tensor, reach: Tensor, nu: float) -> Tensor:
    """`F K Fᵀ` on the edges, some rows at a time: the shares of all neighbors at once are k times as large as F."""
    total = reach.sum(dim=1)
    edges = torch.empty(indices.shape, dtype=reach.dtype)
    step = max(1, _GATHERED // (indices.shape[1] * reach.shape[1]))
    for start in range(0, len(indices), step):
        rows = slice(start, start + step)
        same = torch.einsum("nc,nkc->nk", reach[rows], reach[indices[rows]])
        edges[rows] = (1 + nu) * same - nu * total[rows, None] * total[indices[rows]]
    return edges


def _combine(entries: Entries, indices: Tensor, given: Tensor, reach: Tensor, classes: Tensor, nu: float) -> Tensor:
    """W on the edges from R on them and F."""
    labeled = given != -1
    code = torch.searchsorted(classes, given).clamp(max=max(len(classes) - 1, 0))
    forward, backward = entries.forward.double(), entries.backward.double()
    if len(classes):
        total = reach.sum(dim=1)
        # W*_ij of a labelled neighbour j, and W*_ji of a labelled item i.
        towards = (1 + nu) * reach.gather(1, code[indices]) - nu * total[:, None]
        back = (1 + nu) * reach[indices, code[:, None].expand_as(indices)] - nu * total[indices]
        forward = torch.where(labeled[indices], towards, forward)
        backward = torch.where(labeled[:, None], back, backward)
    return (forward + backward) / 2


def _negative_weight(value: float | None, classes: int) -> float:
    if value is None:
        return 1 / max(classes - 1, 1)
    return check_number(value, "negative_weight", above=0.0)


class ClassShares(NamedTuple):
    """How much of every item belongs to which class: rows of sum 1, or of zeros where no label reaches."""

    shares: Tensor  # (n, c) float64, float32 where solved to few digits
    classes: Tensor  # (c,) int64: the class of every column
    reach: Tensor  # (n, c): how much of the labels of every class reaches the item, before shares are made of it

    @property
    def lead(self) -> Tensor:
        """By how much the largest share of every item exceeds the second, 0..1: (n,)."""
        if not len(self.classes):
            return self.shares.new_zeros(len(self.shares))
        best = self.shares.topk(min(2, len(self.classes)), dim=1).values
        return best[:, 0] - best[:, 1] if len(self.classes) > 1 else best[:, 0]

    @property
    def pseudo_labels(self) -> Tensor:
        """The class with the largest share of every item, −1 where no label reaches: (n,)."""
        if not len(self.classes):
            return torch.full((len(self.shares),), -1, dtype=torch.int64)
        return torch.where(self.shares.sum(dim=1) > 0, self.classes[self.shares.argmax(dim=1)], -1)


# From here on shares to three digits in float32, a third of the time; nearly every item keeps its class.
QUICK_FROM = 200_000
QUICK, EXACT = 1e-3, 1e-9


def class_shares(
    neighbors: Neighbors,
    labels: Any,
    *,
    gamma: float = 0.99,
    prior: Tensor | None = None,
    rtol: float | None = None,
) -> ClassShares:
    """The share of every class in every item, from labels (n,) with −1 for unlabelled.

    The columns of `F` (see `label_reach`) are brought to the sums of `prior` (c,), equal ones by default, so that
    no class wins because its labels lie in the thick of the graph, and the rows to the sum 1. Labels that are given
    are certain. Without any label there is no column. `pseudo_labels` of the answer are the classes (n,), `lead` by
    how much the largest share of an item exceeds the second. `rtol` is the residual of the solution: None takes
    1e-9, and 1e-3 (float32) from 200,000 items on.

    >>> near = Neighbors(torch.tensor([[1], [0], [3], [2]]), torch.ones(4, 1))
    >>> class_shares(near, [5, -1, 7, -1]).shares.tolist()
    [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]
    >>> class_shares(near, [5, -1, 7, -1]).pseudo_labels.tolist()
    [5, 5, 7, 7]

    Args:
        neighbors: the graph of nearest neighbors.
        labels: classes (n,), −1 for unlabelled.
        gamma: probability of going on along an edge of the graph.
        prior: wanted sums of the columns, (c,); None makes them equal.
        rtol: residual of the solution; None chooses by the number of items.
    """
    given = as_labels(labels, "labels", n=neighbors.n).to(neighbors.indices.device)
    usual = QUICK if neighbors.n >= QUICK_FROM else EXACT
    wanted = usual if rtol is None else check_number(rtol, "rtol", above=0.0)
    reach, classes = label_reach(neighbors, given, gamma=gamma, rtol=wanted)
    # What is left of rounding and of the residual may be negative; it is nothing.
    reach = reach.clamp_(min=0)
    tiny = 1e-300 if reach.dtype == torch.float64 else 1e-38
    mass = reach / reach.sum(dim=0, dtype=torch.float64).clamp_min(tiny).to(reach.dtype)
    if prior is not None:
        mass = mass * prior.to(reach)
    total = mass.sum(dim=1, keepdim=True)
    # The solution is exact to `rtol` of the right side; below that nothing was reached.
    reached = (reach.sum(dim=1, keepdim=True) > 1e-3 * wanted) & (total > 0)
    shares = torch.where(reached, mass / total.clamp_min(tiny), 0.0)
    known = given != -1
    shares[known] = (given[known][:, None] == classes).to(shares.dtype)
    return ClassShares(shares, classes, reach)
