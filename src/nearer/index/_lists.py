"""The inverted lists of faiss's cell structures, out of it and into it again without a search for the cells."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearer.exceptions import CorruptFileError
from nearer.index._exact import Floats, Positions, load_faiss


def list_contents(faiss_index: Any, *, coded: bool) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """For each row of the structure its cell (n,), and its code (n, bytes) if codes are wanted."""
    faiss = load_faiss()
    lists, width = faiss_index.invlists, faiss_index.code_size if coded else 0
    cells = np.empty(faiss_index.ntotal, dtype=np.int32)
    codes = np.empty((faiss_index.ntotal, width), dtype=np.uint8)
    for cell in range(faiss_index.nlist):
        size = lists.list_size(cell)
        if size:
            rows = faiss.rev_swig_ptr(lists.get_ids(cell), size)
            cells[rows] = cell
            if coded:
                codes[rows] = faiss.rev_swig_ptr(lists.get_codes(cell), size * width).reshape(size, width)
    return cells, codes


def fill_lists(
    faiss_index: Any, cells: Positions, vectors: Floats, positions: Positions, codes: NDArray[np.uint8] | None
) -> None:
    """Put rows into the cells where they were: the vectors themselves, or their codes."""
    faiss = load_faiss()
    n, nlist, width = len(positions), faiss_index.nlist, faiss_index.code_size
    if cells.shape != (n,) or (n and not 0 <= int(cells.min()) <= int(cells.max()) < nlist):
        raise CorruptFileError(f"`cells` must hold {n} numbers below {nlist}.")
    if codes is not None and (codes.shape != (n, width) or codes.dtype != np.uint8):
        raise CorruptFileError(f"`codes` must be {n} × {width} bytes, got {codes.shape}.")
    order = np.argsort(cells, kind="stable").astype(np.int64)
    starts = np.searchsorted(cells[order], np.arange(nlist + 1)).tolist()
    for cell in range(nlist):
        rows = order[starts[cell] : starts[cell + 1]]
        if len(rows):
            part = vectors[positions[rows]].view(np.uint8) if codes is None else codes[rows]
            part = np.ascontiguousarray(part)
            faiss_index.invlists.add_entries(cell, len(rows), faiss.swig_ptr(rows), faiss.swig_ptr(part))
    faiss_index.ntotal = n


def restore_books(faiss_index: Any, books: NDArray[np.float32]) -> None:
    """The code books of a product quantizer."""
    faiss = load_faiss()
    quantizer = faiss_index.pq
    wanted = quantizer.M * quantizer.ksub * quantizer.dsub
    if books.shape != (wanted,) or books.dtype != np.float32 or not np.isfinite(books).all():
        raise CorruptFileError(f"`books` must be {wanted} finite float32, got {books.shape}.")
    faiss.copy_array_to_vector(np.ascontiguousarray(books), quantizer.centroids)
    faiss_index.precompute_table()
