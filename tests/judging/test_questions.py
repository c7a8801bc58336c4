"""Which items and pairs are asked about, against the plainest form of the formula and on planted problems."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from nearer.app.cli import app
from nearer.estimators import Euclidean
from nearer.exceptions import NearerError, ParameterError, ShapeError
from nearer.judging import suggest_items, suggest_pairs
from nearer.judging._influence import DAMPING, REACH, graph_of, pick, spread, walk
from nearer.judging._suggest import groups_of
from nearer.relations import Pairs
from nearer_papers.ours._questions import learn_from_spread, lines


def crowds(m: int, each: int = 30, seed: int = 0, spread_: float = 0.25) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.arange(m * each) % m
    return rng.normal(size=(m, 4))[y] * 2 + spread_ * rng.normal(size=(len(y), 4)), y


def test_the_walk_is_the_scaled_graph_of_neighbors_both_ways() -> None:
    x, _ = crowds(3, 10)
    neighbors = graph_of(x.astype(np.float32), k=5)
    dense = walk(neighbors).toarray()
    links = np.zeros_like(dense)
    for row, near in enumerate(neighbors.indices.tolist()):
        for other in near:
            links[row, other] += 1
            links[other, row] += 1
    degree = links.sum(axis=1)
    np.testing.assert_allclose(dense, links / np.sqrt(np.outer(degree, degree)))
    assert np.abs(np.linalg.eigvalsh(dense)).max() <= 1 + 1e-9


def test_the_picks_are_those_of_the_formula() -> None:
    x, y = crowds(3, 12, spread_=0.8)
    labels = np.where(np.arange(len(y)) < 5, y, -1)
    neighbors = graph_of(x.astype(np.float32), k=4)
    S, spread_labels = walk(neighbors), spread(neighbors, labels)
    dense = S.toarray()
    mass = spread_labels.reach.sum(dim=1).numpy()
    need = (1 - spread_labels.lead.numpy()) / (1 + mass / np.median(mass))
    need[labels >= 0] = 0
    expected: list[int] = []
    for _ in range(6):
        worth = need + dense @ need + dense @ dense @ need
        worth[labels >= 0] = -1
        worth[expected] = -1
        best = int(worth.argmax())
        expected.append(best)
        reach = np.eye(len(y))[best]
        for _ in range(REACH):
            reach = reach + dense @ reach
        need = need * (1 - DAMPING * reach / reach.max())
        need[best] = 0
    assert pick(S, spread_labels, 6, allowed=labels < 0) == expected


def test_every_crowd_is_asked_about_before_any_twice() -> None:
    x, y = crowds(8)
    asked = suggest_items(None, x, np.full(len(y), -1), n=8)
    assert len(set(y[asked].tolist())) == 8
    assert len(set(asked.tolist())) == 8


def test_what_is_labelled_or_not_allowed_is_not_asked() -> None:
    x, y = crowds(4)
    labels = np.where(np.arange(len(y)) < 60, y, -1)
    allowed = np.arange(len(y)) % 2 == 0
    asked = suggest_items(Euclidean().fit(x), x, labels, n=1000, allowed=allowed)
    assert sorted(asked.tolist()) == np.flatnonzero((labels < 0) & allowed).tolist()
    assert suggest_items(None, x, y, n=3).size == 0


def test_influence_needs_fewer_answers_than_chance() -> None:
    x, y = crowds(12, 25, spread_=0.5)
    chance = np.random.default_rng(0).permutation(len(y))
    labels = np.full(len(y), -1)
    for _ in range(3):
        fresh = suggest_items(None, x, labels, n=8)
        labels[fresh] = y[fresh]
    assert len(np.unique(labels[labels >= 0])) == 12 > len(np.unique(y[chance[:24]]))


def test_pairs_make_groups() -> None:
    groups, apart = groups_of(Pairs(7, positive=[[0, 1], [1, 2], [4, 5]], negative=[[0, 4], [6, 5]]))
    assert groups.tolist() == [0, 0, 0, -1, 1, 1, 2]
    assert apart == {(0, 1), (1, 2)}


def test_questions_about_pairs_find_the_classes() -> None:
    x, y = crowds(6, 20)
    asked: dict[tuple[int, int], bool] = {}
    known: Any = None
    for _ in range(6):
        questions = suggest_pairs(None, x, known, n=12)
        assert questions.shape == (12, 2)
        assert (questions[:, 0] != questions[:, 1]).all()
        for a, b in questions.tolist():
            asked[min(a, b), max(a, b)] = bool(y[a] == y[b])
        near = [pair for pair, same in asked.items() if same]
        known = Pairs(len(y), positive=near, negative=[pair for pair, same in asked.items() if not same])
    groups, _ = groups_of(known)
    sizes = np.bincount(groups[groups >= 0])
    assert len({int(y[groups == group][0]) for group in np.flatnonzero(sizes > 1)}) == 6
    # Few are asked in vain: most answers are "same", and no pair is asked twice.
    assert len(asked) > 60
    assert np.mean(list(asked.values())) > 0.6


def test_pairs_beside_labels() -> None:
    x, y = crowds(3)
    labels = np.where(np.arange(len(y)) < 9, y, -1)
    questions = suggest_pairs(None, x, labels, n=4)
    assert (labels[questions[:, 0]] < 0).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, y: suggest_items(None, x, y[:3]), "labels"),
        (lambda x, y: suggest_items(None, x, y, n=0), "n"),
        (lambda x, y: suggest_items(None, x, y, allowed=[True]), "allowed"),
        (lambda x, y: suggest_items(None, x[:1], y[:1]), "X"),
        (lambda x, y: suggest_pairs(None, x, Pairs(3, positive=[[0, 1]])), "pairs of the"),
    ],
)
def test_what_cannot_be_is_said(call: Any, message: str) -> None:
    with pytest.raises(NearerError, match=message):
        call(*crowds(3))
    assert issubclass(ShapeError, NearerError)
    assert issubclass(ParameterError, NearerError)


def test_the_learner_of_the_table_finds_the_planted_direction() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(400) % 4
    x = np.concatenate([3 * y[:, None] + rng.normal(size=(400, 1)), 9 * rng.normal(size=(400, 3))], axis=1)
    x = x.astype(np.float32)
    learned = learn_from_spread(graph_of(x), x, np.where(np.arange(400) < 200, y, -1))
    strength = np.linalg.norm(learned, axis=1)
    assert strength[0] > 3 * strength[1:].max()
    np.testing.assert_array_equal(learn_from_spread(graph_of(x), x, np.where(y == 0, 0, -1)), np.eye(4))


def test_the_table_reads_mean_curves() -> None:
    def row(strategy: str, seed: int, values: list[float]) -> dict[str, Any]:
        curve = {str(count): value for count, value in zip((20, 200, 400), values, strict=True)}
        return {"data": "digits", "strategy": strategy, "seed": seed, "map@r": curve}

    shown = lines([row("random", 0, [0.1, 0.2, 0.3]), row("influence", 0, [0.1, 0.4, 0.5])])
    assert shown[1][:3] == ("digits", "influence", 1)
    assert shown[1][-2:] == ("80", "140")


def test_questions_in_a_terminal(tmp_path: Path) -> None:
    x, y = crowds(3, 12)
    table = pd.DataFrame(x, columns=list("abcd")).assign(record=[f"r{row}" for row in range(len(y))], kind="")
    table.loc[0, "kind"] = "zero"
    table.to_csv(tmp_path / "data.csv", index=False)
    run = CliRunner().invoke
    where = ["ask", str(tmp_path / "data.csv"), "--id", "record"]
    listed = run(app, [*where, "-l", "kind", "-n", "2", "--json"])
    assert len(json.loads(listed.output)["questions"]) == 2
    out = str(tmp_path / "answers.csv")
    talk = run(app, [*where, "-l", "kind", "-n", "2", "-o", out], input="one\n\ntwo\nq\n")
    assert talk.exit_code == 0, talk.output
    assert "Known classes: zero" in talk.output
    rows = list(csv.reader((tmp_path / "answers.csv").read_text().splitlines()))
    assert rows[0] == ["row", "class"]
    assert [row[1] for row in rows[1:]] == ["one", "two"]
    assert len({row[0] for row in rows[1:]}) == 2
    again = run(app, [*where, "-l", "kind", "-o", out])
    assert again.exit_code == 1
    assert "must not exist" in again.output
    pairs = str(tmp_path / "pairs.csv")
    table.drop(columns="kind").to_csv(tmp_path / "plain.csv", index=False)
    where[1] = str(tmp_path / "plain.csv")
    talk = run(app, [*where, "--pairs", "-o", pairs], input="y\nmaybe\nn\nq\n")
    assert talk.exit_code == 0, talk.output
    assert "Not understood" in talk.output
    assert [row[2] for row in csv.reader((tmp_path / "pairs.csv").read_text().splitlines())] == ["same", "1", "0"]
    # What was answered can be learned from.
    fitted = run(app, ["fit", where[1], "--id", "record", "--pairs", pairs, "-o", str(tmp_path / "model"), "-q"])
    assert "near and far" in fitted.output
