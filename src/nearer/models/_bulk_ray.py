"""The same work on a cluster: Ray Data reads, embeds and writes; nothing here schedules anything itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from nearer._checks import needed
from nearer.datasets._frame import frame_from
from nearer.exceptions import ParameterError
from nearer.models._bulk import PART, Embedded, Side, dimension_of, embed_part
from nearer.models._model import Model
from nearer.models._saved import load
from nearer.models._sinks import columns_of


class Embedder:
    """What every worker does: load the model once, embed one Arrow table after the other."""

    def __init__(self, model: str, side: Side) -> None:
        self.model, self.side = load(model), side

    def __call__(self, table: Any) -> Any:
        import pyarrow as pa

        columns = columns_of(embed_part(self.model, frame_from(table), 0, side=self.side))
        if self.model.inputs.ids not in table.column_names:
            # Blocks come in any order, so a number of a row would name another one in the next run.
            del columns["id"]
        return pa.table(columns)


def embed_with_ray(
    model: str | os.PathLike[str],
    data: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    address: str,
    workers: int = 1,
    batch_size: int | None = None,
) -> Embedded:
    """Embed tables (CSV or Parquet, a file or a folder) on a Ray cluster, into Parquet files or an index.

    The model, the data and `out` must be where all machines find them. An index needs a column of ids (`id=` of
    `nearer.fit`): the rows come in any order, and are put in by their ids, so that a run can be repeated.

    Args:
        model: a model folder.
        data: a table, or a folder of tables of one kind.
        out: a folder for Parquet files, the folder of an index ending in "/", or the URL of an engine.
        address: of the cluster, "auto", or "local" for a Ray of this machine alone.
        workers: how many copies of the model work at a time.
        batch_size: rows that a worker embeds at a time.
    """
    ray = needed("ray", "Embedding on a cluster needs Ray Data", "ray")
    machine: Model = load(model)
    target, source = os.fspath(out), str(Path(data).expanduser().resolve())
    into_index = "://" in target or target.endswith("/")
    if into_index and machine.inputs.ids is None:
        raise ParameterError(
            "The model must know which column holds the ids (`id=`), because Ray gives the rows in any "
            "order. Write Parquet instead."
        )
    if not into_index and Path(target).exists():
        raise ParameterError(f"`{target}` must not exist yet. Choose another name, or delete it.")
    if not ray.is_initialized():
        ray.init(address=address, log_to_driver=False)
    place = str(Path(model).expanduser().resolve())
    table = ray.data.read_csv(source) if _is_csv(Path(source)) else ray.data.read_parquet(source)
    embedded = table.map_batches(
        Embedder,
        fn_constructor_args=(place, "database" if into_index else "queries"),
        batch_size=batch_size or PART,
        batch_format="pyarrow",
        compute=ray.data.ActorPoolStrategy(size=workers),
    )
    rows = 0
    if not into_index:
        return Embedded(_written(embedded, target), 0, dimension_of(machine), target)
    from nearer.index import open_index

    with open_index(
        target, dimension=dimension_of(machine), fingerprint=machine.fingerprint, remember=machine.place
    ) as index:
        for batch in embedded.iter_batches(batch_size=batch_size or PART, batch_format="pyarrow"):
            vectors = batch["embedding"].combine_chunks()
            names = [name for name in batch.column_names if name not in ("id", "embedding")]
            metadata = batch.select(names).to_pylist() if names else None
            width = vectors.type.list_size
            index.upsert(vectors.flatten().to_numpy().reshape(-1, width), batch["id"].to_pylist(), metadata)
            rows += batch.num_rows
    return Embedded(rows, 0, dimension_of(machine), target)


def _written(embedded: Any, target: str) -> int:
    """Write the files, and count what is in them."""
    from pyarrow import parquet

    embedded.write_parquet(str(Path(target).resolve()))
    return sum(parquet.read_metadata(file).num_rows for file in Path(target).rglob("*.parquet"))


def _is_csv(path: Path) -> bool:
    if path.is_dir():
        return any(path.rglob("*.csv")) and not any(path.rglob("*.parquet"))
    return path.suffix.lower() == ".csv"
