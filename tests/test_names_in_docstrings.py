"""Every name of the library that a public docstring puts in backquotes exists, settings included."""

from __future__ import annotations

import difflib
import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin, get_type_hints

import nearer
import nearer_papers.systems
from nearer import exceptions
from test_docstrings import PUBLIC

EVERYWHERE: dict[str, Any] = {
    **vars(exceptions),
    **{name: getattr(nearer_papers.systems, name) for name in nearer_papers.systems.__all__},
    **{name.rpartition(".")[2]: thing for name, thing in PUBLIC.items()},
    **{name: getattr(nearer, name) for name in nearer.__all__},
}
# Names of others (torch, transformers, MLflow, pytorch-metric-learning), entries of files, letters.
OTHERS = {
    *("Module", "DataLoader", "DistributedDataParallel", "torchrun", "mlflow"),
    *(
        "compute_loss_func",
        "indices_tuple",
        "x",
        "y",
        "z",
        "x_train",
        "y_train",
        "class_names",
        "skipped",
        "test",
        "base",
        "Tr",
    ),
    *("check_counts", "download", "pixels", "verify"),  # of single loaders, passed on by `load`
    *("pos_margin", "neg_margin", "distance", "batch_sampler", "ref_emb"),
    *("collection", "table"),  # parts of the address of an engine
    *("loss", "exp", "tanh", "p"),  # a call of the object itself, and letters of formulas
}
METHODS = {
    name
    for thing in PUBLIC.values()
    if inspect.isclass(thing)
    for name, _ in inspect.getmembers(thing, inspect.isroutine)
    if not name.startswith("_")
}
QUOTED = re.compile(r"(?<!`)`([^`]+)`(?!`)")
CALL = re.compile(r"([A-Za-z_][\w.]*)\((.*)\)(?:\.\w+)?", flags=re.DOTALL)
SETTING = re.compile(r"(?<![\w.])([a-z_]\w*)=(\"\w+\"|\w|[-(\[])")


def texts() -> Iterator[tuple[str, Any, str]]:
    """A public name, the function or class, and a docstring of it or of one of its public methods, without code."""
    for name, thing in PUBLIC.items():
        if not (inspect.isclass(thing) or inspect.isfunction(thing)):
            continue
        documented = {name: thing}
        if inspect.isclass(thing):
            documented |= {
                f"{name}.{method}": value
                for method, value in inspect.getmembers(thing, inspect.isfunction)
                if not method.startswith("_") and value.__module__.startswith("nearer.")
            }
        for place, value in documented.items():
            text = inspect.getdoc(value) or ""
            yield place, thing, re.sub(r"^ *>>> (.|\n)*?(?=\n *\n|\Z)", "", text, flags=re.MULTILINE)


def resolves(name: str) -> bool:
    """Whether a dotted name of nearer leads somewhere."""
    parts = name.split(".")
    thing: Any = importlib.import_module(parts[0])
    for depth, part in enumerate(parts[1:], 2):
        try:
            thing = (
                getattr(thing, part) if hasattr(thing, part) else importlib.import_module(".".join(parts[:depth]))
            )
        except ImportError:
            return False
    return True


def functions(thing: Any) -> list[Any]:
    """A function itself; of a class its constructor and its public methods."""
    if not inspect.isclass(thing):
        return [thing]
    public = [value for name, value in inspect.getmembers(thing, inspect.isroutine) if not name.startswith("_")]
    return [thing.__init__, *public]


def parameters(thing: Any) -> dict[str, set[Any]]:
    """The settings of a function or class, with the words that each may be where these are listed."""
    settings: dict[str, set[Any]] = {}
    for function in functions(thing):
        try:
            names, hints = inspect.signature(function).parameters, get_type_hints(inspect.unwrap(function))
        except (NameError, TypeError, ValueError):
            names, hints = getattr(inspect.unwrap(function), "__annotations__", {}), {}
        for name in names:
            settings.setdefault(name, set()).update(words(hints.get(name)))
    return settings


def words(hint: Any) -> set[Any]:
    """The choices of an annotation; none where any string may stand."""
    if get_origin(hint) is Literal:
        return set(get_args(hint))
    inner = [words(one) for one in get_args(hint)]
    return set() if str in get_args(hint) else set().union(*inner)


def fault_of_setting(name: str, value: str, near: list[Any]) -> str | None:
    """What is wrong with `name=value`, a setting of one of these."""
    choices = [found[name] for found in map(parameters, near) if name in found]
    if not choices:
        return "no such setting"
    if value.startswith('"') and all(choices) and not any(value.strip('"') in one for one in choices):
        return f"must be one of {sorted(map(str, choices[0]))}"
    return None


def faults(thing: Any, text: str) -> Iterator[str]:
    """The quoted names, and the settings anywhere in the text, that do not exist."""
    near = [thing, *(EVERYWHERE[word] for word in set(re.findall(r"\w+", text)) if callable(EVERYWHERE.get(word)))]
    for quoted in QUOTED.findall(text):
        call = CALL.fullmatch(quoted)
        name = call[1] if call else quoted
        if not re.fullmatch(r"[A-Za-z_][\w.]*", name, flags=re.ASCII) or name in OTHERS:
            continue
        if name.startswith(("nearer.", "nearer_papers.")):
            if not resolves(name):
                yield f"`{quoted}`: no such name"
        elif "." not in name and re.search("[a-z]", name) and not known(name, thing, near):
            yield f"`{quoted}`: no such name"
    for name, value in SETTING.findall(text):
        if name not in OTHERS and (fault := fault_of_setting(name, value, near)):
            yield f"{name}={value}: {fault}"
    choices = {str(word) for one in parameters(thing).values() for word in one}
    for word in set(re.findall(r'"(\w+)"', text)) - choices:
        if close := difflib.get_close_matches(word, choices, n=1, cutoff=0.9):
            yield f'"{word}": it is "{close[0]}"'


def known(name: str, thing: Any, near: list[Any]) -> bool:
    """Whether a name is public, or a setting, an attribute or a neighbour of what is documented or mentioned."""
    attributes = inspect.getsource(thing) if inspect.isclass(thing) else ""
    return (
        name in EVERYWHERE
        or name in METHODS
        or name in vars(inspect.getmodule(thing))
        or any(name in parameters(one) or hasattr(one, name) for one in near)
        or any(name in vars(base).get("__annotations__", ()) for base in getattr(thing, "__mro__", ()))
        or f"self.{name}" in attributes
        or name in attributes_of_result(thing)
    )


def attributes_of_result(thing: Any) -> set[str]:
    """The attributes of what a function returns."""
    try:
        result = get_type_hints(inspect.unwrap(thing)).get("return") if inspect.isfunction(thing) else None
    except NameError:
        return set()
    return set(dir(result)) | set(getattr(result, "__annotations__", {}))


def test_every_quoted_name_exists() -> None:
    found = {f"{place}: {fault}" for place, thing, text in texts() for fault in faults(thing, text)}
    assert not found, "\n".join(sorted(found))


def test_names_that_do_not_exist_are_found() -> None:
    text = (
        "`nearer.training.Nothing`, `NoSuchLoss`, `k` neighbors, `NCA(rate=1)`, lr=2, "
        'triplets is "neighbourhood"; `nearer.training.alternate` and `NCA(tol=1e-3)` do.'
    )
    assert sorted(fault.partition(":")[0] for fault in faults(nearer.estimators.SemiSupervisedMetric, text)) == [
        '"neighbourhood"',
        "`NoSuchLoss`",
        "`k`",
        "`nearer.training.Nothing`",
        "lr=2",
        "rate=1",
    ]
