"""Several label columns: label sets and distributions from CSV and NPZ."""

from __future__ import annotations

import numpy as np
import pytest

from nearer.datasets import load_files
from nearer.exceptions import LabelError, ParameterError


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "songs.csv"
    path.write_text("tempo,loud,calm,happy,note\n1.5,2,1,0,7\n2.5,3,0,0,8\n0.5,1,1,1,9\n")
    return path


def test_label_sets_from_a_csv(table):
    data = load_files(table, label=["calm", "happy"], ignore=["note"])
    assert data.kind == "sets"
    assert data.class_names == ("calm", "happy")
    assert data.feature_names == ("tempo", "loud")
    assert data.all.y.tolist() == [[1, 0], [0, 0], [1, 1]]
    assert data.all.x.dtype == np.float32


def test_distributions_from_an_npz(tmp_path):
    x, y = np.eye(3), np.array([[0.2, 0.8], [1.0, 0.0], [0.5, 0.5]])
    np.savez(tmp_path / "data.npz", x=x, y=y)
    data = load_files(tmp_path / "data.npz")
    assert data.kind == "distributions"
    np.testing.assert_allclose(data.all.y, y, rtol=1e-6)


def test_one_name_in_a_list_is_one_class_column(table):
    assert load_files(table, label=["note"]).class_names == ("7", "8", "9")


def test_what_is_neither_is_refused(table, tmp_path):
    with pytest.raises(LabelError, match=r"0 and 1 only \(label sets\).*row 0 has the sum 2\.5"):
        load_files(table, label=["tempo", "calm"])
    with pytest.raises(ParameterError, match="must name a column"):
        load_files(table, label=["calm", "hapy"])
    np.savez(tmp_path / "bad.npz", x=np.eye(2), y=np.array([["a", "b"], ["c", "d"]]))
    with pytest.raises(LabelError, match="must hold numbers"):
        load_files(tmp_path / "bad.npz")
