"""A data set as a learning problem: what the labels are, which rows train, which rows are kept for the scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearer.datasets import Dataset, class_disjoint_split, stratified_split
from nearer.datasets._anything import ColumnRoles
from nearer.exceptions import LabelError
from nearer.models._inputs import Inputs
from nearer.neighbors import search, vote
from nearer.relations._shared import Kind

Rows = NDArray[np.int64]
# Enough for two digits of every score; more would only cost time.
MOST_HELD_OUT = 5_000
# The kinds whose labels are codes of classes, −1 for none.
CLASSES = ("classes", "partial")
# How many neighbors may answer, and how many rows choose among them.
KS, JUDGED = (1, 3, 5, 10, 20, 50), 2_000
# Grey and colour images are brought to the size of the small network for them.
GRAY, COLOR = (1, 28, 28), (3, 32, 32)


@dataclass(frozen=True, eq=False)
class Problem:
    """Items (n, ...), labels (n,) or (n, c), the rows to train on and the rows that are held out."""

    items: NDArray[np.float32]
    labels: NDArray[Any]
    kind: Kind
    train: Rows
    held_out: Rows
    split: str
    inputs: Inputs
    classes: tuple[str, ...]
    pairs: Rows | None = None
    """Row numbers (m, 2) of the pairs that are known, for the kind "pairs"."""
    similar: NDArray[np.bool_] | None = None
    """For each of them whether the two are near, (m,)."""
    chosen: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the learner that were chosen before, on other rows of the same data."""

    @property
    def images(self) -> bool:
        return self.inputs.kind == "images"

    @property
    def labeled(self) -> int:
        """How many rows to train on have a label, or how many pairs there are to train on."""
        if self.pairs is not None:
            return len(self.pairs_of(self.train)[0])
        if self.kind not in CLASSES:
            return len(self.train)
        return int((self.labels[self.train] >= 0).sum())

    @property
    def few(self) -> bool:
        """Whether less than half of the rows have a label."""
        return self.kind == "partial" and 2 * int((self.labels >= 0).sum()) < len(self.labels)

    @property
    def new_classes(self) -> bool:
        """Whether the rows that are held out belong to classes that no training row has."""
        if self.split != "given" or self.kind not in CLASSES:
            return self.split == "classes"
        return not np.isin(self.labels[self.held_out], self.labels[self.train]).any()

    @property
    def counts(self) -> dict[str, int]:
        found = {"rows": len(self.items), "train": len(self.train), "labeled": self.labeled}
        return {**found, "held out": len(self.held_out), "classes": self.n_classes}

    @property
    def n_classes(self) -> int:
        if self.kind in ("numbers", "pairs"):
            return 0
        if self.labels.ndim == 2:
            return int(self.labels.shape[1])
        return len(np.unique(self.labels[self.labels >= 0]))

    @classmethod
    def from_data(cls, data: Dataset, *, held_out: float, split: str, seed: int) -> Problem:
        """Look at the labels, choose the split, and keep the held-out rows aside."""
        everything = data.all
        inputs = inputs_of(data)
        labels = everything.y
        if data.kind in CLASSES:
            check_labels(labels)
        if data.pairs is not None:
            listed, near = (table.numpy() for table in data.pairs.listed())
            train, test = _split_pairs(listed, near, len(labels), held_out, seed)
            same = (inputs.of(data), labels, data.kind, train, test, "new rows", inputs, ())
            return cls(*same, pairs=listed, similar=near)
        parts = list(data.parts)
        if "train" in parts and "test" in parts and split == "auto":
            # A published split is taken as it is; `all` has the parts one after the other.
            starts = np.cumsum([0, *(len(data[part]) for part in parts)])
            rows = {part: np.arange(a, b) for part, a, b in zip(parts, starts, starts[1:], strict=False)}
            test = rows["test"] if data.kind not in CLASSES else rows["test"][labels[rows["test"]] >= 0]
            train = np.concatenate([rows[part] for part in parts if part != "test"])
            if len(test) < 2:
                raise LabelError("The part 'test' must hold at least two labelled rows.")
            return cls(inputs.of(data), labels, data.kind, train, test, "given", inputs, data.class_names)
        train, test, chosen = _split(labels, data.kind, held_out, split, seed)
        return cls(inputs.of(data), labels, data.kind, train, test, chosen, inputs, data.class_names)

    def pairs_of(self, rows: Rows, *, touching: bool = False) -> tuple[Rows, NDArray[np.bool_]]:
        """The known pairs inside these rows, or those that touch them and stay inside train and held-out rows."""
        assert self.pairs is not None
        assert self.similar is not None
        inside = np.isin(self.pairs, rows)
        if touching:
            known = np.isin(self.pairs, np.concatenate([self.train, self.held_out])).all(axis=1)
            chosen = inside.any(axis=1) & known
        else:
            chosen = inside.all(axis=1)
        return self.pairs[chosen], self.similar[chosen]

    def inner(self, *, share: float, seed: int) -> Problem:
        """The training rows as a problem of their own, so that methods are compared without the held-out rows."""
        if self.pairs is not None and self.similar is not None:
            pairs, near = self.pairs_of(self.train)
            train, test = _split_pairs(pairs, near, len(self.labels), share, seed, rows=self.train)
            return replace(self, train=train, held_out=test, split="new rows")
        labels = self.labels[self.train]
        split = "classes" if self.split == "classes" else "stratified"
        train, test, _ = _split(labels, self.kind, share, split, seed)
        return replace(self, train=self.train[train], held_out=self.train[test], split=split)

    @cached_property
    def asked(self) -> int:
        """How many training rows answer for a new one: the number whose mean label is nearest to the truth.

        It is found on the training rows, each without itself, under the features at one scale: a metric that has
        learned from these rows would ask too few.
        """
        rows = self.train[self.labels[self.train] >= 0] if self.kind in CLASSES else self.train
        items = self.items[rows].reshape(len(rows), -1)
        scaled = items if self.images else self.inputs.scale(items)(items).numpy()
        return choose_k(scaled, self.labels[rows])

    def searched(self, most: int) -> Rows | None:
        """The labelled training rows that held-out rows of known classes are searched in, at most so many; None
        where the classes are new, or nothing else was learned from.
        """
        rows = np.setdiff1d(self.train[self.labels[self.train] >= 0], self.held_out)
        if self.new_classes or not len(rows):
            return None
        return rows if len(rows) <= most else np.sort(np.random.default_rng(0).permutation(rows)[:most])

    def folds(self, count: int, *, seed: int, most: int) -> list[Problem]:
        """The training rows, at most so many of them, cut into parts: in each problem another part is held out.

        Classes are spread evenly over the parts, or where those to come are new, each class is in one part. Rows
        without a label and those alone in their class are in no part, and are learned from in all problems.
        """
        rng = np.random.default_rng(seed)
        if self.pairs is not None or self.images:
            return [self.inner(share=0.25, seed=seed)]
        rows = self.train
        if self.kind in CLASSES:
            rows = rows[self.labels[rows] >= 0]
        rows = rng.permutation(rows)[:most]
        others = np.setdiff1d(self.train, rows) if self.few else rows[:0]
        if self.kind not in CLASSES:
            part = np.arange(len(rows)) % count
        elif self.new_classes:
            names, codes = np.unique(self.labels[rows], return_inverse=True)
            if len(names) < 4:
                raise LabelError(f"There must be four classes to hold some out, got {len(names)}.")
            part = (rng.permutation(len(names)) % min(count, len(names) // 2))[codes]
        else:
            order = np.argsort(self.labels[rows], kind="stable")
            rows, part = rows[order], np.arange(len(rows)) % count
            counts = np.unique(self.labels[rows], return_inverse=True, return_counts=True)
            part[counts[2][counts[1]] < 2] = -1
        split = "classes" if self.new_classes else "stratified" if self.kind in CLASSES else "random"
        made = []
        for one in np.unique(part[part >= 0]):
            train = np.sort(np.concatenate([rows[part != one], others]))
            made.append(replace(self, train=train, held_out=np.sort(rows[part == one]), split=split))
        if not made or any(fold.labeled < 2 or len(fold.held_out) < 1 for fold in made):
            raise LabelError(f"There must be more rows to hold some out, got {len(rows)}.")
        return made


def choose_k(rows: NDArray[Any], labels: NDArray[Any]) -> int:
    """The number of neighbors whose vote (of codes of classes), or whose mean label, errs least on the rows.

    Each row is asked without itself; of many rows 2,000 are asked.

    >>> x = np.arange(40.0)[:, None]
    >>> choose_k(x, np.arange(40) // 20)
    1
    """
    asked = np.sort(np.random.default_rng(0).permutation(len(rows))[:JUDGED])
    counts = [k for k in KS if k < len(rows)] or [1]
    near = labels[np.asarray(search(rows[asked], rows, k=counts[-1], own=asked).indices)]
    truth = labels[asked]
    if labels.dtype.kind in "biu" and labels.ndim == 1:
        errors = [float((vote(near[:, :k]) != truth).mean()) for k in counts]
    else:
        errors = [float(np.square(near[:, :k].mean(axis=1) - truth).mean()) for k in counts]
    return counts[int(np.argmin(errors))]


def inputs_of(data: Dataset) -> Inputs:
    """What a model of this data will take."""
    x = data.all.x
    if x.dtype.kind == "U":
        first = data.all.take([0]).images()
        return Inputs("images", size=GRAY if _is_gray(first) else COLOR)
    if x.ndim == 4 or (x.ndim == 3 and x.shape[1:] == GRAY[1:]):
        size = (x.shape[3], *x.shape[1:3]) if x.ndim == 4 else (1, *x.shape[1:])
        if size in (GRAY, COLOR):
            return Inputs("images", size=size)
    width = int(np.prod(x.shape[1:]))
    names = data.feature_names if len(data.feature_names) == width else ()
    columns = data.columns or ColumnRoles()
    shown = (columns.label, columns.keep, columns.ids)
    return Inputs("features", names, (width,), data.cleaning, *shown, data.encoder, columns.text)


def _is_gray(images: NDArray[np.float32]) -> bool:
    return images.shape[1] == 1 or bool(np.ptp(images, axis=1).max() < 1e-6)


def check_labels(labels: NDArray[Any]) -> None:
    """No class at all, or one only, is an error."""
    if labels.ndim == 2:
        return
    known = labels[labels >= 0]
    if not len(known):
        raise LabelError(
            "The data must have labels for some rows, got none. Name their column (`y=`): a metric cannot be "
            "learned from nothing."
        )
    if len(np.unique(known)) < 2:
        raise LabelError(f"The labels must name at least two classes, got one on all {len(known)} labelled rows.")


def _split(labels: NDArray[Any], kind: Kind, share: float, split: str, seed: int) -> tuple[Rows, Rows, str]:
    n = len(labels)
    if kind not in CLASSES:
        order = np.random.default_rng(seed).permutation(n)
        count = min(max(2, round(share * n)), MOST_HELD_OUT)
        if n < 10:
            raise LabelError(f"The data must have at least ten rows to hold some out, got {n}.")
        return np.sort(order[count:]), np.sort(order[:count]), "random"
    known = np.flatnonzero(labels >= 0)
    names, counts = np.unique(labels[known], return_counts=True)
    if split == "auto":
        # Classes of a few rows each cannot give some of them away: retrieval of classes never seen is what counts.
        split = "classes" if np.median(counts) < 5 and len(names) >= 10 else "stratified"
    if split == "classes":
        if len(names) < 4:
            raise LabelError(
                f"A split by classes must have at least four classes, got {len(names)}. Use stratified."
            )
        keep = len(names) - max(2, round(share * len(names)))
        inside, test = class_disjoint_split(labels[known], train_classes=keep, seed=seed)
        unlabeled = np.flatnonzero(labels < 0)
        rows = known[test]
        if len(rows) > MOST_HELD_OUT:
            rows = np.sort(np.random.default_rng(seed).permutation(rows)[:MOST_HELD_OUT])
        return np.sort(np.concatenate([known[inside], unlabeled])), rows, split
    # Two of each class where there are: a row alone in its class has nothing to find.
    count = min(max(2 * len(names), round(share * len(known))), MOST_HELD_OUT, int((counts - 1).sum()))
    if count < 2:
        raise LabelError(
            f"The classes must have rows to hold out, got {len(known)} labelled rows in {len(names)} classes. "
            f"Label at least two rows of two classes."
        )
    train, test = stratified_split(labels, test=count, seed=seed)
    return train, test, split


def _split_pairs(
    pairs: Rows, similar: NDArray[np.bool_], n: int, share: float, seed: int, *, rows: Rows | None = None
) -> tuple[Rows, Rows]:
    """Rows to train on and rows to hold out, so that about `share` of the pairs touch a held-out row.

    A pair that was held out while its items trained in other pairs would prove little: (a, b) and (b, c) say much
    about (a, c). So rows are held out, and every pair that touches one of them is asked and teaches nothing.
    """
    rows = np.arange(n) if rows is None else rows
    named = np.unique(pairs)
    count = max(2, round((1 - np.sqrt(1 - share)) * len(named)))
    for attempt in range(20):
        test = np.random.default_rng([seed, attempt]).permutation(named)[:count]
        touched = np.isin(pairs, test).any(axis=1)
        if all(len(np.unique(similar[part])) == 2 for part in (touched, ~touched)):
            return np.setdiff1d(rows, test), np.sort(test)
    raise LabelError(
        f"The pairs must hold near and far ones for training and for the scores, got {int(similar.sum())} near and "
        f"{int((~similar).sum())} far pairs. List more of them, among more rows."
    )
