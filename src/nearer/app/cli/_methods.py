"""`nearer methods`: what there is to learn with, on one screen, and one of them in full."""

from __future__ import annotations

import difflib
import inspect

from rich.table import Table

from nearer.app.cli._output import print_json, say
from nearer.app.cli._screen import screen
from nearer.exceptions import ParameterError
from nearer.models._methods import METHODS

__all__ = ["run_methods"]


def run_methods(name: str | None, *, as_json: bool) -> None:
    """The methods of `fit` in one table; with a name, that method, estimator, loss or miner in full."""
    if name is not None:
        _show(name, as_json)
        return
    if as_json:
        rows = [
            {
                "name": one.name,
                "needs": list(one.supervision),
                "cost": one.cost,
                "about": one.about,
                "class": one.target,
            }
            for one in METHODS
        ]
        print_json({"methods": rows})
        return
    table = Table("name", "learns from", "what it is", title="nearer fit --method NAME", title_justify="left")
    for one in METHODS:
        table.add_row(one.name, one.supervision[0], one.about)
    console = screen()
    console.print(table)
    console.print("n rows, p features. One in full: nearer methods lmnn; any loss: nearer fit --loss SupConLoss.")
    console.print("Losses, miners and estimators by class name: nearer methods SupConLoss, VTHM, LMNN, ...")


def _show(name: str, as_json: bool) -> None:
    from nearer import estimators, losses, mining

    method = next((one for one in METHODS if one.name == name.lower()), None)
    packages = {"nearer.estimators": estimators, "nearer.losses": losses, "nearer.mining": mining}
    known = {target: where for where, package in packages.items() for target in package.__all__}
    target = method.target if method is not None and method.target else name
    target = next((one for one in known if one.lower() == target.lower()), target)
    if target not in known:
        close = difflib.get_close_matches(name, [*known, *(one.name for one in METHODS)], n=1)
        hint = f" Did you mean {close[0]!r}?" if close else " `nearer methods` lists them."
        raise ParameterError(f"NAME must be a method, an estimator, a loss or a miner, got {name!r}.{hint}")
    text = inspect.getdoc(getattr(packages[known[target]], target)) or ""
    if as_json:
        print_json({"name": name, "class": f"{known[target]}.{target}", "about": text})
        return
    say(f"{known[target]}.{target}")
    if method is not None:
        say(f"nearer fit --method {method.name}: learns from {', '.join(method.supervision)}, costs {method.cost}")
    say("\n" + text)
