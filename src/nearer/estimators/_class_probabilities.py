"""An embedding of class probabilities: what boosted trees, random trees and a small network know of the classes.

    P = (w₁ network(x̂) + w₂ F + w₃ boosting(x)) · F / (F + 1/50), divided by its sum, with F = forest(x)
    z = [P⁴ / ‖P⁴‖,  f·x̂ / √(2p),  g·(1 − max P)·Dᵀx̂ / (√2 ‖Dᵀx̂‖)]

The first part tells classes apart. Random trees that grow until their leaves are pure are sure of every row that
they learned from, so that these rows lie at the corner of their class, and neighbors vote as the members do. Among
them the second part, the features x̂, decides who is near. The third keeps undecided rows away from each other,
along m random directions D: the probability that rows i and j share their class is P_i·P_j, which is largest for
sure rows j, so these should be found first. The weights w of the members are those of the mixture that is most
likely on a third of the training rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.neural_network import MLPClassifier
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from nearer._checks import check_int, check_number
from nearer.estimators._learner import FLOATS, MapLearner, fitted_rows
from nearer.estimators._matrices import Array
from nearer.exceptions import LabelError, NotFiniteError, ParameterError
from nearer.geometry import Chain, Mahalanobis, embed
from nearer.geometry._shared import ProbabilityMap, Standardize, Trees

# Network, random trees, boosted trees: the weights of the mixture before any row was seen, as if so many rows had
# been seen, and those of data so large that a second fit would take too long, or so small that it would tell
# nothing. One fold of three is asked.
MEMBERS, SEEN = np.array([0.2, 0.4, 0.4]), 20
# Up to so many rows half of the trees are as good (17 tables, 60, 150 and 400 rows: 1-NN .729 -> .730, .758 -> .758
# and .801 -> .801), and up to fewer the weights found on some are no better than those before.
FEW, TOO_FEW = 500, 100
FOLDS, MOST_IN_FOLDS = 3, 10_000
# Each tree sees at most so many rows, all boosted ones the same: more would make the random ones larger, and hardly
# better together, and boosting slow.
ROWS_OF_A_TREE = 20_000
HIDDEN, DIRECTIONS = 64, 16
# Of more than twelve features a random tree looks at this share for each split. With less, many 0/1 columns drown
# a few numbers: two coordinates beside 35 of them had a 1-NN of .946, with .4 of them .936.
LOOKED_AT = 0.8
# On fewer rows the threads of boosting and of the network only wait for each other: on two busy cores 142 rows took
# 18 CPU seconds with two threads, and 0.6 with one.
ROWS_FOR_THREADS = 20_000
# Steps of the network, in batches of 200 rows.
EPOCHS, STEPS = 100, 4_000


class ClassProbabilities(ClassifierMixin, MapLearner):  # type: ignore[misc]
    """Distance of class probabilities, with the features beside them, X (n, p) -> (n, c + p + m).

    The default for tables whose classes stay the same. It knows nothing of classes that it has not seen: take
    `WithinClass` for those.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (200, 2))
    >>> y = (X[:, 0] * X[:, 1] > 0).astype(int)  # a checkerboard: no linear map helps
    >>> ClassProbabilities(random_state=0).fit(X[:100], y[:100]).score(X[100:], y[100:]) > 0.9
    True

    Args:
        n_components: principal directions of the mapped training rows that are kept; all if None.
        n_trees: random trees, each of 20,000 rows at most; None takes 120, and 60 of at most 500 rows.
        rounds: of boosting, on 20,000 rows at most; None takes 100, fewer with more than ten classes, and 40 of at
            most 500 rows.
        weights: of network, random trees and boosted trees; None finds them on a third of more than 100 rows.
        feature_weight: f, of the features beside the probabilities.
        spread: g, how far undecided rows lie from others.
        standardize: whether the features beside the probabilities have deviation one, or which of them, (p,): 0/1
            columns of rare words would be wide. Those that share a unit keep their share of the distance without.
        random_state: draws that third, the start of the network, the splits of the trees and the directions.

    Attributes:
        map_: the whole map as a torch module, which needs no scikit-learn.
        weights_: of the three members, (3,).
        classes_: the classes.
        n_features_in_: columns of the X it was fitted on.
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_trees: int | None = None,
        rounds: int | None = None,
        weights: Sequence[float] | None = None,
        feature_weight: float = 0.2,
        spread: float = 1.5,
        standardize: bool | Sequence[bool] = True,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_trees = n_trees
        self.rounds = rounds
        self.weights = weights
        self.feature_weight = feature_weight
        self.spread = spread
        self.standardize = standardize
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the members and how much each of them counts."""
        for name in ("n_trees", "rounds"):
            if getattr(self, name) is not None:
                check_int(getattr(self, name), name)
        settings = {
            "feature_weight": check_number(self.feature_weight, "feature_weight", minimum=0.0),
            "spread": check_number(self.spread, "spread", minimum=0.0),
        }
        X, y = validate_data(self, X, y, dtype=FLOATS, ensure_min_samples=2)
        check_classification_targets(y)
        self._forget_threshold()
        self.classes_, codes = np.unique(y, return_inverse=True)
        n_classes, (n, p) = len(self.classes_), X.shape
        if n_classes < 2:
            raise LabelError(f"`y` must name at least two classes to tell apart, got one class in {n} rows.")
        rows = _single(X)
        scale = Standardize.from_rows(rows)
        random = check_random_state(self.random_state)
        seed = int(random.randint(2**31))
        with threadpool_limits(1 if n < ROWS_FOR_THREADS else None):
            self.weights_ = self._weights(rows, codes, seed)
            network, forest, boosting = self._members(rows, scale(rows).numpy(), codes, seed)
        m = min(DIRECTIONS, p)
        made = ProbabilityMap(
            scale, _forest(forest, p), _boosting(boosting, p), hidden=HIDDEN, directions=m, **settings
        )
        made.members = _tensor(self.weights_)
        (made.hidden_weight, made.weight), (made.hidden_bias, made.bias) = (
            [_tensor(part.T) for part in parts] for parts in (network.coefs_, network.intercepts_)
        )
        scaled = np.asarray(self.standardize, dtype=bool)
        if scaled.shape not in ((), (p,)):
            raise ParameterError(f"`standardize` must be true or false, or {p} of them, got {scaled.shape[0]}.")
        if not scaled.all():
            # As wide as they are, and all together as wide as standardized ones; constants have no width.
            widths = scale.scale * torch.as_tensor(rows.std(axis=0, dtype=np.float64) > 0)
            if not scaled.any():
                widths = widths / widths.double().square().mean().sqrt().clamp_min(1e-30).float()
            made.widths = torch.where(torch.as_tensor(scaled), 1.0, widths)
        made.start = _tensor(boosting._baseline_prediction.ravel())
        made.directions = _tensor(np.linalg.qr(random.standard_normal((p, m)))[0])
        self.map_ = self._reduced(made.eval(), rows)
        return self

    def _members(self, rows: Array, scaled: Array, codes: Array, seed: int) -> tuple[Any, Any, Any]:
        """The three members, fitted."""
        (n, p), n_classes = rows.shape, int(codes.max()) + 1
        network = MLPClassifier(
            (HIDDEN,),
            alpha=0.01,
            learning_rate_init=2e-3,
            max_iter=max(1, min(EPOCHS, STEPS * 200 // n)),
            random_state=seed,
        )
        with warnings.catch_warnings():
            # The number of steps is chosen, and no mistake.
            warnings.simplefilter("ignore", ConvergenceWarning)
            network.fit(scaled, codes)
        large = n > ROWS_OF_A_TREE
        rounds = 40 if n <= FEW else 100 if n_classes <= 10 else max(40, 1000 // n_classes)
        forest = ExtraTreesClassifier(
            self.n_trees or (60 if n <= FEW else 120),
            bootstrap=large,
            max_samples=ROWS_OF_A_TREE if large else None,
            max_features=LOOKED_AT if p > 12 else None,
            random_state=seed,
        ).fit(rows, codes)
        boosting = HistGradientBoostingClassifier(
            max_iter=self.rounds or rounds,
            max_leaf_nodes=15,
            min_samples_leaf=10,
            l2_regularization=1.0,
            early_stopping=False,
            random_state=seed,
        )
        if large:
            some = np.random.default_rng(seed).permutation(n)[:ROWS_OF_A_TREE]
            # A class that was not drawn sends one row: all members know the same classes.
            rare = np.unique(codes, return_index=True)[1][~np.isin(np.arange(n_classes), codes[some])]
            some = np.sort(np.concatenate([some, rare]))
            rows, codes = rows[some], codes[some]
        return network, forest, boosting.fit(rows, codes)

    def _weights(self, rows: Array, codes: Array, seed: int) -> Array:
        """How much each member counts: the mixture that is most likely on rows that its members did not see."""
        if self.weights is not None:
            given = np.array([check_number(weight, "weights", minimum=0.0) for weight in self.weights])
            if len(given) != 3 or not given.any():
                raise ParameterError(f"`weights` must be three numbers that are not all 0, got {self.weights!r}.")
            return np.asarray(given / given.sum())
        counts = np.bincount(codes)
        asked = counts[codes] >= FOLDS
        if not TOO_FEW < len(rows) <= MOST_IN_FOLDS or (counts >= FOLDS).sum() < 2:
            return MEMBERS
        # Classes of fewer rows than folds might not be known in the others.
        rows, codes = rows[asked], np.unique(codes[asked], return_inverse=True)[1]
        learn, ask = next(StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(rows, codes))
        scaled = Standardize.from_rows(rows[learn])(rows).numpy()
        members = self._members(rows[learn], scaled[learn], codes[learn], seed)
        known = np.arange(len(ask)), codes[ask]
        asked_rows = (scaled[ask], rows[ask], rows[ask])
        likelihood = 1e-4 + np.column_stack(
            [member.predict_proba(x)[known] for member, x in zip(members, asked_rows, strict=True)]
        )
        weights = MEMBERS
        for _ in range(200):
            shares = likelihood * weights
            weights = (shares / shares.sum(axis=1, keepdims=True)).sum(axis=0) + SEEN * MEMBERS
            weights = weights / weights.sum()
        return np.asarray(weights)

    def _reduced(self, made: ProbabilityMap, rows: Array) -> Any:
        """The map with the principal directions that were asked for behind it."""
        if self.n_components is None:
            return made
        mapped = embed(made, rows).numpy()
        kept = check_int(self.n_components, "n_components", maximum=mapped.shape[1])
        centered = (mapped - mapped.mean(axis=0)).astype(np.float64)
        directions = np.linalg.eigh(centered.T @ centered)[1][:, ::-1][:, :kept]
        return Chain(made, Mahalanobis.from_factor(np.ascontiguousarray(directions, dtype=np.float32))).eval()

    @property
    def _n_features_out(self) -> int:
        p = int(self.n_features_in_)
        return self.n_components or len(self.classes_) + p + min(DIRECTIONS, p)

    def transform(self, X: Any) -> Array:
        """Map rows so that Euclidean distance is the learned one, (n, p) -> (n, d)."""
        X = fitted_rows(self, X)
        return embed(self.map_, _single(X)).numpy().astype(X.dtype, copy=False)

    def predict_proba(self, X: Any) -> Array:
        """The probability of every class, (n, p) -> (n, c)."""
        X = fitted_rows(self, X)
        made: Any = self.map_.parts[0] if isinstance(self.map_, Chain) else self.map_
        with torch.no_grad():
            chances = made.probabilities(_single(X)).double()
        return np.asarray((chances / chances.sum(dim=1, keepdim=True)).numpy())

    def predict(self, X: Any) -> Array:
        """The most probable class of every row."""
        chances = self.predict_proba(X)
        return np.asarray(self.classes_[chances.argmax(axis=1)])


def _tensor(values: Any) -> torch.Tensor:
    return torch.as_tensor(np.ascontiguousarray(values), dtype=torch.float32)


def _single(X: Array) -> Array:
    """Rows in the precision of the trees; finite there too."""
    with np.errstate(over="ignore"):
        rows = np.ascontiguousarray(X, dtype=np.float32)
    if not np.isfinite(rows).all():
        raise NotFiniteError("`X` must fit into float32, got a number beyond 3.4e38. Divide the column.")
    return rows


def _forest(forest: ExtraTreesClassifier, features: int) -> Trees:
    trees = [tree.tree_ for tree in forest.estimators_]
    parts = []
    for tree in trees:
        leaf = tree.children_left < 0
        shares = tree.value[leaf, 0]
        shares = shares / shares.sum(axis=1, keepdims=True) / len(trees)
        parts.append((leaf, tree.feature, tree.threshold, tree.children_left, tree.children_right, shares))
    return _joined(parts, features, max(tree.max_depth for tree in trees), groups=1)


def _boosting(boosting: HistGradientBoostingClassifier, features: int) -> Trees:
    nodes = [predictor.nodes for of_a_round in boosting._predictors for predictor in of_a_round]
    parts = []
    for table in nodes:
        leaf = table["is_leaf"].astype(bool)
        values = table["value"][leaf][:, None]
        parts.append((leaf, table["feature_idx"], table["num_threshold"], table["left"], table["right"], values))
    depth = max(int(table["depth"].max()) for table in nodes)
    return _joined(parts, features, depth, groups=boosting.n_trees_per_iteration_)


def _joined(parts: Sequence[tuple[Array, ...]], features: int, depth: int, *, groups: int) -> Trees:
    """All trees in one table, level by level, the two children of a node side by side."""
    roots = np.cumsum([0, *(len(part[0]) for part in parts[:-1])])
    is_leaf, feature, threshold = (np.concatenate([part[column] for part in parts]) for column in range(3))
    left, right = (
        np.concatenate([part[side] + root for part, root in zip(parts, roots, strict=True)]) for side in (3, 4)
    )
    values = np.concatenate([part[5] for part in parts])
    levels = [roots]
    while len(inner := levels[-1][~is_leaf[levels[-1]]]):
        levels.append(np.stack([left[inner], right[inner]], axis=1).ravel())
    order = np.concatenate(levels)
    inside, own = ~is_leaf[order], np.arange(len(order))
    # The first child of the i-th inner node stands behind all roots and the children of those before it.
    child = np.where(inside, len(roots) + 2 * (np.cumsum(inside) - 1), own)
    single = threshold.astype(np.float32)
    # Rounded down: a float32 number is at most the threshold exactly if it is at most this.
    single = np.where(single > threshold, np.nextafter(single, np.float32(-np.inf)), single)[order]
    made = Trees(features, len(order), len(values), len(parts), depth, groups, values.shape[1])
    made.feature = torch.as_tensor(np.where(inside, feature[order], 0).astype(np.int64))
    made.threshold = torch.as_tensor(np.where(inside, single, np.float32(np.inf)))
    made.child = torch.as_tensor(child)
    made.leaf = torch.as_tensor(np.where(inside, 0, np.cumsum(is_leaf)[order] - 1))
    made.values = torch.as_tensor(values.astype(np.float32))
    return made
