"""The explorer without a page: items, maps, gestures, refits, scores, questions, the audit."""

from __future__ import annotations

import functools
import json
import os
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from torch import nn

from nearer._checks import check_int
from nearer._plain import Array
from nearer.app.explorer._gestures import Gesture, Supervision, supervision
from nearer.app.explorer._items import ShownItems
from nearer.app.explorer._maps import (
    LANDMARKS,
    LEAST_PLACED,
    flat_map,
    principal_axes,
    principal_map,
    tsne_maps,
    turn_towards,
)
from nearer.app.explorer._metric import Metric, Progress, fit_metric
from nearer.app.explorer._project import Project
from nearer.app.explorer._reasons import why_near
from nearer.app.explorer._scores import HeldOutScores
from nearer.app.explorer._search import Words, nearest_items
from nearer.app.explorer._state import (
    MOST_COLUMNS,
    Base,
    State,
    ask,
    nearest_to,
    predicted,
    usual_distance,
)
from nearer.exceptions import NearerError, ParameterError
from nearer.geometry import Chain, Mahalanobis, UnitLength
from nearer.geometry._shared import Standardize
from nearer.judging import Audit, find_issues

P = ParamSpec("P")
R = TypeVar("R")
NEIGHBORS = 8
MOST_AUDITED = 10_000


def _on_one_thread(work: Callable[P, R]) -> Callable[P, R]:
    """Short sums on one thread: on a busy machine several threads spin and wait for each other for seconds."""

    @functools.wraps(work)
    def alone(*args: P.args, **kwargs: P.kwargs) -> R:
        with threadpool_limits(limits=1):
            return work(*args, **kwargs)

    return alone


def _nobody(event: str, about: dict[str, Any]) -> None:
    """The listener of nobody."""


class Session:
    """Items with everything that is shown, said and learned about them; safe to use from several threads.

    >>> rows = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    >>> session = Session(ShownItems(rows))
    >>> said = session.say({"kind": "label", "items": list(range(30)), "label": "left"})
    >>> said = session.say({"kind": "label", "items": list(range(30, 60)), "label": "right"})
    >>> table = session.refit()
    >>> session.classes, session.undo().kind
    (('left', 'right'), 'refit')

    Args:
        items: what is looked at.
        project: the folder where gestures are kept; None keeps them in a temporary one.
        listener: called as listener(event, about) when something has happened, from any thread.
    """

    @_on_one_thread
    def __init__(
        self,
        items: ShownItems,
        *,
        project: str | os.PathLike[str] | None = None,
        listener: Callable[[str, dict[str, Any]], None] = _nobody,
    ) -> None:
        self.items = items.shown()
        self.listener = listener
        self._lock = threading.RLock()
        self._refitting = threading.Lock()
        self._mapping = threading.Lock()
        folder = tempfile.mkdtemp(suffix=".explore") if project is None else project
        self.is_kept = project is not None
        self.project = Project(folder, fingerprint=items.fingerprint, n=self.items.n)
        self.history = self.project.history
        raw = self.items.raw
        base = raw if self.items.learned is None else np.asarray(self.items.learned, dtype=np.float32)
        # A network's embeddings, or the features: what a refit learns a linear map of.
        made_of = Base.of(base, self.items.embed)
        self.start = self.raw = first = State(base, flat_map(made_of.features), made_of)
        if self.items.learned is not None:
            self.raw = State(raw, principal_map(raw), made_of)
            first.positions = turn_towards(first.positions, self.raw.positions)
        self._words = Words(self.items)
        self._closed = False
        self._fair: Array | None = None
        self._redone: list[State] = []
        self._scored = HeldOutScores(self.items.held_out)
        self.states = [first]
        self._supervised: tuple[int, int, Supervision] | None = None
        self._audit: tuple[Any, Audit] | None = None
        self.changed = 0
        self._told = ""
        self._restore()

    # What is known ---------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """The metric that is shown."""
        return self.states[-1]

    @property
    def supervision(self) -> Supervision:
        """What data and gestures say together."""
        with self._lock:
            key = (self.changed, self.history.done)
            if self._supervised is None or self._supervised[:2] != key:
                known = supervision(self.history.active, self.items.labels, self.items.classes)
                self._supervised = (*key, known)
            return self._supervised[2]

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, those that gestures made included."""
        return self.supervision.classes

    @property
    def since_refit(self) -> int:
        """How many gestures the metric has not heard of yet."""
        kinds = [gesture.kind for gesture in self.history.active]
        last = max((number for number, kind in enumerate(kinds) if kind == "refit"), default=-1)
        return sum(kind not in ("refit",) for kind in kinds[last + 1 :])

    def teaching(self) -> Array:
        """The labels (n,) that a refit learns from: not those of held-out items, nor of those left out."""
        return self._taught(self.supervision)

    def _taught(self, said: Supervision) -> Array:
        return np.where(self.items.held_out | said.dropped, -1, said.labels)

    # What is said ----------------------------------------------------------------------------------------------

    def say(self, gesture: Mapping[str, Any] | Gesture) -> Gesture:
        """Take a gesture; when it returns it is on disk."""
        given = gesture.to_dict() if isinstance(gesture, Gesture) else gesture
        said = Gesture.parse(given, n=self.items.n)
        if said.kind == "refit":
            raise ParameterError("`kind` must not be 'refit': call refit(), which says so itself.")
        with self._lock:
            if said.key and any(earlier.key == said.key for earlier in self.history.active):
                return said
            self._add(said)
        self._tell("gestures")
        return said

    def undo(self) -> Gesture | None:
        """Take the last gesture or refit back."""
        return self._move(back=True)

    def redo(self) -> Gesture | None:
        """Do again what was undone last."""
        return self._move(back=False)

    def _move(self, *, back: bool) -> Gesture | None:
        with self._lock:
            gesture = self.history.undo() if back else self.history.redo()
            if gesture is not None:
                self._save()
                source, target = (self.states, self._redone) if back else (self._redone, self.states)
                # The state of the start is never taken back.
                if gesture.kind == "refit" and len(source) > back:
                    target.append(source.pop())
                    self.project.save_metric(self.state.metric)
        if gesture is not None:
            self._tell("metric" if gesture.kind == "refit" else "gestures")
        return gesture

    def export(self) -> dict[str, Any]:
        """Everything that was said, as JSON: gestures, the labels they end in, and the pairs."""
        said = self.supervision
        changed = np.flatnonzero(said.labels != self.items.labels)
        labels = {self.items.name(row): None if said.labels[row] < 0 else said.classes[said.labels[row]]
                  for row in changed.tolist()}  # fmt: skip
        return {
            "format": "nearer.gestures",
            "items": self.items.n,
            "gestures": [gesture.to_dict() for gesture in self.history.active],
            "labels": labels,
            "together": said.together.tolist(),
            "apart": said.apart.tolist(),
            "dropped": np.flatnonzero(said.dropped).tolist(),
        }

    # What is learned -------------------------------------------------------------------------------------------

    @_on_one_thread
    def refit(self, progress: Progress = lambda text, share: None) -> dict[str, Any]:
        """Learn the metric again from all that is said, and score it; the table of raw, before and now."""
        if not self._refitting.acquire(blocking=False):
            raise ParameterError("A refit is running already. Wait for it.")
        try:
            with self._lock:
                labels, said, before = self.teaching(), self.supervision, self.state
            apart = ~self.items.held_out
            pairs = [pair[apart[pair].all(axis=1)] for pair in (said.together, said.apart)]
            after = self._learned(labels, pairs, before, progress)
            progress("moving", 0.9)
            after.table = self.scores(before, after)
            with self._lock:
                self._add(Gesture("refit"))
                self.states = [*self.states, after][-6:]
                self.states[0] = self.start
                self._redone = []
                self.project.save_metric(after.metric)
        finally:
            self._refitting.release()
        self._tell("metric")
        return {**after.table, "told": after.about}

    def as_module(self, front: nn.Module | None = None) -> Chain:
        """The metric that is shown as a module behind `front`, which makes the embeddings that the session began
        with; a refit that learned the model's own map again has one of its own.
        """
        state = self.state
        if state is self.start:
            raise ParameterError("A refit must have learned a metric before it can be taken away.")
        base, metric = state.base, state.metric
        parts = [one for one in (base.encoder or front,) if one is not None]
        if metric is not None:
            center = Standardize(len(base.mean))
            center.mean = torch.from_numpy(base.mean + base.axes @ metric.mean).float()
            factor = np.ascontiguousarray(base.axes @ metric.matrix, dtype=np.float32)
            parts += [center, Mahalanobis.from_factor(factor), *([UnitLength()] if metric.unit else [])]
        return Chain(*parts)

    def scores(self, *states: State) -> dict[str, Any]:
        """Raw features beside the metrics, on held-out items."""
        names = ["before", "now"] if len(states) > 1 else ["now"]
        each: dict[str, Callable[[], Array]] = {"raw": lambda: self.items.raw}
        for name, state in zip(names, states, strict=True):
            if len(states) > 1 or state is not self.raw:
                each[name] = functools.partial(self._fair_rows, state)
        return self._scored.table(self.supervision.labels, each)

    def _fair_rows(self, state: State) -> Array:
        """The embeddings that are scored: those of a model that has learned from held-out items are made without
        them, where its method can be learned again.
        """
        if state is not self.start or not self.items.flattered:
            return state.rows
        if self._fair is None:
            made = self._relearned(np.where(self.items.held_out, -1, self.items.labels))
            self._fair = state.rows if made is None else made.rows
        return self._fair

    def spread(self) -> None:
        """Make a slower and better map of all that is shown and has none; the listener hears of each step.

        A refit meanwhile is followed: its items begin where they are. Returns at once where it runs already.
        """
        # Looked at once more after the lock is free: a refit may have come in between.
        while self._unplaced() is not None and self._mapping.acquire(blocking=False):
            try:
                self._place()
            finally:
                self._mapping.release()

    def _place(self) -> None:
        while (state := self._unplaced()) is not None:
            for share, positions in tsne_maps(state.rows, state.positions, warm=state.warm):
                state.positions = turn_towards(positions, state.positions)
                state.warm = True
                if share == 1:
                    state.placed = min(self.items.n, LANDMARKS)
                self._tell("map", share=share, shown=state is self.state)
                if self._closed or state not in (self.state, self.raw):
                    break

    def _unplaced(self) -> State | None:
        """What is shown, or the raw features, if t-SNE has not placed it yet."""
        if self._closed or self.items.n < LEAST_PLACED:
            return None
        return next((state for state in (self.state, self.raw) if not state.placed), None)

    # What is asked ---------------------------------------------------------------------------------------------

    @_on_one_thread
    def questions(self, n: int = 10) -> list[dict[str, Any]]:
        """The pairs whose answer would help most: an unsure item and the item to compare it with."""
        said = self.supervision
        allowed = ~self.items.held_out & ~said.dropped & ~said.confirmed
        return ask(self.state.rows, self.teaching(), check_int(n, "n"), allowed=allowed)

    @_on_one_thread
    def audit(self, progress: Progress = lambda text, share: None) -> Audit:
        """Likely wrong labels, duplicates, overlap and isolated rows among the items, in the raw features.

        Above 10,000 items it looks at a random part, `audited`, and its rows are positions in that.
        """
        said = self.supervision
        if self._audit is None or self._audit[0] != self.changed:
            raw = self.items.raw[self.audited]
            if raw.shape[1] > MOST_COLUMNS:
                raw = raw @ principal_axes(raw, MOST_COLUMNS)[1]
            audit = find_issues(raw, said.labels[self.audited], classes=said.classes, progress=progress)
            self._audit = (self.changed, audit)
        return self._audit[1]

    @property
    def audited(self) -> Array:
        """The items that the audit looks at, (m,)."""
        return np.sort(np.random.default_rng(2).permutation(self.items.n)[:MOST_AUDITED])

    @_on_one_thread
    def predictions(self) -> Array:
        """The vote of the neighbors under the metric that is shown, (n,)."""
        labels = self.teaching()
        state = self.state
        key = f"{self.history.done}.{self.changed}"
        if key not in state.kept:
            state.kept = {key: predicted(state.rows, labels)}
        return state.kept[key]

    @_on_one_thread
    def item(self, item: int) -> dict[str, Any]:
        """All that the page shows of an item: what it is, its neighbors raw and learned, why, how it fared."""
        check_int(item, "item", minimum=0, maximum=self.items.n - 1)
        said = self.supervision
        state = self.state
        card = self.card(item)
        sides = {}
        for name, rows in (("raw", self.items.raw), ("learned", state.rows)):
            near, distances = nearest_to(rows, item, NEIGHBORS)
            usual = usual_distance(rows, item)
            sides[name] = [
                {
                    **self.card(int(other)),
                    "distance": distance,
                    "share": distance / usual if usual > 0 else 0.0,
                    "right": self._right(said.labels, item, int(other)),
                    "why": why_near(self.items, state if name == "learned" else self.raw, item, int(other)),
                }
                for other, distance in zip(near.tolist(), distances.tolist(), strict=True)
            ]
        scores = [self._own_score(entry, item, said.labels) for entry in self.states]
        return {**card, "neighbors": sides, "history": [entry for entry in scores if entry is not None]}

    def card(self, item: int) -> dict[str, Any]:
        """What an item is in a few words."""
        said = self.supervision
        code = int(said.labels[item])
        text = None if self.items.texts is None else str(self.items.texts[item])[:600]
        card: dict[str, Any] = {"item": item, "name": self.items.name(item), "text": text,
                                 "label": said.classes[code] if code >= 0 else None,
                                 "heldOut": bool(self.items.held_out[item])}  # fmt: skip
        card["columns"] = {name: _told(values[item]) for name, values in self.items.columns.items()}
        if self.items.images is None and text is None and self.items.feature_names:
            values = self.items.raw if self.items.values is None else self.items.values
            shown = zip(self.items.feature_names, values[item], strict=False)
            card["values"] = {name: float(value) for name, value in list(shown)[:8]}
        return card

    def find(self, text: str) -> list[int]:
        """All items whose name, text, label or columns hold the text, whatever its case."""
        said = self.supervision
        return [int(item) for item in self._words.holding(text, said.labels, said.classes)]

    def similar(self, given: Any) -> tuple[Array, Array]:
        """The 200 items nearest to a text, a picture or an item (its number) under the metric, and distances."""
        if isinstance(given, int):
            check_int(given, "item", minimum=0, maximum=self.items.n - 1)
        return nearest_items(self.items, self.state, given)

    def close(self) -> None:
        """Give the project back."""
        self._closed = True
        self.project.close()

    # Inside ----------------------------------------------------------------------------------------------------

    def _restore(self) -> None:
        """The metric of the last refit, where the project has one; earlier ones are not kept on disk."""
        active = self.history.active
        last = max((number for number, one in enumerate(active) if one.kind == "refit"), default=-1)
        if last < 0:
            return
        metric, base = self.project.metric(), self.start.base
        if self.items.learner is not None:
            # Only the correction behind the model's own map is on disk; the map is learned as it was.
            said = supervision(active[:last], self.items.labels, self.items.classes)
            base = self._relearned(self._taught(said)) or base
        if (metric is None and base is self.start.base) or (
            metric is not None and metric.matrix.shape[0] != base.features.shape[1]
        ):
            return
        state = self._state(base, metric, self.start)
        state.table = self.scores(self.start, state)
        self.states.append(state)

    def _learned(self, labels: Array, pairs: list[Array], before: State, progress: Progress) -> State:
        """The model's own map, learned again from the labels; pairs, and what has no such map, get a linear one."""
        progress("learning", 0.1)
        base = self._relearned(labels)
        if base is not None and not any(map(len, pairs)):
            return self._state(base, None, before)
        base = base or self.start.base
        return self._state(base, fit_metric(base.features, labels, *pairs, progress=progress), before)

    def _relearned(self, labels: Array) -> Base | None:
        if self.items.learner is None or len(np.unique(labels[labels >= 0])) < 2:
            return None
        made = self.items.learner(labels)
        self._told = made.about
        return Base.of(made.rows, made.embed, made.encoder)

    def _state(self, base: Base, metric: Metric | None, before: State) -> State:
        about = [] if base.encoder is None else [self._told]
        about += [] if metric is None else [metric.about]
        state = State(base.rows, before.positions, base, metric, " ".join(about))
        state.rows = state.place(base.rows)
        # A map that t-SNE made stays until the next one moves from it; principal components are there at once.
        state.warm = before.warm
        if not before.warm:
            state.positions = turn_towards(principal_map(state.rows), before.positions)
        return state

    def _add(self, gesture: Gesture) -> None:
        old = list(self.history.gestures), self.history.done
        self.history.add(gesture)
        try:
            self._save()
        except (OSError, NearerError):
            self.history.gestures, self.history.done = old
            raise

    def _save(self) -> None:
        self.project.save(self.history)
        self.changed += 1

    def _tell(self, event: str, **about: Any) -> None:
        self.listener(event, {"changed": self.changed, **about})

    @staticmethod
    def _right(labels: Array, item: int, other: int) -> bool | None:
        if labels[item] < 0 or labels[other] < 0:
            return None
        return bool(labels[item] == labels[other])

    def _own_score(self, state: State, item: int, labels: Array) -> float | None:
        """The share of the ten nearest labelled items that have the item's label."""
        if labels[item] < 0:
            return None
        near, _ = nearest_to(state.rows, item, 10, among=labels >= 0)
        return float((labels[near] == labels[item]).mean()) if len(near) else None


def _told(value: Any) -> str:
    """A value of a column as people read it."""
    return f"{value:.6g}" if isinstance(value, float | np.floating) else str(value)[:200]


def gestures_from(given: Any) -> list[dict[str, Any]]:
    """Gestures as a list: those of a session's export, of a project folder, of a file, or the list itself."""
    if isinstance(given, str | os.PathLike):
        path = Path(given)
        path = path / "gestures.json" if path.is_dir() else path
        given = json.loads(path.read_text())
    if isinstance(given, Mapping):
        done = given.get("done")
        given = given["gestures"] if done is None else given["gestures"][:done]
    return [gesture.to_dict() if isinstance(gesture, Gesture) else dict(gesture) for gesture in given]
