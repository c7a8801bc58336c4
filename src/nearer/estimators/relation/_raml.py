"""Relation alignment: what RAML's learners share, from labels of any kind to a matrix."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from nearer._checks import check_int
from nearer.estimators._blending import AMOUNTS, mix_with_identity, mixture_neighbors, resolve_blend
from nearer.estimators._matrices import Array, project_psd
from nearer.estimators._scatter import total_scatter
from nearer.estimators._supervision import MatrixLearner, PairSupervision
from nearer.estimators.relation._raml_pairs import PairSums, choose_pairs, pair_targets, table_relation
from nearer.exceptions import NearerWarning, ParameterError, ShapeError
from nearer.relations import ClassLabels
from nearer.relations._shared import TableRelation


@dataclass(kw_only=True, eq=False, repr=False)
class RelationLearner(PairSupervision, MatrixLearner):
    """A learner of M from a relation: subclasses regress targets on pairs (`_regress`)."""

    relation: Any = "auto"
    kind: str = "auto"
    n_neighbors: int = 5
    n_random: int = 5
    solver: str = "auto"
    tol: float = 1e-3

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _most_pairs(self) -> int:
        raise NotImplementedError

    def _regress(self, sums: PairSums, g: Array) -> tuple[Array, float]:
        """M before projection and the bias, for differences of unit mean length."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from rows X (n, p) and labels y: classes or numbers (n,), label sets or distributions (n, q)."""
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], multi_output=True, ensure_min_samples=2)
        self._forget_threshold()
        relation = table_relation(y, kind=self.kind, function=self.relation)
        if hasattr(self, "classes_"):
            del self.classes_
        if isinstance(relation, ClassLabels):
            self.classes_ = np.unique(y)
        d = self._check_targets(X.shape[1])
        rng = check_random_state(self.random_state)
        pairs = choose_pairs(
            X.astype(np.float64, copy=False),
            relation,
            k=check_int(self.n_neighbors, "n_neighbors", minimum=0),
            random=check_int(self.n_random, "n_random", minimum=0),
            max_pairs=self._most_pairs(),
            rng=rng,
        )
        self._finish_graded(self._align(X, pairs, pair_targets(relation, pairs)), X, relation, d, rng)
        return self

    def fit_relations(self, X: Any, pairs: Any, targets: Any) -> Self:
        """Learn from listed pairs (m, 2) of row numbers of X and how far apart each should be (m,), 0 and above."""
        X, pairs = self._check_tuples(X, pairs, "pairs", 2)
        g = np.asarray(targets, dtype=np.float64)
        if g.shape != (len(pairs),):
            raise ShapeError(f"`targets` must have one number for each of the {len(pairs)} pairs, got {g.shape}.")
        if not np.isfinite(g).all() or (g < 0).any():
            raise ParameterError("`targets` must be finite and not negative, got others. 0 means the same.")
        d = self._check_targets(X.shape[1])
        rng = check_random_state(self.random_state)
        self._finish(self._align(X, pairs, g), X, None, d, rng)
        return self

    def _learn_pairs(self, X: Any, pairs: Array, similar: Array, rng: np.random.RandomState) -> Array:
        return self._align(X, pairs, np.where(similar, 0.0, 2.0))

    def _align(self, X: Any, pairs: Array, g: Array) -> Array:
        """The matrix, in the units of X."""
        if len(X) > 100_000:
            # Rows that no pair names need no copy in float64.
            named, places = np.unique(pairs, return_inverse=True)
            X, pairs = X[named], places.reshape(pairs.shape)
        rows = X.astype(np.float64)
        rows -= rows.mean(axis=0)
        lengths = PairSums(rows, pairs).distances(np.eye(rows.shape[1])) if len(pairs) else np.zeros(0)
        # Equal rows say nothing of M; with a bias they would still pull at it.
        kept = lengths > 0
        pairs, g, lengths = pairs[kept], g[kept], lengths[kept]
        if len(pairs) < 2:
            raise ShapeError(
                f"relation alignment must see at least two pairs of different rows, got {len(pairs)}. Raise "
                f"`n_neighbors` or `n_random`."
            )
        unit = float(np.sqrt(lengths.mean()))
        if np.ptp(g) <= 1e-12 * max(float(np.abs(g).max()), 1e-300):
            warnings.warn(
                f"{type(self).__name__} must see pairs that differ in how near they should be, got one target for "
                f"all {len(g)} of them.",
                NearerWarning,
                stacklevel=3,
            )
            self.bias_ = float(g[0])
            return np.zeros((rows.shape[1], rows.shape[1]))
        rows /= unit
        matrix, self.bias_ = self._regress(PairSums(rows, pairs), g)
        return project_psd(matrix) / unit**2

    def _finish_graded(
        self, matrix: Array, X: Any, relation: TableRelation, d: int, rng: np.random.RandomState
    ) -> None:
        """Choose the blend by the labels there are, then factor and reduce."""
        codes = relation.queries.numpy() if isinstance(relation, ClassLabels) else None
        if self.blend == "auto" and np.any(matrix):
            if codes is not None:
                amount = resolve_blend("auto", X, codes, matrix, rng)
            else:
                amount = choose_graded_blend(X, label_table(relation), matrix, rng)
            mixed = mix_with_identity(matrix, total_scatter(X) / X.shape[0], amount)
            self._finish(mixed, X, None, d, rng)  # without codes "auto" mixes nothing more
            self.blend_ = amount
            return
        self._finish(matrix, X, None, d, rng)

    @staticmethod
    def _mean_eigenvalue(sums: PairSums) -> float:
        """`Σ ‖Δ_p‖⁴ / (p(p + 1)/2)`: the mean eigenvalue of the kernel of the pairs in the space of M."""
        p = sums.size
        total = sum(float(np.square(np.square(delta).sum(axis=1)).sum()) for _, delta in sums.blocks())
        return float(total / (p * (p + 1) / 2))


_QUERIES, _DATABASE = 1000, 4000


def label_table(relation: TableRelation) -> Array:
    """The labels of a relation as rows of numbers (n, q); classes become one-hot rows.

    >>> from nearer.relations import ClassLabels
    >>> label_table(ClassLabels([2, 5]))
    array([[1., 0.],
           [0., 1.]])
    """
    table = relation.queries.numpy()
    if table.ndim == 1:
        return (table[:, None] == np.unique(table)).astype(np.float64)
    return np.asarray(table, dtype=np.float64)


def choose_graded_blend(X: Array, table: Array, matrix: Array, rng: np.random.RandomState, *, k: int = 8) -> float:
    """The amount of identity, one of 0, ¼, ½, ¾, 1, whose k nearest neighbours predict the label rows best.

    At most 1,000 rows ask among at most 4,000; each is left out of its own prediction. A lead of the learned matrix
    below half a standard error does not count: it has seen these rows.

    >>> X = np.array([[0, 0], [0, 9], [0, -7], [1, 1], [1, 8], [1, -8.0]])
    >>> Y = np.array([[1.0, 0], [1, 0], [1, 0], [0, 1], [0, 1], [0, 1]])
    >>> choose_graded_blend(X, Y, np.diag([1.0, 0.0]), np.random.RandomState(0), k=2) < 0.5
    True
    """
    n = len(X)
    numbers = np.arange(n) if n <= _DATABASE else rng.permutation(n)[:_DATABASE]
    asked = min(_QUERIES, len(numbers))
    near = mixture_neighbors(X[numbers], matrix, AMOUNTS, k=min(k, len(numbers) - 1), queries=asked)
    if near is None:
        return 0.0
    labels = table[numbers]
    errors = [np.square(labels[each].mean(axis=1) - labels[:asked]).sum(axis=1) for each in near]
    best = int(np.argmin([error.mean() for error in errors]))
    for number in range(len(AMOUNTS) - 1, best, -1):
        gap = errors[number] - errors[best]
        if gap.mean() <= 0.5 * gap.std() / np.sqrt(asked):
            return AMOUNTS[number]
    return AMOUNTS[best]
