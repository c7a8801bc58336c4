"""A closed form: undo what varies inside classes, raise what tells classes apart.

    z = (g(x) − m) C^{−power},  C = (1 − shrink)·W + shrink·(tr W / p)·I,
    then  z ↦ floor·q₁·z + Σ_k q_k (v_kᵀz) v_k,  then rows of length one

g is the root or the identity, W the covariance inside classes, v_k the principal directions of the class means of
unit rows, q_k = between / (between + within) along v_k. Power 0 and no raised direction are the features
themselves; floor 0 keeps nothing but the directions of the class means, which is a discriminant analysis. Which of
them it is, is decided on training rows: on contiguous blocks of classes where the classes to come are new (random
blocks mislead, because near relatives stand on both sides), on rows otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from nearer._checks import check_int, check_number, check_pairs
from nearer.estimators._learner import FLOATS, MapLearner, fitted_rows
from nearer.estimators._matrices import Array
from nearer.estimators._moments import Moments, check_one_kind, weighed
from nearer.estimators._starts import working_unit
from nearer.exceptions import LabelError, ParameterError
from nearer.geometry import normalize

POWERS = (0.3, 0.5, 0.7, 0.9)
SHRINKS = (0.2, 0.5, 0.8)
# How much of the other directions stays beside those of the class means; None raises nothing.
FLOORS = (None, 2.8, 1.4, 0.7, 0.35, 0.1, 0.0)
BLOCKS = 4
# Rows of a block that are searched among each other, and those whose order is looked at; more would only cost time.
MOST_ASKED, MOST_RANKED = 1_500, 400


@dataclass(frozen=True)
class Form:
    """One map of the family; power 0 without a floor are the features themselves."""

    power: float = 0.0
    shrink: float = 0.0
    floor: float | None = None
    root: bool = False
    unit: bool = True

    @property
    def is_raw(self) -> bool:
        return self.power == 0 and self.floor is None and not self.root

    def __str__(self) -> str:
        if self.is_raw:
            return "the features as they are"
        words = f"within-class covariance to the power −{self.power:g}, shrunk by {self.shrink:g}"
        if self.root:
            words = f"roots of the features, {words}"
        if self.floor == 0:
            return f"{words}, directions of the class means alone"
        return words if self.floor is None else f"{words}, directions of the class means raised over {self.floor:g}"


# A step that is small enough to take where there is nothing to choose by.
CAREFUL = Form(0.3, 0.5, 1.4)
# And the map of classes of few rows, on which a choice would be a draw: with 5 and 10 labels a class this one was
# above the features in 1-NN, Recall@1 and MAP@R of new rows on ten sets and two of encoders; those chosen were not.
OF_FEW, FEW = Form(0.7, 0.8, 1.4), 15


def _follows_from_sums(learner: WithinClass) -> bool:
    """Whether the map can be learned in parts."""
    if learner.power is None or learner.floor is not None or learner.n_components is not None:
        raise ParameterError(
            "`power` must be a number, `floor` None and `n_components` None to learn in parts: what is chosen, "
            "raised or left out depends on all rows at once."
        )
    return True


@dataclass(eq=False, repr=False)
class WithinClass(MapLearner):
    """Within-class covariance undone and class means raised, in closed form, as much as blocks of the rows ask for.

    X (n, p) -> (n, d), rows of length one unless `unit` says otherwise. The default for features of trained
    encoders and for classes that are not known yet. With `power=None` the four settings of the map are chosen by
    the mean of Recall@1 and MAP@R on blocks of the training rows, the features as they are among the candidates;
    ties go to them. Where half of the known classes have fewer than 15 rows, one much shrunk map is tried.

    >>> X = np.array([[0.0, 1], [4, 1.1], [0, 9], [4, 9.1]])
    >>> near = WithinClass(power=0.7, floor=0.0).fit(X, [0, 0, 1, 1])
    >>> np.abs(near.transform(X)).round(3).tolist()
    [[1.0], [1.0], [1.0], [1.0]]

    Args:
        n_components: principal directions of the mapped training rows that are kept; all if None.
        power: how far the spread inside classes is undone, 0 to 1; None chooses all four on blocks of the rows.
        shrink: share of the identity in the covariance inside classes.
        floor: how much of the other directions stays beside those of the class means; None raises nothing.
        root: take the signed root of every feature first.
        unit: bring rows to length one, so that near is cosine; None, when the map is chosen, tries every map with
            and without it.
        new_classes: whether the classes to come are new: the map is chosen on classes that did not teach it.
        max_rows: rows that the choice looks at.
        random_state: draws those rows and the blocks.

    Attributes:
        components_: the linear map (d, p).
        mean_: what is subtracted before it, (p,).
        form_: the map of the family that was taken.
        scores_: the mean of Recall@1 and MAP@R of every map that was tried, by map; empty if none was chosen.
        classes_: the classes.
        n_features_in_: columns of the X it was fitted on.
    """

    n_components: int | None = None
    _: KW_ONLY
    power: float | None = None
    shrink: float = 0.5
    floor: float | None = 1.4
    root: bool = False
    unit: bool | None = True
    new_classes: bool = False
    max_rows: int = 6_000
    random_state: Any = None

    def fit(self, X: Any, y: Any, *, together: Any = None, apart: Any = None) -> Self:
        """Choose the map, where no power is given, and learn it from all rows.

        `together` and `apart` (m, 2) are pairs of rows of X that belong together or not, beside the classes; rows
        of the class −1 have no class then, and only their pairs teach.
        """
        X, y = validate_data(self, X, y, dtype=FLOATS, ensure_min_samples=2)
        check_classification_targets(y)
        self._forget()
        unit = working_unit(X)
        pairs = _Pairs(
            X / X.dtype.type(unit),
            *(
                check_pairs(np.zeros((0, 2), dtype=np.int64) if each is None else each, name, len(X))
                for name, each in (("together", together), ("apart", apart))
            ),
        )
        known = np.ones(len(y), dtype=bool) if together is None and apart is None else np.asarray(y) != -1
        self.classes_, codes = np.unique(np.asarray(y)[known], return_inverse=True)
        if len(self.classes_) < 2 and not pairs:
            raise LabelError(f"The labels must name at least two classes, got {len(self.classes_)}.")
        rows = pairs.rows[known].astype(np.float64, copy=False)
        self.scores_: dict[Form, float] = {}
        if self.power is not None:
            self.form_ = self._asked_for()
        elif len(self.classes_) < 2:
            self.form_ = Form(CAREFUL.power, CAREFUL.shrink, CAREFUL.floor, unit=self.unit is not False)
        else:
            self.form_ = self._chosen(rows, codes, pairs)
        kept = X.shape[1] if self.n_components is None else check_int(self.n_components, "n_components")
        if kept > X.shape[1]:
            raise ParameterError(f"`n_components` must be at most the {X.shape[1]} features, got {kept}.")
        mean, matrix = _map_of(self.form_, rows, codes, pairs, kept)
        mean = mean * (np.sqrt(unit) if self.form_.root else unit)
        self.mean_, self.components_ = mean.astype(X.dtype), np.ascontiguousarray(matrix.T).astype(X.dtype)
        return self

    @available_if(_follows_from_sums)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Take more rows (n, p) and their classes (n,) in; after the last part the map is that of `fit` on all.

        For maps that follow from the covariance inside classes alone: `power` given, `floor=None`, all components.
        A row of `sample_weight` w (n,) counts as w equal rows. Whatever `fit` has seen does not count.
        """
        first = not hasattr(self, "_moments")
        X, y = validate_data(self, X, y, reset=first, dtype=FLOATS)
        check_classification_targets(y)
        self.form_, self.scores_ = self._asked_for(), {}
        moments: Moments = Moments(X.shape[1]) if first else self.__dict__["_moments"]
        x, y, weights = weighed(_roots(X) if self.form_.root else X, y, sample_weight)
        check_one_kind(moments.classes, np.unique(y))
        self._forget()
        self._moments = moments
        moments.add(x, y, weights)
        self.classes_ = moments.classes
        mean = moments.counts @ moments.means / moments.n
        basis = _Basis.of_moments(moments.within() / moments.n, mean, root=self.form_.root)
        mean, matrix = (mean, _sized(basis.vectors * basis.scale(self.form_))) if self.form_.power else (
            np.zeros(len(mean)), np.eye(len(mean)))  # fmt: skip
        self.mean_, self.components_ = mean.astype(X.dtype), np.ascontiguousarray(matrix.T).astype(X.dtype)
        return self

    def _forget(self) -> None:
        """What only the rows before have taught."""
        for name in ("threshold_", "_moments"):
            self.__dict__.pop(name, None)

    def _asked_for(self) -> Form:
        return Form(
            check_number(self.power, "power", minimum=0.0, maximum=1.0),
            check_number(self.shrink, "shrink", minimum=0.0, maximum=1.0),
            None if self.floor is None else check_number(self.floor, "floor", minimum=0.0),
            bool(self.root),
            self.unit is not False,
        )

    def _chosen(self, rows: Array, codes: Array, pairs: _Pairs) -> Form:
        """The best map over blocks of the rows; what was tried first wins ties, so the features themselves."""
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        part = _some(np.arange(len(rows)), rng, check_int(self.max_rows, "max_rows"))
        x, y = rows[part].astype(np.float32), codes[part]
        singly = pairs.astype(np.float32)
        blocks = [
            _Block(x[train], y[train], x[asked], y[asked], singly)
            for train, asked in _blocks(y, rng, new_classes=self.new_classes)
        ]
        few_rows = not self.new_classes and bool(np.median(np.unique(y, return_counts=True)[1]) < FEW)
        first = _candidates(x, self.unit, few_rows)
        if not blocks:
            return first[0]
        for forms_after in (lambda best: first, _around)[: 1 if few_rows else 2]:
            best = max(self.scores_, key=lambda form: self.scores_[form], default=first[0])
            forms = forms_after(best)
            each = [block.scores(forms) for block in blocks]
            self.scores_ |= {form: float(np.mean([scores[form] for scores in each])) for form in forms}
        return max(self.scores_, key=lambda form: self.scores_[form])

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def transform(self, X: Any) -> Array:
        """Map rows so that Euclidean distance, of unit rows cosine, is the learned one, (n, p) -> (n, d)."""
        X = fitted_rows(self, X)
        rows = (_roots(X) if self.form_.root else X) - self.mean_.astype(X.dtype, copy=False)
        mapped = rows @ self.components_.T.astype(X.dtype, copy=False)
        return _unit(mapped) if self.form_.unit else mapped


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Pairs of rows that belong together, and pairs of rows that do not."""

    rows: Array
    together: Array
    apart: Array

    def __bool__(self) -> bool:
        return bool(len(self.together) or len(self.apart))

    def astype(self, kind: Any) -> _Pairs:
        return _Pairs(self.rows.astype(kind, copy=False), self.together, self.apart) if self else self

    def deviations(self, root: bool) -> Array:
        """Every row of a group of rows that belong together, minus the mean of the group."""
        if not len(self.together):
            return self.rows[:0]
        items, number = np.unique(self.together, return_inverse=True)
        links = sparse.coo_array((np.ones(len(self.together)), number.reshape(-1, 2).T), shape=(len(items),) * 2)
        groups = connected_components(links, directed=False)[1]
        rows = _roots(self.rows[items]) if root else self.rows[items]
        means, codes = _centers(rows, groups)
        return np.asarray(rows - means[codes])

    def differences(self, mapped: Callable[[Array], Array]) -> Array:
        """Differences of mapped rows that are apart; all of them together count as much as one class."""
        left, right = (mapped(self.rows[side]) for side in self.apart.T)
        return np.asarray((left - right) / np.sqrt(2 * max(len(self.apart), 1)))


@dataclass(frozen=True, eq=False)
class _Basis:
    """Training rows in the directions of their covariance inside classes."""

    root: bool
    mean: Array
    values: Array
    vectors: Array
    turned: Array
    codes: Array
    pairs: _Pairs

    @classmethod
    def of(cls, rows: Array, codes: Array, pairs: _Pairs, *, root: bool) -> _Basis:
        x = _roots(rows) if root else rows
        deviations = pairs.deviations(root)
        if len(x):
            centers, places = _centers(x, codes)
            deviations = np.concatenate([x - centers[places], deviations])
        # In double precision whatever the rows have: LAPACK's float32 gave NaN for 18 rows of 1,280 features.
        within = (deviations.T @ deviations).astype(np.float64) / max(len(deviations), 1)
        values, vectors = np.linalg.eigh(within)
        kind = x.dtype
        mean = x.mean(axis=0) if len(x) else np.zeros(x.shape[1], dtype=kind)
        vectors = vectors.astype(kind)
        return cls(root, mean, np.maximum(values, 0).astype(kind), vectors, (x - mean) @ vectors, codes, pairs)

    @classmethod
    def of_moments(cls, within: Array, mean: Array, *, root: bool) -> _Basis:
        """From the covariance inside classes, without the rows."""
        values, vectors = np.linalg.eigh(within)
        none = np.zeros((0, len(mean)))
        empty = np.zeros(0, dtype=np.int64)
        return cls(root, mean, np.maximum(values, 0), vectors, none, empty, _Pairs(none, *(2 * [none[:, :2]])))

    def turn(self, rows: Array) -> Array:
        return np.asarray(((_roots(rows) if self.root else rows) - self.mean) @ self.vectors)

    def scale(self, form: Form) -> Array:
        """What each direction is multiplied with; 1 for all where nothing varies inside classes."""
        typical = self.values.mean()
        if typical == 0:
            return np.ones_like(self.values)
        shrunk = (1 - form.shrink) * self.values + form.shrink * typical
        return np.asarray(np.maximum(shrunk / typical, 1e-12) ** -form.power)

    def raised(self, scale: Array) -> tuple[Array, Array]:
        """The principal directions of class means and differences (p, k) and the share q (k,) that lies between."""
        unit = _unit(self.turned * scale)
        between = unit[:0]
        if len(unit):
            centers, places = _centers(unit, self.codes)
            between, unit = centers - centers.mean(axis=0), unit - centers[places]
        count = max(len(between), 1)
        if len(self.pairs.apart):
            differences = self.pairs.differences(lambda rows: _unit(self.turn(rows) * scale))
            between = np.concatenate([between, differences])
        _, spread, axes = np.linalg.svd(_as_few_rows(between), full_matrices=False)
        kept = spread > 1e-9 * max(spread[0], 1e-300) if len(spread) else np.zeros(0, dtype=bool)
        directions, spread = axes[kept].T, np.square(spread[kept]) / count
        inside = np.square(unit @ directions).mean(axis=0) if len(unit) else np.zeros_like(spread)
        q = spread / (spread + inside)
        order = np.argsort(-q, kind="stable")
        return directions[:, order], q[order]


def _map_of(form: Form, rows: Array, codes: Array, pairs: _Pairs, kept: int) -> tuple[Array, Array]:
    """What is subtracted (p,) and the matrix (p, d) of one map of the family."""
    p = rows.shape[1]
    mean, matrix = np.zeros(p), np.eye(p)
    x = _roots(rows) if form.root else rows
    if not form.is_raw:
        basis = _Basis.of(rows, codes, pairs.astype(np.float64), root=form.root)
        scale = basis.scale(form)
        mean, matrix = basis.mean, basis.vectors * scale
        if form.floor is not None:
            directions, q = basis.raised(scale)
            if len(q):
                raised = (directions * q) @ directions.T
                alone = form.floor == 0
                matrix = matrix @ (directions * q if alone else form.floor * q[0] * np.eye(p) + raised)
        matrix = _sized(matrix)
    if kept < matrix.shape[1]:
        mapped = (x - mean) @ matrix
        mapped = _unit(mapped) if form.unit else mapped - mapped.mean(axis=0)
        matrix = matrix @ np.linalg.eigh(mapped.T @ mapped)[1][:, ::-1][:, :kept]
    return mean, matrix


def _sized(matrix: Array) -> Array:
    """A matrix of ordinary size, which keeps float32 from losing digits on the way."""
    return np.asarray(matrix / max(np.linalg.norm(matrix, axis=0).mean(), 1e-300))


def _candidates(rows: Array, unit: bool | None, few_rows: bool) -> list[Form]:
    """What is tried first on these rows: the features themselves, then every power and floor at one share of
    shrinking; roots too where no feature is negative. Beside the features of few rows a class there is one map.
    """
    roots = (False, True) if (rows >= 0).all() else (False,)
    raw = [Form(unit=False), Form()] if unit is None else [Form(unit=unit)]
    if few_rows:
        return [*raw, *(replace(OF_FEW, unit=form.unit) for form in raw)]
    maps = [Form(power, 0.5, floor, root, length)
            for length in ((True, False) if unit is None else (unit,))
            for root in roots for power in POWERS for floor in FLOORS]  # fmt: skip
    return [*raw, *maps]


def _around(best: Form) -> list[Form]:
    """Other shares of shrinking, with the powers beside the best one."""
    if best.is_raw:
        return []
    number = POWERS.index(best.power)
    return [
        Form(power, shrink, floor, best.root, best.unit)
        for power in POWERS[max(0, number - 1) : number + 2]
        for shrink in SHRINKS
        if shrink != best.shrink
        for floor in FLOORS
    ]


class _Block:
    """Rows to learn from and rows to ask; the directions of the former are found once for each root."""

    def __init__(self, x: Array, codes: Array, asked: Array, answers: Array, pairs: _Pairs) -> None:
        self.x, self.codes, self.asked, self.pairs = x, codes, asked, pairs
        _, self.answers, counts = np.unique(answers, return_inverse=True, return_counts=True)
        # How many others each row has to find; a row alone in its class is not asked.
        self.others = counts[self.answers] - 1
        self._bases: dict[bool, tuple[_Basis, Array]] = {}

    def scores(self, forms: Sequence[Form]) -> dict[Form, float]:
        """The mean of Recall@1 and MAP@R of every map."""
        scores: dict[Form, float] = {}
        for form in forms:
            if form.is_raw:
                scores[form] = self._score(self.asked @ self.asked.T, unit=form.unit)
        rest = [form for form in forms if not form.is_raw]
        for group in dict.fromkeys(replace(form, floor=None) for form in rest):
            alike = [form for form in rest if replace(form, floor=None) == group]
            basis, turned = self._basis(group.root)
            scale = basis.scale(group)
            directions, q = basis.raised(scale)
            mapped = turned * scale
            mapped = _unit(mapped) if group.unit else mapped
            gram, along = mapped @ mapped.T, mapped @ directions
            for form in alike:
                # All floors from one product: z'z'' = a² zz + 2a pQp + pQ²p with p = Vᵀz.
                products = gram
                if form.floor is not None and len(q):
                    a = form.floor * float(q[0])
                    products = a * a * gram + (along * (2 * a * q + q * q)) @ along.T
                scores[form] = self._score(products, unit=form.unit)
        return scores

    def _score(self, products: Array, *, unit: bool) -> float:
        """The mean of Recall@1 and MAP@R, the latter of some rows, from inner products (n, n).

        Recall@1 alone is blind where every map finds the nearest, and jumps with single rows where few are asked.
        """
        asked = np.flatnonzero(self.others)
        if not len(asked):
            return 0.0
        squares = np.maximum(products.diagonal(), 1e-30)
        # The nearest row has the largest cosine, or the smallest ‖b‖² − 2ab.
        near = products / np.sqrt(squares) if unit else products - squares / 2
        np.fill_diagonal(near, -np.inf)
        first = self.answers[near.argmax(axis=1)] == self.answers
        ranked = asked[:: -(-len(asked) // MOST_RANKED)]
        near, others = near[ranked], self.others[ranked, None]
        places = np.arange(others.max())
        nearest = np.argpartition(-near, places[-1], axis=1)[:, : len(places)]
        order = np.argsort(-np.take_along_axis(near, nearest, axis=1), axis=1, kind="stable")
        same = self.answers[np.take_along_axis(nearest, order, axis=1)] == self.answers[ranked, None]
        same &= places < others
        precision = (same * np.cumsum(same, axis=1) / (1 + places) / others).sum(axis=1)
        return float(first[asked].mean() + precision.mean()) / 2

    def _basis(self, root: bool) -> tuple[_Basis, Array]:
        if root not in self._bases:
            basis = _Basis.of(self.x, self.codes, self.pairs, root=root)
            self._bases[root] = basis, basis.turn(self.asked)
        return self._bases[root]


def _blocks(codes: Array, rng: np.random.Generator, *, new_classes: bool) -> Iterator[tuple[Array, Array]]:
    """Rows to learn from and rows to score on, block by block."""
    names, counts = np.unique(codes, return_counts=True)
    if new_classes and len(names) >= 4:
        number = BLOCKS if len(names) >= 2 * BLOCKS else 2
        for block in np.array_split(names, number):
            inside = np.isin(codes, block)
            yield np.flatnonzero(~inside), _some(np.flatnonzero(inside), rng, MOST_ASKED)
        return
    # Two rows of a class in a block can find each other; classes of fewer rows teach and are not asked.
    number = min(BLOCKS, int(counts.max()) // 2)
    if number < 2:
        return
    blocks = np.zeros(len(codes), dtype=np.int64)
    for name in names:
        rows = np.flatnonzero(codes == name)
        blocks[rng.permutation(rows)] = np.arange(len(rows)) * number // max(len(rows), 2 * number)
    for block_number in range(number):
        inside = blocks == block_number
        yield np.flatnonzero(~inside), _some(np.flatnonzero(inside), rng, MOST_ASKED)


def _some(rows: Array, rng: np.random.Generator, most: int) -> Array:
    return rows if len(rows) <= most else rows[np.sort(rng.permutation(len(rows))[:most])]


def _centers(x: Array, codes: Array) -> tuple[Array, Array]:
    """The mean of every class (c, p), and which of them each row belongs to (n,)."""
    _, places, counts = np.unique(codes, return_inverse=True, return_counts=True)
    share = sparse.csr_array(
        ((1 / counts[places]).astype(x.dtype), (places, np.arange(len(x)))), shape=(len(counts), len(x))
    )
    return np.asarray(share @ x), places


def _as_few_rows(rows: Array) -> Array:
    """Rows with the same sum of outer products, at most as many as columns: what an SVD for directions needs."""
    return rows if len(rows) <= rows.shape[1] else np.asarray(np.linalg.qr(rows, mode="r"))


def _roots(x: Array) -> Array:
    return np.asarray(np.sign(x) * np.sqrt(np.abs(x)))


def _unit(rows: Array) -> Array:
    return np.asarray(normalize(rows).numpy())
