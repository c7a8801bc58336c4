"""What a fit returns also predicts: classes by votes or probabilities, sets, distributions, numbers; saved too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import nearer
from nearer.exceptions import CorruptFileError, LabelError, ParameterError
from nearer.models._predicting import Votes
from nearer.relations import Pairs


def made(n: int = 90) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    return (3 * rng.normal(size=(3, 4))[y] + rng.normal(size=(n, 4))).astype(np.float32), y


@pytest.mark.parametrize("metric", ["lda", "class-probabilities"])
def test_classes_come_back_as_they_were_given(metric: str, tmp_path: Any) -> None:
    x, y = made()
    for labels in (y * 7, np.array(["a", "b", "c"])[y], y == 1):
        model = nearer.fit(x[:60], labels[:60], method=metric)
        found = model.predict(x[60:])
        assert found.dtype.kind == labels.dtype.kind
        assert (found == labels[60:]).mean() > 0.8
        assert model.score(x[60:], labels[60:]) == pytest.approx((found == labels[60:]).mean())
        shares = model.predict_proba(x[60:])
        np.testing.assert_allclose(shares.sum(axis=1), 1)
        np.testing.assert_array_equal(np.array(model.classes)[shares.argmax(axis=1)], found.astype(str))
    again = nearer.load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.predict_proba(x), model.predict_proba(x))
    assert (len(model.votes.rows) == 0) == (metric == "class-probabilities"), "probabilities need no rows"


def test_a_vote_is_that_of_the_nearest_rows() -> None:
    x, y = made()
    model = nearer.fit(x[:60], y[:60], method="rca", settings={"refit": False})
    kept, votes = model.fitted.problem.train, model.votes
    rows = model.transform(x[kept])
    for one in range(60, 70):
        order = np.argsort(np.linalg.norm(rows - model.transform(x[one : one + 1]), axis=1), kind="stable")
        counts = np.bincount(y[kept][order[: votes.k]], minlength=3)
        np.testing.assert_allclose(model.predict_proba(x[one : one + 1])[0], counts / votes.k, atol=1e-6)


def test_sets_distributions_and_numbers() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 4)).astype(np.float32)
    tags = (x[:, :3] > 0).astype(int)
    model = nearer.fit(x[:60], tags[:60], method="euclidean")
    assert set(np.unique(model.predict(x[60:]))) <= {0, 1}
    assert model.score(x[60:], tags[60:]) > 0.7
    shares = np.exp(x[:, :3]) / np.exp(x[:, :3]).sum(axis=1, keepdims=True)
    model = nearer.fit(x[:60], shares[:60], method="euclidean")
    np.testing.assert_allclose(model.predict(x[60:]).sum(axis=1), 1, rtol=1e-5)
    assert model.score(x[60:], shares[60:]) > 0.8
    model = nearer.fit(pd.DataFrame(x[:60]).assign(price=x[:60, 0] * 2), "price", method="euclidean")
    assert model.score(pd.DataFrame(x[60:]).assign(price=x[60:, 0] * 2), "price") > 0.5
    with pytest.raises(ParameterError, match="this one is of numbers"):
        model.predict_proba(pd.DataFrame(x[60:]))
    with pytest.raises(LabelError, match="must hold numbers as the model learned them"):
        model.score(pd.DataFrame(x[60:]).assign(price=["a", "b"] * 10), "price")


def test_with_few_labels_all_rows_vote() -> None:
    """Two half moons: the labels lie at their ends, and spread along them."""
    t = np.linspace(0, np.pi, 60)
    x = np.concatenate([np.c_[np.cos(t), np.sin(t)], np.c_[1 - np.cos(t), 0.4 - np.sin(t)]]).astype(np.float32)
    truth = np.repeat([0, 1], 60)
    given = np.where(np.arange(120) % 60 < 6, truth, -1)
    model = nearer.fit(x, given, method="euclidean", settings={"standardize": False})
    assert len(model.votes.rows) > 12
    assert model.score(x, truth) > 0.9


def test_what_cannot_predict_says_so(tmp_path: Any) -> None:
    x, y = made(40)
    same = np.array([[i, i + 3] for i in range(0, 30)]), np.array([[i, i + 1] for i in range(0, 30)])
    model = nearer.fit(x, Pairs(40, positive=same[0], negative=same[1]), method="kissme")
    with pytest.raises(ParameterError, match="must come from a fit on labels"):
        model.predict(x)
    model = nearer.fit(x, y, method="rca")
    with pytest.raises(LabelError, match="must name the class of some rows"):
        model.score(x)
    model.votes = Votes("classes", 1, model.votes.rows, model.votes.labels + 9, model.votes.known)
    with pytest.raises(CorruptFileError, match="`votes` must hold rows"):
        nearer.load(model.save(tmp_path / "model"))
