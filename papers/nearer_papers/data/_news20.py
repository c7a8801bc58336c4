"""Four of the 20 newsgroups as term counts, and the weighting that text needs before distances mean anything."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from nearer.datasets._dataset import DataFile, Dataset, Source, Split
from nearer.exceptions import CorruptFileError, ShapeError
from nearer_papers.data._obtain import open_npz

__all__ = ["NEWS20", "load_news20", "tfidf"]

NEWS20 = Source(
    name="news20",
    title="20 Newsgroups, four groups on vehicles and sport",
    citation="Lang 1995, ICML; Zhou et al. 2003, NIPS",
    license="not stated",
    address="http://qwone.com/~jason/20Newsgroups/",
    files=(DataFile("news20_4.npz", "fdc01efc2614a7705773ca1a6d4749f64c9351f9a633997efface68e9c8b2b44"),),
)


def load_news20(*, folder: str | os.PathLike[str] | None = None, verify: bool = True) -> Dataset:
    """`train` and `test` (by date; 3,972 messages together) of term counts, 8,013 words, 4 groups.

    `x` is a scipy CSR matrix of float32 counts; weigh it with `tfidf` before use. `feature_names` are the words.
    A reconstruction: the paper has 3,970 messages and 8,014 words.
    """
    from scipy import sparse

    keys = ("counts_data", "indices", "indptr", "shape", "y", "is_bydate_test", "vocabulary", "class_names")
    stored = open_npz(NEWS20, folder, keys, verify=verify)
    triple = (stored["counts_data"].astype(np.float32), stored["indices"].astype(np.int32), stored["indptr"])
    try:
        counts = sparse.csr_matrix(triple, shape=tuple(stored["shape"].tolist()))
        counts.check_format(full_check=True)
    except ValueError as error:
        raise CorruptFileError(f"`{NEWS20.files[0].name}` must hold a CSR matrix: {error}.") from error
    held_out = stored["is_bydate_test"].astype(bool)
    labels = stored["y"].astype(np.int64)
    parts = {
        name: Split(counts[rows], labels[rows])
        for name, rows in (("train", np.flatnonzero(~held_out)), ("test", np.flatnonzero(held_out)))
    }
    return Dataset(NEWS20, parts, tuple(map(str, stored["class_names"])), tuple(map(str, stored["vocabulary"])))


def tfidf(counts: Any, *, reference: Any = None) -> Any:
    """Term counts as TF-IDF rows of unit length, in a new CSR matrix.

    weight(d, t) = count(d, t) · (1 + ln((1 + n) / (1 + df(t)))), then each row is divided by its length; n is the
    number of documents and df(t) how many of them hold the term, both taken from `reference` (default: `counts`
    itself; pass the training part when weighing a test part). An empty row stays zero.

    >>> tfidf(np.array([[3.0, 0.0], [0.0, 2.0]])).toarray()
    array([[1., 0.],
           [0., 1.]])

    Args:
        counts: term counts (n, terms), dense or sparse.
        reference: the documents that n and df come from; `counts` if None.
    """
    from scipy import sparse

    def rows(value: Any, name: str, dtype: Any = None) -> Any:
        try:
            found = sparse.csr_matrix(value, dtype=dtype)
        except (TypeError, ValueError, RuntimeError, OverflowError) as error:
            raise ShapeError(f"`{name}` must be a table of counts (n, terms): {error}.") from error
        if found.dtype.kind not in "biuf":
            raise ShapeError(f"`{name}` must hold counts, got {found.dtype}.")
        return found

    matrix = rows(counts, "counts", np.float64 if _is_double(counts) else np.float32)
    known = matrix if reference is None else rows(reference, "reference")
    if known.shape[1] != matrix.shape[1]:
        raise ShapeError(f"`reference` must have the {matrix.shape[1]} columns of `counts`, got {known.shape[1]}.")
    documents = np.bincount(known.indices[known.data != 0], minlength=known.shape[1])
    rarity = 1 + np.log((1 + known.shape[0]) / (1 + documents))
    weighted = (matrix @ sparse.diags_array(rarity)).tocsr().astype(matrix.dtype)
    lengths = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1)).reshape(-1))
    inverse = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    return (sparse.diags_array(inverse) @ weighted).tocsr().astype(matrix.dtype)


def _is_double(counts: Any) -> bool:
    return getattr(counts, "dtype", None) == np.float64
