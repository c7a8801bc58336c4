"""A set whose files cannot be had: what is asked for, and a file that a user has prepared; and TDT2, which can."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import io, sparse

from nearer.exceptions import CorruptFileError, MissingDataError
from nearer_papers._catalog import recipe_named
from nearer_papers._recipe import Request
from nearer_papers._runner import run_recipe
from nearer_papers.data import _tdt2
from nearer_papers.data._tdt2 import load_tdt2
from nearer_papers.data._unpublished import load_corel800
from nearer_papers.relation_alignment import _relation_alignment as relation_alignment


def test_what_is_missing_and_where_it_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingDataError, match=r"`tdt2/TDT2.mat`.*jiangelle"):
        load_tdt2(folder=tmp_path, download=False)
    with pytest.raises(MissingDataError, match=r"`ml_corel800.npz`.*x_train, y_train.*mulan"):
        load_corel800(folder=tmp_path)
    monkeypatch.setenv("NEARER_DATA", str(tmp_path))
    with pytest.raises(MissingDataError, match="rows of the paper are not published"):
        run_recipe(recipe_named("relation-alignment"), Request(quick=True, only=("corel800",)))
    # A table never asks for what cannot be had.
    tables = relation_alignment._chosen(Request(only=("table-1", "table-2")))
    assert "corel800" not in {data.name for data in tables}
    assert "tdt2-20" in {data.name for data in tables}


def test_a_file_of_yours_is_read(tmp_path: Path) -> None:
    rows = {f"{x}_{part}": np.eye(3)[:, : 3 if x == "x" else 2] for x in "xy" for part in ("train", "test")}
    np.savez(tmp_path / "ml_corel800.npz", **rows, label_names=np.array(["sky", "sea"]))
    assert load_corel800(folder=tmp_path).train.y.tolist() == [[1, 0], [0, 1], [0, 0]]


def test_the_smallest_topics_and_the_terms_that_most_of_their_documents_hold(tmp_path: Path) -> None:
    """A file as the published one: terms, the topic, the date; here of 23 topics and 40 terms."""
    random = np.random.default_rng(0)
    topics = np.concatenate([np.full(topic, topic) for topic in range(1, 24)])
    held = random.random((len(topics), 40)) < np.linspace(0.9, 0.1, 40)
    stored = np.column_stack([held * random.integers(1, 9, held.shape), topics, np.full(len(topics), 418.0)])
    (tmp_path / "tdt2").mkdir()
    io.savemat(tmp_path / "tdt2" / "TDT2.mat", {"fea": sparse.csc_matrix(stored)})
    with pytest.raises(CorruptFileError, match="SHA-256"):
        load_tdt2(folder=tmp_path)
    part = load_tdt2(folder=tmp_path, verify=False).all
    few = topics <= _tdt2.TOPICS
    most = np.sort(np.argsort(-held[few].sum(axis=0), kind="stable")[:4])
    np.testing.assert_array_equal(part.x.toarray(), stored[few][:, most])
    np.testing.assert_array_equal(part.y, topics[few] - 1)
    (tmp_path / "tdt2" / "TDT2.mat").write_bytes(b"no matrix")
    with pytest.raises(CorruptFileError, match="must hold a sparse matrix `fea`"):
        load_tdt2(folder=tmp_path, verify=False)
