"""The options of `nearer fit` that are settings: names, types, defaults and help are those of `FitSettings`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from nearer.models._settings import FitSettings

__all__ = ["with_settings"]


def with_settings(face: Callable[..., None]) -> Callable[..., None]:
    """A command with an option for every setting, in front of `--config`.

    What is not given is None: only then does the value of the config file, or the default, count.
    """
    signature = inspect.signature(face, eval_str=True)
    declared = list(signature.parameters.values())
    place = list(signature.parameters).index("config")
    kinds = get_type_hints(FitSettings)
    settings = [
        inspect.Parameter(
            name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=None,
            annotation=_option(name, kinds[name], default, about),
        )
        for name, (default, about) in FitSettings.described().items()
    ]
    face.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*declared[:place], *settings, *declared[place:]]
    )
    return face


def _option(name: str, kind: Any, default: Any, about: str) -> Any:
    """The annotation of one option, from the type, the default and the meaning of a setting."""
    names = []
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
