"""The faiss structures behind approximate search, and how much they find.

How many of the true neighbours an approximate structure finds depends on the data: the same settings can find all
of them or half of them. So every build holds a sample out, searches with it before it goes in, compares with exact
search, and reports the recall. (Items that are already inside would flatter a graph: it has edges to what they
should find.)
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nearer._plain import Floats, Positions
from nearer.exceptions import CorruptFileError, NearerWarning
from nearer.index._kinds import HNSW, IVF, IVFPQ, Approximate, Recall
from nearer.index._rows import exact_search
from nearer.neighbors._shared import Similarity, best_first, load_faiss, similarities

# Below this size a structure costs more than it saves.
SMALL = 1_000
HELD_OUT = 100
RECALL_K = 10
# Rows that go into a structure at a time: bounds the copy that putting them in order makes.
CHUNK = 1 << 16


def recall_of(reached: Floats, true: Floats) -> float:
    """The share of found similarities (q, k) that reach the k-th true one: among equals, any will do.

    >>> recall_of(np.array([[0.9, 0.3]]), np.array([[0.9, 0.5]]))
    0.5
    """
    hits = (reached >= true[:, -1:]).sum(axis=1) if true.size else np.empty(0)
    return float(hits.sum()) / max(1, true.size)


class Structure:
    """A faiss index over some rows of a matrix, which it knows by their positions."""

    def __init__(self, kind: Approximate, similarity: Similarity, faiss_index: Any, trained_on: int) -> None:
        self.kind = kind
        self.similarity: Similarity = similarity
        self.faiss_index = faiss_index
        self.trained_on = trained_on
        self.positions: Positions = np.empty(0, dtype=np.int64)  # of the rows, in the order of the structure
        self.recall: Recall | None = None

    def add(self, vectors: Floats, positions: Positions, *, measure: bool, target: float | None = None) -> None:
        """Put rows in, in a random order that is always the same; the last of them are queries first.

        With a `target`, cells are searched with more probes until the recall reaches it.
        """
        order = np.random.default_rng(0).permutation(positions)
        held_out = min(HELD_OUT, len(order) // 2) if measure else 0
        self._insert(vectors, order[: len(order) - held_out])
        if held_out:
            self._measure(vectors, order[len(order) - held_out :])
            while (
                target is not None
                and isinstance(self.kind, IVF | IVFPQ)
                and self.recall is not None
                and self.recall.value < target
                and self.kind.probes < self.faiss_index.nlist
            ):
                self.kind = replace(self.kind, probes=2 * self.kind.probes)
                self._measure(vectors, order[len(order) - held_out :])
            self._insert(vectors, order[len(order) - held_out :])

    def search(
        self, queries: Floats, vectors: Floats, k: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[Floats, Positions]:
        """About the k nearest allowed rows, best first: similarities and positions; −inf and −1 for none."""
        faiss = load_faiss()
        if isinstance(self.kind, HNSW):
            settings = faiss.SearchParametersHNSW(efSearch=max(self.kind.search_width, k))
        else:
            settings = faiss.SearchParametersIVF(nprobe=min(self.kind.probes, self.faiss_index.nlist))
        if allowed is not None:
            # faiss keeps bare pointers: both names must stay until the search is over.
            bits = np.packbits(allowed[self.positions], bitorder="little")
            selector = faiss.IDSelectorBitmap(bits)
            settings.sel = selector
        # faiss.contrib.torch_utils, which other libraries import, puts a search without `params` in its place.
        search = getattr(self.faiss_index, "search_numpy", self.faiss_index.search)
        wanted = k * self.kind.refine if isinstance(self.kind, IVFPQ) else k
        _, rows = search(np.ascontiguousarray(queries), min(wanted, max(k, len(self.positions))), params=settings)
        positions = np.where(rows >= 0, self.positions[rows], -1)
        values = similarities(queries, vectors, positions, similarity=self.similarity)
        values[positions < 0] = -np.inf
        values, positions = best_first(values, positions)
        return values[:, :k], positions[:, :k]

    def tensors(self) -> dict[str, Tensor]:
        """What is expensive to make again; the vectors themselves are stored once, by the index."""
        faiss = load_faiss()
        stored = {"positions": torch.from_numpy(self.positions)}
        if not isinstance(self.kind, HNSW):
            # With faiss.contrib.torch_utils this is a tensor, without it an array.
            centers = np.asarray(self.faiss_index.quantizer.reconstruct_n(0, self.faiss_index.nlist))
            rows, codes = list_contents(self.faiss_index, coded=isinstance(self.kind, IVFPQ))
            stored |= {"centers": torch.from_numpy(centers)}
            stored |= {"cells": torch.from_numpy(rows)}
            if isinstance(self.kind, IVFPQ):
                books = faiss.vector_to_array(self.faiss_index.pq.centroids)
                stored |= {"codes": torch.from_numpy(codes), "books": torch.from_numpy(books)}
            return stored
        graph = self.faiss_index.hnsw
        return stored | {
            "levels": torch.from_numpy(faiss.vector_to_array(graph.levels)),
            "offsets": torch.from_numpy(faiss.vector_to_array(graph.offsets).astype(np.int64)),
            "neighbors": torch.from_numpy(faiss.vector_to_array(graph.neighbors)),
            "entry": torch.tensor([graph.entry_point, graph.max_level]),
        }

    def _insert(self, vectors: Floats, positions: Positions) -> None:
        for start in range(0, len(positions), CHUNK):
            self.faiss_index.add(vectors[positions[start : start + CHUNK]])
        self.positions = np.concatenate([self.positions, positions])

    def _measure(self, vectors: Floats, held_out: Positions) -> None:
        inside = len(self.positions)
        k = min(RECALL_K, inside)
        queries = vectors[held_out]
        # Exact search sees all rows: ask for enough that k remain without those that are not in yet.
        outside = np.ones(len(vectors), dtype=np.bool_)
        outside[self.positions] = False
        values, ranked = exact_search(queries, vectors, k + int(outside.sum()), similarity=self.similarity)
        true = np.stack([row[~outside[places]][:k] for row, places in zip(values, ranked, strict=True)])
        values_found, _ = self.search(queries, vectors, k)
        self.recall = Recall(recall_of(values_found, true), k, len(held_out), inside)


def warn_if_poor(kind: Approximate, recall: Recall | None) -> None:
    """Say that a structure misses many neighbours on this data, and which setting to turn."""
    if recall is not None and recall.value < 0.9:
        turn = {HNSW: "`search_width`", IVF: "`probes`", IVFPQ: "`probes`, `refine` or `bytes`"}[type(kind)]
        warnings.warn(
            f"{kind} finds {recall.value:.0%} of the {recall.k} nearest items on this data (measured with "
            f"{recall.queries} held-out items). Raise {turn}, or use Exact().",
            NearerWarning,
            stacklevel=5,
        )


def build(kind: Approximate, vectors: Floats, *, similarity: Similarity, target: float | None = None) -> Structure:
    """A structure over all rows of a matrix (n, d), its recall measured, for cells raised to a target."""
    n, d = vectors.shape
    if isinstance(kind, HNSW):
        structure = _empty_graph(kind, similarity, d)
    else:
        cells = min(n, kind.cells) if kind.cells is not None else max(1, min(round(2 * n**0.5), n // 39))
        faiss_index = _empty_cells(kind, similarity, d, cells)
        if isinstance(kind, IVFPQ):
            faiss_index.pq.cp.min_points_per_centroid = 1
        sample = np.random.default_rng(0).permutation(n)[: 256 * cells]
        # The default warns on the standard error below 39 rows per cell; a small index is no mistake.
        faiss_index.cp.min_points_per_centroid = 1
        faiss_index.train(vectors[sample])
        structure = Structure(kind, similarity, faiss_index, n)
    structure.add(vectors, np.arange(n), measure=True, target=target)
    return structure


def restore(
    kind: Approximate, vectors: Floats, tensors: dict[str, Tensor], *, similarity: Similarity, trained_on: int
) -> Structure:
    """A structure from its stored tensors. They are checked: a forged graph must not read outside of its arrays."""
    for name, tensor in tensors.items():
        if tensor.is_floating_point() != (name in ("centers", "books")):
            raise CorruptFileError(f"`{name}` of the structure has the wrong type {tensor.dtype}.")
    positions = tensors["positions"].numpy().astype(np.int64)
    if not np.array_equal(np.sort(positions), np.arange(len(vectors))):
        raise CorruptFileError(f"`positions` must hold each of the {len(vectors)} rows once.")
    if not isinstance(kind, HNSW):
        centers = np.ascontiguousarray(tensors["centers"].numpy())
        if (
            centers.ndim != 2
            or not len(centers)
            or centers.shape[1] != vectors.shape[1]
            or (centers.dtype != np.float32 or not np.isfinite(centers).all())
        ):
            raise CorruptFileError(
                f"`centers` must be finite rows of {vectors.shape[1]}, got shape {centers.shape}."
            )
        faiss_index = _empty_cells(kind, similarity, vectors.shape[1], len(centers))
        faiss_index.quantizer.add(centers)
        faiss_index.is_trained = True
        structure = Structure(kind, similarity, faiss_index, trained_on)
        if isinstance(kind, IVFPQ):
            restore_books(faiss_index, tensors["books"].numpy())
        codes = tensors["codes"].numpy() if isinstance(kind, IVFPQ) else None
        fill_lists(faiss_index, tensors["cells"].numpy(), vectors, positions, codes)
        structure.positions = positions
        return structure
    structure = _empty_graph(kind, similarity, vectors.shape[1])
    _restore_graph(structure.faiss_index, vectors, positions, {k: v.numpy() for k, v in tensors.items()})
    structure.positions = positions
    return structure


def _metric(similarity: Similarity) -> int:
    faiss = load_faiss()
    return int(faiss.METRIC_L2 if similarity == "euclidean" else faiss.METRIC_INNER_PRODUCT)


def _empty_graph(kind: HNSW, similarity: Similarity, d: int) -> Structure:
    faiss = load_faiss()
    faiss_index = faiss.IndexHNSWFlat(d, kind.neighbors, _metric(similarity))
    faiss_index.hnsw.efConstruction = kind.build_width
    return Structure(kind, similarity, faiss_index, 0)


def _empty_cells(kind: IVF | IVFPQ, similarity: Similarity, d: int, cells: int) -> Any:
    faiss = load_faiss()
    flat = faiss.IndexFlat(d, _metric(similarity))
    if isinstance(kind, IVFPQ):
        parts = max(divisor for divisor in range(1, min(kind.bytes, d) + 1) if d % divisor == 0)
        return faiss.IndexIVFPQ(flat, d, cells, parts, 8, _metric(similarity))
    return faiss.IndexIVFFlat(flat, d, cells, _metric(similarity))


def _restore_graph(
    faiss_index: Any, vectors: Floats, positions: Positions, arrays: dict[str, NDArray[Any]]
) -> None:
    faiss = load_faiss()
    graph, n = faiss_index.hnsw, len(vectors)
    levels, offsets, neighbors = arrays["levels"], arrays["offsets"], arrays["neighbors"]
    slots = faiss.vector_to_array(graph.cum_nneighbor_per_level)  # edges of an item with levels 1, 2, …, summed
    entry, top = arrays["entry"].tolist()
    sound = (
        levels.shape == (n,)
        and offsets.shape == (n + 1,)
        and neighbors.ndim == 1
        and bool(((levels >= 1) & (levels < len(slots))).all())
        and offsets[0] == 0
        and np.array_equal(np.diff(offsets), slots[levels])
        and offsets[-1] == len(neighbors)
        and bool(((neighbors >= -1) & (neighbors < n)).all())
        and 0 <= entry < n
        and top == levels.max() - 1 == levels[entry] - 1
    )
    if sound:
        # An edge above the ground must lead to an item that is there at that height.
        for level in np.unique(levels[levels > 1]).tolist():
            rows = np.flatnonzero(levels == level)
            edges = neighbors[offsets[rows][:, None] + np.arange(slots[level])]
            height = np.searchsorted(slots, np.arange(slots[level]), side="right") - 1
            sound = sound and bool(((edges < 0) | (levels[edges] > height)).all())
    if not sound:
        raise CorruptFileError(f"The stored graph must be one over {n} items; its arrays do not fit together.")
    # Straight into the memory of faiss: a copy less of everything there is.
    storage = faiss.downcast_index(faiss_index.storage)
    storage.codes.resize(n * 4 * vectors.shape[1])
    room = faiss.rev_swig_ptr(storage.codes.data(), n * 4 * vectors.shape[1]).view(np.float32).reshape(n, -1)
    np.take(vectors, positions, axis=0, out=room, mode="clip")
    storage.ntotal = faiss_index.ntotal = n
    faiss.copy_array_to_vector(np.ascontiguousarray(levels, dtype=np.int32), graph.levels)
    faiss.copy_array_to_vector(np.ascontiguousarray(offsets, dtype=np.uint64), graph.offsets)
    faiss.copy_array_to_vector(np.ascontiguousarray(neighbors, dtype=np.int32), graph.neighbors)
    graph.entry_point, graph.max_level = entry, top


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
