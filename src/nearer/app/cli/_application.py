"""The command line: its summary, and all commands in the order of the help."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import Annotated, Any

import typer
import typer.core

from nearer import __version__
from nearer.app.cli import _commands_learn as learn
from nearer.app.cli import _commands_look as look
from nearer.app.cli import _commands_search as search
from nearer.app.cli._command import Json
from nearer.app.cli._output import answer, plain, say

SUMMARY = """Metric learning: say what should be near; nearer learns the distance that makes it so.

\b
Examples:
  nearer demo                                learn a metric for digits and write demo-report.html
  nearer fit data.csv --label class          learn from a table and write the folder model/
  nearer search index queries.csv --model model
  nearer doctor                              check this installation

Exit codes: 0 done, 1 failed, 2 the command was not understood, 130 Ctrl-C, 143 terminated.
"""


# The commands in the order of the help; those of other packages come last.
GROUPS = {
    "Learn": (learn.fit, learn.encoders, learn.init, learn.demo),
    "Look": (search.evaluate, search.neighbors, look.explore),
    "Search and serve": (search.embed, search.index, search.search, search.serve, search.migrate, search.adapt),
    "Label and check": (look.ask, look.audit, search.dedupe, search.calibrate, search.same),
    "Other": (look.methods, look.export, look.doctor),
}
FACES = [face for faces in GROUPS.values() for face in faces]


class _Commands(typer.core.TyperGroup):
    """The commands; what was typed wrong is repeated in a message, and may hold what a terminal obeys."""

    def format_commands(self, context: Any, formatter: Any) -> None:
        """The commands in groups, each with its whole first sentence."""
        about = {
            name: command.get_short_help_str(limit=1000)
            for name in self.list_commands(context)
            if (command := self.get_command(context, name)) is not None and not command.hidden
        }
        for title, faces in GROUPS.items():
            names = [face.__name__ for face in faces]
            with formatter.section(title):
                formatter.write_dl(
                    [(name, about.pop(name)) for name in names] + (title == "Other") * [*about.items()]
                )

    def make_context(self, *words: Any, **more: Any) -> Any:
        """Read the options in front of a command."""
        with _filtered():
            return super().make_context(*words, **more)

    def invoke(self, context: Any) -> Any:
        """Read the options of a command, and run it."""
        with _filtered():
            return super().invoke(context)


@contextmanager
def _filtered() -> Iterator[None]:
    try:
        yield
    except Exception as raised:
        error: Any = raised
        # The exceptions of click are typer's own or those of a package, by its version.
        if hasattr(error, "format_message") and isinstance(getattr(error, "message", None), str):
            error.message = plain(error.message.removeprefix("Value error, "))
        raise


# Plain help: the boxes of rich would double the time of `nearer --help`.
app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True, help=SUMMARY)
def nearer(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
    as_json: Json = False,
) -> None:
    """The options that come before a command."""
    if version:
        answer(as_json, {"nearer": __version__}, f"nearer {__version__}")
        raise typer.Exit
    if as_json:
        # `nearer --json evaluate` is `nearer evaluate --json`.
        context.default_map = {face.__name__: {"as_json": True} for face in FACES}
    if context.invoked_subcommand is None:
        say(context.get_help())
        raise typer.Exit(2)


for face in FACES:
    app.command()(face)


def _reproduce() -> None:
    """The published experiments, which are a package of their own."""
    say("nearer: the published experiments are a package of their own. pip install nearer-papers", err=True)
    raise typer.Exit(2)


# Other packages bring commands: nearer-papers has `reproduce`.
for point in sorted(entry_points(group="nearer.commands")):
    app.command(point.name)(point.load())
if "reproduce" not in [command.name for command in app.registered_commands]:
    anything = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
    app.command("reproduce", hidden=True, context_settings=anything)(_reproduce)


def main() -> None:
    """Run the command line."""
    shown = warnings.formatwarning
    # Warnings name columns and classes too.
    warnings.formatwarning = lambda *words, **more: plain(shown(*words, **more))
    app(prog_name="nearer")
