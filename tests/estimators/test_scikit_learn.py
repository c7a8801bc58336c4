"""scikit-learn's own checks on every estimator, and what is around them: pipelines, search, frames, sparse."""

from __future__ import annotations

import pickle
import tracemalloc
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.metrics import pairwise_distances
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from nearer import estimators as E
from nearer.estimators import KernelAsymmetricKNN
from nearer_papers.systems import DMLEig, DoubletSVM, GerrymanderingMetric
from right_labels import DocumentsOfNumbers, SetsOfClasses, SharesOfNumbers

pytestmark = pytest.mark.filterwarnings("ignore::nearer.exceptions.NearerWarning")

SPARSE = [
    E.Euclidean(),
    E.Covariance(),
    E.RCA(),
    E.KISSME(),
    E.GMML(),
    E.ITML(max_iter=5),
    E.LDML(max_iter=20),
    E.MMC(max_iter=20),
    DMLEig(max_iter=20),
    DoubletSVM(),
    E.TripletSVM(max_iter=50),
    E.LSML(max_iter=20),
]
SPARSE += [E.LMNN(max_iter=20), E.NCA(max_iter=10), E.MLKR(max_iter=10)]
DENSE: list[Any] = [E.LDA(), E.LFDA(), GerrymanderingMetric(max_iter=5)]
DENSE += [E.RAMLKRR(), E.RAMLSVR()]
# No matrix stands behind their distance.
NETWORKS = [
    E.HRAML(epochs=2, networks=1, batch_size=20),
    E.WithinClass(),
    E.ClassProbabilities(n_trees=10, rounds=3),
]
# For these −1 means that a row has no class.
PARTLY = [
    E.LRML(),
    E.SERAPH(max_iter=20),
    E.ISDML(),
    E.APLLR(),
    E.APIT(max_iter=5),
    E.SemiSupervisedMetric(max_iter=5),
]
DENSE += PARTLY
LEARNERS: list[Any] = SPARSE + DENSE
KERNELS = [
    E.KernelLearner(n_landmarks=20),
    E.KernelLearner(E.LMNN(max_iter=5), n_landmarks=20),
    E.KernelLearner(E.NCA(max_iter=5), n_landmarks=20),
    E.KernelLearner(E.RCA(), kernel="poly", degree=2, n_landmarks=20),
]
NEIGHBORS = [
    E.Alignment(),
    E.MetricKNN(),
    E.MetricKNN(E.RCA()),
    SetsOfClasses(),
    SharesOfNumbers(),
    DocumentsOfNumbers(),
    E.AsymmetricKNN(max_iter=5),
    KernelAsymmetricKNN(E.AsymmetricKNN(max_iter=3, random_state=0), n_landmarks=20),
]


def named(learner: Any) -> str:
    return type(learner).__name__


def test_every_exported_estimator_is_checked() -> None:
    """A new export comes under the checks or this fails; ML-kNN and AA-kNN are checked with labels of their
    kind.
    """
    checked = {type(one).__name__ for one in [*LEARNERS, *KERNELS, *NETWORKS, *NEIGHBORS]} | {
        "MLKNN",
        "AAKNN",
        "QueryMap",
    }
    exported = {name for name in E.__all__ if hasattr(getattr(E, name), "fit")}
    assert exported - checked == set()
    without = {name for name in E.__all__ if not hasattr(getattr(E, name), "fit")}
    assert without <= {"MetricLearner"}, "estimators exports only things with fit"


@parametrize_with_checks(LEARNERS + KERNELS + NETWORKS + NEIGHBORS)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def iris() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_iris(return_X_y=True)
    return X[::2], y[::2]


@pytest.mark.parametrize("learner", LEARNERS, ids=named)
def test_float32_stays_float32(learner: Any, iris: Any) -> None:
    fitted = clone(learner).fit(iris[0].astype(np.float32), iris[1])
    assert fitted.components_.dtype == np.float32
    assert fitted.transform(iris[0].astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("learner", SPARSE, ids=named)
def test_sparse_rows_give_the_same_metric(learner: Any, iris: Any) -> None:
    X, y = iris
    learner = clone(learner)
    if "random_state" in learner.get_params():
        learner.set_params(random_state=0)
    dense = clone(learner).fit(X, y)
    thin = clone(learner).fit(sparse.csr_matrix(X), y)
    if isinstance(learner, E.LMNN | E.NCA | E.MLKR):
        # They work in single precision, about the mean only where rows are dense: other digits, another path.
        assert thin.objective_ == pytest.approx(dense.objective_, rel=0.02)
        return
    np.testing.assert_allclose(thin.mahalanobis_matrix(), dense.mahalanobis_matrix(), rtol=1e-5, atol=1e-8)
    # Directions of equal weight may turn among themselves: the distances are what must agree.
    apart = pairwise_distances(thin.transform(sparse.csr_matrix(X)))
    np.testing.assert_allclose(apart, pairwise_distances(dense.transform(X)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("learner", [E.LMNN(5, max_iter=5), E.NCA(5, max_iter=5), E.MLKR(5, max_iter=5)], ids=named)
def test_wide_sparse_rows_are_never_made_dense(learner: Any) -> None:
    """2,000 rows of 50,000 features would be 800 MB."""
    rng = np.random.default_rng(0)
    y = np.arange(2000) % 4
    X = sparse.random_array((2000, 50_000), density=2e-4, format="csr", rng=rng)
    X = sparse.csr_matrix(sparse.hstack([X[:, 4:], sparse.csr_array(np.eye(4)[y])], format="csr"))
    tracemalloc.start()
    fitted = clone(learner).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert fitted.transform(X).shape == (2000, 5)
    assert peak < 300e6


@pytest.mark.filterwarnings("ignore::nearer.exceptions.StoppedEarlyWarning")
@pytest.mark.parametrize("learner", KERNELS, ids=named)
def test_a_kernel_learner_has_a_plain_function_too(learner: Any, iris: Any) -> None:
    X, y = iris
    fitted = clone(learner).fit(X, y)
    distance = fitted.get_metric()
    assert distance(X[0], X[5]) == pytest.approx(float(fitted.pair_distance(X[:1], X[5:6])[0]))
    assert distance(X[0], X[0]) == 0.0
    with pytest.raises(ValueError, match="features"):
        distance(X[0][:2], X[1][:2])


@pytest.mark.parametrize("learner", DENSE, ids=named)
def test_learners_that_need_dense_rows_say_so(learner: Any, iris: Any) -> None:
    with pytest.raises(TypeError, match=r"(?i)sparse"):
        clone(learner).fit(sparse.csr_matrix(iris[0]), iris[1])


@pytest.mark.parametrize("learner", LEARNERS, ids=named)
def test_n_components_and_frames(learner: Any, iris: Any) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(iris[0], columns=["a", "b", "c", "d"])
    fitted = clone(learner).set_params(n_components=2).set_output(transform="pandas").fit(frame, iris[1])
    out = fitted.transform(frame)
    name = type(learner).__name__.lower()
    assert list(out.columns) == [f"{name}0", f"{name}1"]
    assert list(fitted.feature_names_in_) == ["a", "b", "c", "d"]
    with pytest.raises(ValueError, match="n_components"):
        clone(learner).set_params(n_components=5).fit(iris[0], iris[1])


@pytest.mark.parametrize("labels", ["names", "signs", "gaps"])
@pytest.mark.parametrize(
    "learner", [one for one in LEARNERS if not isinstance(one, E.MLKR) and one not in PARTLY], ids=named
)
def test_labels_of_any_kind_give_the_same_metric(learner: Any, labels: str, iris: Any) -> None:
    X, y = iris[0][:50], iris[1][:50]
    kinds = {
        "names": np.array(["ant", "bee", "cat"]),
        "signs": np.array([-1, 1, 3]),
        "gaps": np.array([5, 70, 900]),
    }
    learner = clone(learner)
    if "random_state" in learner.get_params():
        learner.set_params(random_state=0)
    first = clone(learner).fit(X, y).mahalanobis_matrix()
    second = clone(learner).fit(X, kinds[labels][y]).mahalanobis_matrix()
    np.testing.assert_allclose(first, second, rtol=1e-6)


def test_pipeline_and_grid_search(iris: Any) -> None:
    pipeline = make_pipeline(StandardScaler(), E.GMML(), KNeighborsClassifier(3))
    search = GridSearchCV(pipeline, {"gmml__t": [0.0, 0.5], "gmml__blend": [0.0, "auto"]}, cv=3).fit(*iris)
    assert search.best_score_ > 0.9


def test_the_input_is_not_changed(iris: Any) -> None:
    for learner in LEARNERS:
        X = iris[0].copy()
        X.flags.writeable = False
        clone(learner).fit(X, iris[1])
        np.testing.assert_array_equal(X, iris[0])


@pytest.mark.parametrize("kind", ["sets", "shares"])
def test_neighbors_of_label_sets_and_distributions_keep_scikit_learns_rules(iris: Any, kind: str) -> None:
    """With y of their own kind: fitted twice the same, pickled the same, any float type, no NaN."""
    X, classes = iris
    sets = np.eye(3, dtype=int)[classes]
    y, estimator = (
        (sets, E.MLKNN(n_neighbors=3)) if kind == "sets" else (0.8 * sets + 0.2 / 3, E.AAKNN(n_neighbors=3))
    )
    first = clone(estimator).fit(X, y).predict(X)
    again = clone(estimator).fit(X, y)
    np.testing.assert_array_equal(again.predict(X), first)
    np.testing.assert_array_equal(again.fit(X, y).predict(X), first)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(again)).predict(X), first)
    for dtype in (np.float32, np.float64, np.int64):
        assert clone(estimator).fit(X.astype(dtype), y).predict(X.astype(dtype)).shape == y.shape
    for bad in (np.nan, np.inf):
        spoilt = X.copy()
        spoilt[3, 1] = bad
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            clone(estimator).fit(spoilt, y)
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            again.predict(spoilt)
    with pytest.raises(ValueError, match=r"0/1 matrix|shape \(n, q\)"):
        clone(estimator).fit(X, classes)
