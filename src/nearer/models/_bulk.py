"""Embedding more than fits: rows are read, embedded and written part by part, and a killed run goes on."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nearer._checks import check_int
from nearer.datasets import Dataset, Split
from nearer.datasets._dataset import own_source
from nearer.datasets._frame import Column, Frame
from nearer.datasets._streams import Stream, open_stream
from nearer.datasets._table import encode
from nearer.exceptions import CorruptFileError, NotFiniteError, ParameterError
from nearer.models._encoders import items_bar
from nearer.models._inputs import item_metadata
from nearer.models._model import Model
from nearer.models._reading import encode_dataset, is_table
from nearer.models._sinks import FILES, Chunk, Journey, sink_for, without_secret, work_folder

Floats = NDArray[np.float32]
Side = Literal["queries", "database"]
PART = 1 << 14
PHOTOS = 256


@dataclass(frozen=True)
class Embedded:
    """What a run has done: rows in all, rows that an earlier run had done, dimensions, and where they are."""

    rows: int
    earlier: int
    dimensions: int
    out: str


def embed_stream(
    model: Model,
    data: Any,
    out: str | os.PathLike[str],
    *,
    batch_size: int | None = None,
    kind: Any = None,
    labels: Any = None,
    unreadable: str = "raise",
    force: bool = False,
    progress: bool = False,
) -> Embedded:
    """Embed rows part by part into a file or an index, with memory for one part.

    An asymmetric model embeds rows for a file as queries, and rows for an index as what is searched in.

    A run that was killed goes on where it was when it is called again with the same arguments; no row is written
    twice. What it has so far is in the folder `<out>.partial` (for an engine, in the working folder).

    Args:
        model: the model.
        data: a CSV, TSV, Parquet, .npy or (as a whole) .npz file, a folder of Parquet files or of photos, a folder
            that `Dataset.save_to_disk` of Hugging Face wrote, or such a data set itself.
        out: a file (.parquet, .npy, .csv), the folder of an index, or a URL that `nearer.index.open_index` takes.
        batch_size: rows in a part; by default 16,384, and 256 photos.
        kind: of a new index; None chooses by size.
        labels: the label columns of a table, kept as metadata.
        unreadable: "raise" stops at a damaged photo of a folder, "skip" leaves it out.
        force: write over a file that is there.
        progress: show a bar with the time left on standard error.

    >>> import tempfile
    >>> from nearer.geometry import Mahalanobis
    >>> from nearer.models._inputs import Inputs
    >>> model = Model(Mahalanobis.from_factor([[2.0]]), Inputs("features", size=(1,)), method="by hand")
    >>> folder = Path(tempfile.mkdtemp())
    >>> np.save(folder / "rows.npy", np.array([[1.0], [3.0]]))
    >>> embed_stream(model, folder / "rows.npy", folder / "out.npy").rows
    2
    >>> np.load(folder / "out.npy").tolist()
    [[2.0], [6.0]]
    """
    target = os.fspath(out)
    whole = isinstance(data, str | os.PathLike) and Path(data).suffix.lower() == ".npz"
    stream = _arrays(model, Path(data), labels) if whole else open_stream(data, unreadable=unreadable)
    if model.inputs.photos_in_tables and is_table(data):
        stream = replace(stream, root=Path(data).expanduser().parent)
    size = check_int(batch_size if batch_size is not None else PHOTOS if stream.root else PART, "batch_size")
    to_file = "://" not in target and Path(target).suffix.lower() in FILES
    work = work_folder(target)
    about = {"data": stream.fingerprint, "model": model.fingerprint, "out": without_secret(target), "part": size}
    if to_file and Path(target).exists() and not force:
        raise ParameterError(f"`{target}` must not exist yet. Choose another name, or pass `force=True`.")
    new = not to_file and "://" not in target and not Path(target).exists()
    index = None if to_file else _open(model, target, kind, fresh=not (work / "progress.json").exists())
    journey = Journey(work, about)
    sink = sink_for(target, work, index=index)
    try:
        journey.open()
    except BaseException:
        if index is not None:
            index.close()
        raise
    sink.reopen(journey.mark)
    earlier, done, width = journey.rows, journey.rows, 0
    try:
        with items_bar(unless=not progress) as bar:
            task = bar.add_task(f"embedding {stream.name}", total=stream.rows, completed=done, what="")
            for part in _parts(model, stream, done, size, labels, "queries" if to_file else "database"):
                sink.put(part)
                done += len(part.embeddings)
                width = part.embeddings.shape[1]
                journey.save(done, sink.commit())
                bar.advance(task, len(part.embeddings))
        sink.finish()
    except BaseException as stop:
        sink.abandon()
        if isinstance(stop, KeyboardInterrupt) and journey.rows:
            stop.args = (f"{journey.rows:,} rows are done. Repeat the command, and it goes on.",)
        if new and journey.rows == 0:
            # Nothing to go on with: the corrected call finds the place free.
            for folder in (Path(target), work):
                shutil.rmtree(folder, ignore_errors=True)
        raise
    journey.close()
    return Embedded(done, earlier, width or dimension_of(model), target)


def _open(model: Model, target: str, kind: Any, *, fresh: bool) -> Any:
    from nearer.index import open_index

    index = open_index(
        target,
        dimension=dimension_of(model),
        kind=kind,
        fingerprint=model.fingerprint,
        remember=model.place,
    )
    if fresh and index.count():
        index.close()
        raise ParameterError(f"`{without_secret(target)}` must be a new index, it has items already.")
    return index


def dimension_of(model: Model) -> int:
    """The length of an embedding."""
    return model.transform(np.zeros((1, *model.inputs.size), np.float32)).shape[1]


def _parts(model: Model, stream: Stream, start: int, size: int, labels: Any, side: Side) -> Iterator[Chunk]:
    for rows in stream.parts(start, size):
        try:
            part = embed_part(model, rows, start, root=stream.root, labels=labels, side=side)
        except NotFiniteError as error:
            raise NotFiniteError(f"In the rows from {start:,} on: {error}") from error
        except CorruptFileError as error:
            if stream.root is None:
                raise
            raise CorruptFileError(f"{error} Replace it, or pass `unreadable='skip'`.") from error
        yield part
        start += len(part.embeddings)


def embed_part(
    model: Model, rows: Any, start: int, *, root: Path | None = None, labels: Any = None, side: Side = "queries"
) -> Chunk:
    """The embeddings of one part of a stream, with ids and metadata where the data has them."""
    inputs = model.inputs
    if isinstance(rows, np.ndarray):
        if rows.dtype.kind == "f" and not np.isfinite(rows).all():
            if inputs.cleaning is None:
                raise NotFiniteError("Rows must be finite, got NaN or infinity. Impute or drop them.")
            return Chunk(start, model.embed(inputs.read(rows), side=side), None, None)
        return Chunk(start, model.transform(rows.astype(np.float32), side=side), None, None)
    if isinstance(rows, Dataset):
        data = rows
    elif isinstance(rows, Frame):
        data = _read_table(model, rows, labels, root)
    else:
        data = _read_photos(model, rows, root)
    ids = data.all.extra.get("id")
    return Chunk(start, model.embed(data, side=side), None if ids is None else ids.tolist(), item_metadata(data))


def _arrays(model: Model, path: Path, labels: Any) -> Stream:
    """An .npz, whose parts are parts of a data set in memory."""
    given = model.inputs.read(path.expanduser(), labels)
    rows = np.arange(len(given.all))

    def parts(start: int, size: int) -> Iterator[Any]:
        for first in range(start, len(rows), size):
            yield replace(given, parts={"all": given.all.take(rows[first : first + size])})

    return Stream(path.name, len(rows), given.fingerprint(), parts)


def _read_table(model: Model, frame: Frame, labels: Any, root: Path | None) -> Dataset:
    name = model.inputs.text
    if name is not None and frame[name].kind == "word":
        # One row without a text must not end a run over millions: it is embedded as an empty one.
        texts = frame[name].values.copy()
        texts[frame[name].missing] = ""
        if model.inputs.photos_in_tables and root is not None:
            texts[:] = [str(root / text) for text in texts]
        frame = replace(frame, columns={**frame.columns, name: Column("word", texts)})
    return model.inputs.read(frame, labels)


def _read_photos(model: Model, files: list[Path], root: Path | None) -> Dataset:
    """Photos of one part; the folder that one is in is its class, as `nearer.fit` sees it."""
    assert root is not None
    names = [file.relative_to(root) for file in files]
    folders = {entry.name for entry in os.scandir(root) if entry.is_dir() and not entry.name.startswith(".")}
    depth = 1 if folders == {"train", "test"} else 0
    labels = [name.parts[depth] if len(name.parts) > depth + 1 else "" for name in names]
    codes, classes = encode({"all": np.array(labels)}, None)
    split = Split(np.array([name.as_posix() for name in names]), codes["all"], root=root)
    data = Dataset(own_source(root.name), {"all": split}, classes)
    return data if model.inputs.encoder is None else encode_dataset(data, model.inputs.encoder, progress=False)
