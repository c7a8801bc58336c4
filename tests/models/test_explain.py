"""The parts of an explanation are the distance, and name the column that was planted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from nearer.exceptions import ParameterError
from nearer.geometry import MLP, AsymmetricMap, Mahalanobis
from nearer.geometry._encoders import Chain, DigitsCNN
from nearer.geometry._standardize import Standardize
from nearer.index import open_index
from nearer.models import Model
from nearer.models._explain import explain_pair
from nearer.models._inputs import Inputs

X = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)


def test_the_parts_of_a_linear_map_are_the_distance() -> None:
    torch.manual_seed(0)
    encoder = Chain(Standardize.from_rows(X), Mahalanobis.from_factor(torch.randn(6, 3)))
    model = Model(encoder, Inputs("features", tuple("abcdef"), (6,)), method="by hand")
    z = model.transform(X)
    for one, other in ((0, 1), (5, 9), (3, 3)):
        found = model.explain(X[one : one + 1], X[other : other + 1])
        expected = float(((z[one].astype(np.float64) - z[other]) ** 2).sum())
        assert found.exact
        assert found.squared_distance == pytest.approx(expected, rel=1e-4, abs=1e-9)
        assert found.contributions.sum() == pytest.approx(found.squared_distance, rel=1e-9, abs=1e-12)
        assert found.directions.sum() == pytest.approx(found.squared_distance, rel=1e-9, abs=1e-12)
        assert abs(found.missing) < 1e-9
    assert found.names == tuple("abcdef")


def test_the_planted_column_is_named() -> None:
    """Two items that differ in everything, under a metric that looks at one column."""
    factor = np.zeros((6, 1))
    factor[4] = 3
    found = explain_pair(Mahalanobis.from_factor(factor), X[:1], X[1:2], tuple("abcdef"))
    assert found.top(1)[0] == ("e", pytest.approx(found.squared_distance))
    assert np.abs(np.delete(found.contributions, 4)).max() == 0


def test_a_network_is_accounted_for() -> None:
    torch.manual_seed(0)
    found = explain_pair(MLP(6, 4, hidden=(16,)), X[:1], X[1:2])
    assert not found.exact
    assert abs(found.missing) < 0.02 * found.squared_distance
    assert found.directions.sum() == pytest.approx(found.squared_distance)
    assert found.top(2)[0][0].startswith("column ")


def test_pixels_and_pictures() -> None:
    torch.manual_seed(0)
    images = np.random.default_rng(0).random((2, 1, 28, 28)).astype(np.float32)
    images[1, :, :, :20] = images[0, :, :, :20]
    encoder = DigitsCNN().eval()
    model = Model(encoder, Inputs("images", size=(1, 28, 28)), method="by hand")
    found = model.explain(images[:1], images[1:])
    assert found.contributions.shape == (1, 28, 28)
    assert not found.contributions[:, :, :20].any(), "where they are equal, nothing makes them differ"
    assert found.contributions[:, :, 20:].any()
    for one in (found, explain_pair(Mahalanobis.from_factor(np.eye(6)), X[:1], X[1:2], tuple("abcdef"))):
        assert len(one.figure().axes) >= 2


def test_both_sides_of_an_asymmetric_distance() -> None:
    torch.manual_seed(0)
    maps = AsymmetricMap.from_factors(torch.randn(6, 3), torch.randn(6, 3))
    found = explain_pair(maps, X[:1], X[1:2])
    assert found.squared_distance == pytest.approx(float(maps(X[:1], X[1:2]).detach()), rel=1e-5)
    assert found.contributions.sum() == pytest.approx(found.squared_distance)
    assert found.names[0] == "query column 0"
    assert found.names[-1] == "item column 5"


def test_one_pair_at_a_time() -> None:
    with pytest.raises(ParameterError, match="`query` must be one item, got 2"):
        explain_pair(Mahalanobis.from_factor(np.eye(6)), X[:2], X[:1])


def test_an_index_remembers_its_model(tmp_path: Path) -> None:
    one, other = (
        Model(Mahalanobis.from_factor(factor * np.eye(6)), Inputs("features", size=(6,)), method="by hand")
        for factor in (1, 2)
    )
    one.save(tmp_path / "model")
    from nearer.models._saved import load

    assert load(tmp_path / "model").fingerprint == one.fingerprint != other.fingerprint
    with open_index(tmp_path / "index", dimension=6, model=one) as index:
        index.add(X)
        assert index.search(X[:2], k=1).ids[:, 0].tolist() == [0, 1]
    with pytest.raises(ParameterError, match="embeddings of another model"):
        open_index(tmp_path / "index", model=other)
