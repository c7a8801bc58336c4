"""Every row of the pages whose libraries do not install beside ours: our side as printed, against their numbers."""

from __future__ import annotations

import json
import math
import re
import subprocess
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nearer.estimators
import nearer.losses
import peer_rows
from nearer.evaluation import evaluate
from nearer.exceptions import NearerWarning
from nearer.mining import VTHM
from peer_rows import NAMES, PAGES, batch, evaluated, kept, numbers, rows, tables

LOSSES = [(page, *row) for page in ("sentence-transformers", "open-metric-learning") for row in rows(page)]
LEARNERS = rows("metric-learn")


def our_losses() -> dict[str, Any]:
    given = batch()

    def with_proxies(*settings: Any, **more: Any) -> Any:
        loss = nearer.losses.ArcFaceLoss(*settings, **more).double()
        loss.proxies.data.copy_(given["proxies"])
        return loss

    named = {name: getattr(nearer.losses, name) for name in nearer.losses.__all__}
    return {
        **named,
        **given,
        "ArcFaceLoss": with_proxies,
        "VTHM": VTHM,
        "evaluate": evaluate,
        "degrees": math.degrees,
    }


@pytest.mark.parametrize(("page", "theirs", "ours", "number", "note"), LOSSES, ids=[row[1] for row in LOSSES])
def test_a_loss_or_a_score(page: str, theirs: str, ours: str, number: str, note: str) -> None:
    expected, found = kept(page)["values"][theirs], numbers(eval(ours, our_losses()))
    # Two of theirs add 1e-6 to every coordinate of a difference, or count in float32.
    same = found == pytest.approx(expected, rel=1e-5)
    assert same == (number == "same"), (found, expected)
    assert found > 0


def objective(name: str, M: np.ndarray, data: dict[str, Any]) -> float:
    """What NCA maximises, LMNN minimises and MMC maximises, of a matrix M, computed here from the definitions."""
    X, y = data["X"], data["y"]
    if name == "MMC":
        lengths = np.einsum("ij,jk,ik->i", *([data["delta"], M, data["delta"]]))
        similar = data["similar"] > 0
        return float(np.sqrt(lengths[~similar]).mean() / np.sqrt(lengths[similar].mean()))
    difference = X[:, None] - X[None]
    squares = np.einsum("ijk,kl,ijl->ij", difference, M, difference)
    same = y[:, None] == y[None]
    np.fill_diagonal(squares, np.inf)
    if name == "NCA":
        odds = np.exp(squares.min(axis=1, keepdims=True) - squares)
        return float(((odds * same).sum(axis=1) / odds.sum(axis=1)).mean())
    raw = np.where(same, np.square(difference).sum(axis=2), np.inf)
    np.fill_diagonal(raw, np.inf)
    near = np.take_along_axis(squares, np.argsort(raw, axis=1, kind="stable")[:, :3], axis=1)
    hinge = np.maximum(1 + near[:, :, None] - squares[:, None, :], 0) * ~same[:, None, :]
    return float(0.5 * near.sum() + 0.5 * hinge.sum())


@pytest.mark.parametrize(
    ("theirs", "ours", "number", "note"), LEARNERS, ids=[row[0].partition("(")[0] for row in LEARNERS]
)
def test_a_learner(theirs: str, ours: str, number: str, note: str) -> None:
    data = tables()
    data["delta"] = data["X"][data["pairs"][:, 0]] - data["X"][data["pairs"][:, 1]]
    named = {name: getattr(nearer.estimators, name) for name in nearer.estimators.__all__}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NearerWarning)
        found = np.array(numbers(eval(ours, {**named, **data})))
    expected = np.array(kept("metric-learn")["values"][theirs])
    name = theirs.partition("(")[0]
    if "objective" in note:
        ahead, behind = objective(name, found, data), objective(name, expected, data)
        if name == "MMC":
            assert ahead > behind
        else:
            assert ahead == pytest.approx(behind, rel=1e-3)
            assert name != "LMNN" or ahead <= behind
        return
    if "factor" in note:
        factor = (expected * found).sum() / (found * found).sum()
        promised = {"Covariance": 149 / 150}
        assert factor == pytest.approx(promised[name], rel=1e-4)
        found = factor * found
    gap = abs(found - expected).max() / abs(expected).max()
    assert (gap < (1e-3 if "1e-3" in note else 1e-4)) == (number == "same"), gap


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("page", NAMES)
def test_the_kept_numbers_are_theirs(page: str) -> None:
    """Where a library is installed, here or in an environment of its own, its side is evaluated again."""
    own = Path(__file__).parents[2] / "build" / "peers" / page / "bin" / "python"
    if own.exists():
        command = [str(own), peer_rows.__file__, page, "--print"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        values = json.loads(done.stdout)
    else:
        pytest.importorskip(page.replace("-", "_"))
        values = evaluated(page)
    assert values.keys() == kept(page)["values"].keys()
    for expression, expected in kept(page)["values"].items():
        assert np.asarray(values[expression]) == pytest.approx(np.asarray(expected), rel=1e-5, abs=1e-9), expression


@pytest.mark.parametrize("page", NAMES)
def test_the_page_names_the_version_that_was_compared(page: str) -> None:
    versions = kept(page)["versions"]
    # In prose the name and the version may stand on two lines.
    assert f"{page} {versions[page]}" in re.sub(r"\s+", " ", (PAGES / f"{page}.md").read_text())
    assert set(kept(page)["values"]) == {row[0] for row in rows(page)}
