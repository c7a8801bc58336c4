"""Another encoder behind an index that stays: its embeddings are moved into the space of the new one."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.model_selection import KFold

from nearer.estimators import Alignment
from nearer.evaluation._paired import RECALLS
from nearer.exceptions import MissingDataError, ParameterError
from nearer.geometry import Chain, Mahalanobis, UnitLength
from nearer.geometry._shared import Standardize
from nearer.index import open_index
from nearer.index._copy import move_index
from nearer.index._items import as_ids
from nearer.models._model import Model, derived
from nearer.models._problem import CLASSES
from nearer.neighbors import search

# Fewer say too little of how many neighbors are kept, and of whether a map of the queries helps.
FEWEST = 50


@dataclass(frozen=True, eq=False)
class Migration:
    """What moving an index to another encoder keeps, and the map that does it; `apply` changes the index."""

    where: str
    model: Model
    """The model that asks the moved index: the new one, or the new one with its space whitened."""
    alignment: Alignment
    pairs: int
    """How many items were there in both spaces."""
    recall: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Where the items have classes: recall@1 of the old embeddings, of the moved ones asked with new queries, and
    of all items embedded again, each with its standard error; moved rows did not teach the map that moved them.
    """
    gain: tuple[float, float] = (float("nan"), float("nan"))
    """What embedding everything again gains in recall@1, and the standard error of that difference."""

    @property
    def whitened(self) -> bool:
        """Whether moved embeddings lie in the whitened space of the new encoder, as labels showed that it helps."""
        return self.alignment.whitening_ is not None

    @property
    def share(self) -> float:
        """The share of that gain that moving keeps; nan without classes or without a gain."""
        if not self.recall or not self.gain[0] > 2 * self.gain[1]:
            return float("nan")
        return (self.recall["moved"][0] - self.recall["old"][0]) / self.gain[0]

    @property
    def verdict(self) -> str:
        """Whether to move, to embed again or to stay, in one sentence."""
        kept, error = self.alignment.kept_, self.alignment.kept_error_
        told = (
            f"Of the 10 nearest neighbors that the new encoder finds, the moved index keeps {kept:.1%} "
            f"(± {error:.1%}) and the old embeddings by themselves have {self.alignment.before_:.1%}, on "
            f"{self.pairs:,} items."
        )
        if not self.recall:
            return f"{told} Without labels nothing says whether the new encoder is better."
        old, moved, again = (self.recall[name][0] for name in ("old", "moved", "embedded again"))
        scores = f"recall@1 {old:.4f} old, {moved:.4f} moved, {again:.4f} embedded again"
        if np.isnan(self.share):
            return f"{told} Keep the old encoder: no gain that these items could show ({scores})."
        advice = "Move the index" if self.share >= 0.7 else "Embed again"
        space = " They lie in the whitened space of the new encoder, and so must queries." * self.whitened
        return f"{told} {advice}: moving has {self.share:.0%} of what embedding again gains ({scores}).{space}"

    def apply(self, *, aside: str | os.PathLike[str] | None = None) -> str:
        """Move the index in one step, and return where the old one is kept; `switch_index` goes back.

        Args:
            aside: where the moved index is built and the old one is left; by default beside it. In Milvus, where
                two collections cannot change their names in one step, it is where the moved one is.
        """
        place = beside(self.where) if aside is None else str(aside)
        with open_index(self.where, read_only="://" not in self.where) as index:
            if index.fingerprint == self.model.fingerprint:
                raise ParameterError(f"`{self.where}` has the embeddings of this model already: it was moved.")
        # A folder that a killed run left could be half an index.
        if "://" not in place and Path(place).exists():
            raise ParameterError(f"`aside` must be free, `{place}` is not. Delete it, or name another place.")
        move_index(
            self.where,
            place,
            through=self.alignment.transform,
            fingerprint=self.model.fingerprint,
            remember=self.model.place,
        )
        return place


def beside(where: str) -> str:
    """The address of an index next to another one.

    >>> beside("items/"), beside("postgresql://me@host/base?table=items")
    ('items.moved', 'postgresql://me@host/base?table=items_moved')
    """
    return f"{where}_moved" if "://" in where else f"{where.rstrip('/')}.moved"


def rows_of(index: Any, names: list[Any], must: str) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
    """Which items an index has, and their embeddings; an error where they are too few to learn from."""
    there = np.array([name in index for name in names], dtype=bool)
    if there.sum() < FEWEST:
        raise MissingDataError(
            f"At least {FEWEST} of {must}, found {int(there.sum())} of {len(names)}."
            + ("" if there.all() else f" Its ids are such as {', '.join(map(repr, index.ids[:3])) or 'none'}.")
        )
    return there, index.embeddings([name for name, known in zip(names, there, strict=True) if known]).numpy()


def align(model: Model, where: str | os.PathLike[str], items: Any, y: Any = None, *, ids: Any = None) -> Migration:
    """Learn how the embeddings of an index become those of `model`, from items that are in the index."""
    given = model.inputs.read(items, y)
    names = given.all.extra.get("id") if ids is None else np.array(as_ids(ids, "ids"), dtype=object)
    named = list(range(len(given.all))) if names is None else names.tolist()
    if len(named) != len(given.all):
        raise ParameterError(f"`ids` must name the {len(given.all)} items, got {len(named)}.", argument="ids")
    with open_index(where, read_only="://" not in str(where)) as index:
        if names is None and len(named) != len(index):
            raise ParameterError(
                f"`ids` must say which of the {len(index):,} items of `{os.fspath(where)}` these {len(named):,} "
                f"are, unless the model knows the column that names them (`id=`). Without ids they must be all, in "
                "their order.",
                argument="ids",
            )
        there, old = rows_of(index, named, f"the items must be in `{os.fspath(where)}`")
        if index.fingerprint is not None and index.fingerprint == model.fingerprint:
            raise ParameterError(f"`{os.fspath(where)}` has the embeddings of this model already.")
    rows = model.inputs.of(given)[there]
    new = model.transform(rows, side="database")
    labels = given.all.y[there] if given.kind in CLASSES else np.full(len(old), -1)
    alignment, right = aligned(old, new, labels, whiten=not model.asymmetric)
    if alignment.whitening_ is not None:
        center = Standardize(new.shape[1])
        center.mean = torch.from_numpy(alignment.center_).float()
        factor = np.ascontiguousarray(alignment.whitening_, dtype=np.float32)
        encoder = Chain(model.encoder, center, Mahalanobis.from_factor(factor), UnitLength()).eval()
        told = "Its space is whitened, as that of the index that was moved to it."
        model = derived(model, encoder, {"whitened": len(rows)}, rows)
        # What was scored and kept for voting belongs to the space as it was.
        model = replace(model, votes=None, scores={}, summary=f"{model.summary}\n\n{told}".lstrip())
    recall = {name: _mean(values) for name, values in right.items()}
    gain = _mean(right["embedded again"] - right["old"]) if right else (float("nan"), float("nan"))
    return Migration(os.fspath(where), model, alignment, len(old), recall, gain)


def aligned(
    old: NDArray[Any], new: NDArray[Any], labels: NDArray[Any], *, whiten: bool = True, seed: int = 0
) -> tuple[Alignment, dict[str, NDArray[np.float64]]]:
    """The map from pairs, and which labelled items find one of their class: old, moved and embedded again.

    Labels (n,) are negative where there is none. With `whiten` the space is whitened where that raises the mean of
    Recall@1, 2, 4 and 8 among them by more than its standard error.
    """
    known = labels >= 0
    alignment = Alignment(random_state=seed).fit(old, new)
    if len(np.unique(labels[known])) < 2:
        return alignment, {}

    def found(queries: NDArray[Any], database: NDArray[Any]) -> NDArray[np.float64]:
        """Whether one of the first 1, 2, 4 and 8 is of the class, (rows, 4)."""
        own, most = np.arange(int(known.sum())), min(RECALLS[-1], int(known.sum()) - 1)
        nearest = search(queries[known], database[known], most, own=own).indices.numpy()
        same = np.logical_or.accumulate(labels[known][nearest] == labels[known][:, None], axis=1)
        return same[:, [min(at, most) - 1 for at in RECALLS]].astype(np.float64)

    def moved(one: Alignment) -> NDArray[np.float64]:
        rows, asked = np.empty_like(new), one.transform_target(new)
        for rest, fold in KFold(5, shuffle=True, random_state=0).split(old):
            same = Alignment(one.strength_, width=one.width_, random_state=0)
            rows[fold] = same.fit(old[rest], asked[rest]).transform(old[fold])
        return found(asked, rows)

    hits = moved(alignment)
    if whiten:
        other = Alignment(whiten=True, random_state=seed).fit(old, new)
        others = moved(other)
        gain, error = _mean((others - hits).mean(axis=1))
        if gain > error:
            alignment, hits = other, others
    return alignment, {"old": found(old, old)[:, 0], "moved": hits[:, 0], "embedded again": found(new, new)[:, 0]}


def _mean(values: NDArray[np.float64]) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))
