"""The endpoints: from a request to an answer. They know nothing of HTTP beyond a call and an answer."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import parse_qsl

import msgspec
import numpy as np
import torch

from nearer import __version__
from nearer.app.server import _messages as messages
from nearer.app.server._batches import Batcher
from nearer.app.server._figures import Figures
from nearer.app.server._logs import Log
from nearer.app.server._messages import BINARY, JSON, LONGEST_ID, Message, binary, decode, matrix
from nearer.app.server._problems import Refusal
from nearer.app.server._settings import Settings
from nearer.app.server._state import Place, Served
from nearer.app.server._work import Ask, WriteJob, answer, condition_of, write
from nearer.exceptions import NearerError
from nearer.neighbors._shared import has_faiss, load_faiss

FLUSH_SECONDS = 0.25
UNCALIBRATED = (
    "Nothing says yet which distance means the same: the model has no calibration for pairs. Calibrate it with "
    "items of classes that it did not learn from (nearer calibrate DATA --model MODEL --label COLUMN), and reload; "
    "until then compare `distance` with a threshold of your own."
)
# What a decision comes with: the promise, and the distances that it is made of.
PROMISE = ("error", "miss", "guarantee", "same_within_", "different_beyond_", "n_classes_")


@dataclass(slots=True)
class Call:
    """A request, as far as an endpoint needs it."""

    body: bytes = b""
    content: str = ""
    query: bytes = b""
    accept: str = ""
    item: str = ""
    quiet: bool = False

    def json(self, decoder: msgspec.json.Decoder[Message]) -> Message:
        """The body, which must be JSON."""
        if self.content != JSON:
            raise Refusal(415, "media_type", f"The body must be {JSON}.")
        return decode(decoder.decode, self.body)

    def words(self, kind: type[Message]) -> Message:
        """The query string."""
        read: Callable[[Any], Message] = functools.partial(msgspec.convert, type=kind, strict=False)
        return decode(read, dict(parse_qsl(self.query.decode("latin-1"))))

    @property
    def id(self) -> str:
        """The id in the path."""
        if not 0 < len(self.item) <= LONGEST_ID:
            raise Refusal(422, "invalid", f"The id must have 1 to {LONGEST_ID} characters, got {len(self.item)}.")
        return self.item


@dataclass(slots=True)
class Answer:
    """A success or a refusal: its body and what it is."""

    body: bytes
    content: str = JSON
    status: int = 200
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)


class Service:
    """A model and an index with their queues; every endpoint is a method."""

    def __init__(self, served_from: Place, settings: Settings, log: Log) -> None:
        self.served_from, self.settings, self.log = served_from, settings, log
        self.served: Served = served_from.open()
        self.figures = Figures()
        self.tokens = settings.tokens
        self.stopping = False
        threads = functools.partial(_compute_with, settings.threads)
        self._reading = ThreadPoolExecutor(1, thread_name_prefix="nearer-read", initializer=threads)
        self._writing = ThreadPoolExecutor(1, thread_name_prefix="nearer-write", initializer=threads)
        room, most = settings.queue, settings.batch
        # What is served may be another one when a batch is begun.
        self.reads: Batcher[Ask] = Batcher(
            lambda asks: answer(self.served, asks), self._reading, room=room, most=most, costly=condition_of
        )
        self.writes: Batcher[WriteJob] = Batcher(
            lambda changes: write(self.served, changes), self._writing, room=room, most=most
        )
        self._switching = asyncio.Lock()

    async def _ask(self, ask: Ask, rows: int) -> Any:
        return await self._soon(self.reads.put(ask, rows))

    async def _soon(self, future: asyncio.Future[Any]) -> Any:
        try:
            async with asyncio.timeout(self.settings.timeout):
                return await future
        except TimeoutError:
            raise Refusal(503, "late", "The answer took too long. Try again later.", retry_after=5) from None

    def _rows(self, rows: int) -> int:
        if rows > self.settings.max_rows:
            raise Refusal(
                413, "too_many_rows", f"A request may have {self.settings.max_rows} rows, got {rows}. Send parts."
            )
        return rows

    def _k(self, k: int) -> int:
        if k > self.settings.max_k:
            raise Refusal(422, "invalid", f"`k` must be at most {self.settings.max_k}, got {k}.")
        return k

    def _ask_of(self, call: Call, want: Literal["embed", "search"]) -> tuple[Ask, int]:
        """Queries as JSON, as binary float32, or as an image; and how many."""
        ask = Ask(want)
        of_vectors = False
        if call.content == JSON and want == "embed":
            ask.items = call.json(messages.embed_decoder).items
        elif call.content == JSON:
            given = call.json(messages.search_decoder)
            ask.items, ask.k, ask.where = given.items, self._k(given.k), given.where
            if given.vectors is not None:
                self._rows(len(given.vectors))
                ask.vectors = matrix(given.vectors, "vectors", self.served.dimension)
        else:
            if want == "search":
                query = call.words(messages.SearchQuery)
                ask.k, of_vectors = self._k(query.k), query.of == "vectors"
            if call.content.startswith("image/"):
                ask.image = call.body
                return ask, 1
            if call.content != BINARY:
                raise Refusal(415, "media_type", f"The body must be {JSON}, {BINARY} or an image.")
            if of_vectors:
                ask.vectors = binary(call.body, self.served.dimension, "vectors")
            else:
                ask.items = binary(call.body, int(np.prod(self.served.model.inputs.size)), "items")
        queries = ask.items if ask.vectors is None else ask.vectors
        assert queries is not None
        return ask, self._rows(len(queries))

    async def search(self, call: Call) -> Answer:
        """The nearest items of each query."""
        ask, rows = self._ask_of(call, "search")
        return Answer(await self._ask(ask, rows))

    async def embed(self, call: Call) -> Answer:
        """The embedding of each item; with Accept: application/octet-stream as float32 rows."""
        ask, rows = self._ask_of(call, "embed")
        vectors = await self._ask(ask, rows)
        if BINARY in call.accept:
            shape = f"{vectors.shape[0]},{vectors.shape[1]}".encode()
            return Answer(vectors.astype("<f4").tobytes(), BINARY, headers=[(b"x-nearer-shape", shape)])
        return Answer(msgspec.json.encode({"vectors": vectors.tolist(), "model": self.served.fingerprint}))

    async def items(self, call: Call) -> Answer:
        """Add or upsert items. They are on disk when the answer comes."""
        given = call.json(messages.items_decoder)
        rows = self._rows(len(given.items or given.vectors or ()))
        vectors = None
        if given.vectors is not None:
            vectors = matrix(given.vectors, "vectors", self.served.dimension)
        change = WriteJob(given.mode, vectors, given.items, given.ids, given.metadata)
        ids = await self._change(change, rows)
        return Answer(msgspec.json.encode({"ids": ids, "count": await self._count()}), status=201)

    async def remove(self, call: Call) -> Answer:
        """Remove an item. That is on disk when the answer comes."""
        removed = await self._change(WriteJob("remove", ids=[call.id]), 1)
        return Answer(msgspec.json.encode({"removed": removed, "count": await self._count()}))

    async def remove_many(self, call: Call) -> Answer:
        """Remove items. That is on disk when the answer comes, and may be repeated: unknown ids are passed over."""
        given = call.json(messages.remove_decoder)
        removed = await self._change(WriteJob("remove-known", ids=given.ids), self._rows(len(given.ids)))
        return Answer(msgspec.json.encode({"removed": removed, "count": await self._count()}))

    async def item(self, call: Call) -> Answer:
        """An item as it is kept: its embedding and its metadata."""
        return Answer(await self._ask(Ask("item", ids=[call.id]), 1))

    async def _change(self, change: WriteJob, rows: int) -> Any:
        if self.settings.read_only:
            raise Refusal(403, "read_only", "This server changes nothing: it is read-only.")
        if self.stopping:
            raise Refusal(503, "stopping", "The server is being stopped.", retry_after=5)
        # No time limit: a change that was begun is either answered or, if the process dies, unknown.
        return await self.writes.put(change, rows)

    async def _count(self) -> int:
        return await asyncio.get_running_loop().run_in_executor(self._reading, self.served.index.count)

    async def similar(self, call: Call) -> Answer:
        """The nearest other items of an item in the index."""
        ask = Ask("similar", ids=[call.id], k=self._k(call.words(messages.SimilarQuery).k))
        return Answer(await self._ask(ask, 1))

    async def same(self, call: Call) -> Answer:
        """Whether two items are the same, by the calibration of the model."""
        given = call.json(messages.same_decoder)
        distance = await self._ask(Ask("same", items=given.items, ids=given.ids), 2)
        calibration = self.served.model.calibration
        if calibration is None or calibration.per != "pair":
            raise Refusal(409, "not_calibrated", UNCALIBRATED, distance=distance)
        promise = calibration.to_dict()
        decision = {
            "answer": str(calibration.answers([distance])[0]),
            "distance": distance,
            "about": {name.rstrip("_"): promise[name] for name in PROMISE},
        }
        return Answer(msgspec.json.encode(decision))

    async def health(self, call: Call) -> Answer:
        """The process runs."""
        return Answer(b'{"status":"alive"}')

    async def ready(self, call: Call) -> Answer:
        """Requests are taken, and the index answers."""
        if self.stopping:
            raise Refusal(503, "stopping", "The server is being stopped.", retry_after=5)
        await self._soon(asyncio.ensure_future(self._count()))
        return Answer(b'{"status":"ready"}')

    async def metrics(self, call: Call) -> Answer:
        """The figures for Prometheus."""
        text = self.figures.text(await self._gauges())
        return Answer(text.encode(), "text/plain; version=0.0.4; charset=utf-8")

    async def _gauges(self) -> dict[str, float]:
        return {
            "nearer_index_items": await self._count(),
            "nearer_queue_rows": self.reads.rows,
            "nearer_write_queue_rows": self.writes.rows,
            "nearer_batches_total": self.reads.batches,
            "nearer_batch_rows_total": self.reads.done_rows,
            "nearer_commits_total": self.writes.batches,
            "nearer_commit_rows_total": self.writes.done_rows,
        }

    async def status(self, call: Call) -> Answer:
        """The figures of the status page."""
        about = {
            "version": __version__,
            "seconds": round(time.time() - self.figures.started, 1),
            "model": self.served.fingerprint,
            "method": self.served.model.method,
            "dimension": self.served.dimension,
            "worker": os.getpid(),
            "workers": self.settings.workers,
            "read_only": self.settings.read_only,
            "routes": self.figures.summary(),
            "queue": self.settings.queue,
            **self.figures.process(),
            **await self._gauges(),
        }
        return Answer(msgspec.json.encode(about))

    async def reload(self, call: Call) -> Answer:
        """Open the model and the index at their places again, without dropping a request."""
        async with self._switching:
            before = self.served
            try:
                fresh = await asyncio.to_thread(functools.partial(self.served_from.open, before=before))
            except (NearerError, OSError) as error:
                self.log.event("reload refused", kind=type(error).__name__)
                raise Refusal(409, "not_reloaded", f"What was served is served on. {error}") from error
            self.served = fresh
            if fresh.index is not before.index:
                await self._close(before)
            self.log.event("reloaded", model=fresh.fingerprint)
        if self.settings.workers > 1 and not call.quiet:
            # Whoever started the workers tells the others.
            os.kill(os.getppid(), signal.SIGHUP)
        count = await self._count()
        return Answer(
            msgspec.json.encode({"model": fresh.fingerprint, "index": type(fresh.index).__name__, "count": count})
        )

    async def _close(self, served: Served) -> None:
        """Close an index behind everything that was begun with it."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._reading, int)
        await loop.run_in_executor(self._writing, served.index.close)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """As long as requests are taken: the log is written now and then, and at the end all work is finished."""

        async def flush() -> None:
            while True:
                await asyncio.sleep(FLUSH_SECONDS)
                self.log.flush()

        flushing = asyncio.create_task(flush())
        self.log.event("started", model=self.served.fingerprint, items=self.served.index.count())
        self.log.flush()
        yield
        await self.stop()
        flushing.cancel()
        self.log.event("stopped")
        self.log.flush()

    async def stop(self) -> None:
        """Finish what was begun, and close."""
        self.stopping = True
        while self.writes.rows or self.writes.running or self.reads.rows or self.reads.running:
            await asyncio.sleep(0.01)
        await self._close(self.served)
        self._reading.shutdown()
        self._writing.shutdown()


def _compute_with(threads: int) -> None:
    """Set how many threads the libraries use in the thread that calls this: OpenMP keeps that for each one."""
    torch.set_num_threads(threads)
    if has_faiss():
        load_faiss().omp_set_num_threads(threads)
