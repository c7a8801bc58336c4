"""From a data set to a model: choose a method, learn, score it beside the raw features on held-out rows."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from nearer.datasets import Dataset
from nearer.estimators._shared import Follow, follow_iterations
from nearer.evaluation import Comparison
from nearer.exceptions import StoppedEarlyWarning
from nearer.geometry import embed
from nearer.models._baselines import baselines_of
from nearer.models._choosing import Say, Trial, choose
from nearer.models._learning import Watch
from nearer.models._methods import Method, machine_memory, memory, method_named
from nearer.models._model import Model, fingerprints
from nearer.models._predicting import votes_of
from nearer.models._problem import Problem
from nearer.models._raw import needs_scale, raw_map
from nearer.models._scoring import Encode, compare_problem, evaluate_problem
from nearer.models._settings import FitSettings
from nearer.training._shared import Callback, History

# Numbers in a table below which more than one thread is no help.
SMALL = 1_000_000


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
    # The threads of small products only wait for each other, and on a busy machine for a long time.
    with threadpool_limits(1 if problem.items.size < SMALL and not problem.images else None):
        return _fit(problem, data, settings, begin, Watch(folder, callbacks), follow, tell)


def _fit(
    problem: Problem,
    data: Dataset,
    settings: FitSettings,
    begin: float,
    watch: Watch,
    follow: Follow | None,
    tell: Say,
) -> Fitted:
    if settings.standardize is None:
        settings = replace(settings, standardize=needs_scale(problem))
    choice = choose(problem, settings, tell)
    method, problem = choice.method, replace(problem, chosen=choice.chosen)
    tell(choice.rule)
    for note in _before(problem, method, settings):
        tell(f"Note: {note}")
    with warnings.catch_warnings(record=True) as raised, follow_iterations(follow):
        warnings.simplefilter("always", StoppedEarlyWarning)
        learned = method.learn(problem, settings, watch)
    notes = [*learned.notes, *choice.notes, *(str(warning.message) for warning in raised), *_doubts(problem)]
    if not settings.standardize and "standardize" not in settings.given and not problem.images:
        notes.append("The features are taken as given: at one scale neighbors said less of the labels.")
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
        baseline=raw_map(problem.inputs),
        trained_on=fingerprints(problem.items[problem.train]),
        reference=data,
    )
    comparison = compare_problem(problem, model.raw, model.transform, database=model.database_map)
    others = baselines_of(problem, model.raw, standardize=bool(settings.standardize), quick=model.asymmetric)
    comparison = replace(comparison, baselines=others)
    model.scores = comparison.to_dict()
    raw, scored, taught = model.raw, model.transform, problem
    if settings.refit and not method.network and problem.split != "given":
        # What was scored is the same learner on fewer rows; a published test part stays unseen.
        taught = replace(problem, train=np.sort(np.r_[problem.train, problem.held_out]), chosen=learned.chosen)
        try:
            with warnings.catch_warnings(), follow_iterations(follow):
                warnings.simplefilter("ignore", StoppedEarlyWarning)  # it was told of the first fit
                encoder = method.learn(taught, settings, Watch()).encoder
        except KeyboardInterrupt as stop:
            if type(stop) is not KeyboardInterrupt:
                raise  # the process is to end
            taught = problem
            notes.append("Interrupted while it learned again from all rows: the model that was scored is kept.")
        else:
            model = replace(model, encoder=encoder, trained_on=fingerprints(taught.items[taught.train]))
            notes.append(
                f"Scored without the {len(problem.held_out):,} held-out rows, then learned again from all."
            )
        tell(f"Note: {notes[-1]}")
    model.votes = votes_of(model, taught)
    seconds = time.perf_counter() - begin
    fitted = Fitted(
        model, comparison, choice.rule, seconds, problem, raw, scored, learned.history, choice.trials, notes
    )
    model.summary, model.fitted = summary_of(fitted), fitted
    return fitted


def _fine_tuned(data: Dataset, settings: FitSettings, watch: Watch, tell: Say, begin: float) -> Fitted:
    """The encoder is trained first; then its columns, or those of the frozen one, are fitted like any others."""
    from nearer.models._finetuning import fine_tune

    tuned = fine_tune(data, settings, watch, tell)
    for note in tuned.notes:
        tell(f"Note: {note}")
    plain = replace(settings, method="choose", loss=None, loss_settings={}, finetune=False, given=frozenset())
    fitted = fit_model(data if tuned.data is None else tuned.data, plain, say=tell)
    if tuned.data is not None:
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
