"""The border: what the data is, is decided once, so a path and a table in memory are read alike."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from nearer.datasets._anything import ColumnRoles
from nearer.exceptions import ParameterError, ShapeError
from nearer.models._reading import Reading, read_items


def lengths(texts: Sequence[str]) -> np.ndarray:
    return np.array([[len(text), 1.0] for text in texts])


def brightness(images: Sequence[np.ndarray]) -> np.ndarray:
    return np.array([[np.asarray(image).mean(), 1.0] for image in images])


def table(rows: int = 40) -> pd.DataFrame:
    return pd.DataFrame(
        {"note": [f"word {'x' * (n % 5)}" for n in range(rows)], "kind": ["ab"[n % 2] for n in range(rows)]}
    )


def test_rows_of_a_table_of_texts_are_sampled(tmp_path: Path) -> None:
    table().to_csv(tmp_path / "a.csv", index=False)
    reading = Reading(lengths, text="note", progress=False)
    data = read_items(tmp_path / "a.csv", "kind", ColumnRoles(most=12), reading)
    assert data.all.x.shape == (12, 2)
    assert "12 of its 40 rows" in data.note
    assert data.class_names == ("a", "b")


def test_labels_may_come_beside_a_path(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": np.arange(6) ** 2 % 5, "b": np.arange(6) * 7 % 4})
    frame.to_csv(tmp_path / "a.csv", index=False)
    labels = ["x", "y", "x", "y", "x", "y"]
    from_file, from_memory = read_items(tmp_path / "a.csv", labels), read_items(frame, labels)
    np.testing.assert_array_equal(from_file.all.y, from_memory.all.y)
    np.testing.assert_array_equal(from_file.all.x, from_memory.all.x)


def test_an_encoder_reads_the_images_of_an_npz(tmp_path: Path) -> None:
    images = np.arange(4 * 8 * 8 * 3, dtype=np.uint8).reshape(4, 8, 8, 3)
    np.savez(tmp_path / "a.npz", x=images, y=np.array([0, 1, 0, 1]))
    reading = Reading(brightness, progress=False)
    from_file, from_memory = (
        read_items(tmp_path / "a.npz", None, None, reading),
        read_items(images, None, None, reading),
    )
    np.testing.assert_allclose(from_file.all.x, from_memory.all.x)
    np.savez(tmp_path / "b.npz", x=np.ones((4, 3)))
    with pytest.raises(ShapeError, match="must be photos"):
        read_items(tmp_path / "b.npz", None, None, reading)


def test_text_names_a_column_of_a_table(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones((3, 2)))
    reading = Reading(lengths, text="note")
    with pytest.raises(ParameterError, match=r"`text` names a column of a table, and `a\.npy` is none"):
        read_items(tmp_path / "a.npy", None, None, reading)
    with pytest.raises(ParameterError, match="is a folder"):
        read_items(tmp_path, None, None, reading)
    with pytest.raises(ParameterError, match="got ndarray data"):
        read_items(np.ones((3, 2)), None, None, reading)
