"""The figures of training: overhead of the loop, two processes, gradient caching, and `nearer fit` on a big table.

python benchmarks/speed/training.py [--only loop processes caching fit]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from nearer.geometry._encoders import DigitsCNN
from nearer.losses import SupConLoss
from nearer.training import ClassSampler, EncoderStep, JSONLinesLog, TensorBatches, train
from nearer.training._processes import process_group, rank
from record import ROOT, interleaved, peak_megabytes, save

BATCH = 300


def digits_like(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    return torch.rand(n, 1, 28, 28, generator=random), torch.arange(n) % 10


def step_for(n: int, *, chunk: int | None = None) -> tuple[EncoderStep, torch.Tensor, torch.Tensor]:
    items, labels = digits_like(n)
    encoder = DigitsCNN(generator=torch.Generator().manual_seed(1))
    sgd = torch.optim.SGD(encoder.parameters(), lr=1e-4)
    return EncoderStep(encoder, SupConLoss(), sgd, TensorBatches(items, labels), chunk=chunk), items, labels


def loop() -> dict[str, object]:
    """A whole epoch by the loop, with a log, against encoder and loss alone on the same batches."""
    torch.set_num_threads(1)
    step, items, labels = step_for(3000)
    sampler = ClassSampler(labels, n_classes=10, per_class=BATCH // 10)
    batches = sampler.epoch(0)
    encoder, loss = step.encoder, SupConLoss()

    def bare() -> None:
        for rows in batches:
            encoder.zero_grad()
            loss(encoder(items[rows]), labels[rows]).backward()

    with tempfile.TemporaryDirectory() as folder:
        log = JSONLinesLog(Path(folder) / "log.jsonl")
        looped = lambda: train(step, sampler, epochs=1, callbacks=[log])  # noqa: E731
        times = interleaved({"bare": bare, "loop": looped}, repeats=7)
    share = times["loop"] / times["bare"] - 1
    return {"what": "loop", "batch": BATCH, "bare": times["bare"], "loop": times["loop"], "overhead": share}


def throughput(seconds: float = 12.0) -> None:
    """In each process of a job: images per second through the joint batch."""
    torch.set_num_threads(1)
    with process_group():
        step, _, labels = step_for(3000)
        batches = ClassSampler(labels, n_classes=10, per_class=BATCH // 10).epoch(0)
        step(batches[0])
        begin, done = time.perf_counter(), 0
        while time.perf_counter() - begin < seconds or done % 10:
            step(batches[done % 10])
            done += 1
            if done >= 40:
                break
        if rank() == 0:
            print(json.dumps({"images": done * BATCH / (time.perf_counter() - begin)}))


def processes() -> dict[str, object]:
    """One process with one thread and two processes, in turn, three times each."""
    found: dict[int, list[float]] = {1: [], 2: []}
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    for _ in range(3):
        for count in (1, 2):
            launch = [sys.executable]
            if count == 2:
                launch += ["-m", "torch.distributed.run", "--nproc_per_node", "2", "--rdzv_backend", "c10d"]
                launch += ["--rdzv_endpoint", "localhost:0"]
            done = subprocess.run(
                [*launch, __file__, "--throughput"], capture_output=True, text=True, check=True, env=environment
            )
            found[count].append(json.loads(done.stdout.strip().splitlines()[-1])["images"])
    one, two = statistics.median(found[1]), statistics.median(found[2])
    return {"what": "processes", "batch": BATCH, "one": one, "two": two, "ratio": two / one, "runs": found}


def peak(kind: str) -> None:
    """Peak memory and time of one step, in a process of its own."""
    torch.set_num_threads(1)
    n, chunk = {"plain": (8192, None), "cached": (8192, 512), "small": (512, None)}[kind]
    step, _, _ = step_for(n, chunk=chunk)
    before = peak_megabytes()
    step(torch.arange(n))
    peak_memory = peak_megabytes() - before
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        step(torch.arange(n))
        times.append(time.perf_counter() - begin)
    print(json.dumps({"extra MB": peak_memory, "seconds": statistics.median(times)}))


def caching() -> dict[str, object]:
    """A batch of 8,192 in chunks of 512, beside the plain step, and beside a plain step of 512."""
    found = {}
    for kind in ("plain", "cached", "small"):
        command = [sys.executable, __file__, "--peak", kind]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found[kind] = json.loads(done.stdout.strip().splitlines()[-1])
    ratio = found["cached"]["seconds"] / found["plain"]["seconds"]
    memory = found["cached"]["extra MB"] / found["small"]["extra MB"]
    return {"what": "caching", "batch": 8192, "chunk": 512, **found, "time ratio": ratio, "memory ratio": memory}


def fit() -> dict[str, object]:
    """`nearer fit` on 100,000 × 128, closed form, from the file to the model folder."""
    with tempfile.TemporaryDirectory() as folder:
        random = np.random.default_rng(0)
        y = np.arange(100_000) % 10
        x = (random.normal(size=(10, 128))[y] * 0.3 + random.normal(size=(100_000, 128))).astype(np.float32)
        np.savez(Path(folder) / "table.npz", x=x, y=y)
        code = (
            "import json, resource, sys, time; begin = time.perf_counter()\n"
            "from nearer.app.cli import app\n"
            "try:\n    app(['fit', 'table.npz', '--method', 'kissme', '--quiet'])\n"
            "except SystemExit as end:\n    assert not end.code\n"
            "used = resource.getrusage(resource.RUSAGE_SELF)\n"
            "print(json.dumps({'seconds': time.perf_counter() - begin, 'peak MB': used.ru_maxrss / 1024,"
            " 'CPU seconds': used.ru_utime + used.ru_stime}))\n"
        )
        done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
        found = json.loads(done.stdout.strip().splitlines()[-1])
    return {"what": "fit", "rows": 100_000, "features": 128, "method": "kissme", **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=["loop", "processes", "caching", "fit"])
    parser.add_argument("--throughput", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--peak", help=argparse.SUPPRESS)
    settings = parser.parse_args()
    if settings.throughput:
        throughput()
        return
    if settings.peak:
        peak(settings.peak)
        return
    parts = {"loop": loop, "processes": processes, "caching": caching, "fit": fit}
    rows = []
    for name in settings.only or parts:
        rows.append(parts[name]())
        print(json.dumps(rows[-1]))
    print(save("training", rows, key=["what"]).relative_to(ROOT))


if __name__ == "__main__":
    main()
