"""Where embeddings go, part by part, so that a killed run goes on where it was: files, tables, indexes.

Every sink keeps what it has in a folder or file beside its final name, and `commit` makes everything so far durable
and says how far that is; `reopen` cuts off what came after. A file gets its final name when it is whole.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nearer._storage import write_file
from nearer.exceptions import ParameterError

Floats = NDArray[np.float32]
FILES = (".npy", ".csv", ".parquet")


class Chunk:
    """The embeddings of some rows with what is known of them."""

    def __init__(
        self, start: int, embeddings: Floats, ids: list[Any] | None, metadata: list[dict[str, Any]] | None
    ) -> None:
        self.start, self.embeddings, self.metadata = start, embeddings, metadata
        self.ids: list[Any] = list(range(start, start + len(embeddings))) if ids is None else ids


class Sink(Protocol):
    """Takes parts in their order."""

    def reopen(self, mark: dict[str, Any] | None) -> None:
        """Begin, or go on after the last commit."""

    def put(self, part: Chunk) -> None:
        """Take a part."""

    def commit(self) -> dict[str, Any]:
        """Make it durable, and say where it ends."""

    def finish(self) -> None:
        """Give the result its name."""

    def abandon(self) -> None:
        """Give files back after an error; what was committed stays for the next run."""


def sink_for(out: str, work: Path, *, index: Any = None) -> Sink:
    """The sink for a file name, or for an index that is open."""
    if index is not None:
        return IndexSink(index)
    kinds: dict[str, Callable[[Path, Path], Sink]] = {".npy": NumpySink, ".csv": CsvSink, ".parquet": ParquetSink}
    suffix = Path(out).suffix.lower()
    if suffix not in kinds:
        raise ParameterError(f"`out` must end in {', '.join(FILES)}, got {Path(out).name!r}.")
    return kinds[suffix](Path(out), work)


class _FileSink:
    """A file that grows, and is cut to a known length when it is opened again."""

    def __init__(self, out: Path, work: Path) -> None:
        self.out, self.place = out, work / "rows"
        self.rows, self.width = 0, 0
        self.file: Any = None

    def reopen(self, mark: dict[str, Any] | None) -> None:
        self.file = open(self.place, "r+b" if mark else "wb")  # noqa: SIM115
        if mark:
            self.rows, self.width = mark["rows"], mark["width"]
            self.file.truncate(mark["bytes"])
            self.file.seek(mark["bytes"])

    def commit(self) -> dict[str, Any]:
        self.file.flush()
        os.fsync(self.file.fileno())
        return {"bytes": self.file.tell(), "rows": self.rows, "width": self.width}

    def finish(self) -> None:
        self.commit()
        self.file.close()
        os.replace(self.place, self.out)

    def abandon(self) -> None:
        self.file.close()


class NumpySink(_FileSink):
    """An .npy file; its header, with the number of rows, is written last."""

    def put(self, part: Chunk) -> None:
        if not self.rows:
            self.width = part.embeddings.shape[1]
            self._write_head()
        self.file.write(np.ascontiguousarray(part.embeddings, dtype="<f4").data)
        self.rows += len(part.embeddings)

    def _write_head(self) -> None:
        """numpy leaves room in it for any number of rows."""
        self.file.seek(0)
        about = {"descr": "<f4", "fortran_order": False, "shape": (self.rows, self.width)}
        np.lib.format.write_array_header_1_0(self.file, about)

    def finish(self) -> None:
        self._write_head()
        super().finish()


class CsvSink(_FileSink):
    """A table with the columns d0, d1, ..."""

    def put(self, part: Chunk) -> None:
        if not self.rows:
            self.width = part.embeddings.shape[1]
            self.file.write((",".join(f"d{place}" for place in range(self.width)) + "\n").encode())
        rows = (",".join(f"{value:.9g}" for value in row) for row in part.embeddings)
        self.file.write(("\n".join(rows) + "\n").encode())
        self.rows += len(part.embeddings)


class ParquetSink:
    """A Parquet file with `id`, `embedding` and the kept columns; parts until it is whole."""

    def __init__(self, out: Path, work: Path) -> None:
        from nearer.datasets._parquet_files import load_arrow

        self.arrow, self.parquet = load_arrow()
        self.out, self.work, self.parts = out, work, 0

    def _place(self, number: int) -> Path:
        return self.work / f"part-{number:08d}.parquet"

    def reopen(self, mark: dict[str, Any] | None) -> None:
        self.parts = mark["parts"] if mark else 0
        for file in self.work.glob("part-*.parquet"):
            if file.name >= self._place(self.parts).name:
                file.unlink()

    def put(self, part: Chunk) -> None:
        table = self.arrow.table(columns_of(part))
        place = self._place(self.parts)
        self.parquet.write_table(table, place, compression="none" if part.metadata is None else "snappy")
        with open(place, "rb") as file:
            os.fsync(file.fileno())
        self.parts += 1

    def commit(self) -> dict[str, Any]:
        return {"parts": self.parts}

    def finish(self) -> None:
        """One file of all parts, copied part by part."""
        whole = self.work / "whole.parquet"
        schemas = [self.parquet.read_schema(self._place(number)) for number in range(self.parts)]
        schema = self.arrow.unify_schemas(schemas, promote_options="permissive")
        with self.parquet.ParquetWriter(whole, schema) as writer:
            for number in range(self.parts):
                table = self.parquet.ParquetFile(self._place(number), pre_buffer=False).read()
                for name in schema.names:
                    if name not in table.column_names:
                        table = table.append_column(name, self.arrow.nulls(len(table), schema.field(name).type))
                writer.write_table(table.select(schema.names).cast(schema))
        with open(whole, "rb") as file:
            os.fsync(file.fileno())
        os.replace(whole, self.out)

    def abandon(self) -> None:
        """Nothing is open between two parts."""


def columns_of(part: Chunk) -> dict[str, Any]:
    """The Arrow columns of a part: id, embedding, and one for each key of the metadata."""
    import pyarrow as pa

    rows = np.ascontiguousarray(part.embeddings, dtype=np.float32)
    columns: dict[str, Any] = {
        "id": pa.array(part.ids),
        "embedding": pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), rows.shape[1]),
    }
    for name in dict.fromkeys(name for row in part.metadata or () for name in row):
        assert part.metadata is not None
        key = name if name not in columns else f"{name}_"
        columns[key] = pa.array([row.get(name) for row in part.metadata])
    return columns


class IndexSink:
    """An index, wherever it lives; a part that is there already after a kill is not put in again."""

    def __init__(self, index: Any) -> None:
        self.index, self.again = index, False

    def reopen(self, mark: dict[str, Any] | None) -> None:
        self.again = True

    def put(self, part: Chunk) -> None:
        rows = np.arange(len(part.ids))
        if self.again:
            # Only the part after the last commit can be there already, all of it or in pieces.
            rows = np.array([place for place, one in enumerate(part.ids) if one not in self.index], dtype=np.int64)
            self.again = False
        if len(rows):
            later = {"sync": False} if hasattr(self.index, "sync") else {}
            metadata = None if part.metadata is None else [part.metadata[row] for row in rows]
            self.index.add(part.embeddings[rows], ids=[part.ids[row] for row in rows], metadata=metadata, **later)

    def commit(self) -> dict[str, Any]:
        if hasattr(self.index, "sync"):
            self.index.sync()
        return {}

    def finish(self) -> None:
        self.index.close()

    def abandon(self) -> None:
        self.index.close()


class Journey:
    """How far a run is, in a file of its own: what it works on, and the mark of the last commit."""

    def __init__(self, work: Path, about: dict[str, Any]) -> None:
        self.work, self.place = work, work / "progress.json"
        self.about = about
        self.rows = 0
        self.mark: dict[str, Any] | None = None

    def open(self) -> None:
        """Begin, or find where an interrupted run of the same work was."""
        if self.place.exists():
            told = json.loads(self.place.read_bytes())
            if told["about"] != self.about:
                names = {"data": "other data", "model": "another model", "out": "another result"}
                what = next(
                    (names[k] for k in names if told["about"].get(k) != self.about.get(k)), "other settings"
                )
                raise ParameterError(
                    f"`{self.work}` is a run that was interrupted, with {what}. Delete that folder to begin anew."
                )
            self.rows, self.mark = told["rows"], told["mark"]
        else:
            self.work.mkdir(parents=True, exist_ok=True)

    def save(self, rows: int, mark: dict[str, Any]) -> None:
        """Everything up to `rows` is durable."""
        write_file(self.place, json.dumps({"about": self.about, "rows": rows, "mark": mark}).encode())
        self.rows, self.mark = rows, mark

    def close(self) -> None:
        """The work is done."""
        shutil.rmtree(self.work)


def work_folder(target: str) -> Path:
    """Where an unfinished run keeps what it has."""
    if "://" in target:
        plain = "".join(letter if letter.isalnum() else "-" for letter in without_secret(target))
        return Path(f"{plain.strip('-')}.partial")
    return Path(f"{target.rstrip('/')}.partial")


def stopped_before(target: str) -> str:
    """What to say of a result whose run was stopped before its end; empty where there is none.

    >>> stopped_before("no-such-index")
    ''
    """
    if not (work_folder(target) / "progress.json").exists():
        return ""
    return f"{target} is unfinished: the run that fills it was stopped. Repeat that command, and it goes on."


def without_secret(target: str) -> str:
    """A URL without user and password: it is written to disk."""
    scheme, found, rest = target.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}" if found else target
