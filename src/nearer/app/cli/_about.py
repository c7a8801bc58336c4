"""`nearer methods` and `nearer doctor`: what there is to learn with, and whether this installation works."""

from __future__ import annotations

import inspect
import os
import platform
from collections.abc import Callable
from importlib import metadata
from typing import Any

import typer
from rich.table import Table

from nearer import __version__
from nearer._names import hint
from nearer.app.cli._output import print_json, say
from nearer.app.cli._screen import screen
from nearer.exceptions import ParameterError
from nearer.models._methods import METHODS

PACKAGES = ("torch", "numpy", "scipy", "scikit-learn", "faiss-cpu", "safetensors", "matplotlib", "typer", "rich")


def run_doctor(*, as_json: bool) -> None:
    """Print the findings; exit code 1 if a check failed."""
    report: dict[str, Any] = {"nearer": __version__, "python": platform.python_version(), "packages": _versions()}
    checks: dict[str, dict[str, Any]] = {}
    for name, check in CHECKS.items():
        # Whatever goes wrong is the finding: an installation breaks in ways that no list foresees.
        try:
            checks[name] = {"ok": True, "detail": check()}
        except Exception as error:
            checks[name] = {"ok": False, "detail": f"{type(error).__name__}: {error}"}
    healthy = all(entry["ok"] for entry in checks.values())
    report |= {"checks": checks, "healthy": healthy}
    if as_json:
        print_json(report)
    else:
        _print(report)
    if not healthy:
        raise typer.Exit(1)


def _print(report: dict[str, Any]) -> None:
    say(f"nearer {report['nearer']}, Python {report['python']}")
    say(", ".join(f"{name} {version}" for name, version in report["packages"].items()))
    for name, check in report["checks"].items():
        say(f"{'ok    ' if check['ok'] else 'BROKEN'}  {name:<11} {check['detail']}")
    say("Everything works." if report["healthy"] else "Something is broken: see the lines above.")


def _versions() -> dict[str, str]:
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "absent"
    return versions


def _threads() -> str:
    import torch

    return f"{torch.get_num_threads()} for torch, {os.cpu_count()} cores"


def _loss() -> str:
    import torch

    from nearer.losses import RAWLoss

    embeddings = torch.eye(4, requires_grad=True)
    value = RAWLoss()(embeddings, torch.tensor([0, 0, 1, 1]))
    value.backward()
    # One positive at 0 and two negatives at 0: (1/2) log(1 + e) + (1/50) log(1 + 2 e⁻²⁵).
    _expect(abs(value.item() - 0.6566308) < 1e-4, f"RAW of unit vectors must be 0.6566, got {value.item():.4f}")
    gradient = embeddings.grad
    _expect(gradient is not None and bool(torch.isfinite(gradient).all()), "its gradient must be finite")
    return f"RAW of four unit vectors is {value.item():.4f}"


def _index() -> str:
    from nearer.index import Index

    index = Index(2)
    index.add([[1, 0], [0, 1]], ids=["east", "north"])
    ids = index.search([[0.1, 2]], k=1).ids.tolist()
    _expect(ids == [["north"]], f"north must be found, got {ids}")
    return "finds the nearer of two"


def _evaluation() -> str:
    from nearer.evaluation import evaluate

    scores = evaluate(
        [[0.0], [0.1], [5.0], [5.1]], [0, 0, 1, 1], scores=("recall@1", "nmi"), similarity="euclidean"
    )
    _expect(all(abs(score - 1) < 1e-6 for score in scores.values()), f"two pairs must score 1, got {dict(scores)}")
    return "two pairs far apart score 1"


def _expect(holds: bool, message: str) -> None:
    if not holds:
        raise RuntimeError(message)


CHECKS: dict[str, Callable[[], str]] = {
    "threads": _threads,
    "loss": _loss,
    "index": _index,
    "evaluation": _evaluation,
}


def run_methods(name: str | None, *, as_json: bool) -> None:
    """The methods of `fit` in one table; with a name, that method, estimator, loss or miner in full."""
    if name is not None:
        _show(name, as_json)
        return
    if as_json:
        rows = [
            {
                "name": method.name,
                "needs": list(method.supervision),
                "cost": method.cost,
                "about": method.about,
                "class": method.target,
            }
            for method in METHODS
        ]
        print_json({"methods": rows})
        return
    table = Table("name", "learns from", "what it is", title="nearer fit --method NAME", title_justify="left")
    for method in METHODS:
        table.add_row(method.name, method.supervision[0], method.about)
    console = screen()
    console.print(table)
    console.print("n rows, p features. One in full: nearer methods lmnn; any loss: nearer fit --loss SupConLoss.")
    console.print("Losses, miners and estimators by class name: nearer methods SupConLoss, VTHM, LMNN, ...")


def _show(name: str, as_json: bool) -> None:
    from nearer import estimators, losses, mining

    method = next((known_name for known_name in METHODS if known_name.name == name.lower()), None)
    packages = {"nearer.estimators": estimators, "nearer.losses": losses, "nearer.mining": mining}
    known = {target: where for where, package in packages.items() for target in package.__all__}
    target = method.target if method is not None and method.target else name
    target = next((known_name for known_name in known if known_name.lower() == target.lower()), target)
    if target not in known:
        near = hint(name, [*(one.name for one in METHODS), *known], otherwise="`nearer methods` lists them.")
        raise ParameterError(f"NAME must be a method, an estimator, a loss or a miner, got {name!r}.{near}")
    text = inspect.getdoc(getattr(packages[known[target]], target)) or ""
    if as_json:
        print_json({"name": name, "class": f"{known[target]}.{target}", "about": text})
        return
    say(f"{known[target]}.{target}")
    if method is not None:
        say(f"nearer fit --method {method.name}: learns from {', '.join(method.supervision)}, costs {method.cost}")
    say("\n" + text)
