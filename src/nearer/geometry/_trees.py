"""Decision trees, and the class probabilities that they and a linear model give, as tensors: no pickle to load."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from nearer._checks import check_int, check_number
from nearer._validation import as_matrix
from nearer.exceptions import ShapeError
from nearer.geometry._saving import SavedModule, description
from nearer.geometry._standardize import Standardize

# How much sure probabilities count more, and the share of a forest below which a class fades out: no tree of a
# forest names another class for a row that it learned from, which so lies at the corner of its class.
POWER, DOUBT = 4, 0.02


class Trees(SavedModule):
    """The sum of decision trees, (n, p) -> (n, g·w).

    From a node a row goes on to the node `child`, or to the one behind it where `x[feature] > threshold`; a leaf
    leads to itself and nothing is above its threshold, so that all rows take as many steps as the deepest tree has
    levels. Tree t, whose root is the node t, adds the w values of its leaf to the outputs of the group t mod g.
    Thresholds are float32, as the features are.

    >>> trees = Trees(1, nodes=3, leaves=2, trees=1, depth=1)
    >>> trees.threshold[0], trees.child[0], trees.leaf[2], trees.values[1] = 0.5, 1, 1, 7.0
    >>> trees([[0.0], [1.0]]).tolist()
    [[0.0], [7.0]]

    Args:
        features: columns of the input.
        nodes: of all trees, leaves included.
        leaves: rows of the table of values.
        trees: how many there are; a multiple of `groups`.
        depth: levels of the deepest one below its root.
        groups: g, how many outputs take turns.
        width: w, numbers in a leaf.
    """

    feature: Tensor
    threshold: Tensor
    child: Tensor
    leaf: Tensor
    values: Tensor

    def __init__(
        self, features: int, nodes: int, leaves: int, trees: int, depth: int, groups: int = 1, width: int = 1
    ) -> None:
        super().__init__()
        self.settings: dict[str, Any] = {
            "features": check_int(features, "features"),
            "nodes": check_int(nodes, "nodes"),
            "leaves": check_int(leaves, "leaves"),
            "trees": check_int(trees, "trees"),
            "depth": check_int(depth, "depth", minimum=0, maximum=10_000),
            "groups": check_int(groups, "groups"),
            "width": check_int(width, "width"),
        }
        if trees % groups or nodes < trees:
            raise ShapeError(f"`trees` must be a multiple of the {groups} groups and at most the {nodes} nodes.")
        self.register_buffer("feature", torch.zeros(nodes, dtype=torch.int64))
        self.register_buffer("threshold", torch.full((nodes,), math.inf))
        self.register_buffer("child", torch.arange(nodes))
        self.register_buffer("leaf", torch.zeros(nodes, dtype=torch.int64))
        self.register_buffer("values", torch.zeros(leaves, width))

    def forward(self, x: Any) -> Tensor:
        return self.of(as_matrix(x, "x", columns=self.settings["features"], minimum_rows=0))

    def of(self, rows: Tensor) -> Tensor:
        """The outputs for rows that were checked."""
        # Its shape, not its length: an exporter keeps the number of rows free only so.
        n, trees = rows.shape[0], self.settings["trees"]
        node = torch.arange(trees, device=rows.device).expand(n, trees)
        for _ in range(self.settings["depth"]):
            node = self.child[node] + (rows.gather(1, self.feature[node]) > self.threshold[node])
        groups, width = self.settings["groups"], self.settings["width"]
        return self.values[self.leaf[node]].reshape(n, trees // groups, groups * width).sum(dim=1)

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *more: Any) -> None:
        # A forged file must not make a row read outside of the tables.
        finite = state_dict.get(f"{prefix}threshold", torch.zeros(0)).isfinite()
        for name, limit in (("feature", "features"), ("child", "nodes"), ("leaf", "leaves")):
            table, size = state_dict.get(prefix + name), self.settings[limit]
            if table is None or not table.numel():
                continue
            last = table + finite if name == "child" and finite.shape == table.shape else table
            if table.dtype != torch.int64 or not 0 <= int(table.min()) <= int(last.max()) < size:
                raise ShapeError(f"`{name}` must point to the {size} {limit} of the trees.")
        super()._load_from_state_dict(state_dict, prefix, *more)


class ProbabilityMap(SavedModule):
    """Class probabilities and features side by side, (n, p) -> (n, c + p + m).

        P = (w₁ network(x̂) + w₂ F + w₃ boosting(x)) · F / (F + 1/50), divided by its sum, with F = forest(x)
        z = [P⁴ / ‖P⁴‖,  f·x̂ / √(2p),  g·(1 − max P)·Dᵀx̂ / (√2 ‖Dᵀx̂‖)]

    x̂ are the standardized features, in the second part times `widths`, D are m directions.
    `nearer.estimators.ClassProbabilities` learns it and says why.

    Args:
        scale: what standardizes the features.
        forest: trees whose sum is a distribution over the classes.
        boosting: trees whose sum is a score for every class, or for the second of two.
        hidden: width of the network, which has one hidden layer.
        directions: m.
        feature_weight: f, of the features beside the probabilities.
        spread: g, how far undecided rows lie from others.
    """

    members: Tensor
    hidden_weight: Tensor
    hidden_bias: Tensor
    weight: Tensor
    bias: Tensor
    start: Tensor
    widths: Tensor
    directions: Tensor

    def __init__(
        self,
        scale: Standardize,
        forest: Trees,
        boosting: Trees,
        *,
        hidden: int,
        directions: int,
        feature_weight: float = 0.2,
        spread: float = 1.5,
    ) -> None:
        super().__init__()
        self.scale, self.forest, self.boosting = scale, forest, boosting
        classes, scores = forest.settings["width"], boosting.settings["groups"]
        features = scale.settings["features"]
        if any(part.settings["features"] != features for part in (forest, boosting)):
            raise ShapeError(f"all parts must take the {features} features of `scale`.")
        if classes < 2 or scores != (1 if classes == 2 else classes):
            raise ShapeError(f"`boosting` must score the {classes} classes of `forest`, it has {scores} groups.")
        self.settings: dict[str, Any] = {
            "parts": [description(part) for part in (scale, forest, boosting)],
            "hidden": check_int(hidden, "hidden"),
            "directions": check_int(directions, "directions", maximum=features),
            "feature_weight": check_number(feature_weight, "feature_weight", minimum=0.0),
            "spread": check_number(spread, "spread", minimum=0.0),
        }
        self.checked = True
        self.register_buffer("members", torch.ones(3) / 3)
        self.register_buffer("hidden_weight", torch.zeros(hidden, features))
        self.register_buffer("hidden_bias", torch.zeros(hidden))
        self.register_buffer("weight", torch.zeros(scores, hidden))
        self.register_buffer("bias", torch.zeros(scores))
        self.register_buffer("start", torch.zeros(scores))
        self.register_buffer("widths", torch.ones(features))
        self.register_buffer("directions", torch.zeros(features, directions))

    def forward(self, x: Any) -> Tensor:
        rows = self._rows(x)
        chances, scaled = self._chances(rows), self._scaled(rows)
        sure = chances.pow(POWER)
        sure = sure / sure.norm(dim=1, keepdim=True).clamp_min(1e-30)
        weight, spread = self.settings["feature_weight"], self.settings["spread"]
        turned = scaled @ self.directions
        turned = turned / turned.norm(dim=1, keepdim=True).clamp_min(1e-12)
        undecided = spread / 2**0.5 * (1 - chances.amax(dim=1, keepdim=True))
        beside = weight / (2 * scaled.shape[1]) ** 0.5 * scaled * self.widths
        return torch.cat([sure, beside, undecided * turned], dim=1)

    def probabilities(self, x: Any) -> Tensor:
        """The probability of every class, (n, p) -> (n, c)."""
        return self._chances(self._rows(x))

    def _rows(self, x: Any) -> Tensor:
        if not self.checked:
            return torch.as_tensor(x).to(self.bias.dtype)
        features = self.scale.settings["features"]
        return as_matrix(x, "x", columns=features, minimum_rows=0).to(self.bias.dtype)

    def _scaled(self, rows: Tensor) -> Tensor:
        return (rows - self.scale.mean) / self.scale.scale

    def _chances(self, rows: Tensor) -> Tensor:
        layer = torch.relu(self._scaled(rows) @ self.hidden_weight.t() + self.hidden_bias)
        network = distribution(layer @ self.weight.t() + self.bias)
        forest, boosted = self.forest.of(rows), distribution(self.boosting.of(rows) + self.start)
        first, second, third = self.members
        chances = (first * network + second * forest + third * boosted) * forest / (forest + DOUBT)
        return chances / chances.sum(dim=1, keepdim=True).clamp_min(1e-30)


def distribution(scores: Tensor) -> Tensor:
    """Probabilities from a score for every class, or from one for the second of two."""
    if scores.shape[1] == 1:
        second = torch.sigmoid(scores)
        return torch.cat([1 - second, second], dim=1)
    return torch.softmax(scores, dim=1)
