"""A real server process for tests: started on a free port, asked over real sockets, ended by real signals."""

from __future__ import annotations

import http.client
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nearer.geometry import Mahalanobis
from nearer.index import open_index
from nearer.models import Model
from nearer.models._inputs import Inputs

PATIENCE = 120.0
ROWS = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
JSON = "application/json"


def make_model(place: Path, *, dimension: int = 4, scale: float = 1.0) -> Model:
    """A model that multiplies by a number."""
    model = Model(
        Mahalanobis.from_factor(scale * torch.eye(dimension)), Inputs("features", size=(dimension,)), "by hand"
    )
    model.save(place)
    return model


def make_index(place: Path, model: Model, rows: Any, **named: Any) -> None:
    """An index of the embeddings of rows."""
    with open_index(place, dimension=np.shape(rows)[1], fingerprint=model.fingerprint) as index:
        index.add(model.transform(np.asarray(rows, np.float32)), **named)


class Running:
    """A started server."""

    def __init__(self, process: subprocess.Popen[str], address: str, log: Path) -> None:
        self.process, self.address, self.log = process, address, log
        self.host, self.port = re.match(r"https?://(.+):(\d+)", address).groups()  # type: ignore[union-attr]

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.host, int(self.port), timeout=PATIENCE)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content: str = JSON,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, Any, dict[str, str]]:
        """Status, parsed body and headers of one request."""
        connection = self.connect()
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        given = {**({"content-type": content} if data is not None else {}), **(headers or {})}
        connection.request(method, path, data, given)
        answer = connection.getresponse()
        told = {name.lower(): value for name, value in answer.getheaders()}
        read = answer.read()
        connection.close()
        parsed = json.loads(read) if told.get("content-type", "").startswith(JSON) else read
        return answer.status, parsed, told

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End the process by a signal; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(PATIENCE)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code


def start(model: Path, index: Path | str, *options: str, environment: dict[str, str] | None = None) -> Running:
    """Start `nearer serve` and wait until it listens."""
    log = Path(model).parent / f"log-{time.monotonic_ns()}"
    command = [sys.executable, "-m", "nearer", "serve", str(model), str(index), "--port", "0", *options]
    settings = {**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})}
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=out, text=True, env=settings)
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
    line = process.stdout.readline() if ready else ""
    found = re.search(r"https?://\S+", line)
    if found is None:
        process.kill()
        process.wait(PATIENCE)
        process.stdout.close()
        raise AssertionError(f"the server did not start: {line}{log.read_text()[-2000:]}")
    return Running(process, found.group(), log)


@contextmanager
def running(model: Path, index: Path | str, *options: str, **named: Any) -> Iterator[Running]:
    """A server for the length of a block."""
    server = start(model, index, *options, **named)
    try:
        yield server
    finally:
        server.stop(signal.SIGKILL)
