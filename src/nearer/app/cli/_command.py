"""How a command is declared, and how it runs: what is heavy is imported then, and what it refuses is one line."""

from __future__ import annotations

import functools
import inspect
import re
import shlex
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo, OptionInfo

from nearer.app.cli._output import failures_reported
from nearer.exceptions import NearerError
from nearer.models._settings import DATA_KEYS, DataKey, FitSettings

# What the options are called where Python has another word for the same thing.
NAMES = {"X": "data", "y": "label", "target": "out"}


def command(runner: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let a function declare the options of a command, and `runner` do its work.

    `runner` is a module of this folder and a function in it, which takes what the options are called as keywords.
    """

    def declared(face: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(face)
        def run(**given: Any) -> None:
            module, name = runner.split(".")
            with failures_reported(given["as_json"], functools.partial(in_options, face)):
                getattr(import_module(f"nearer.app.cli.{module}"), name)(**given)

        run.runner = runner  # type: ignore[attr-defined]
        return run

    return declared


def in_options(face: Callable[..., None], error: Exception) -> str:
    """A message with the option in front where Python's argument was.

    >>> from nearer.app.cli._commands_learn import fit
    >>> in_options(fit, NearerError("`n_components` must be at least 1, got 0."))
    '`--n-components` must be at least 1, got 0.'
    """
    message, mine = str(error), options_of(face)
    argument = error.argument if isinstance(error, NearerError) else None
    if argument is not None and NAMES.get(argument, argument) in mine:
        message = re.sub(r"^`\w+`", f"`{mine[NAMES.get(argument, argument)]}`", message)
    return re.sub(r"`(\w+)=([^`]*)`", functools.partial(_as_option, face), message)


def _as_option(face: Callable[..., None], advice: re.Match[str]) -> str:
    """A setting that a message advises in Python's words, as this command takes it, or the first that does.

    >>> from nearer.app.cli._commands_learn import fit
    >>> in_options(fit, NearerError("Pass `unreadable='skip'`, `refit=False`, `ignore=['a b']` or `y=`."))
    "Pass `--unreadable skip`, `--no-refit`, `--ignore 'a b'` or `--label`."
    >>> in_options(fit, NearerError("A search (`read_only=True`) may."))
    'A search (`nearer serve --read-only`) may.'
    """
    from nearer.app.cli._application import FACES

    name, value = NAMES.get(advice[1], advice[1]), advice[2].strip("[]'\"")
    for other in (face, *FACES):
        option = options_of(other).get(name)
        if option is None:
            continue
        if value == "False":
            option, value = option.replace("--", "--no-"), ""
        words = [option, *([shlex.quote(value)] if value not in ("", "True") else [])]
        return f"`{' '.join(words if other is face else ['nearer', other.__name__, *words])}`"
    return advice[0]


def options_of(face: Callable[..., None]) -> dict[str, str]:
    """The parameters of a command, each as it is typed: --held-out, -k, DATA."""
    parameters = inspect.signature(face, eval_str=True).parameters.values()
    return {parameter.name.rstrip("_"): _typed(parameter) for parameter in parameters}


def _typed(parameter: inspect.Parameter) -> str:
    for about in get_args(parameter.annotation):
        if isinstance(about, ArgumentInfo):
            return parameter.name.upper()
        # In an annotation the first name stands where a default would.
        if isinstance(about, OptionInfo) and isinstance(about.default, str):
            return about.default
    return "--" + parameter.name.replace("_", "-")


def with_settings(face: Callable[..., None]) -> Callable[..., None]:
    """A command with an option for every setting of the data and of the fit, in front of `--config`.

    What is not given is None: only then does the value of the config file, or the default, count.
    """
    signature = inspect.signature(face, eval_str=True)
    declared = list(signature.parameters.values())
    position = list(signature.parameters).index("config")
    kinds = get_type_hints(FitSettings)
    known = {name: key for name, key in DATA_KEYS.items() if name not in signature.parameters}
    known |= {name: DataKey(*said, kinds[name]) for name, said in FitSettings.described().items()}
    settings = [
        inspect.Parameter(
            name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=_option(name, setting)
        )
        for name, setting in known.items()
    ]
    face.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*declared[:position], *settings, *declared[position:]]
    )
    return face


def _option(name: str, setting: DataKey) -> Any:
    """The annotation of one option, from the type, the default and the meaning of a setting."""
    names = []
    default, about, kind = setting
    if isinstance(default, dict):
        names, kind, about = ["--set"], list[str], f"{about.partition(',')[0]}, NAME=VALUE; repeat it"
    elif get_origin(kind) is tuple:
        kind, about = list[get_args(kind)[0]], f"{about}; repeat it"  # type: ignore[misc]
    text = f"{about[:1].upper()}{about[1:]}. {_shown(default)}".rstrip()
    return Annotated[kind | None, typer.Option(*names, help=text)]


def _shown(default: Any) -> str:
    """A default as the help shows it: [60], [yes], nothing for none.

    >>> _shown(60.0), _shown(True), _shown((512, 64)), _shown(None)
    ('[60]', '[yes]', '[512 64]', '')
    """
    if default is None or default == {}:
        return ""
    if isinstance(default, bool):
        return "[yes]" if default else "[no]"
    values = default if isinstance(default, tuple) else (default,)
    return f"[{' '.join(f'{value:g}' if isinstance(value, float) else str(value) for value in values)}]"


Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Data = Annotated[Path, typer.Argument(help="A table (.csv .tsv .parquet .npz .npy), or a folder of images.")]
ModelFolder = Annotated[Path, typer.Option("--model", "-m", help="A model folder that `nearer fit` wrote.")]
Label = Annotated[
    list[str] | None,
    typer.Option("--label", "-l", help="The label column; several for label sets or distributions."),
]
PairsFile = Annotated[
    Path | None,
    typer.Option("--pairs", help="A table of two rows each (numbers or ids) and whether they are near: 1 or 0."),
]
Report = Annotated[Path | None, typer.Option("--report", help="Write one HTML page to look at too.")]
Force = Annotated[bool, typer.Option("--force", help="Write over what is there.")]
Unreadable = Annotated[
    Literal["raise", "skip"], typer.Option(help="Damaged photos: stop at the first, or leave them out.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the result alone.")]
BatchRows = Annotated[int | None, typer.Option("--batch-size", min=1, help="Rows in a part. [16384; 256 photos]")]
K = Annotated[int, typer.Option("-k", min=1, help="How many neighbors.")]
