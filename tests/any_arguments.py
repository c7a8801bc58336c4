"""Calls of every public name with arguments of right and of wrong kinds, each made again from its number alone.

`call(number)` draws a function, a class or a method from all packages and arguments for its signature: some that
mean what their names say, some of any kind. Run as a script (`any_arguments.py first last`) it makes the calls in a
process of its own and prints one line of JSON for each that ends in anything but an answer or an error of ours.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import json
import os
import random
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch
import torch._dynamo  # loaded by optimisers at their first use, which must not be cut in half

import nearer
from nearer.exceptions import NearerError

PACKAGES = [
    "nearer", "nearer.app.client", "nearer.datasets", "nearer.judging",
    "nearer.estimators", "nearer.evaluation", "nearer.geometry", "nearer.graph", "nearer.index",
    "nearer.losses", "nearer.mining", "nearer.models", "nearer.neighbors", "nearer.relations",
    "nearer.reports", "nearer.app.server", "nearer.training", "nearer_papers.systems",
]  # fmt: skip
# What a loss, a miner, a relation or an index of your own is written in: called by nearer, with nearer's data;
# and a network that its loss calls.
BASES = {
    "PairLoss",
    "RowLoss",
    "Relation",
    "MetricLearner",
    "Miner",
    "PairScore",
}
# They listen on a port, ask other machines, or start processes; their own tests have them.
OUTSIDE = {
    "serve",
    "create_app",
    "Client",
    "process_group",
    "MLflowLog",
    "WandbLog",
    "TensorBoardLog",
    "joint_loss",
}
SECONDS = 20


def _matrix(draw: random.Random) -> Any:
    return np.random.default_rng(draw.randrange(99)).standard_normal((8, 3)).astype(np.float32)


def _labels(draw: random.Random) -> Any:
    return np.arange(8) % draw.choice([2, 3, 4])


def _wrong(draw: random.Random) -> Any:
    """Something of any kind."""
    return draw.choice(_WRONG)()


_WRONG: list[Callable[[], Any]] = [
    lambda: None,
    lambda: True,
    lambda: 0,
    lambda: -1,
    lambda: 3,
    lambda: 10**30,
    lambda: 0.5,
    lambda: -2.5,
    lambda: float("nan"),
    lambda: float("inf"),
    lambda: 1j,
    lambda: "",
    lambda: "word",
    lambda: "mean",
    lambda: "\0",
    lambda: b"bytes",
    lambda: [],
    lambda: [1, 2, 3],
    lambda: ["a", "b", "a"],
    lambda: [[1.0, 2.0], [3.0]],
    lambda: [[1.0, 2.0], [3.0, 4.0]],
    lambda: [None, "a", 3],
    lambda: (),
    lambda: (1, "a"),
    lambda: {},
    lambda: {"a": 1},
    lambda: {1, 2},
    lambda: range(3),
    lambda: object(),
    lambda: len,
    lambda: lambda *given: None,
    lambda: iter([1, 2]),
    lambda: np.array(3.0),
    lambda: np.zeros((0, 3)),
    lambda: np.zeros((3, 0)),
    lambda: np.zeros((2, 3, 4)),
    lambda: np.full((4, 2), np.nan),
    lambda: np.array(["x", "y"]),
    lambda: np.array([1, "a", None], dtype=object),
    lambda: np.array([[1, 2], [3, 4]]),
    lambda: np.array(["2020-01-01"], dtype="datetime64[D]"),
    lambda: np.ones((3, 3), dtype=complex),
    lambda: np.random.default_rng(0),
    lambda: torch.tensor(2.0),
    lambda: torch.ones(4, 3),
    lambda: torch.ones(2, 2, dtype=torch.float16),
    lambda: torch.arange(4),
    lambda: torch.eye(3).to_sparse(),
    lambda: torch.ones(2, 2, dtype=torch.complex64),
    lambda: torch.nn.Linear(3, 2),
    lambda: torch.Generator(),
    lambda: Path("nowhere"),
    lambda: Exception("x"),
]

_SQUARE: Callable[[random.Random], Any] = lambda draw: np.eye(8, dtype=np.float32)  # noqa: E731
_INDICES: Callable[[random.Random], Any] = lambda draw: np.array([[0, 2], [1, 3]])  # noqa: E731
_SMALL: Callable[[random.Random], Any] = lambda draw: draw.choice([1, 2, 3])  # noqa: E731
_FRACTION: Callable[[random.Random], Any] = lambda draw: draw.choice([0.1, 0.5])  # noqa: E731
_PATH: Callable[[random.Random], Any] = lambda draw: "place" + str(draw.randrange(3))  # noqa: E731
# What an argument of this name usually is.
MEANING: dict[str, Callable[[random.Random], Any]] = {
    **dict.fromkeys(
        ["embeddings", "x", "X", "data", "rows", "queries", "database", "left", "right", "vectors", "items",
         "features", "seen", "unseen", "ref_emb", "train", "points", "values", "similarity", "matrix", "first",
         "second", "layers", "landmarks", "factor", "scores", "predicted"],
        _matrix,
    ),
    **dict.fromkeys(
        ["labels", "y", "codes", "database_labels", "ref_labels", "clusters", "seen_labels", "unseen_labels",
         "targets", "groups", "ids", "indices"],
        _labels,
    ),
    **dict.fromkeys(
        ["k", "n", "n_neighbors", "n_classes", "per_class", "batches", "pairs", "steps", "epochs", "max_iter",
         "size", "count", "classes", "n_components", "embedding_dim", "in_features", "dimension", "dim", "hidden",
         "n_landmarks", "networks", "batch_size", "chunk", "centers", "bits", "width", "seed", "random_state"],
        _SMALL,
    ),
    **dict.fromkeys(["margin", "weight", "alpha", "beta", "gamma", "lr", "temperature", "scale"], _FRACTION),
    "fraction": _FRACTION,
    **dict.fromkeys(["path", "folder", "file", "out", "name", "title"], _PATH),
    **dict.fromkeys(["gram", "distances", "degrees"], _SQUARE),
    **dict.fromkeys(["positive", "negative", "triplets", "links"], _INDICES),
    "loss": lambda draw: nearer.losses.ContrastiveLoss(),
    "encoder": lambda draw: torch.nn.Linear(3, 2),
    "module": lambda draw: torch.nn.Linear(3, 2),
    "learner": lambda draw: nearer.estimators.Euclidean(),
    "widths": lambda draw: (1, 2),
    "generator": lambda draw: torch.Generator().manual_seed(0),
    "metric": lambda draw: draw.choice(["cosine", "euclidean"]),
    "reduction": lambda draw: "mean",
}  # fmt: skip
# Work that would take minutes with the default settings.
QUICK = {"max_iter": 2, "epochs": 1, "n_landmarks": 5, "networks": 1, "n_pairs": 20}


def public() -> dict[str, Any]:
    """Every exported function and class, by its full name."""
    found = {}
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            thing = getattr(module, name)
            if (
                (inspect.isclass(thing) or inspect.isfunction(thing))
                and name not in BASES | OUTSIDE
                and not inspect.isabstract(thing)
            ):
                found[f"{package}.{name}"] = thing
    return found


def methods(thing: Any) -> list[str]:
    """The public methods of an object that nearer defines, and how it is called."""
    kind = type(thing)
    own = {
        name
        for one in kind.__mro__
        if one.__module__.startswith("nearer.")
        for name, value in vars(one).items()
        if not name.startswith("_") and inspect.isfunction(value)
    }
    # Written by whoever adds a loss, a miner or a relation, called by nearer with panels and rows of its own.
    inside = {
        "program", "dense_weights", "value", "weigh", "statistic", "prepare", "edges", "formula", "compute",
        "checked", "anchor_values", "tile", "gradient", "distances", "target", "extra_repr", "head",
        "masks", "degrees", "between", "fitted", "batch", "refine", "loss", "load_state_dict",
    }  # fmt: skip
    module = isinstance(thing, torch.nn.Module)
    called = ["__call__"] if callable(thing) and (not module or kind.forward is not torch.nn.Module.forward) else []
    return sorted(own - inside - {"forward"}) + called


NAMES = public()


def arguments(function: Any, draw: random.Random, wrong: float) -> tuple[list[Any], dict[str, Any]]:
    """Arguments that the signature takes, each wrong with this probability."""
    given: list[Any] = []
    named: dict[str, Any] = {}
    try:
        parameters = inspect.signature(function).parameters
    except (ValueError, TypeError):
        return given, named
    for name, one in parameters.items():
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            continue
        needed = one.default is one.empty
        is_wrong = draw.random() < wrong
        if not needed and not is_wrong and name not in QUICK:
            continue
        if is_wrong:
            value = _wrong(draw)
        elif name in QUICK:
            value = QUICK[name]
        else:
            value = MEANING.get(name, _wrong)(draw)
        if one.kind is one.KEYWORD_ONLY or not needed:
            named[name] = value
        else:
            given.append(value)
    return given, named


def call(number: int) -> tuple[str, Callable[[], Any]]:
    """The call of this number: what it is, and how to make it."""
    draw = random.Random(number)
    name = draw.choice(sorted(NAMES))
    thing = NAMES[name]
    if not inspect.isclass(thing) or draw.random() < 0.4:
        given, named = arguments(thing, draw, draw.choice([0.0, 0.15, 0.4]))
        return name, lambda: thing(*given, **named)
    given, named = arguments(thing, draw, 0.0)

    def on_instance() -> Any:
        made = thing(*given, **named)
        if isinstance(made, sklearn.base.BaseEstimator) and draw.random() < 0.8:
            made.fit(_matrix(draw), _labels(draw))
        able = methods(made)
        if not able:
            return made
        which = draw.choice(able)
        method = getattr(made, which)
        signature = made.forward if which == "__call__" and isinstance(made, torch.nn.Module) else method
        on, off = arguments(signature, draw, draw.choice([0.0, 0.15, 0.4]))
        return method(*on, **off)

    return f"{name}(…).method", on_instance


NEARER, SKLEARN = Path(str(nearer.__file__)).parent, Path(sklearn.__file__).parent


def judged(error: BaseException) -> str | None:
    """None for an error of ours or of scikit-learn's own checks; else where it came from."""
    if isinstance(error, NearerError):
        return None
    frames = traceback.extract_tb(error.__traceback__)
    last = Path(frames[-1].filename)
    ours = [one for one in frames if NEARER in Path(one.filename).parents]
    below = frames[frames.index(ours[-1]) + 1 :] if ours else frames
    if isinstance(error, ValueError | TypeError) and any(SKLEARN in Path(one.filename).parents for one in below):
        return None  # raised in a check of scikit-learn, or in what it asked of the value
    if isinstance(error, TypeError) and last in (Path(__file__), NEARER / "_border.py"):
        return None  # the signature itself
    place = (
        f"{ours[-1].filename.split('nearer/')[-1]}:{ours[-1].lineno}"
        if ours
        else f"{last.name}:{frames[-1].lineno}"
    )
    return f"{type(error).__name__} at {place}: {str(error)[:120]}"


class Hang(BaseException):
    """A call that took more than `SECONDS` of processor time."""


@contextlib.contextmanager
def limited() -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise Hang(f"more than {SECONDS} s")

    # Of processor time: on a busy machine a slow import is no hang. One that sleeps is left to the long form.
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def outcome(number: int) -> tuple[str, str | None, str]:
    """Make the call: "answered", "refused" or "raw"; what was raw; and its name."""
    name, make = call(number)
    with warnings.catch_warnings(), limited(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            answer = make()
            if inspect.isgenerator(answer):
                next(answer, None)
        except BaseException as error:
            found = judged(error)
            return ("refused" if found is None else "raw"), found, name
    return "answered", None, name


def main(first: int, last: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        torch.set_num_threads(1)
        counts = {"answered": 0, "refused": 0, "raw": 0}
        for number in range(first, last):
            print(json.dumps({"begun": number}), flush=True)
            kind, what, name = outcome(number)
            counts[kind] += 1
            if kind == "raw":
                print(json.dumps({"number": number, "name": name, "raw": what}), flush=True)
        print(json.dumps({"counts": counts}), flush=True)
        os.chdir("/")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
