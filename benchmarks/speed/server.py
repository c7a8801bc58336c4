"""The service under load: `/search` over 100,000 × 128 with the default index, 32 connections, one machine.

    python benchmarks/speed/server.py [vectors items binary]    requests a second, latency, processor time a request
    python benchmarks/speed/server.py --soak 600                searches and writes: does memory stay flat?

The client (wrk where it is installed, else a small one of Python) runs on the same cores as the server. "Above the
search" is the processor time of the server for a request less that of `index.search` alone, for batches of the size
that the server made.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
from nearer.app.client import Client
from nearer.geometry import Mahalanobis
from nearer.index import open_index
from nearer.models import Model
from nearer.models._model import Inputs
from nearer.neighbors._shared import load_faiss
from record import save
from running_server import Running, start

ROWS, WIDTH, K, CONNECTIONS = 100_000, 128, 10, 32
SECONDS = 6
KINDS = ["vectors", "items", "binary"]
TICK = os.sysconf("SC_CLK_TCK")


def data(n: int, seed: int) -> np.ndarray[Any, Any]:
    """Rows around 200 centers, as embeddings are: neighbors are in one direction and not everywhere."""
    centers = np.random.default_rng(0).normal(size=(200, WIDTH))
    chance = np.random.default_rng(seed)
    rows: np.ndarray[Any, Any] = centers[chance.integers(0, 200, n)] + chance.normal(size=(n, WIDTH))
    return rows.astype(np.float32)


def prepare(place: Path) -> Model:
    factor = torch.linalg.qr(torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(0)))[0]
    model = Model(Mahalanobis.from_factor(factor), Inputs("features", size=(WIDTH,)), "by hand")
    model.save(place / "model")
    with open_index(place / "index", dimension=WIDTH, fingerprint=model.fingerprint) as index:
        index.add(model.transform(data(ROWS, 1)), metadata=[{"row": row} for row in range(ROWS)])
        print(index)
    return model


def bodies(what: str) -> tuple[str, list[bytes], str]:
    """Path, 64 bodies and content type of one kind of request."""
    rows = data(64, 2)
    if what == "binary":
        return f"/search?k={K}", [row.astype("<f4").tobytes() for row in rows], "application/octet-stream"
    texts = [json.dumps({what: [[round(float(v), 6) for v in row]], "k": K}).encode() for row in rows]
    return "/search", texts, "application/json"


def load_with_wrk(server: Running, what: str, place: Path) -> dict[str, Any]:
    path, texts, content = bodies(what)
    for number, text in enumerate(texts):
        (place / f"body-{number}").write_bytes(text)
    script = place / "wrk.lua"
    script.write_text(
        f'local b = {{}}; for i = 0, 63 do local f = io.open("{place}/body-" .. i, "rb"); b[i] = f:read("*a"); '
        "f:close() end; local n = 0\n"
        f'request = function() n = n + 1; return wrk.format("POST", "{path}", '
        f'{{["content-type"] = "{content}"}}, b[n % 64]) end\n'
    )
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS}", "--latency", "-s", str(script), server.address]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    units = {"us": 0.001, "ms": 1.0, "s": 1000.0}

    def latency(share: str) -> float:
        number, unit = re.search(rf"{share}%\s+([\d.]+)(us|ms|s)", text).groups()  # type: ignore[union-attr]
        return float(number) * units[unit]

    assert "Non-2xx" not in text, text
    asked = int(re.search(r"(\d+) requests in", text).group(1))  # type: ignore[union-attr]
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", text).group(1))  # type: ignore[union-attr]
    return {
        "client": "wrk",
        "requests": asked,
        "per_second": rate,
        "p50_ms": latency("50"),
        "p99_ms": latency("99"),
    }


def load_with_python(server: Running, what: str, place: Path) -> dict[str, Any]:
    path, texts, content = bodies(what)
    times: list[float] = []

    async def one(number: int, end: float) -> None:
        reader, writer = await asyncio.open_connection(server.host, int(server.port))
        while time.perf_counter() < end:
            text = texts[len(times) % 64]
            head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {content}\r\ncontent-length: "
            begun = time.perf_counter()
            writer.write(head.encode() + str(len(text)).encode() + b"\r\n\r\n" + text)
            told = await reader.readuntil(b"\r\n\r\n")
            assert b" 200 " in told[:20], told
            await reader.readexactly(int(re.search(rb"content-length: (\d+)", told).group(1)))  # type: ignore[union-attr]
            times.append(time.perf_counter() - begun)
        writer.close()

    async def all_of_them() -> None:
        end = time.perf_counter() + SECONDS
        await asyncio.gather(*(one(number, end) for number in range(CONNECTIONS)))

    asyncio.run(all_of_them())
    spread = np.percentile(1000 * np.array(times), [50, 99])
    return {"client": "python", "requests": len(times), "per_second": len(times) / SECONDS,
            "p50_ms": float(spread[0]), "p99_ms": float(spread[1])}  # fmt: skip


def processor_seconds(process: int) -> float:
    words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / TICK


def search_alone(index: Any, batch: int) -> float:
    """Processor milliseconds a query of `index.search` in batches."""
    queries = data(max(batch * 40, 2000), 3)
    for part in range(0, len(queries), batch):
        if part == batch:
            begun = resource.getrusage(resource.RUSAGE_SELF)
        index.search(queries[part : part + batch], k=K)
    done = resource.getrusage(resource.RUSAGE_SELF)
    used = done.ru_utime + done.ru_stime - begun.ru_utime - begun.ru_stime
    return 1000 * used / (len(queries) - batch)


def measure(place: Path) -> None:
    load = load_with_wrk if shutil.which("wrk") else load_with_python
    rows = []
    for what in [word for word in sys.argv[1:] if word in KINDS] or KINDS:
        server = start(place / "model", place / "index", environment={"OMP_NUM_THREADS": "2"})
        with Client(server.address) as client:
            best = None
            for _ in range(3):  # the first one warms up; the best of the others is the least disturbed
                before, used = client.status(), processor_seconds(server.process.pid)
                found = load(server, what, place)
                after, spent = client.status(), processor_seconds(server.process.pid) - used
                batches = after["nearer_batches_total"] - before["nearer_batches_total"]
                found["batch"] = (after["nearer_batch_rows_total"] - before["nearer_batch_rows_total"]) / batches
                found["cpu_ms"] = 1000 * spent / found["requests"]
                best = found if best is None or found["per_second"] > best["per_second"] else best
            assert best is not None
        server.stop()
        with open_index(place / "index", read_only=True) as index:
            torch.set_num_threads(1)  # as the server does
            load_faiss().omp_set_num_threads(1)
            best["search_cpu_ms"] = search_alone(index, max(1, round(best["batch"])))
        best["above_search_cpu_ms"] = best["cpu_ms"] - best["search_cpu_ms"]
        rows.append({"request": what, "load_average": round(os.getloadavg()[0], 1), **best})
        print(rows[-1])
        save("server", rows, key=["request"], packages=("uvicorn", "msgspec", "faiss-cpu"), items=ROWS,
             width=WIDTH, k=K, connections=CONNECTIONS)  # fmt: skip


def soak(place: Path, seconds: int) -> None:
    """Searches as fast as they go and a steady stream of writes; the memory of the server every few seconds."""
    server = start(place / "model", place / "index", "--log", "errors", environment={"OMP_NUM_THREADS": "2"})
    end, counts, failed = time.monotonic() + seconds, [0, 0], [0]

    def search(seed: int) -> None:
        rows = data(64, seed)
        with Client(server.address) as client:
            while time.monotonic() < end:
                try:
                    client.search(vectors=rows[counts[0] % 64 : counts[0] % 64 + 1], k=K)
                    counts[0] += 1
                except ValueError:
                    failed[0] += 1

    def write() -> None:
        rows = data(64, 99)
        with Client(server.address) as client:
            while time.monotonic() < end:
                try:
                    ids = [10_000_000 + (counts[1] * 8 + one) % 4000 for one in range(8)]
                    client.upsert(vectors=rows[:8] + counts[1] % 7, ids=ids, metadata=[{"row": one} for one in ids])
                    client.remove(ids[0])
                    counts[1] += 2
                    time.sleep(0.02)
                except ValueError:
                    failed[0] += 1

    threads = [threading.Thread(target=search, args=(seed,)) for seed in range(8)] + [
        threading.Thread(target=write)
    ]
    for thread in threads:
        thread.start()
    memory: list[tuple[float, float]] = []
    with Client(server.address) as client:
        while time.monotonic() < end:
            memory.append(
                (seconds - (end - time.monotonic()), client.status()["process_resident_memory_bytes"] / 1e6)
            )
            time.sleep(max(1.0, seconds / 200))
    for thread in threads:
        thread.join()
    code = server.stop()
    settled = np.array([one for one in memory if one[0] > seconds / 5])
    slope = float(np.polyfit(settled[:, 0], settled[:, 1], 1)[0]) * 3600
    middle = len(settled) // 2
    row = {
        "seconds": float(seconds), "searches": counts[0], "writes": counts[1], "failed": failed[0], "exit": code,
        "first_half_mb": float(settled[:middle, 1].mean()), "second_half_mb": float(settled[middle:, 1].mean()),
        "largest_mb": float(settled[:, 1].max()), "slope_mb_per_hour": slope,
    }  # fmt: skip
    print(row)
    save("server_soak", [row], key=["seconds"], packages=("uvicorn", "msgspec"), items=ROWS, width=WIDTH)


def main() -> None:
    place = Path(tempfile.mkdtemp())
    try:
        prepare(place)
        if "--soak" in sys.argv:
            soak(place, int(sys.argv[sys.argv.index("--soak") + 1]))
        else:
            measure(place)
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
