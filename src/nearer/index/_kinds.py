"""The kinds of search that an index can use, and the recall that is measured for the approximate ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from nearer._checks import check_int, check_number

# faiss reserves room for so many candidates in every search.
WIDEST = 1 << 20


@dataclass(frozen=True)
class Exact:
    """Compare with every item: always right, nothing to build, and fast enough up to about 100,000 items.

    >>> from nearer.index import Index
    >>> Index(2, kind=Exact()).kind
    Exact()
    """


@dataclass(frozen=True)
class HNSW:
    """A graph of near neighbours that is walked greedily: slow to build, fast to search, removal by marking.

    `neighbors` are the edges per item, `build_width` and `search_width` how many candidates are kept while
    building and searching. More of each finds more and takes longer.

    >>> HNSW(search_width=128)
    HNSW(neighbors=32, build_width=100, search_width=128)
    """

    neighbors: int = 32
    build_width: int = 100
    search_width: int = 64

    def __post_init__(self) -> None:
        check_int(self.neighbors, "neighbors", minimum=2, maximum=1024)
        check_int(self.build_width, "build_width", maximum=WIDEST)
        check_int(self.search_width, "search_width", maximum=WIDEST)


@dataclass(frozen=True)
class IVF:
    """Cells around k-means centres, of which the nearest few are searched: fast to build, smaller than a graph.

    `cells=None` takes about 2√n of them, and chooses again when the index has grown fourfold. More `probes` find
    more and take longer.

    >>> IVF(probes=8)
    IVF(cells=None, probes=8)
    """

    cells: int | None = None
    probes: int = 16

    def __post_init__(self) -> None:
        if self.cells is not None:
            check_int(self.cells, "cells", maximum=1 << 20)
        check_int(self.probes, "probes")


@dataclass(frozen=True)
class IVFPQ:
    """Cells as in `IVF`, whose rows are kept as codes of a few bytes: small in memory, quick to scan, rougher.

    `bytes` is the length of a code (the largest divisor of the dimension up to it is taken). The `refine` · k best
    by their codes are compared again with the vectors themselves.

    >>> IVFPQ(refine=5)
    IVFPQ(cells=None, probes=16, bytes=32, refine=5)
    """

    cells: int | None = None
    probes: int = 16
    bytes: int = 32
    refine: int = 10

    def __post_init__(self) -> None:
        IVF(self.cells, self.probes)
        check_int(self.bytes, "bytes", maximum=1024)
        check_int(self.refine, "refine", maximum=1000)


Approximate = HNSW | IVF | IVFPQ
SearchKind = Exact | HNSW | IVF | IVFPQ
KINDS: dict[str, type[SearchKind]] = {kind.__name__: kind for kind in (Exact, HNSW, IVF, IVFPQ)}


def kind_to(kind: SearchKind) -> dict[str, Any]:
    """A kind as it is written down.

    >>> kind_to(IVF(probes=8))
    {'kind': 'IVF', 'settings': {'cells': None, 'probes': 8}}
    """
    return {"kind": type(kind).__name__, "settings": asdict(kind)}


def kind_from(about: Mapping[str, Any]) -> SearchKind:
    """The kind that `kind_to` wrote; KeyError or TypeError where it did not."""
    return KINDS[about["kind"]](**about["settings"])


@dataclass(frozen=True)
class Recall:
    """The share of the true k nearest that a search found, over some queries, in an index of `size` items."""

    value: float
    k: int
    queries: int
    size: int

    def __str__(self) -> str:
        return f"recall@{self.k} {self.value:.3f} ({self.queries} queries, {self.size:,} items)"

    @classmethod
    def read(cls, about: Mapping[str, Any] | None) -> Recall | None:
        """The recall that `asdict` wrote, checked."""
        if about is None:
            return None
        counts = [check_int(about[name], name, minimum=0) for name in ("k", "queries", "size")]
        return cls(check_number(about["value"], "value", minimum=0, maximum=1), *counts)
