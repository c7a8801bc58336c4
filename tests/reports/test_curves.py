"""A training curve draws every recorded number and nothing that was not recorded."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from nearer.exceptions import ParameterError, ShapeError
from nearer.reports import training_curve
from nearer.reports._style import as_png


def panels(figure: Any) -> dict[str, Any]:
    return {axis.get_title(loc="left"): axis for axis in figure.axes if axis.get_title(loc="left")}


def test_series_become_panels_and_lines() -> None:
    history = {"loss/train": [3, 2, 1], "loss/validation": [3.5, None, 2.5], "Recall@1": [0.1, 0.2, math.nan]}
    figure = training_curve(history, baselines={"Recall@1": 0.15}, title="Run", unit="step")
    found = panels(figure)
    assert list(found) == ["loss", "Recall@1"]
    train, _, validation, _ = found["loss"].lines
    assert train.get_xydata().tolist() == [[1, 3], [2, 2], [3, 1]]
    assert validation.get_xydata().tolist() == [[1, 3.5], [3, 2.5]]
    assert [text.get_text() for text in found["loss"].get_legend().get_texts()] == [
        "train 1.000",
        "validation 2.500",
    ]
    score = found["Recall@1"]
    assert score.lines[0].get_xydata().tolist() == [[1, 0.1], [2, 0.2]]
    assert set(score.lines[-1].get_ydata()) == {0.15}
    assert {text.get_text() for text in score.texts} == {"0.200", "raw features 0.150"}
    assert score.get_legend() is None
    assert score.get_xlabel() == "step"
    assert figure.get_suptitle() == "Run"
    assert as_png(figure, dpi=40).startswith(b"\x89PNG")


def test_records_of_epochs_are_the_same_as_series() -> None:
    records = [{"loss": 3.0}, {"loss": 2.0, "score": 0.5}, {"score": 0.7}]
    by_record, by_series = (
        training_curve(records),
        training_curve({"loss": [3, 2, None], "score": [None, 0.5, 0.7]}),
    )
    assert as_png(by_record, dpi=40) == as_png(by_series, dpi=40)


@pytest.mark.parametrize(("count", "grid"), [(1, 1), (2, 2), (3, 3), (4, 4), (5, 6), (7, 9)])
def test_any_number_of_panels_is_laid_out(count: int, grid: int) -> None:
    figure = training_curve({f"score {i}": np.arange(3) for i in range(count)}, title="")
    assert len(figure.axes) == grid
    assert len(panels(figure)) == count
    assert figure.get_suptitle() == ""


def test_one_epoch_and_series_of_different_length_are_drawn() -> None:
    figure = training_curve({"a": [1.0]})
    assert panels(figure)["a"].get_xticks().tolist() == [1]
    training_curve({"a": [1.0, 2.0], "b": [1e-6] * 50, "c": [12345.6], "d": [None, math.inf]})


@pytest.mark.parametrize(
    ("history", "options", "error", "message"),
    [
        ({}, {}, ShapeError, "`history` must hold at least one number"),
        ([], {}, ShapeError, "`history` must hold at least one number"),
        ({"a": [None, math.nan]}, {}, ShapeError, "`history` must hold at least one number"),
        ({"a": ["x"]}, {}, ParameterError, r"`history\['a'\]` must be numbers or None"),
        ({"a": 3}, {}, ParameterError, r"`history\['a'\]` must be numbers or None"),
        ([1, 2], {}, ParameterError, "`history` must be a dictionary of series or a list of them, got 1"),
        ({"a": [1]}, {"baselines": {"b": 1}}, ParameterError, "`baselines` must name panels, which are a, got 'b'"),
    ],
)
def test_bad_input_is_named(history: Any, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        training_curve(history, **options)
