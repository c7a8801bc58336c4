"""A stored index beside a bare script of the standard library's sqlite3: CPU seconds; one write by the clock.

python benchmarks/speed/stored_index.py [--rows 100000 1000000]

Both have the same rows: 128 numbers, a text id, two metadata fields. The bare script is what somebody would write:
one BLOB a row, write-ahead log, synchronous=FULL, an index on the field that is filtered. Bulk: all rows in one
transaction. One write: a durable insert of one row. Opening: everything into memory. Filter: which rows have
shop = 7.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from nearer.index import Exact, open_index
from record import save

DIMENSION = 128
WRITES = 200
FILTERS = 50


def cpu(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


class Bare:
    """The table as a script has it."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "bare.sqlite"

    def open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.file, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    def bulk(self, rows: Any, ids: list[str], notes: list[dict[str, Any]]) -> None:
        connection = self.open()
        connection.execute(
            "CREATE TABLE items (position INTEGER PRIMARY KEY, id UNIQUE, metadata TEXT, embedding BLOB NOT NULL)"
        )
        connection.execute("BEGIN")
        connection.executemany(
            "INSERT INTO items (id, metadata, embedding) VALUES (?, ?, ?)",
            ((one, json.dumps(note), row.tobytes()) for one, note, row in zip(ids, notes, rows, strict=True)),
        )
        connection.execute("COMMIT")
        connection.close()

    def read(self) -> Any:
        connection = self.open()
        found = connection.execute("SELECT id, metadata, embedding FROM items ORDER BY position").fetchall()
        ids, notes, blobs = zip(*found, strict=True)
        rows = np.frombuffer(b"".join(blobs), dtype=np.float32).reshape(len(ids), -1)
        connection.close()
        return ids, notes, rows

    def write(self, connection: sqlite3.Connection, number: int, row: Any) -> None:
        connection.execute(
            "INSERT INTO items (id, metadata, embedding) VALUES (?, ?, ?)",
            (f"new {number}", json.dumps({"shop": 7, "name": "x"}), row.tobytes()),
        )

    def filtering(self) -> tuple[sqlite3.Connection, Callable[[], Any]]:
        connection = self.open()
        connection.execute("CREATE INDEX IF NOT EXISTS by_shop ON items (json_extract(metadata, '$.shop'))")
        command = "SELECT position FROM items WHERE json_extract(metadata, '$.shop') = 7"
        return connection, lambda: np.array(connection.execute(command).fetchall())


def measured(n: int, folder: Path) -> list[dict[str, Any]]:
    rows = np.random.default_rng(0).standard_normal((n, DIMENSION)).astype(np.float32)
    ids = [f"item {number}" for number in range(n)]
    notes = [{"shop": number % 1000, "name": f"name {number}"} for number in range(n)]
    extra = np.random.default_rng(1).standard_normal((WRITES, DIMENSION)).astype(np.float32)
    bare, place = Bare(folder), folder / "index"
    figures: dict[str, tuple[float, float]] = {}

    def fill() -> Any:
        index = open_index(place, dimension=DIMENSION, kind=Exact())
        index.add(rows, ids, notes)
        return index

    theirs, _ = cpu(lambda: bare.bulk(rows, ids, notes))
    ours, index = cpu(fill)
    figures["bulk, s"] = theirs, ours
    index.close()
    theirs, _ = cpu(bare.read)
    ours, index = cpu(lambda: open_index(place))
    figures["opening, s"] = theirs, ours
    index.add(extra[:1] + 1, ["warm"], [notes[0]])
    connection = bare.open()
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(WRITES):
        # In turn, by the clock: most of it is waiting for the disk.
        start = time.perf_counter()
        bare.write(connection, number, extra[number])
        between = time.perf_counter()
        index.add(extra[number : number + 1], [f"new {number}"], [{"shop": 7, "name": "x"}])
        times[0].append(between - start)
        times[1].append(time.perf_counter() - between)
    connection.close()
    figures["one write, ms"] = 1000 * statistics.median(times[0]), 1000 * statistics.median(times[1])
    connection, look = bare.filtering()
    first, _ = cpu(lambda: index.count({"shop": 7}))
    theirs, found = cpu(lambda: [look() for _ in range(FILTERS)])
    ours, counted = cpu(lambda: [index.count({"shop": 7}) for _ in range(FILTERS)])
    assert len(found[0]) == counted[0]
    figures["filter on a field, ms"] = 1000 * theirs / FILTERS, 1000 * ours / FILTERS
    connection.close()
    index.close()
    rounded = {name: (float(f"{a:.3g}"), float(f"{b:.3g}")) for name, (a, b) in figures.items()}
    return [
        {"rows": n, "what": name, "bare": a, "nearer": b, "ratio": round(b / a, 2)}
        for name, (a, b) in rounded.items()
    ] + [
        {
            "rows": n,
            "what": "first filter on a field, s",
            "bare": None,
            "nearer": float(f"{first:.3g}"),
            "ratio": None,
        }
    ]


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    reader.add_argument("--dry", action="store_true", help="print only")
    asked = reader.parse_args()
    for n in asked.rows:
        folder = Path(tempfile.mkdtemp())
        try:
            lines = measured(n, folder)
        finally:
            shutil.rmtree(folder)
        for line in lines:
            print(line, flush=True)
        if not asked.dry:
            save("stored_index", lines, key=["rows", "what"], dimension=DIMENSION, sqlite=sqlite3.sqlite_version)


if __name__ == "__main__":
    main()
