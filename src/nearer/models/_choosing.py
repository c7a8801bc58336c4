"""Which method to learn with: candidates, the simplest first, compared on training rows they did not learn from.

The training rows are cut into folds; each candidate learns from all but one and is asked the rows of that one. The
simplest candidate is taken that is within one standard error of the best, row by row, so that something is learned
only where it shows.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearer.exceptions import LabelError, NearerError, ParameterError, StoppedEarlyWarning
from nearer.models._learning import Watch
from nearer.models._methods import FINE_TUNED, METHODS, MOST_TRIED, Method, check_fits, choose_methods, method_named
from nearer.models._model import Model
from nearer.models._problem import Problem
from nearer.models._scoring import row_scores
from nearer.models._settings import FitSettings
from nearer.training._shared import Callback

Say = Callable[[str], None]
# Rows asked that are enough: further folds are left out. With few labels each of them counts.
ENOUGH, FOLDS, FEW_FOLDS = 400, 3, 5


@dataclass(frozen=True)
class Trial:
    """One method that was tried: its mean score over validation rows, its time, or why it has no score."""

    method: str
    score: float | None
    seconds: float
    reason: str = ""


@dataclass(frozen=True)
class Choice:
    """The method to learn with, the rule that chose it, what was tried, and what should be said of it."""

    method: Method
    rule: str
    trials: Sequence[Trial] = ()
    chosen: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the learner that were found on the way."""
    notes: Sequence[str] = ()


def choose(problem: Problem, settings: FitSettings, tell: Say) -> Choice:
    """The method that was named, or the best of the candidates: those of the rule, or with "auto" all that fit."""
    if settings.method not in ("auto", "choose"):
        method = method_named(settings.method)
        _check_used([method], settings, problem)
        check_fits(method, problem)
        return Choice(method, f"Method {method.name}, as asked.")
    front = problem.inputs.encoder
    if settings.method == "choose" and front is not None and front.raw_width:
        return Choice(FINE_TUNED, f"{front.name}: its columns are the embedding.")
    if settings.method == "choose":
        methods, rule = choose_methods(
            problem.kind,
            n=problem.labeled,
            p=int(np.prod(problem.inputs.size)),
            few=problem.few,
            images=problem.images,
            encoded=problem.inputs.encoder is not None,
            new_classes=problem.new_classes,
            classes=problem.n_classes,
            seconds=settings.time,
        )
    else:
        # Pixels as they are stand in the table of scores; there is no map to keep of them.
        first = [] if problem.images else [METHODS[0]]
        methods, rule = [*first, *(method for method in METHODS if method.tried(problem))], ""
    _check_used(methods, settings, problem)
    if len(methods) == 1:
        return Choice(methods[0], f"Rule: {rule}.")
    try:
        folds = _folds(problem, settings)
    except LabelError:
        if rule and not problem.few:
            return Choice(methods[-1], f"Rule: {rule}.")
        # What a label or two of a class would teach harms: USPS, two of each, Recall@1 .93 -> .84.
        return Choice(methods[0], "Too few labelled rows to try methods: the features are kept.")
    return _best(problem, settings, methods, folds, rule, tell)


def _folds(problem: Problem, settings: FitSettings) -> list[Problem]:
    """Training rows as problems of their own, as many as it takes to ask enough rows."""
    made = problem.folds(FEW_FOLDS if problem.few else FOLDS, seed=settings.seed + 2, most=MOST_TRIED)
    asked = np.cumsum([len(fold.held_out) for fold in made])
    return made if problem.few else made[: 1 + int(np.searchsorted(asked, ENOUGH))]


def _best(
    problem: Problem,
    settings: FitSettings,
    methods: Sequence[Method],
    folds: Sequence[Problem],
    rule: str,
    tell: Say,
) -> Choice:
    start, trials = time.perf_counter(), []
    scores: dict[Method, NDArray[np.float64]] = {}
    found: dict[Method, Mapping[str, Any]] = {}
    notes: list[str] = []
    for method in methods:
        begin = time.perf_counter()
        # The raw features are always scored: they are what there is to beat. So are the candidates of a rule, which
        # took their time into account: what is chosen must not depend on how busy the machine is.
        left = np.inf if rule or method is methods[0] else settings.time - (begin - start)
        try:
            values, found[method] = _tried(method, problem, settings, folds, begin + left)
            scores[method] = values
            trial = Trial(method.name, float(values.mean()), time.perf_counter() - begin)
        except (NearerError, TimeoutError) as error:
            trial = Trial(method.name, None, time.perf_counter() - begin, str(error))
        except KeyboardInterrupt as stop:
            if not scores or type(stop) is not KeyboardInterrupt:
                raise
            notes = [f"Interrupted while it tried {method.name}: the best of those tried before is kept."]
            break
        trials.append(trial)
        shown = f"{trial.score:.4f}" if trial.score is not None else trial.reason
        tell(f"  {trial.method}: {shown} ({trial.seconds:.1f} s)")
    if not scores:
        return Choice(methods[-1], f"Rule: {rule}.", trials)
    best = max(scores, key=lambda one: scores[one].mean())
    taken = next(one for one in scores if one is best or _within(scores[best] - scores[one]))
    what = "pairs" if problem.kind == "pairs" else "rows"
    asked = f"{len(scores[best]):,} validation {what}"
    if rule and taken is methods[-1] and not notes:
        told = f"Rule: {rule}."
    elif rule and not notes:
        told = f"Rule: {rule}. But on {asked} {taken.name} is within a standard error of the best, and simpler."
    else:
        spent = sum(trial.seconds for trial in trials)
        told = f"Tried {len(scores)} methods in {spent:.0f} s; {taken.name} is "
        told += "the best" if taken is best else "within a standard error of the best"
        told += f" on {asked}."
        if taken is methods[0] and best is taken:
            told += " Nothing beats the raw features."
    return Choice(taken, told, trials, found[taken], [*notes, *_proof(problem, methods[0], taken, scores)])


def _within(gap: NDArray[np.float64]) -> bool:
    """Whether a mean lead over the same rows is no more than its standard error."""
    return bool(gap.mean() <= gap.std() / np.sqrt(len(gap)))


def _proof(problem: Problem, raw: Method, taken: Method, scores: Mapping[Method, NDArray[np.float64]]) -> list[str]:
    """With few labels the held-out rows say little; the folds ask every label that the learner has."""
    if not problem.few or taken is raw or raw not in scores:
        return []
    gain = scores[taken] - scores[raw]
    half = 1.96 * float(gain.std() / np.sqrt(len(gain)))
    mean = float(gain.mean())
    return [
        f"In folds of the {len(gain):,} given labels, the mean of 1-NN and of Recall@1 and MAP@R among new rows: "
        f"{scores[taken].mean():.4f}, the raw features {scores[raw].mean():.4f}, a gain of {mean:+.4f} "
        f"[{mean - half:+.3f}, {mean + half:+.3f}]."
    ]


def _tried(
    method: Method, problem: Problem, settings: FitSettings, folds: Sequence[Problem], deadline: float
) -> tuple[NDArray[np.float64], Mapping[str, Any]]:
    """The score of every row that was asked, and the settings that the learner found in the first fold."""
    quick = replace(settings, epochs=min(settings.epochs, 20), method=method.name)
    values, found = [], dict[str, Any]()
    for fold in folds:
        if time.perf_counter() > deadline:
            raise TimeoutError("no time left")
        with warnings.catch_warnings():
            # A candidate that stops early has the score it has.
            warnings.simplefilter("ignore", StoppedEarlyWarning)
            learned = method.learn(replace(fold, chosen=found), quick, Watch(callbacks=[_out_of_time(deadline)]))
        found = found or (dict(learned.chosen) if method.chooses_once else {})
        values.append(row_scores(fold, Model(learned.encoder, problem.inputs, method.name).transform))
    return np.concatenate(values), found


def _out_of_time(deadline: float) -> Callback:
    def callback(moment: Any) -> None:
        if time.perf_counter() > deadline:
            raise TimeoutError("no time left")

    return callback


_NETWORKS_ONLY = ("epochs", "batch_size", "lr", "patience", "hidden", "precision", "chunk")


def _check_used(methods: Sequence[Method], settings: FitSettings, problem: Problem) -> None:
    """Refuse a setting that was asked for and that no candidate uses."""
    names = ", ".join(method.name for method in methods)
    by_itself = problem.inputs.encoder is not None and all(method.scales_encoded for method in methods)
    if by_itself and "standardize" in settings.given:
        raise ParameterError(f"`standardize` must be left out: {names} scales features of an encoder itself.")
    unused = [name for name in _NETWORKS_ONLY if name in settings.given]
    if unused and not any(method.network for method in methods):
        raise ParameterError(
            f"`{unused[0]}` must come with a network, and {names} "
            f"{'is' if len(methods) == 1 else 'are'} none. Leave it out, or choose a network (`nearer methods`)."
        )
