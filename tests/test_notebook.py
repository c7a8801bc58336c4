"""What notebooks show of results: tables and pictures, every word escaped."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import nearer
from nearer._notebook import bar
from nearer.evaluation import Comparison, Evaluation, evaluate
from nearer.index import Index


class Read(HTMLParser):
    """The cells of the table, and how many pictures there are; open tags must be closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.tags: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)
        if tag not in ("img", "rect", "br"):
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag != "rect":
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def test_an_evaluation_is_a_table_with_bars() -> None:
    result = evaluate([[0.0], [0.1], [5.0], [5.2]], ["a", "a", "b", "b"], scores=["recall@1", "map@r"])
    read = Read(result._repr_html_())
    assert read.rows == [["score", "value", ""], ["recall@1", "1.0000", ""], ["map@r", "1.0000", ""]]
    assert read.tags.count("svg") == 2


def test_a_comparison_shows_gains_and_the_verdict() -> None:
    both = Comparison(
        Evaluation({"map@r": 0.5, "nmi": 0.4}),
        Evaluation({"map@r": 0.7, "nmi": 0.3}),
        intervals={"map@r": (0.1, 0.3)},
        baselines={"<pca>": Evaluation({"map@r": 0.6, "nmi": 0.2})},
    )
    text = both._repr_html_()
    read = Read(text)
    assert read.rows[0] == ["score", "raw", "<pca>", "learned", "gain", ""]
    assert read.rows[1][:5] == ["map@r", "0.5000", "0.6000", "0.7000", "+0.2000 [+0.100, +0.300]"]
    assert read.rows[2][4] == "-0.1000"
    assert "learned is better than raw in map@r" in text
    again = Comparison.from_dict(both.to_dict())
    assert (again, again._repr_html_()) == (both, text)


def test_a_verdict_in_other_words_comes_back() -> None:
    both = Comparison(Evaluation({"r2": 0.5}), Evaluation({"r2": 0.5}), instead="Nothing to learn.")
    assert Comparison.from_dict(both.to_dict()).verdict == "Nothing to learn."


def test_hits_show_their_metadata_and_photos(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    image.fromarray(np.full((300, 200, 3), 90, dtype=np.uint8)).save(tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes(b"no picture")
    index = Index(1)
    files = [str(tmp_path / name) for name in ("a.png", "b.png", "c.png")]
    index.add([[0.0], [1.0], [3.0]], ids=["<b>", "one", "two"], metadata=[{"file": file} for file in files])
    read = Read(index.search([[0.1]], k=3)._repr_html_())
    assert read.rows[0] == ["", "query", "rank", "id", "distance", "file"]
    assert [row[1:5] for row in read.rows[1:]] == [
        ["0", "1", "<b>", "0.1000"],
        ["0", "2", "one", "0.9000"],
        ["0", "3", "two", "2.9000"],
    ]
    assert read.tags.count("img") == 1


def test_of_many_queries_the_first_are_shown() -> None:
    index = Index(1, similarity="cosine")
    index.add([[1.0], [-1.0]])
    text = index.search(np.ones((12, 1)), k=1)._repr_html_()
    assert "10 of 12 queries" in text
    assert Read(text).rows[:2] == [["query", "rank", "id", "cosine"], ["0", "1", "0", "1.0000"]]
    assert Read(index.search(np.zeros((0, 1)), k=1)._repr_html_()).rows == [["query", "rank", "id", "cosine"]]


def test_a_model_shows_its_scores_and_a_loaded_one_too(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    y = np.repeat([0, 1], 30)
    model = nearer.fit(random.normal(size=(60, 3)) + 3 * y[:, None], y, method="lda")
    again = nearer.load(model.save(tmp_path / "model"))
    for shown in (model._repr_html_(), again._repr_html_()):
        assert f"{model.scores['learned']['scores']['map@r']:.4f}" in shown
        assert shown.startswith("<table>")
    assert "<iframe" in model._repr_html_()
    by_hand = nearer.models.Model(again.encoder, again.inputs, method="by hand")
    assert "<table>" not in by_hand._repr_html_()


def test_a_bar_has_its_zero() -> None:
    assert 'x="45.0" width="1"' in bar(-0.5, -0.2, of=(-1.0, 1.0))
    assert [one in bar(*ends, of=(-1.0, 1.0)) for ends, one in
            (((-0.5, -0.2), "#c43c39"), ((-0.1, 0.2), "#888"), ((0.1, 0.2), "#2a78b5"))] == [True] * 3  # fmt: skip
