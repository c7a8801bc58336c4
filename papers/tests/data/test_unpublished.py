"""Sets whose files cannot be had: what is asked for, and files that a user has prepared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from nearer.exceptions import CorruptFileError, MissingDataError
from nearer_papers._catalog import recipe_named
from nearer_papers._recipe import Request
from nearer_papers._runner import run_recipe
from nearer_papers.data._unpublished import load_corel800, load_tdt2
from nearer_papers.relation_alignment import _relation_alignment as relation_alignment


def test_what_is_missing_and_where_it_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingDataError, match=r"`tdt2_20.npz`.*counts_data, indices.*dengcai"):
        load_tdt2(folder=tmp_path)
    with pytest.raises(MissingDataError, match=r"`ml_corel800.npz`.*x_train, y_train.*mulan"):
        load_corel800(folder=tmp_path)
    monkeypatch.setenv("NEARER_DATA", str(tmp_path))
    for name in ("tdt2-20", "corel800"):
        with pytest.raises(MissingDataError, match="rows of the paper are not published"):
            run_recipe(recipe_named("relation-alignment"), Request(quick=True, only=(name,)))
    # A table never asks for what cannot be had.
    tables = relation_alignment._chosen(Request(only=("table-1", "table-2")))
    assert {data.name for data in tables}.isdisjoint({"tdt2-20", "corel800"})


def test_files_of_yours_are_read(tmp_path: Path) -> None:
    counts = sparse.random(6, 5, density=0.5, format="csr", random_state=0)
    arrays = {"counts_data": counts.data, "indices": counts.indices, "indptr": counts.indptr, "shape": counts.shape}
    np.savez(tmp_path / "tdt2_20.npz", **arrays, y=np.arange(6) % 3)
    data = load_tdt2(folder=tmp_path)
    np.testing.assert_allclose(data.all.x.toarray(), counts.toarray(), rtol=1e-6)
    assert data.all.y.tolist() == [0, 1, 2, 0, 1, 2]
    np.savez(tmp_path / "tdt2_20.npz", **arrays, y=np.arange(5))
    with pytest.raises(CorruptFileError, match=r"`y` has shape \(5,\) for 6 documents"):
        load_tdt2(folder=tmp_path)
    rows = {f"{x}_{part}": np.eye(3)[:, : 3 if x == "x" else 2] for x in "xy" for part in ("train", "test")}
    np.savez(tmp_path / "ml_corel800.npz", **rows, label_names=np.array(["sky", "sea"]))
    assert load_corel800(folder=tmp_path).train.y.tolist() == [[1, 0], [0, 1], [0, 0]]
