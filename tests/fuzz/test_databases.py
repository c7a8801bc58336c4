"""Databases of an index, damaged and forged: what is in them, or an error of ours, and nothing else."""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearer.index import HNSW, IVF, Exact, Index, open_index
from nearer.index._rows import checksums
from random_cases import family, outcome

KINDS = {"exact": Exact(), "hnsw": HNSW(neighbors=4), "ivf": IVF(cells=4)}
VALUES: list[Any] = [
    None, True, 0, -1, 1, 2**31, 2**62, 10**30, 1.5, 1e300, "", "x", "\0", [], {}, [1], {"a": 1}, "[" * 200, "AAAA",
]  # fmt: skip


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    around = tmp_path_factory.mktemp("originals")
    for name, kind in KINDS.items():
        index = Index(3, kind=kind)
        rows = np.random.default_rng(1).standard_normal((9 if name == "exact" else 1100, 3))
        index.add(rows, metadata={"n": range(len(rows)), "name": [f"ä{n}" for n in range(len(rows))]})
        index.save(around / name)
    return around


def used(place: Path, read_only: bool) -> Any:
    with open_index(place, read_only=read_only) as index:
        index.search(np.ones((2, index.dimension)), k=3)
        index.count({"n": {"$gte": 3}})
        if not read_only:
            index.upsert(np.ones((1, index.dimension)), index.ids[:1] or [0], metadata=[{"n": 1}])
            index.verify()
        return index.embeddings(index.ids[:2])


@family("folders")
@given(data=st.data())
def test_damaged_databases(originals: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(KINDS)))
    with tempfile.TemporaryDirectory() as folder:
        place = Path(shutil.copytree(originals / name, Path(folder) / "copy"))
        file = place / data.draw(
            st.sampled_from([one.name for one in sorted(place.iterdir()) if one.stat().st_size])
        )
        content = bytearray(file.read_bytes())
        for _ in range(data.draw(st.integers(1, 4))):
            at = data.draw(st.integers(0, len(content) - 1))
            # Pages of SQLite begin with their layout: most of what can go wrong is there.
            at = at // 4096 * 4096 + at % 120 if data.draw(st.booleans()) else at
            if data.draw(st.integers(0, 3)):
                content[min(at, len(content) - 1)] = data.draw(st.integers(0, 255))
            elif data.draw(st.booleans()):
                length = data.draw(st.integers(1, 5000))
                content[at : at + length] = content[:length]
            else:
                del content[at + 1 :]
        file.write_bytes(bytes(content))
        outcome("folders", lambda: used(place, data.draw(st.booleans())))


@family("folders")
@given(data=st.data())
def test_forged_databases(originals: Path, data: st.DataObject) -> None:
    """Any value in any cell, with the right checksum."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(shutil.copytree(originals / data.draw(st.sampled_from(sorted(KINDS))), Path(folder) / "copy"))
        connection = sqlite3.connect(place / "index.sqlite", isolation_level=None)
        for _ in range(data.draw(st.integers(1, 3))):
            value = data.draw(st.sampled_from(VALUES))
            if data.draw(st.booleans()):
                name = data.draw(st.sampled_from([row[0] for row in connection.execute("SELECT name FROM about")]))
                text = value if isinstance(value, str) and data.draw(st.booleans()) else json.dumps(value)
                connection.execute("UPDATE about SET value = ? WHERE name = ?", [text, name])
                continue
            column = data.draw(st.sampled_from(["position", "id", "metadata", "embedding"]))
            plain = json.dumps(value) if isinstance(value, list | dict) or value == 10**30 else value
            plain = bytes(12) if column == "embedding" and data.draw(st.booleans()) else plain
            try:
                connection.execute(f"UPDATE items SET {column} = ? WHERE position = 3", [plain])
                row = connection.execute("SELECT id, metadata, embedding FROM items WHERE position = 3").fetchone()
                if row and isinstance(row[2], bytes) and len(row[2]) == 12:
                    sums = checksums([row[0]], [row[1]], np.frombuffer(row[2], "<f4")[None])
                    connection.execute("UPDATE items SET checksum = ? WHERE position = 3", sums)
            except sqlite3.IntegrityError:
                pass  # SQLite itself refuses it
        connection.close()
        outcome("folders", lambda: used(place, data.draw(st.booleans())))
