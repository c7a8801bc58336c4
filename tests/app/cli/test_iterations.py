"""The display of a linear learner: it hears of iterations, says how many are left, and is silent in a pipe."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

from nearer import estimators
from nearer.app.cli._screen import IterationBar
from nearer.estimators._optimize import follow_iterations
from nearer.training._loop import Moment

ITERATIVE = ["ITML", "LDML", "MMC", "TripletSVM", "LSML", "LMNN", "NCA", "RAMLKRR", "SERAPH"]


@pytest.mark.filterwarnings("ignore::nearer.exceptions.StoppedEarlyWarning")
@pytest.mark.parametrize("name", ITERATIVE)
def test_every_iterative_learner_is_heard(name):
    random = np.random.default_rng(0)
    y = np.arange(60) % 3
    x = random.normal(size=(3, 4))[y] + random.normal(size=(60, 4))
    heard = []
    with follow_iterations(lambda *told: heard.append(told)):
        getattr(estimators, name)().fit(x, y)
    assert heard
    assert {told[0] for told in heard} == {name}
    assert all(0 <= iteration <= most for _, iteration, most, _ in heard)
    count = len(heard)
    getattr(estimators, name)().fit(x, y)
    assert len(heard) == count, "nobody follows any more"


def test_the_bar_shows_how_far_it_is():
    page = io.StringIO()
    with IterationBar(Console(file=page, force_terminal=True, width=100)) as bar:
        bar.follow("NCA", 3, 50, 0.25)
        assert (bar.shown.description, bar.shown.completed, bar.shown.total) == ("NCA", 3, 50)
        bar.bar.refresh()
    assert "NCA" in page.getvalue()
    assert "3/50" in page.getvalue()


def test_it_makes_room_for_the_bar_of_a_network():
    with IterationBar(Console(file=io.StringIO(), force_terminal=True)) as bar:
        assert bar.bar.live.is_started
        bar.make_room(Moment("start", 0, 0, 10, {}))
        assert not bar.bar.live.is_started


def test_nothing_is_shown_in_a_pipe():
    page = io.StringIO()
    with IterationBar(Console(file=page)) as bar:
        bar.follow("NCA", 3, 50, 0.25)
    assert page.getvalue() == ""
