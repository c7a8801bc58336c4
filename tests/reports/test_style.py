"""The colours are safe, the dark page is a swap that leaves no trace, and nothing global is touched."""

from __future__ import annotations

import subprocess
import sys

import matplotlib
import numpy as np
import pytest
import torch

from nearer.reports import retrieval_grid, training_curve
from nearer.reports._style import DARK, INK, PAPER, RIGHT, TEN, WRONG, as_png, class_colors

# Machado, Oliveira and Fernandes (2009), full severity, for linear RGB.
SIGHT = {
    "normal": np.eye(3),
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "no blue": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def linear(color: str) -> np.ndarray:
    rgb = np.array(matplotlib.colors.to_rgb(color))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def perceived(colors: list[str], sight: str) -> np.ndarray:
    """Coordinates in the Oklab space, where distances are about as large as they look."""
    seen = np.clip(np.stack([linear(one) for one in colors]) @ np.array(SIGHT[sight]).T, 0, 1)
    cones = np.cbrt(
        seen
        @ np.array(
            [
                [0.4122214708, 0.5363325363, 0.0514459929],
                [0.2119034982, 0.6806995451, 0.1073969566],
                [0.0883024619, 0.2817188376, 0.6299787005],
            ]
        ).T
    )
    to_lab = [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
    return cones @ np.array(to_lab).T


def nearest(colors: list[str], sight: str) -> float:
    lab = perceived(colors, sight)
    distance = np.linalg.norm(lab[:, None] - lab, axis=2)
    return float(distance[~np.eye(len(colors), dtype=bool)].min())


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("page", ["light", "dark"])
def test_ten_classes_stay_apart_for_every_sight(sight: str, page: str) -> None:
    colors = TEN if page == "light" else [DARK.get(one, one) for one in TEN]
    default = [matplotlib.colors.to_hex(one) for one in matplotlib.colormaps["tab10"].colors]
    assert nearest(colors, sight) > 0.08
    assert nearest(colors, sight) > nearest(default, sight)


def contrast(one: str, other: str) -> float:
    """The ratio of WCAG 2: 3 is asked for graphics, 4.5 for text."""
    light, dark = sorted((float(linear(c) @ [0.2126, 0.7152, 0.0722]) for c in (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_text_and_frames_can_be_seen_on_both_pages() -> None:
    assert contrast(INK, PAPER) > 12
    assert contrast(DARK[INK], DARK[PAPER]) > 12
    for frame in (RIGHT, WRONG):
        assert contrast(frame, PAPER) > 4.5
        assert contrast(DARK[frame], DARK[PAPER]) > 4.5


def test_classes_can_be_seen_on_the_dark_page() -> None:
    assert min(contrast(DARK[one], DARK[PAPER]) for one in TEN) > 2.9


def test_any_number_of_classes_has_colors() -> None:
    assert class_colors(0) == []
    for count in (1, 10, 11, 200):
        assert len(class_colors(count)) == count
    assert len(set(class_colors(100))) == 100


def test_the_dark_page_is_another_picture_and_leaves_no_trace() -> None:
    for figure in (
        training_curve({"a/x": [1, 2, 3], "a/y": [2, 2, 2], "b": [1, 2, 3]}, baselines={"b": 2}),
        retrieval_grid(torch.rand(3, 4, 4), [0], [[1, 2]], [[True, False]]),
    ):
        light = as_png(figure)
        dark = as_png(figure, dark=True)
        assert light != dark
        assert as_png(figure) == light
        assert as_png(figure, dark=True) == dark


def test_nothing_global_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(matplotlib.rcParams, "lines.linewidth", 7.0)
    before = dict(matplotlib.rcParams)
    figure = training_curve({"a": [1, 2]})
    assert dict(matplotlib.rcParams) == before
    assert figure.axes[0].lines[0].get_linewidth() == 2.0


def test_no_window_system_and_no_pyplot_is_touched() -> None:
    code = (
        "import sys, nearer.reports as r\nfrom nearer.reports._style import as_png\n"
        "assert not {'matplotlib', 'sklearn'} & set(sys.modules), 'loaded before it is needed'\n"
        "as_png(r.training_curve({'a': [1, 2]}))\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
