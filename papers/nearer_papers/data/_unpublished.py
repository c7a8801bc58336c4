"""Two sets of the relation-alignment tables whose files cannot be had: prepared files of yours are read.

Neither has a checksum, because nobody has published the very rows: what is read is what you prepared.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from nearer.datasets._dataset import Dataset, Source, Split
from nearer.datasets._numpy_files import read_npz
from nearer.exceptions import CorruptFileError, MissingDataError
from nearer_papers.data._obtain import data_folder

__all__ = ["COREL800", "TDT2", "load_corel800", "load_tdt2"]

TDT2 = Source(
    name="tdt2",
    title="TDT2, twenty topics of news",
    citation="Cai, He, Han 2005, IEEE TKDE 17(12); corpus: LDC2001T57",
    license="Linguistic Data Consortium; the term counts of D. Cai: not stated",
    address="http://www.cad.zju.edu.cn/home/dengcai/Data/TextData.html (TDT2.mat: `fea`, `gnd`)",
)
COREL800 = Source(
    name="corel800",
    title="corel800, words of 800 pictures",
    citation="named by the relation-alignment paper, which attributes it to Mulan",
    license="not stated",
    address="https://mulan.sourceforge.net/datasets-mlc.html (which has its parent, corel5k, and not these 800)",
)


def load_tdt2(*, folder: str | os.PathLike[str] | None = None) -> Dataset:
    """`all`: term counts of news, 20 topics; `x` is a scipy CSR matrix, to be weighed with `tfidf`.

    Read from `tdt2_20.npz`: `counts_data`, `indices`, `indptr`, `shape` of a CSR matrix (documents × words), `y`
    (documents,). Which 20 of the 30 topics of the original the paper took is not known.
    """
    from scipy import sparse

    keys = ("counts_data", "indices", "indptr", "shape", "y")
    stored = read_npz(_file(TDT2, "tdt2_20.npz", keys, folder), keys)
    triple = (stored["counts_data"].astype(np.float32), stored["indices"].astype(np.int32), stored["indptr"])
    try:
        counts = sparse.csr_matrix(triple, shape=tuple(stored["shape"].tolist()))
        counts.check_format(full_check=True)
        labels = stored["y"].astype(np.int64)
        if labels.shape != (counts.shape[0],):
            raise ValueError(f"`y` has shape {labels.shape} for {counts.shape[0]} documents")
    except ValueError as error:
        raise CorruptFileError(f"`tdt2_20.npz` must hold a CSR matrix and its labels: {error}.") from error
    return Dataset(TDT2, {"all": Split(counts, labels)})


def load_corel800(*, folder: str | os.PathLike[str] | None = None) -> Dataset:
    """`train` and `test` pictures with features and label sets, from `ml_corel800.npz`: `x_train`, `y_train`,
    `x_test`, `y_test`, `label_names`, as for the other sets of Mulan.
    """
    keys = ("x_train", "y_train", "x_test", "y_test", "label_names")
    stored = read_npz(_file(COREL800, "ml_corel800.npz", keys, folder), keys)
    parts = {
        part: Split(stored[f"x_{part}"].astype(np.float32), stored[f"y_{part}"].astype(np.uint8))
        for part in ("train", "test")
    }
    return Dataset(COREL800, parts, tuple(map(str, stored["label_names"])))


def _file(source: Source, name: str, keys: tuple[str, ...], folder: str | os.PathLike[str] | None) -> Path:
    path = data_folder(folder) / name
    if not path.is_file():
        raise MissingDataError(
            f"{source.title} needs the file `{name}`, and it is not in {path.parent}. It must hold the arrays "
            f"{', '.join(keys)}, made from {source.address}; the very rows of the paper are not published. Name "
            f"the folder with folder= or the environment variable NEARER_DATA."
        )
    return path
