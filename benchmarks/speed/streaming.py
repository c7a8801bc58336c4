"""Embedding more than fits: rows a second and memory of `embed_stream`, for ever more rows of 128 numbers.

    python benchmarks/speed/streaming.py [ROWS ...]     [200,000 and 5,000,000]

The rows are Parquet files of 250,000 rows; each run is a process of its own, and its largest memory is what the
kernel has seen. Constant memory means that it does not grow with the rows.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from nearer.geometry import Mahalanobis
from nearer.models import Model
from nearer.models._model import Inputs
from record import save

WIDTH, OUT, FILE = 128, 32, 250_000
WORK = """
import json, resource, sys, time
sys.path.insert(0, sys.argv[4])
from record import peak_megabytes
import nearer
from nearer.models import embed_stream
model = nearer.load(sys.argv[1])
before = peak_megabytes()
start = time.perf_counter()
done = embed_stream(model, sys.argv[2], sys.argv[3])
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"rows": done.rows, "seconds": time.perf_counter() - start, "cpu_seconds": used.ru_utime +
      used.ru_stime, "before_mb": before, "peak_mb": peak_megabytes()}))
"""


def write(place: Path, rows: int) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    place.mkdir()
    chance = np.random.default_rng(0)
    for number, first in enumerate(range(0, rows, FILE)):
        block = chance.normal(size=(min(FILE, rows - first), WIDTH)).astype(np.float32)
        lists = pa.FixedSizeListArray.from_arrays(pa.array(block.reshape(-1)), WIDTH)
        parquet.write_table(pa.table({"x": lists}), place / f"{number:04d}.parquet", compression="none")


def main() -> None:
    counts = [int(word.replace(",", "")) for word in sys.argv[1:]] or [200_000, 5_000_000]
    rows = []
    for count in counts:
        place = Path(tempfile.mkdtemp())
        try:
            factor = torch.randn(WIDTH, OUT, generator=torch.Generator().manual_seed(0))
            Model(Mahalanobis.from_factor(factor), Inputs("features", size=(WIDTH,)), "by hand").save(
                place / "model"
            )
            write(place / "rows", count)
            data = sum(file.stat().st_size for file in (place / "rows").iterdir()) / 1e6
            for ending in ("parquet", "npy"):
                command = [
                    sys.executable,
                    "-c",
                    WORK,
                    *(str(place / one) for one in ("model", "rows", f"out.{ending}")),
                ]
                told = subprocess.run(
                    [*command, str(Path(__file__).resolve().parents[1])], check=True, capture_output=True, text=True
                ).stdout
                row = {
                    "out": ending,
                    "load_average": round(os.getloadavg()[0], 1),
                    "data_mb": data,
                    **json.loads(told),
                }
                (place / f"out.{ending}").unlink()
                rows.append(row)
                print(row, time.strftime("%H:%M:%S"))
                save("streaming", rows, key=["rows", "out"], packages=("pyarrow",), width=WIDTH, embedding=OUT)
        finally:
            shutil.rmtree(place)


if __name__ == "__main__":
    main()
