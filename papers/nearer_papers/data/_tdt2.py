"""TDT2: news of 1998 as term counts, the twenty smallest of its thirty topics."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from nearer.datasets._dataset import Dataset, Download, Source, Split
from nearer.exceptions import CorruptFileError
from nearer_papers.data._obtain import obtain

__all__ = ["TDT2", "load_tdt2"]

TDT2 = Source(
    name="tdt2",
    title="TDT2, twenty topics of news",
    citation="Cai, He, Han 2005, IEEE TKDE 17(12); corpus: LDC2001T57",
    license="Linguistic Data Consortium; the term counts: not stated",
    address="https://github.com/jiangelle/Mat-data-time",
    downloads=(
        Download(
            "tdt2/TDT2.mat",
            "https://raw.githubusercontent.com/jiangelle/Mat-data-time/master/TDT2.mat",
            "077a9f839f7a56efe797c54de7a351f2a46e69161387aef76526aafe7d872576",
        ),
    ),
)
TOPICS = 20
# The relation-alignment paper has 3,677 terms, a tenth of all; how it chose them is not said.
SHARE = 10


def load_tdt2(
    *, folder: str | os.PathLike[str] | None = None, verify: bool = True, download: bool = True
) -> Dataset:
    """`all`: term counts of 1,938 news of 20 topics, 3,677 terms; `x` is a scipy CSR matrix, for `tfidf`.

    The twenty smallest topics: they have exactly as many documents as the paper says. Of the 36,771 terms the tenth
    that most of these documents hold, equal ones by their number. Read from `tdt2/TDT2.mat` in the data folder;
    fetched (3 MB) if it is not there.
    """
    counts, topics = read_tdt2(obtain(TDT2, folder, verify=verify, allow_download=download)[0])
    names, sizes = np.unique(topics, return_counts=True)
    smallest = np.sort(names[np.argsort(sizes, kind="stable")[:TOPICS]])
    rows = np.flatnonzero(np.isin(topics, smallest))
    some = counts[rows]
    held = np.bincount(some.indices, minlength=some.shape[1])
    terms = np.sort(np.argsort(-held, kind="stable")[: some.shape[1] // SHARE])
    part = Split(some[:, terms].tocsr(), np.searchsorted(smallest, topics[rows]))
    return Dataset(TDT2, {"all": part}, tuple(f"topic {topic}" for topic in smallest.tolist()))


def read_tdt2(path: Path) -> tuple[Any, np.ndarray[Any, Any]]:
    """Term counts (documents, terms) as CSR and topic numbers (documents,); the last column, dates, is left out."""
    from scipy import io, sparse

    try:
        stored = sparse.csr_matrix(io.loadmat(path, variable_names=["fea"])["fea"], dtype=np.float32)
    except (KeyError, ValueError, TypeError, OSError, NotImplementedError, io.matlab.MatReadError) as error:
        raise CorruptFileError(f"`{path.name}` must hold a sparse matrix `fea`: {error}.") from error
    if stored.shape[1] < SHARE + 2:
        raise CorruptFileError(f"`{path.name}` must hold terms, a topic and a date, got {stored.shape[1]} columns.")
    topics = stored[:, -2].toarray().ravel().astype(np.int64)
    return stored[:, :-2], topics
