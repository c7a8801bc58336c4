"""How a method of the table learns from a problem: estimators, and the closed form within classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.decomposition import PCA
from torch import nn

from nearer import estimators
from nearer.estimators._shared import OF_FEW
from nearer.exceptions import ParameterError
from nearer.geometry import Chain, Mahalanobis, TwoEncoders, UnitLength, embed
from nearer.geometry._shared import Standardize
from nearer.models._maps import as_module
from nearer.models._problem import CLASSES, Problem
from nearer.models._settings import FitSettings
from nearer.training import Checkpoints, CSVLog, JSONLinesLog

if TYPE_CHECKING:
    from nearer.models._methods import Method
    from nearer.training._shared import Callback, History

# Rows that trees learn from, at most (`ClassProbabilities`).
MOST_BOOSTED = 20_000
# Rows that are enough to find the directions of largest variance.
MOST_LOOKED_AT = 10_000
# Rows that carry the map of a kernel: its cost grows with their cube.
MOST_LANDMARKS = 3_000


class Learned(NamedTuple):
    """A map from items to embeddings, the history of its training, and what should be said about it."""

    encoder: nn.Module
    history: History | None = None
    notes: Sequence[str] = ()
    chosen: Mapping[str, Any] = MappingProxyType({})
    """Settings of the learner that were chosen on the rows; a fit on more of them need not choose again."""


@dataclass(frozen=True)
class Watch:
    """Where a network keeps its checkpoints and logs while it trains, and who hears of it."""

    folder: Path | None = None
    callbacks: Sequence[Callback] = ()

    def logs(self) -> list[Callback]:
        """The files that a training writes, where there is a folder."""
        folder = self.folder
        return [] if folder is None else [JSONLinesLog(folder / "log.jsonl"), CSVLog(folder / "log.csv")]

    def checkpoints(self) -> Checkpoints | None:
        """What a training goes on from, where there is a folder."""
        return None if self.folder is None else Checkpoints(self.folder / "checkpoints")


def learn_nothing(problem: Problem, settings: FitSettings) -> Learned:
    """The features without learning: as given, at one scale, or those of an encoder by angle."""
    if problem.images:
        raise ParameterError("`method` must be a network for images, got 'euclidean'. Try raw-vthm.")
    if problem.inputs.encoder is not None:
        return Learned(UnitLength())
    rows = problem.items[problem.train]
    scale, x = _scaled(problem, rows, rows, bool(settings.standardize))
    return Learned(Chain(*scale, as_module(estimators.Euclidean(settings.n_components).fit(x))).eval())


def learn_within_class(problem: Problem, settings: FitSettings, *, leading: int | None = None) -> Learned:
    """The closed form on the labelled training rows; features of an encoder are taken as they are.

    `leading` is how many principal directions of all training rows, labelled or not, it is learned in; all if None.
    """
    rows = problem.train[problem.labels[problem.train] >= 0]
    encoded = problem.inputs.encoder is not None
    scale, x = _scaled(
        problem, problem.items[rows], problem.items[rows], bool(settings.standardize) and not encoded
    )
    front: list[nn.Module] = [*scale]
    if leading is not None:
        every = np.random.default_rng(settings.seed).permutation(problem.train)[:MOST_LOOKED_AT]
        seen = embed(Chain(*front), problem.items[every]).numpy() if front else problem.items[every]
        spread = PCA(min(leading, *seen.shape), random_state=settings.seed).fit(seen)
        front.append(Mahalanobis.from_factor(np.ascontiguousarray(spread.components_.T, dtype=np.float32)))
        x = x @ spread.components_.T
    wanted = {"unit": True if encoded else None, "new_classes": problem.new_classes, **problem.chosen}
    if problem.few and not encoded:
        # What the labelled rows would choose among more maps harms Recall@1 of new rows: of 72, this one did not.
        wanted |= {"power": OF_FEW.power, "shrink": OF_FEW.shrink, "floor": OF_FEW.floor, "unit": False}
    learner = estimators.WithinClass(settings.n_components, random_state=settings.seed, **wanted)
    learner.fit(x, problem.labels[rows])
    notes = []
    if learner.scores_:
        what = "classes" if problem.new_classes else "rows"
        raw = max(score for form, score in learner.scores_.items() if form.is_raw)
        notes.append(
            f"within-class took {learner.form_} among {len(learner.scores_)} maps, by Recall@1 and MAP@R on blocks "
            f"of the training {what}: their mean is {learner.scores_[learner.form_]:.4f}, that of the features as "
            f"they are {raw:.4f}."
        )
    return Learned(Chain(*front, as_module(learner)).eval(), notes=notes, chosen=asdict(learner.form_))


def learn_estimator(problem: Problem, settings: FitSettings, method: Method, inner: str) -> Learned:
    """A learner of `nearer.estimators` on the training rows, or on the training pairs."""
    kind = getattr(estimators, method.target)
    known = kind().get_params()
    p = int(np.prod(problem.inputs.size))
    wanted: dict[str, Any] = {
        "random_state": settings.seed,
        "n_components": settings.n_components,
        "batch_size": method.batch_size(problem.labeled, p, settings.time),
        "n_landmarks": MOST_LANDMARKS if problem.labeled > MOST_LANDMARKS else None,
    }
    if method.seconds_in_batches is None:
        del wanted["batch_size"]
    if method.scales_itself:
        measured = problem.inputs.measured
        wanted["standardize"] = settings.standardize if measured is None or not settings.standardize else measured
    if inner:
        wanted["learner"] = getattr(estimators, inner)(settings.n_components, random_state=settings.seed)
    learner = kind(**{name: value for name, value in wanted.items() if name in known} | dict(problem.chosen))
    rows, labels = problem.items[problem.train], problem.labels[problem.train]
    standardize = bool(settings.standardize) and not method.scales_itself
    if problem.kind == "pairs":
        pairs, similar = problem.pairs_of(problem.train)
        chosen, places = np.unique(pairs, return_inverse=True)
        # Scaled by all training rows, as the raw features are: those without a pair say how wide a column is, too.
        scale, x = _scaled(problem, problem.items[chosen], rows, standardize)
        if hasattr(learner, "fit_pairs"):
            learner.fit_pairs(x, places.reshape(pairs.shape), similar)
        else:
            learner.fit(x)
    else:
        if problem.kind in CLASSES and "partial" not in method.supervision:
            rows, labels = rows[labels >= 0], labels[labels >= 0]
        scale, x = _scaled(problem, rows, rows, standardize)
        learner.fit(x, labels)
    learned = as_module(learner)
    if isinstance(learned, TwoEncoders):
        # Each side is scaled as the features were.
        sides = (Chain(*scale, side) for side in (learned.query_encoder, learned.database_encoder))
        return Learned(TwoEncoders(*sides).eval())
    notes = []
    if isinstance(learner, estimators.ClassProbabilities) and problem.labeled > MOST_BOOSTED:
        notes = [f"Each tree has learned from {MOST_BOOSTED:,} of the {problem.labeled:,} rows, drawn at random."]
    again = {"weights": learner.weights_.tolist()} if isinstance(learner, estimators.ClassProbabilities) else {}
    return Learned(Chain(*scale, learned).eval(), notes=notes, chosen=again)


def _scaled(problem: Problem, rows: Any, by: Any, standardize: bool) -> tuple[list[Standardize], Any]:
    """Rows at the scale of others, and the module that brings them there; nothing where it is not asked for."""
    if not standardize:
        return [], rows
    scale = problem.inputs.scale(by)
    return [scale], scale(rows).numpy()
