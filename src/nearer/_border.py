"""The last line of the border: a call that fails on a wrong kind of argument names it and says what it must be.

Values are checked by `_checks` and `_validation`, where a function knows what they mean. What is left are objects
of a wrong kind (a number for a network, a string for a function), and those the annotations know. When a public
call ends in an exception that is not nearer's, its arguments are held against them; the first that does not fit
is named. If all fit, the exception is a fault of ours and goes on as it is. A call that works costs nothing.
"""

from __future__ import annotations

import ast
import collections.abc
import functools
import importlib
import inspect
import sys
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lazy_loader  # type: ignore[import-untyped]

from nearer.exceptions import NearerError, ParameterError

_FAILURES = (TypeError, AttributeError, ValueError, LookupError, ArithmeticError, RuntimeError, AssertionError)
_WORDS = {int: "an integer", float: "a number", str: "a string", bool: "True or False", type(None): "None"}


def attach(package: str, file: str) -> Any:
    """The exports of a package from its stub, loaded when they are first used, with `explained` around them."""
    resolve, directory, names = lazy_loader.attach_stub(package, file)

    def __getattr__(name: str) -> Any:
        try:
            thing = explained(resolve(name))
        except AttributeError as error:
            if name in names or name.startswith("_"):
                raise
            # Looked for where a name is wrong, and not loaded before.
            from nearer._names import elsewhere, hint

            ours = elsewhere(name)
            said = f" It is nearer.{ours} here." if ours is not None else hint(name, names)
            raise AttributeError(f"{package} has no {name!r}.{said}", name=name) from error
        sys.modules[package].__dict__[name] = thing
        return thing

    return __getattr__, directory, names


def share(package: str, file: str) -> Callable[[str], Any]:
    """The `__getattr__` of a `_shared` module: what its stub imports, loaded when it is first used, as it is."""
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    home = {alias.name: f"{package}.{node.module}" for node in imports for alias in node.names}

    def __getattr__(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"{package}._shared lends no {name!r}")
        return getattr(importlib.import_module(home[name]), name)

    return __getattr__


def explained(thing: Any) -> Any:
    """A function of nearer, or a class with its methods, that names an argument of a wrong kind when it fails.

    >>> def double(x: int) -> int:
    ...     return x.bit_length() * 2
    >>> double.__module__ = "nearer.example"
    >>> explained(double)("a")
    Traceback (most recent call last):
    nearer.exceptions.ParameterError: `x` must be an integer, got a str: 'a'.
    """
    if inspect.isfunction(thing) and thing.__module__.startswith(("nearer.", "nearer_papers.")):
        if hasattr(thing, "__explained__"):
            return thing
        made = _careful(thing)
        home, name = vars(sys.modules.get(thing.__module__, types)), thing.__name__
        if home.get(name) is thing:
            home[name] = made  # one object under both names, as pickle asks for
        return made
    if inspect.isclass(thing):
        for base in thing.__mro__:
            if base.__module__.startswith(("nearer.", "nearer_papers.")) and "__explained__" not in vars(base):
                _in_place(base)
    return thing


def _in_place(kind: type) -> None:
    """Wrap what a class itself defines; the `forward` of an encoder is left as it is, for export."""
    if issubclass(kind, BaseException):
        return
    for name, value in list(vars(kind).items()):
        guarded = not name.startswith("_") or name in ("__init__", "__call__")
        if not guarded or (name == "forward" and not kind.__module__.startswith("nearer.losses")):
            continue
        if inspect.isfunction(value):
            setattr(kind, name, _careful(value))
        elif isinstance(value, classmethod | staticmethod) and inspect.isfunction(value.__func__):
            setattr(kind, name, type(value)(_careful(value.__func__)))
    kind.__explained__ = True  # type: ignore[attr-defined]


def _careful(function: types.FunctionType) -> Any:
    explain, failures = _explain, _FAILURES

    def careful(*given, **named):  # type: ignore[no-untyped-def]
        try:
            return function(*given, **named)
        except failures as error:
            explain(function, given, named, error)
            raise

    # In the globals of the function, so that doctest and inspect find it where it was written.
    made = types.FunctionType(careful.__code__, function.__globals__, function.__name__, None, careful.__closure__)
    made.__explained__ = True  # type: ignore[attr-defined]
    return functools.update_wrapper(made, function)


def _explain(function: Any, given: tuple[Any, ...], named: dict[str, Any], error: Exception) -> None:
    """Raise a `ParameterError` for the first argument that does not fit its annotation, if there is one."""
    if isinstance(error, NearerError):
        return
    try:
        bound = inspect.signature(function).bind(*given, **named).arguments
    except TypeError:
        return  # the wrong number of arguments, in Python's own words
    _hold(function, bound, "", error)
    start = type(bound["self"]).__init__ if "self" in bound else None
    if start is not None and start is not function and inspect.isfunction(start):
        # What was given to the constructor is first used here.
        start, self = inspect.unwrap(start), bound["self"]
        kept = {name: vars(self)[name] for name in inspect.signature(start).parameters if name in _state(self)}
        _hold(start, kept, f" of {type(self).__name__}", error)


def _state(self: Any) -> dict[str, Any]:
    return getattr(self, "__dict__", {})


def _hold(function: Any, values: dict[str, Any], owner: str, error: Exception) -> None:
    """Raise for the first of the values that does not fit its annotation."""
    parameters, known = inspect.signature(function).parameters, inspect.unwrap(function).__globals__
    for name, value in values.items():
        text, kind = function.__annotations__.get(name), parameters[name].kind
        if text is None or kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            continue
        try:
            hint = eval(text, known) if isinstance(text, str) else text
        except Exception:  # a name that only type checkers import
            continue
        if not _fits(value, hint):
            raise ParameterError(f"`{name}`{owner} must be {_said(hint)}, got {_shown(value)}.") from error


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of an annotated kind; in doubt it is."""
    import numpy as np

    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return True
    if origin is typing.Union or isinstance(hint, types.UnionType):
        return any(_fits(value, entry) for entry in inner)
    if origin is typing.Literal:
        return isinstance(value, str | int | bool | None) and value in inner
    if hint is None or hint is type(None):
        return value is None
    if hint is bool:
        return isinstance(value, bool | np.bool_)
    if hint is int:
        return isinstance(value, int | np.integer) and not isinstance(value, bool)
    if hint is float:
        return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if origin is collections.abc.Callable or hint is collections.abc.Callable:
        return callable(value)
    kind = origin if inspect.isclass(origin) else hint
    if not inspect.isclass(kind):
        return True
    if kind in (collections.abc.Sequence, collections.abc.Iterable, list, tuple):
        return _lists(value, kind, inner)
    if getattr(kind, "_is_protocol", False):
        return all(hasattr(value, name) for name in _asked(kind))
    fits = isinstance(value, kind)
    if fits and kind.__name__ == "Tensor":
        tensor: Any = value
        return tensor.ndim > 0 and str(tensor.layout) == "torch.strided" and not tensor.is_complex()
    if fits and issubclass(kind, collections.abc.Mapping) and len(inner) == 2:
        return all(_fits(key, inner[0]) and _fits(entry, inner[1]) for key, entry in value.items())
    return fits


def _asked(protocol: type) -> set[str]:
    """The names that a protocol asks for."""
    own = [base for base in protocol.__mro__ if getattr(base, "_is_protocol", False)]
    names = {name for base in own for name in (*vars(base), *vars(base).get("__annotations__", ()))}
    return {name for name in names if not name.startswith("_") or name in ("__call__", "__len__", "__iter__")}


def _lists(value: Any, kind: type, inner: tuple[Any, ...]) -> bool:
    """Lists, tuples and arrays stand for each other; a string is no list of strings."""
    if isinstance(value, str | bytes) or (hasattr(value, "ndim") and value.ndim == 0):
        return False
    if str(getattr(value, "layout", "torch.strided")) != "torch.strided":
        return False  # a sparse tensor has no entries to go through
    if hasattr(value, "ndim"):
        value = value.tolist() if value.ndim == 1 else list(value)
    if kind is collections.abc.Iterable and isinstance(value, collections.abc.Collection):
        value = list(value)  # what one goes through: of a dictionary its keys
    if not isinstance(value, collections.abc.Sequence):
        return kind is collections.abc.Iterable and isinstance(value, collections.abc.Iterable)
    if kind is tuple and inner and Ellipsis not in inner:
        return len(value) == len(inner) and all(map(_fits, value, inner))
    return all(_fits(entry, inner[0]) for entry in value[:1000]) if inner else True


def _said(hint: Any) -> str:
    """An annotation in words.

    >>> _said(int | None), _said(typing.Literal["a", "b"])
    ('an integer or None', "'a' or 'b'")
    """
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Union or isinstance(hint, types.UnionType):
        return " or ".join(dict.fromkeys(map(_said, inner)))
    if origin is typing.Literal:
        return " or ".join(map(repr, inner))
    if hint in _WORDS:
        return _WORDS[hint]
    if origin is collections.abc.Callable:
        return "a function"
    if origin is tuple and inner and Ellipsis not in inner:
        return f"a tuple of {', '.join(map(_said, inner))}"
    if origin in (collections.abc.Sequence, collections.abc.Iterable, list, tuple) and inner:
        return f"a list of which each is {_said(inner[0])}"
    if inspect.isclass(origin) and issubclass(origin, collections.abc.Mapping):
        return "a dictionary" + (f" of which each value is {_said(inner[1])}" if len(inner) == 2 else "")
    name = getattr(origin if inspect.isclass(origin) else hint, "__name__", str(hint))
    return {
        "PathLike": "a path",
        "Tensor": "a dense torch.Tensor of real numbers with rows",
        "ndarray": "an array",
    }.get(name, f"of the kind {name}")


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        text = ""
    return f"a {type(value).__name__}" + (f": {text}" if text and len(text) < 80 and "\n" not in text else "")
