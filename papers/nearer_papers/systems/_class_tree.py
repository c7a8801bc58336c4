"""The class tree of the hierarchical triplet loss: which classes look alike, and on which level they become one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from nearer._checks import check_int
from nearer._validation import as_labels, as_matrix
from nearer.exceptions import LabelError, ParameterError
from nearer.pairwise._function import normalize_rows
from nearer_papers.systems._rebuilt import Rebuilt

__all__ = ["ClassTree"]


class ClassTree(Rebuilt):
    """Classes merged level by level: on level l those with a chain of distances below d_l are one node.

    d(p, q) is the mean of ‖r_i − r_j‖² over the items of two classes, r of unit length; s_c the same within a class
    (i ≠ j; 0 for a class of one); d₀ the mean of s_c over classes of two items or more; d_l = d₀ + l(4 − d₀)/L for
    l = 0..L. d_H(p, q) is the threshold of the first level on which both are in one node, the top one if they never
    are. All distances come from class means and mean squared lengths, and the chains from a spanning tree of the
    classes: O(c·(d + L)) memory for c classes, never n × n or c × c. Items without a label (−1) are left out.

    Usage: `tree = ClassTree(); tree.update(embeddings, labels)`, once per epoch; then
    `HierarchicalTripletLoss(tree=tree)` and `AnchorNeighborSampler(labels, tree, ...)`.

    >>> tree = ClassTree(levels=4)
    >>> angle = torch.tensor([0.0, 0.1, 0.5, 0.6, 3.0, 3.1])
    >>> tree.update(torch.stack([angle.cos(), angle.sin()], 1), [0, 0, 1, 1, 2, 2])
    >>> tree.nodes[1].tolist(), tree.thresholds[1].item() > 1   # 0 and 1 are one node on level 1
    ([0, 0, 2], True)

    Reference: Ge et al. 2018 (HTL); a node closes over chains of near classes (single linkage).

    Args:
        levels: L, how many thresholds.
    """

    classes: Tensor  # (c,) the labels, ascending
    within: Tensor  # (c,) s_c
    means: Tensor  # (c, d) of unit features
    squares: Tensor  # (c,) mean squared lengths: 1 unless a row is zero
    thresholds: Tensor  # (L + 1,)
    nodes: Tensor  # (L + 1, c): the smallest class number of the node

    def __init__(self, *, levels: int = 16) -> None:
        super().__init__()
        self.levels = check_int(levels, "levels")
        self.register_buffer("classes", torch.zeros(0, dtype=torch.int64))
        self.register_buffer("within", torch.zeros(0, dtype=torch.float64))
        self.register_buffer("means", torch.zeros(0, 0, dtype=torch.float64))
        self.register_buffer("squares", torch.zeros(0, dtype=torch.float64))
        self.register_buffer("thresholds", torch.zeros(0, dtype=torch.float64))
        self.register_buffer("nodes", torch.zeros(0, 0, dtype=torch.int64))

    @property
    def ready(self) -> bool:
        """Whether there was an update."""
        return len(self.classes) > 0

    def update(self, embeddings: Any, labels: Any) -> None:
        """Build the tree of embeddings (n, d) with class labels (n,)."""
        self.update_from([(embeddings, labels)])

    @torch.no_grad()
    def update_from(self, parts: Iterable[tuple[Any, Any]]) -> None:
        """The same from a training set that comes in parts, (embeddings, labels) each; one is held at a time.

        The tree is built on the host, of one mean for each class, and put where the module is (`tree.to(device)`).
        """
        device = self.classes.device
        sums: dict[int, tuple[Tensor, Tensor, int]] = {}
        for part in parts:
            if not isinstance(part, tuple | list) or len(part) != 2:
                raise ParameterError(f"`parts` must be pairs (embeddings, labels), got a {type(part).__name__}.")
            embeddings, labels = part
            x = as_matrix(embeddings, "embeddings").detach()
            y = as_labels(labels, "labels", n=len(x)).to(x.device)
            z = normalize_rows(x[y >= 0].double())[0]
            names, codes, counts = torch.unique(y[y >= 0], return_inverse=True, return_counts=True)
            total = z.new_zeros((len(names), z.shape[1])).index_add_(0, codes, z)
            square = z.new_zeros(len(names)).index_add_(0, codes, z.square().sum(1))
            for place, (name, count) in enumerate(zip(names.tolist(), counts.tolist(), strict=True)):
                before = sums.get(name)
                mine = (total[place], square[place], count)
                sums[name] = (
                    mine if before is None else (before[0] + mine[0], before[1] + mine[1], before[2] + count)
                )
        if not sums:
            raise LabelError("`labels` must name a class for some items, got only -1 or none.")
        names_sorted = sorted(sums)
        count = torch.tensor([sums[name][2] for name in names_sorted], dtype=torch.float64)
        total = torch.stack([sums[name][0] for name in names_sorted]).cpu()
        square = torch.stack([sums[name][1] for name in names_sorted]).cpu()
        # Σ_{i≠j} ‖r_i − r_j‖² = 2(n Σ‖r‖² − ‖Σr‖²), clamped where rounding makes it negative.
        spread = (2 * (count * square - total.square().sum(1))).clamp(min=0)
        several = count > 1
        within = torch.where(several, spread / (count * (count - 1)).clamp(min=1), 0.0)
        lowest = float(within[several].mean()) if several.any() else 0.0
        self.classes = torch.tensor(names_sorted)
        self.within = within
        self.means, self.squares = total / count[:, None], square / count
        steps = torch.arange(self.levels + 1, dtype=torch.float64) / self.levels
        self.thresholds = lowest + steps * (4 - lowest)
        self.nodes = self._merge()
        self.to(device)

    def _merge(self) -> Tensor:
        """The node of every class on every level, from the spanning tree of the class distances."""
        edges = sorted(self._edges())
        roots = _Roots(len(self.classes))
        nodes, done = [], 0
        for threshold in self.thresholds.tolist():
            while done < len(edges) and edges[done][0] < threshold:
                roots.join(*edges[done][1:])
                done += 1
            nodes.append([roots.of(one) for one in range(len(self.classes))])
        return torch.tensor(nodes)

    def _edges(self) -> list[tuple[float, int, int]]:
        """The minimum spanning tree of the classes by Borůvka's algorithm: a few passes in blocks."""
        c = len(self.classes)
        # Single precision finds the edges, double measures those that are found.
        means, squares, roots = self.means.float(), self.squares.float(), _Roots(c)
        edges: list[tuple[float, int, int]] = []
        while len(edges) < c - 1:
            part = torch.tensor([roots.of(one) for one in range(c)])
            best = dict[int, tuple[float, int, int]]()
            for rows in torch.split(torch.arange(c), _block(c)):
                apart = torch.addmm(squares, means[rows], means.T, alpha=-2)
                column = apart.masked_fill_(part[rows][:, None] == part[None, :], torch.inf).argmin(1)
                gaps = self.squares[rows] + self.squares[column]
                value = (gaps - 2 * (self.means[rows] * self.means[column]).sum(1)).clamp(min=0)
                for edge in zip(value.tolist(), rows.tolist(), column.tolist(), strict=True):
                    mine = int(part[edge[1]])
                    best[mine] = min(best.get(mine, edge), edge)
            # Two parts may choose two equal edges between them: only the first of these joins anything.
            edges += [edge for edge in sorted(best.values()) if roots.join(*edge[1:])]
        return edges

    def _block(self, rows: Tensor, columns: Tensor) -> Tensor:
        """d(p, q) of some classes, (r, m)."""
        squares = self.squares[rows][:, None] + self.squares[columns][None, :]
        return squares.addmm_(self.means[rows], self.means[columns].T, alpha=-2).clamp_(min=0)

    def places(self, labels: Tensor) -> Tensor:
        """The number of each label's class in the tree, (n,)."""
        if not self.ready:
            raise ParameterError("The class tree must be built first: call update(embeddings, labels).")
        known = self.classes.to(labels.device)
        found = torch.searchsorted(known, labels).clamp(max=len(known) - 1)
        missing = labels[known[found] != labels]
        if len(missing):
            raise LabelError(
                f"`labels` must be among the {len(known)} classes of the tree, got {int(missing[0])}. Build "
                f"the tree from all training classes."
            )
        return found

    def distances(self, first: Any, second: Any) -> Tensor:
        """d_H between the classes of two lists of labels, (n,) and (m,): (n, m). A class has d₀ to itself.

        >>> tree = ClassTree(levels=2)
        >>> tree.update([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], [3, 5, 9])
        >>> tree.distances([3], [5, 9]).tolist()   # squared distances 2 and 4; thresholds 0, 2, 4
        [[4.0, 4.0]]
        """
        a, b = self.places(as_labels(first, "first")), self.places(as_labels(second, "second"))
        nodes, thresholds = self.nodes.to(a.device), self.thresholds.to(a.device)
        # Nodes are nested, so the number of levels that keep two classes apart is the level that joins them.
        level = torch.zeros((len(a), len(b)), dtype=torch.int64, device=a.device)
        for row in nodes:
            level += row[a][:, None] != row[b][None, :]
        return thresholds[level.clamp(max=len(thresholds) - 1)]

    def margins(self, anchors: Any, negatives: Any, *, beta: float = 0.1) -> Tensor:
        """The dynamic margins α = β + d_H(y_a, y_n) − s_{y_a} of two lists of labels: (n, m).

        >>> tree = ClassTree(levels=1)
        >>> tree.update([[1.0, 0.0], [0.0, 1.0]], [0, 1])
        >>> tree.margins([0], [1], beta=0.5).tolist()
        [[4.5]]
        """
        own = self.places(as_labels(anchors, "anchors"))
        within = self.within.to(own.device, self.thresholds.dtype)[own]
        return beta + self.distances(anchors, negatives) - within[:, None]

    def nearest(self, labels: Any, *, count: int, among: Any = None) -> Tensor:
        """The `count` classes nearest to the class of each label, nearest first: labels (n,) -> (n, count).

        A class is never its own neighbour. `among` are the labels to choose from, all classes by default; with
        fewer than `count` others there are fewer columns.

        >>> tree = ClassTree()
        >>> tree.update([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.1]], [3, 5, 9])
        >>> tree.nearest([9, 3], count=2).tolist()
        [[5, 3], [5, 9]]
        """
        own = self.places(as_labels(labels, "labels")).to(self.classes.device)
        names = self.classes if among is None else torch.unique(as_labels(among, "among")).to(own.device)
        others = self.places(names)
        width = min(check_int(count, "count", minimum=0), max(len(others) - 1, 0))
        found = []
        for rows in torch.split(own, _block(len(others))):
            apart = self._block(rows, others).masked_fill_(rows[:, None] == others[None, :], torch.inf)
            found.append(names[apart.topk(width, dim=1, largest=False)[1]])
        return torch.cat(found) if found else names.new_zeros((0, width))

    def extra_repr(self) -> str:
        return f"{len(self.classes)} classes, levels={self.levels}"


def _block(columns: int) -> int:
    """How many rows of distances are held at once."""
    return max(1, (1 << 22) // max(columns, 1))


class _Roots:
    """Parts that are joined two by two; each goes by its smallest member."""

    def __init__(self, n: int) -> None:
        self.parent = list(range(n))

    def of(self, one: int) -> int:
        while self.parent[one] != one:
            self.parent[one] = self.parent[self.parent[one]]
            one = self.parent[one]
        return one

    def join(self, first: int, second: int) -> bool:
        """Whether there was something to join."""
        a, b = sorted((self.of(first), self.of(second)))
        self.parent[b] = a
        return a != b
