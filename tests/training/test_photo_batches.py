"""Random parts of photos to learn from, middles to be scored on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from nearer.exceptions import ParameterError, ShapeError
from nearer.training import PhotoBatches

pytest.importorskip("PIL.Image")
PLAIN: dict[str, Any] = {"size": 8, "mean": (0.0,) * 3, "std": (1.0,) * 3}
# Red says the row, green the column.
GRID = np.stack([*np.meshgrid(np.arange(40), np.arange(60), indexing="ij"), np.zeros((40, 60))], 2).astype(np.uint8)


def test_parts_lie_inside_and_are_as_large_as_asked() -> None:
    torch.manual_seed(0)
    batches = PhotoBatches([GRID], [0], **PLAIN, area=(0.2, 0.5))
    shares, ratios, mirrored = [], [], 0
    for _ in range(200):
        rows, columns = (255 * batches.items(torch.tensor([0]))[0, :2]).numpy()
        # Eight samples span seven eighths of the part.
        height, width = ((side.max() - side.min()) * 8 / 7 for side in (rows, columns))
        assert rows.min() >= -0.5
        assert columns.max() <= 59.5
        shares.append(height * width / 2400)
        ratios.append(width / height)
        mirrored += int(columns[0, 0] > columns[0, -1])
    assert 0.15 < min(shares) < 0.25 < 0.42 < max(shares) < 0.6
    assert 0.6 < min(ratios) < 0.85 < 1.15 < max(ratios) < 1.6
    assert 70 < mirrored < 130


def test_the_same_state_draws_the_same_parts() -> None:
    batches = PhotoBatches([GRID, GRID[::-1].copy()], [0, 1], **PLAIN)
    state = torch.get_rng_state()
    first = batches.items(torch.tensor([1, 0]))
    torch.set_rng_state(state)
    assert torch.equal(batches.items(torch.tensor([1, 0])), first)
    assert batches.labels(torch.tensor([1, 0])).tolist() == [1, 0]
    assert first.is_contiguous(memory_format=torch.channels_last)


def test_middles_and_colors() -> None:
    middle = PhotoBatches([GRID], [0], **PLAIN, view=8).middles([0])
    assert (255 * middle[0, 0, :, 0]).round().tolist() == list(range(16, 24))
    assert (255 * middle[0, 1, 0]).round().tolist() == list(range(26, 34))
    swapped = PhotoBatches([GRID], [0], **PLAIN, view=8, colors="bgr").middles([0])
    assert torch.equal(swapped, middle.flip(1))
    scaled = PhotoBatches([GRID], [0], size=8, view=8, mean=(0.1, 0.2, 0.3), std=(0.5, 0.25, 0.2)).middles([0])
    mean, std = (torch.tensor(one).reshape(3, 1, 1) for one in ((0.1, 0.2, 0.3), (0.5, 0.25, 0.2)))
    torch.testing.assert_close(scaled[0], (middle[0] - mean) / std)


def test_a_photo_that_no_part_fits_gives_its_middle() -> None:
    thin = np.zeros((4, 400, 3), np.uint8)
    thin[:, 198:202] = 255
    assert PhotoBatches([thin], [0], **PLAIN, area=(0.9, 1.0)).items(torch.tensor([0])).min() == 1


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"photos": [GRID[:, :, 0]]}, ShapeError, r"must be bytes \(h, w, 3\), got uint8 \(40, 60\)"),
        ({"labels": [0, 1]}, ShapeError, "one entry for each of the 1 photos, got 2"),
        ({"area": (0.5, 0.2)}, ParameterError, "`area` must rise, got 0.5 and 0.2"),
        ({"area": (0.5, 1.2)}, ParameterError, "`area` must be"),
        ({"ratio": (0.0, 1.0)}, ParameterError, "`ratio` must be"),
        ({"colors": "grb"}, ParameterError, "`colors` must be"),
    ],
)
def test_bad_settings(change: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        PhotoBatches(**{"photos": [GRID], "labels": [0], **PLAIN, **change})
