"""From a data set to a model: choose a method, learn, score it beside the raw features on held-out rows."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from nearer.datasets import Dataset
from nearer.estimators._shared import Follow, follow_iterations
from nearer.evaluation import Comparison
from nearer.exceptions import LabelError, NearerError, ParameterError, StoppedEarlyWarning
from nearer.geometry import embed
from nearer.models._baselines import baselines_of
from nearer.models._learning import Watch
from nearer.models._methods import (
    FINE_TUNED,
    METHODS,
    SHARE,
    Method,
    check_fits,
    choose_method,
    machine_memory,
    memory,
    method_named,
)
from nearer.models._model import Model, fingerprints
from nearer.models._problem import Problem
from nearer.models._raw import raw_map
from nearer.models._scoring import Encode, compare_problem, evaluate_problem, main_score, row_scores
from nearer.models._settings import FitSettings
from nearer.training._shared import Callback, History

__all__ = ["Fitted", "Trial", "fit_model"]

Say = Callable[[str], None]


@dataclass(frozen=True)
class Trial:
    """One method that `auto` tried: its score on validation rows, its time, or why it has no score."""

    method: str
    score: float | None
    seconds: float
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Fitted:
    """A model, its scores beside the raw features, and how it came about."""

    model: Model
    comparison: Comparison
    rule: str
    seconds: float
    problem: Problem
    raw: Encode
    """The features that the learned metric is compared with."""
    learned: Encode
    """The map that was scored; the model itself may have learned from the held-out rows afterwards."""
    history: History | None = None
    trials: Sequence[Trial] = ()
    notes: Sequence[str] = ()
    """Warnings of the method, such as that it stopped before it converged."""

    @property
    def verdict(self) -> str:
        """One sentence; plain when nothing was gained."""
        return self.comparison.verdict


def fit_model(
    data: Dataset,
    settings: FitSettings | None = None,
    *,
    folder: Path | None = None,
    callbacks: Sequence[Callback] = (),
    say: Say | None = None,
    follow: Follow | None = None,
) -> Fitted:
    """Learn a model from a data set. `folder` is where a network keeps its checkpoints and logs while it trains.

    `callbacks` hear of the training of a network, `follow` of the iterations of a linear learner.

    >>> from nearer.datasets import load
    >>> fitted = fit_model(load("wine"), FitSettings(method="kissme"))
    >>> fitted.model.method, fitted.model.transform(load("wine").all.x).shape
    ('kissme', (178, 13))
    """
    begin = time.perf_counter()
    settings = settings or FitSettings()
    tell = say or (lambda text: None)
    if settings.finetune:
        return _fine_tuned(data, settings, Watch(folder, callbacks), tell, begin)
    if settings.method not in ("auto", "choose") and method_named(settings.method).supervision == ("numbers",):
        data = as_numbers(data)
    problem = Problem.from_data(data, held_out=settings.held_out, split=settings.split, seed=settings.seed)
    method, rule, trials, problem = _method(problem, settings, tell)
    tell(rule)
    for note in _before(problem, method, settings):
        tell(f"Note: {note}")
    with warnings.catch_warnings(record=True) as raised, follow_iterations(follow):
        warnings.simplefilter("always", StoppedEarlyWarning)
        learned = method.learn(problem, settings, Watch(folder, callbacks))
    notes = [*learned.notes, *(str(warning.message) for warning in raised), *_doubts(problem)]
    for note in notes:
        tell(f"Note: {note}")
    model = Model(
        learned.encoder,
        problem.inputs,
        method.name,
        settings.to_dict(),
        problem.classes,
        {
            "name": data.name,
            "fingerprint": data.fingerprint(),
            "kind": problem.kind,
            **problem.counts,
            "split": problem.split,
        },
        baseline=raw_map(problem.inputs, problem.items[problem.train], standardize=settings.standardize),
        trained_on=fingerprints(problem.items[problem.train]),
        reference=data,
    )
    comparison = compare_problem(problem, model.raw, model.transform, database=model.database_map)
    comparison = replace(comparison, baselines=baselines_of(problem, model.raw, asymmetric=model.asymmetric))
    model.scores = comparison.to_dict()
    raw, scored = model.raw, model.transform
    if settings.refit and not method.network and problem.split != "given":
        # What was scored is the same learner on fewer rows; a published test part stays unseen.
        whole = replace(problem, train=np.sort(np.r_[problem.train, problem.held_out]), chosen=learned.chosen)
        with warnings.catch_warnings(), follow_iterations(follow):
            warnings.simplefilter("ignore", StoppedEarlyWarning)  # it was told of the first fit
            encoder = method.learn(whole, settings, Watch()).encoder
        model = replace(model, encoder=encoder, trained_on=fingerprints(whole.items[whole.train]))
        notes.append(f"Scored without the {len(problem.held_out):,} held-out rows, then learned again from all.")
        tell(f"Note: {notes[-1]}")
    seconds = time.perf_counter() - begin
    fitted = Fitted(model, comparison, rule, seconds, problem, raw, scored, learned.history, trials, notes)
    model.summary, model.fitted = summary_of(fitted), fitted
    return fitted


def _fine_tuned(data: Dataset, settings: FitSettings, watch: Watch, tell: Say, begin: float) -> Fitted:
    """The encoder is trained first; then its columns, or those of the frozen one, are fitted like any others."""
    from nearer.models._finetuning import fine_tune

    tuned = fine_tune(data, settings, watch, tell)
    for note in tuned.notes:
        tell(f"Note: {note}")
    plain = replace(settings, method="choose", loss=None, loss_settings={}, finetune=False, given=frozenset())
    if tuned.data is None:
        fitted = fit_model(data, plain, say=tell)
    else:
        fitted = fit_model(tuned.data, plain, say=tell)
        problem, width = fitted.problem, data.all.x.shape[1]
        closed = evaluate_problem(problem, lambda items: embed(tuned.closed, items[:, :width]).numpy())
        baselines = {**fitted.comparison.baselines, "closed form": closed}
        fitted = replace(fitted, comparison=replace(fitted.comparison, baselines=baselines))
    model = fitted.model
    fitted = replace(
        fitted,
        history=tuned.history,
        notes=[*tuned.notes, *fitted.notes],
        seconds=time.perf_counter() - begin,
    )
    model.parameters, model.scores = settings.to_dict(), fitted.comparison.to_dict()
    model.summary, model.fitted = summary_of(fitted), fitted
    return fitted


def as_numbers(data: Dataset) -> Dataset:
    """Whole numbers that were read as classes, as numbers again: a regression was asked for."""
    if data.kind != "classes" or not _are_numbers(data.class_names):
        return data
    values = np.array([float(name) for name in data.class_names], dtype=np.float32)
    parts = {name: replace(part, y=values[part.y], kind="numbers") for name, part in data.parts.items()}
    return replace(data, parts=parts, class_names=())


def _are_numbers(names: Sequence[str]) -> bool:
    return bool(names) and all(re.fullmatch(r"-?\d+(\.0)?", name) for name in names)


def _doubts(problem: Problem) -> list[str]:
    """Said where the labels may have been meant otherwise."""
    if problem.kind != "classes" or problem.n_classes < 20 or 4 * problem.n_classes < len(problem.labels):
        return []
    if not _are_numbers(problem.classes):
        return []
    return [
        f"The labels were read as {problem.n_classes:,} classes. If they are numbers to predict, choose the metric "
        "mlkr."
    ]


def summary_of(fitted: Fitted) -> str:
    """What `print(model)` shows: the data, what was done to it, the method, the scores and the verdict."""
    problem, model = fitted.problem, fitted.model
    what = {
        "classes": "classes",
        "partial": "classes, some rows without a label",
        "sets": "labels, several at once",
    }
    kinds = {**what, "distributions": "label degrees", "numbers": "numbers to predict", "pairs": "pairs"}
    head = f"{model.data['name']}: {len(problem.items):,} rows, {'×'.join(map(str, model.inputs.size))} "
    head += "features" if model.inputs.kind == "features" else "pixels"
    if model.inputs.encoder is not None:
        head += f" of {model.inputs.encoder.kind} by {model.inputs.encoder.name}"
    count = f"{problem.n_classes} " if problem.n_classes else ""
    lines = [f"{head}; {count}{kinds[problem.kind]}"]
    if model.reference is not None and model.reference.note:
        lines.append(model.reference.note)
    cleaning = model.inputs.cleaning
    if cleaning is not None and not (cleaning.plain and not any(column.why for column in cleaning.columns)):
        lines += ["", *(f"  {line}" for line in str(cleaning).splitlines())]
    lines += ["", f"{fitted.rule} ({fitted.seconds:.1f} s)"]
    lines += [f"Note: {note}" for note in fitted.notes]
    lines += ["", f"{len(problem.held_out):,} held-out rows ({problem.split} split)"]
    lines += str(fitted.comparison).splitlines()[: 1 + len(fitted.comparison.gains)]
    return "\n".join([*lines, fitted.verdict])


def _method(problem: Problem, settings: FitSettings, tell: Say) -> tuple[Method, str, Sequence[Trial], Problem]:
    """The method to learn with, the rule that chose it, what was tried, and the problem with what that chose."""
    if problem.inputs.encoder is not None and problem.inputs.encoder.raw_width and settings.method == "choose":
        return FINE_TUNED, f"{problem.inputs.encoder.name}: its columns are the embedding.", (), problem
    # Learners from pairs differ most where pairs are few, and none costs much: they are tried, the features first.
    if settings.method == "choose" and problem.kind != "pairs":
        method, rule = choose_method(
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
        _check_used(method, settings, problem)
        if method.name == "class-probabilities":
            return _at_least_raw(problem, settings, method, rule, tell)
        return method, f"Rule: {rule}.", (), problem
    if settings.method not in ("auto", "choose"):
        method = method_named(settings.method)
        _check_used(method, settings, problem)
        check_fits(method, problem)
        return method, f"Method {method.name}, as asked.", (), problem
    trials = _try_all(problem, settings, tell)
    scored = [trial for trial in trials if trial.score is not None]
    best = max(scored, key=lambda trial: trial.score or 0.0)
    spent = sum(trial.seconds for trial in trials)
    what = "average precision of validation pairs" if problem.kind == "pairs" else "validation rows"
    told = f"Tried {len(scored)} methods in {spent:.0f} s; best on {what}: {best.method}."
    if best.method == "euclidean":
        told += " Nothing beats the raw features."
    return method_named(best.method), told, trials, problem


def _at_least_raw(
    problem: Problem, settings: FitSettings, method: Method, rule: str, tell: Say
) -> tuple[Method, str, Sequence[Trial], Problem]:
    """The method of the rule beside simpler ones, on validation rows; the simplest that is within one standard
    error of the best is taken.
    """
    try:
        inner = problem.inner(share=0.25, seed=settings.seed + 2)
    except LabelError:
        return method, f"Rule: {rule}.", (), problem  # too few rows to hold some out once more
    p = int(np.prod(problem.inputs.size))
    simpler = [method_named(name) for name in ("euclidean", "lda", "nca")]
    allowed = [other for other in simpler if other.seconds(inner.labeled, p) <= SHARE * settings.time]
    trials, scores, chosen = [], {}, {}
    for other in [*allowed, method]:
        begin = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", StoppedEarlyWarning)
                learned = other.learn(inner, settings, Watch())
            scores[other], chosen[other] = (
                row_scores(inner, Model(learned.encoder, problem.inputs, "").transform),
                learned.chosen,
            )
            trial = Trial(other.name, float(scores[other].mean()), time.perf_counter() - begin)
        except NearerError as error:
            trial = Trial(other.name, None, time.perf_counter() - begin, str(error))
        trials.append(trial)
        shown = f"{trial.score:.4f}" if trial.score is not None else trial.reason
        tell(f"  {other.name}: {shown} ({trial.seconds:.1f} s)")
    best = max(scores, key=lambda other: scores[other].mean())
    behind = {other: scores[best] - scores[other] for other in scores}
    taken = next(
        other for other, gap in behind.items() if gap.mean() <= gap.std() / np.sqrt(len(gap)) or other is best
    )
    told = f"Rule: {rule}."
    if taken is not method:
        told = (
            f"Rule: {rule}. But on {len(inner.held_out):,} validation rows {taken.name} is within a standard error "
            f"of the best, and simpler."
        )
    return taken, told, trials, replace(problem, chosen=chosen[taken])


def _before(problem: Problem, method: Method, settings: FitSettings) -> list[str]:
    """What should be known before the learning starts: that it goes by batches, takes long or may not fit."""
    if method.network or problem.kind == "pairs":
        return []
    n, p, name = problem.labeled, int(np.prod(problem.inputs.size)), method.name
    whole = method.seconds(n, p)
    told = []
    if memory(n, p) > 0.8 * machine_memory():
        told.append(
            f"{name} will take about {memory(n, p) / 1e9:.2g} GB beside the data, and this machine has "
            f"{machine_memory() / 1e9:.2g} GB. "
            + (
                f"Its matrices grow with the square of the {p:,} features; those of a network (raw-vthm) do not."
                if 40.0 * p > 12.0 * n
                else f"It grows with the {n:,} rows; `rows` learns from as many as you say."
            )
        )
    size = method.batch_size(n, p, settings.time)
    if size is not None:
        told.append(
            f"{name} learns from batches of {size:,} rows; all {n:,} at once would take about {whole:.1g} s."
        )
    elif method.instead and whole > 10 * settings.time:
        long = f"{name} will take about {whole:.1g} s: its time grows with the square of the {n:,} rows."
        told.append(f"{long} That of {method.instead} does not.")
    return told


_NETWORKS_ONLY = ("epochs", "batch_size", "lr", "patience", "hidden", "precision", "chunk")


def _check_used(method: Method, settings: FitSettings, problem: Problem) -> None:
    """Refuse a setting that was asked for and that the method does not use."""
    if method.scales_itself and problem.inputs.encoder is not None and "standardize" in settings.given:
        raise ParameterError(f"`standardize` must be left out: {method.name} scales features of an encoder itself.")
    unused = [name for name in _NETWORKS_ONLY if name in settings.given and not method.network]
    if unused:
        raise ParameterError(
            f"`{unused[0]}` must come with a network, and {method.name} is none. Leave it out, or choose a network "
            f"(`nearer methods`)."
        )


def _try_all(problem: Problem, settings: FitSettings, tell: Say) -> list[Trial]:
    """Every candidate that fits, cheap first, as long as the time lasts; the raw features are the first."""
    inner = problem.inner(share=0.25, seed=settings.seed + 2)
    start = time.perf_counter()
    trials = []
    raw = method_named("euclidean")
    for method in [raw, *(method for method in METHODS if method.tried(problem))]:
        name = method.name
        left = settings.time - (time.perf_counter() - start)
        # The raw features are always scored: they are what there is to beat.
        if left <= 0 and method is not raw:
            trials.append(Trial(name, None, 0.0, "no time left"))
            continue
        begin = time.perf_counter()
        try:
            if method is raw:
                baseline = raw_map(inner.inputs, inner.items[inner.train], standardize=settings.standardize)
                encode = Model(nn.Identity(), problem.inputs, name, baseline=baseline).raw
            else:
                quick = replace(settings, epochs=min(settings.epochs, 20), method=name)
                stop = _out_of_time(time.perf_counter() + left)
                with warnings.catch_warnings():
                    # A candidate that stops early has the score it has.
                    warnings.simplefilter("ignore", StoppedEarlyWarning)
                    learned = method.learn(inner, quick, Watch(callbacks=[stop]))
                encode = Model(learned.encoder, problem.inputs, name).transform
            score = main_score(evaluate_problem(inner, encode, quick=True))
            trial = Trial(name, score, time.perf_counter() - begin)
        except (NearerError, TimeoutError) as error:
            trial = Trial(name, None, time.perf_counter() - begin, str(error))
        trials.append(trial)
        shown = f"{trial.score:.4f}" if trial.score is not None else trial.reason
        tell(f"  {name}: {shown} ({trial.seconds:.1f} s)")
    return trials


def _out_of_time(deadline: float) -> Callback:
    def callback(moment: Any) -> None:
        if time.perf_counter() > deadline:
            raise TimeoutError("no time left")

    return callback
