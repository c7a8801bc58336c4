"""What the rows of a fit say of a new one: its class by their votes, its labels or its number by their mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nearer._checks import check_choice, check_int
from nearer.exceptions import LabelError, ParameterError
from nearer.geometry._shared import ProbabilityMap
from nearer.models._problem import CLASSES, Problem
from nearer.neighbors import search

if TYPE_CHECKING:
    from nearer.models._model import Model

# Rows that are kept to vote; a random part of more.
MOST_VOTES = 20_000
# Where few rows have a label, all rows vote with the class that reached them over the graph of their neighbors.
SPREAD_K, SPREAD_GAMMA = 10, 0.9
KINDS = ("classes", "partial", "sets", "distributions", "numbers")


@dataclass(frozen=True, eq=False)
class Votes:
    """Embedded rows (n, d) with their labels, how many of them answer, and the classes that are known."""

    kind: str
    k: int
    rows: NDArray[np.float32]
    labels: NDArray[Any]
    known: NDArray[np.int64]
    """The codes of the classes that some row has."""
    own: bool = False
    """Whether the map knows probabilities itself: then no rows are kept."""

    def answer(self, model: Model, items: Any) -> NDArray[Any]:
        """The share of every class, (n, c); the score or share of every label, (n, q); or a number, (n,)."""
        if self.own:
            made = next(part for part in model.encoder.modules() if isinstance(part, ProbabilityMap))
            with torch.no_grad():
                found = made.probabilities(model.features(items)).double().numpy()
            result = np.zeros((len(found), len(names_of(model, self))))
            result[:, self.known] = found / found.sum(axis=1, keepdims=True)
            return result
        asked = model.transform(items)
        if self.kind == "sets":
            from nearer.estimators import MLKNN

            return np.asarray(MLKNN(n_neighbors=self.k).fit(self.rows, self.labels).predict_scores(asked))
        near = self.labels[np.asarray(search(asked, self.rows, k=self.k).indices)]
        if self.kind not in CLASSES:
            return np.asarray(near.mean(axis=1))
        shares = (near[:, :, None] == np.arange(len(names_of(model, self)))).mean(axis=1)
        # Equal votes go to the class of the nearest.
        shares[np.arange(len(near)), near[:, 0]] += 1e-9
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def to_tensors(self) -> dict[str, Tensor]:
        """The arrays, to be saved; `to_dict` has the rest."""
        return {name: torch.from_numpy(np.ascontiguousarray(getattr(self, name))) for name in ARRAYS}

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"kind": self.kind, "k": self.k, "own": self.own}

    @classmethod
    def from_saved(cls, about: Mapping[str, Any], tensors: Mapping[str, Tensor], classes: int | None) -> Votes:
        """What was saved; arrays that do not fit together are refused."""
        rows, labels, known = (tensors[name].numpy() for name in ARRAYS)
        made = cls(
            check_choice(about["kind"], "kind", KINDS),
            check_int(about["k"], "k"),
            rows,
            labels,
            known,
            bool(about["own"]),
        )
        codes = [known, *([labels] if made.kind in CLASSES else [])]
        classes = classes or int(known.max(initial=-1)) + 1  # classes without names
        if (
            rows.ndim != 2
            or len(rows) != len(labels)
            or any(
                code.dtype != np.int64 or (len(code) and not 0 <= code.min() <= code.max() < classes)
                for code in codes
            )
        ):
            raise LabelError(f"`votes` must hold rows and as many labels of the {classes} classes.")
        return made


ARRAYS = ("rows", "labels", "known")


def votes_of(model: Model, problem: Problem) -> Votes | None:
    """The rows that a model has learned from, as it sees them; None for pairs, which have no label."""
    if problem.kind not in KINDS:
        return None
    rows, labels, classes = problem.train, problem.labels, problem.kind in CLASSES
    given = rows[labels[rows] >= 0] if classes else rows
    known = np.unique(labels[given]).astype(np.int64) if classes else np.zeros(0, dtype=np.int64)
    if classes and not problem.few and any(isinstance(part, ProbabilityMap) for part in model.encoder.modules()):
        none = np.zeros((0, 1), dtype=np.float32)
        return Votes(problem.kind, 1, none, np.zeros(0, dtype=np.int64), known, own=True)
    free = np.setdiff1d(rows, given) if problem.few else rows[:0]
    rng = np.random.default_rng(0)
    kept = np.concatenate([rng.permutation(part)[:MOST_VOTES] for part in (given, free)])[:MOST_VOTES]
    encode = model.database_map or model.transform
    z, y = encode(problem.items[kept]), labels[kept]
    k = min(problem.asked, len(kept))
    if problem.kind == "sets":
        k = min(10, len(kept) - 1)
    if problem.few:
        from nearer.graph import class_shares, nearest_neighbors

        k = min(SPREAD_K, len(kept) - 1)
        graph = nearest_neighbors(torch.from_numpy(z), k=k, normalized=False)
        y = class_shares(graph, y, gamma=SPREAD_GAMMA).pseudo_labels.numpy()
        z, y = z[y >= 0], y[y >= 0]
        k = min(k, len(y))
    return Votes(problem.kind, k, z, y.astype(np.int64) if classes else y, known)


def named(classes: tuple[str, ...]) -> NDArray[Any]:
    """Names of classes as an array: of whole numbers, of true and false, or of words, whichever they were.

    >>> named(("1", "2")), named(("no", "2"))
    (array([1, 2]), array(['no', '2'], dtype='<U2'))
    """
    if set(classes) <= {"False", "True"}:
        return np.array([name == "True" for name in classes])
    try:
        numbers = [int(name) for name in classes]
    except ValueError:
        return np.array(classes)
    return np.array(numbers) if [str(number) for number in numbers] == list(classes) else np.array(classes)


def names_of(model: Model, votes: Votes) -> tuple[str, ...]:
    """The names of the classes, their codes where they have none."""
    return model.classes or tuple(str(code) for code in range(int(votes.known.max(initial=-1)) + 1))


def predict(model: Model, items: Any) -> NDArray[Any]:
    """The answer for every item, in the form of the labels of the fit."""
    votes = _votes(model)
    answer = votes.answer(model, items)
    if votes.kind == "sets":
        return (answer >= 0.5).astype(np.int64)
    return named(names_of(model, votes))[answer.argmax(axis=1)] if votes.kind in CLASSES else answer


def predict_proba(model: Model, items: Any) -> NDArray[Any]:
    """The share of every class, or the score of every label."""
    votes = _votes(model)
    if votes.kind == "numbers":
        raise ParameterError(
            "`predict_proba` must be asked of a model of classes or labels; this one is of numbers."
        )
    return votes.answer(model, items)


def score(model: Model, data: Any, y: Any) -> float:
    """Accuracy, average precision, cosine or R², whichever suits the labels."""
    from nearer.evaluation import evaluate_distribution, evaluate_multilabel
    from nearer.models._fitting import as_numbers
    from nearer.models._scoring import evaluate_numbers, main_score

    votes = _votes(model)
    given = model.inputs.read(data, y)
    if votes.kind == "numbers":
        given = as_numbers(given)
    truth = given.all.y
    if given.kind != votes.kind and not {given.kind, votes.kind} <= set(CLASSES):
        raise LabelError(f"`y` must hold {votes.kind} as the model learned them, got {given.kind}.")
    answer = votes.answer(model, model.inputs.of(given))
    if votes.kind == "sets":
        return main_score(evaluate_multilabel(answer, truth, (answer >= 0.5).astype(np.int64)))
    if votes.kind == "distributions":
        return main_score(evaluate_distribution(answer, truth))
    if votes.kind == "numbers":
        return main_score(evaluate_numbers(answer, truth))
    asked = np.flatnonzero(truth >= 0)
    if not len(asked):
        raise LabelError("`y` must name the class of some rows, got none. Name the label column.")
    said = np.array(names_of(model, votes))[answer[asked].argmax(axis=1)]
    meant = np.array(given.class_names)[truth[asked]] if given.class_names else truth[asked].astype(str)
    return float((said == meant).mean())


def _votes(model: Model) -> Votes:
    if model.votes is None:
        raise ParameterError(
            "The model must come from a fit on labels to predict them: one of pairs, or one that was corrected by "
            "hand or saved by an older version, has none. Fit it again."
        )
    return model.votes
