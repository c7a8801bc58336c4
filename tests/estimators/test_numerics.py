"""Bad and awkward data: finite and positive semi-definite, or a clear refusal; never a silent NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from nearer import estimators as E
from nearer.exceptions import LabelError, NearerError, ParameterError
from nearer_papers.systems import DMLEig, DoubletSVM

pytestmark = pytest.mark.filterwarnings("ignore::nearer.exceptions.NearerWarning")

LEARNERS: list[Any] = [
    E.Euclidean(),
    E.Covariance(),
    E.RCA(random_state=0),
    E.LFDA(random_state=0),
    E.KISSME(random_state=0),
    E.GMML(random_state=0),
    E.ITML(random_state=0, max_iter=10),
    E.LDML(random_state=0, max_iter=30),
    E.LMNN(random_state=0, max_iter=40),
    E.NCA(random_state=0, max_iter=20),
    E.MMC(random_state=0, max_iter=30),
    DMLEig(random_state=0, max_iter=30),
    DoubletSVM(random_state=0),
    E.TripletSVM(random_state=0, max_iter=100),
    E.MLKR(random_state=0, max_iter=20),
    E.LSML(random_state=0, max_iter=30),
]


def cases() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    rng = np.random.RandomState(0)
    y = np.arange(30) % 3
    X = rng.standard_normal((30, 4)) + y[:, None] * [2, 0, 0, 1]
    return {
        "singular": (np.column_stack([X, X @ rng.standard_normal((4, 3))]), y),
        "fewer rows than features": (rng.standard_normal((12, 20)) + (y[:12, None] == 1), y[:12]),
        "duplicates": (np.repeat(X[:6], 5, axis=0), np.repeat(y[:6], 5)),
        "constant columns": (np.column_stack([X, np.full(30, 7.0), np.zeros(30)]), y),
        "one row in a class": (X, np.where(np.arange(30) == 29, 9, y)),
        "scales 1e6 apart": (X * [1e6, 1, 1e-3, 1], y),
        "far from the origin": (X + 1e6, y),
        "tiny": (X * 1e-8, y),
        "one feature": (X[:, :1], y),
        "two rows a class": (X[:6], np.array([0, 0, 1, 1, 2, 2])),
    }


PUBLISHED = [clone(one).set_params(blend=0.0) for one in LEARNERS if "blend" in one.get_params()]


@pytest.mark.parametrize("case", list(cases()))
@pytest.mark.parametrize("learner", LEARNERS + PUBLISHED, ids=lambda learner: type(learner).__name__)
def test_awkward_data_gives_a_finite_metric(learner: Any, case: str) -> None:
    X, y = cases()[case]
    learner = clone(learner)
    fitted = learner.fit(X, y)
    M = fitted.mahalanobis_matrix()
    assert np.isfinite(M).all()
    values = np.linalg.eigvalsh(M)
    assert values[0] >= -1e-9 * max(values[-1], 1e-300)
    assert values[-1] > 0
    Z = fitted.transform(X)
    assert np.isfinite(Z).all()
    assert np.ptp(Z, axis=0).max() > 0
    again = clone(learner).fit(X, y).mahalanobis_matrix()
    np.testing.assert_array_equal(again, M)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: type(learner).__name__)
def test_nan_and_infinity_are_refused(learner: Any, value: float) -> None:
    X = np.ones((6, 2))
    X[3, 1] = value
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        clone(learner).fit(X, [0, 0, 0, 1, 1, 1])


NEED_TWO_CLASSES = [one for one in LEARNERS if not isinstance(one, (E.Euclidean, E.Covariance, E.RCA, E.MLKR))]


@pytest.mark.parametrize("learner", NEED_TWO_CLASSES, ids=lambda learner: type(learner).__name__)
def test_one_class_is_refused(learner: Any) -> None:
    with pytest.raises(LabelError, match="`y` must hold at least two classes, got one"):
        clone(learner).fit(np.random.RandomState(0).standard_normal((8, 2)), np.zeros(8))


@pytest.mark.parametrize("learner", NEED_TWO_CLASSES, ids=lambda learner: type(learner).__name__)
def test_classes_of_one_row_each(learner: Any) -> None:
    X, y = np.random.RandomState(0).standard_normal((8, 2)), np.arange(8)
    if isinstance(learner, (E.NCA, E.LFDA)):
        # Both have a meaning: no row is ever right, or only the spread between classes counts.
        assert np.isfinite(clone(learner).fit(X, y).components_).all()
    else:
        with pytest.raises(LabelError, match=r"at least two rows|got 8 classes of one row"):
            clone(learner).fit(X, y)


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        (E.RCA(ridge=-1.0), "`ridge` must be at least 0"),
        (E.GMML(t=1.5), "`t` must be at most 1"),
        (E.GMML(blend=2.0), "`blend` must be at most 1"),
        (E.GMML(blend="much"), "`blend` must be a number"),
        (E.LFDA(n_neighbors=0), "`n_neighbors` must be at least 1"),
        (E.LFDA(embedding="wide"), "`embedding` must be one of"),
        (E.ITML(gamma=0.0), "`gamma` must be greater than 0"),
        (E.LMNN(max_impostors=0), "`max_impostors` must be at least 1"),
        (E.NCA(init="ldaa"), "Did you mean 'lda'"),
        (E.NCA(init=np.ones((3, 3))), "`init` must have shape"),
        (E.NCA(tol=0.0), "`tol` must be greater than 0"),
        (DoubletSVM(C=0.0), "`C` must be greater than 0"),
        (E.LSML(prior_weight=0.0), "`prior_weight` must be greater than 0"),
        (DMLEig(mu=0.0), "`mu` must be greater than 0"),
        (E.MMC(max_iter=0), "`max_iter` must be at least 1"),
    ],
)
def test_settings_outside_their_range_are_refused(learner: Any, message: str) -> None:
    X, y = cases()["one feature"]
    with pytest.raises(NearerError, match=message):
        learner.fit(np.column_stack([X, X[::-1]]), y)


def test_a_metric_of_zeros_falls_back_to_euclidean_and_says_so() -> None:
    from nearer.exceptions import NearerWarning

    # The two classes are the same cloud: KISSME finds no direction that separates.
    X = np.array([[0.0, 0], [1, 0], [0, 1], [1, 1]] * 2)
    y = np.repeat([0, 1], 4)
    with pytest.warns(NearerWarning, match="falls back to the Euclidean distance"):
        learner = E.KISSME(blend=0.0).fit(X, y)
    np.testing.assert_allclose(learner.mahalanobis_matrix(), np.eye(2))


def test_blending_never_gets_far_below_euclidean() -> None:
    from sklearn.neighbors import KNeighborsClassifier

    rng = np.random.RandomState(0)
    y = rng.randint(4, size=600)
    centers = rng.standard_normal((4, 2)) * 3
    X = np.column_stack([centers[y] + rng.standard_normal((600, 2)), 1e-3 * rng.standard_normal((600, 20))])

    def score(learner: Any) -> float:
        fitted = learner.fit(X[:300], y[:300])
        voter = KNeighborsClassifier(3).fit(fitted.transform(X[:300]), y[:300])
        return float(voter.score(fitted.transform(X[300:]), y[300:]))

    euclidean = score(E.Euclidean())
    assert score(E.RCA(blend=0.0, ridge=0.0)) < euclidean - 0.05
    assert score(E.RCA(ridge=0.0)) >= euclidean - 0.01


def test_the_default_ridge_is_not_needed_twice() -> None:
    with pytest.raises(ParameterError, match="must be invertible"):
        E.RCA(ridge=0.0).fit([[0.0, 0], [1, 1], [2, 2], [3, 3]], [0, 0, 1, 1])


@pytest.mark.parametrize("kind", [E.NCA, E.LMNN, E.MLKR], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_a_huge_unit_give_the_metric_of_the_same_rows_in_a_small_one(kind: Any, dtype: Any) -> None:
    rng = np.random.RandomState(0)
    y = np.arange(60) % 3
    X = rng.standard_normal((60, 3)) + 3 * y[:, None] * [1, 0, 0]
    found = []
    for unit in (2.0**100, 2.0**40):
        M = kind(random_state=0).fit((X * unit).astype(dtype), y).components_.astype(np.float64) * unit
        found.append(M.T @ M)
    assert np.isfinite(found[0]).all()
    np.testing.assert_allclose(found[0], found[1], rtol=1e-3, atol=1e-3 * np.abs(found[1]).max())


def test_mlkr_refuses_text() -> None:
    with pytest.raises(LabelError, match="`y` must hold numbers, got text such as '3'"):
        E.MLKR().fit(np.eye(4), np.array(["3", "2", "0", "1"]))


def test_one_number_far_from_all_others_is_learned_from_or_refused() -> None:
    """Found by random cases: the least whole number of 64 bits among zeros."""
    far = np.zeros((6, 2))
    far[1, 1], far[4, 1] = -1, -(2.0**63)
    with np.errstate(divide="raise"):
        learned = E.ITML(random_state=0).fit(far, [3, 2, 2, 1, 1, 0])
    assert np.isfinite(learned.components_).all()
    apart = np.array([[0, -(2.0**63), 0], [1, 0, -1], [-2, 0, 0]])
    with pytest.raises(ParameterError, match="must be of like size"):
        E.ISDML(random_state=0).fit(apart, [3, 2, 2])
