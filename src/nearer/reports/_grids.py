"""Queries and what was retrieved for them, as pictures: right ones framed green, wrong ones red."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nearer._validation import as_tensor, check_finite
from nearer.exceptions import ParameterError, ShapeError
from nearer.reports._style import INK, MUTED, RIGHT, WRONG, house_style, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# More would be too small to see on a page.
MOST = 40


def retrieval_grid(
    images: Any,
    queries: Any,
    neighbors: Any,
    correct: Any,
    *,
    database: Any = None,
    captions: Sequence[str] | None = None,
    title: str = "Nearest neighbours",
) -> Figure:
    """A row per query: its image, then its neighbours, nearest first, framed green or red and marked ✓ or ✗.

    `images` (n, h, w), (n, h, w, 3) or (n, 3, h, w); `queries` (q,) are rows of it; `neighbors` (q, k) are rows of
    `database`, or of `images` without one; `correct` (q, k) is true where a neighbour is right. `captions` (n,) are
    written under the images of `images`. Each image is scaled to its own range if it is not within [0, 1] or, for
    whole numbers, [0, 255].

    >>> images = [[[0.0, 1.0], [1.0, 0.0]]] * 3
    >>> figure = retrieval_grid(images, [0], [[1, 2]], [[True, False]])
    >>> len(figure.axes) > 2  # the query and its two neighbors
    True

    Args:
        images: all images, (n, c, h, w) between 0 and 1.
        queries: rows that are asked for, (q,).
        neighbors: rows that were found, (q, k).
        correct: which of them are right, (q, k).
        database: rows to search in, (m, d); None searches each row among the others.
        captions: text under each query.
        title: over the picture.
    """
    pictures = _as_pictures(images, "images")
    others = pictures if database is None else _as_pictures(database, "database")
    rows = _as_rows(queries, "queries", 1, len(pictures), "images")
    near = _as_rows(neighbors, "neighbors", 2, len(others), "images" if database is None else "database")
    right = as_tensor(correct, "correct").cpu().numpy()
    if len(near) != len(rows) or right.shape != near.shape:
        raise ShapeError(
            f"`queries` (q,), `neighbors` (q, k) and `correct` (q, k) must fit together, got {rows.shape}, "
            f"{near.shape} and {right.shape}."
        )
    if near.shape[0] > MOST or near.shape[1] > MOST or near.size == 0:
        raise ParameterError(
            f"`neighbors` must be between 1 × 1 and {MOST} × {MOST} to be seen, got {near.shape}. Take a part."
        )
    if captions is not None and len(captions) != len(pictures):
        raise ShapeError(
            f"`captions` must have one entry for each of the {len(pictures)} images, got {len(captions)}."
        )
    q, k = near.shape
    with house_style():
        side = 0.82
        extra = 0.17 if captions is not None else 0.0
        figure = new_figure(max(4.5, side * (k + 1.35) + 0.3), (side + extra) * q + 0.62)
        # A narrow empty column keeps the query apart from what was found for it.
        axes = figure.subplots(q, k + 2, squeeze=False, width_ratios=[1, 0.22, *[1] * k])
        for i in range(q):
            axes[i, 1].set_axis_off()
            _show(axes[i, 0], pictures[rows[i]], INK, "")
            if captions is not None:
                _caption(axes[i, 0], str(captions[rows[i]]))
            for j in range(k):
                good = bool(right[i, j])
                _show(axes[i, j + 2], others[near[i, j]], RIGHT if good else WRONG, "✓" if good else "✗")
                if captions is not None and database is None:
                    _caption(axes[i, j + 2], str(captions[near[i, j]]))
        for j, text in [(0, "query"), *((j + 2, str(j + 1)) for j in range(k))]:
            axes[0, j].set_title(text, size=9, weight="normal", color=MUTED, loc="center", pad=4)
        share = right.astype(bool).mean()
        figure.suptitle(f"{title}: {share:.0%} of {right.size} right", size=12, weight="bold", x=0.01, ha="left")
        engine: Any = figure.get_layout_engine()
        engine.set(w_pad=0.035, h_pad=0.035, wspace=0.0, hspace=0.0, rect=(0.008, 0.008, 0.984, 0.984))
    return figure


def _show(axis: Axes, picture: NDArray[np.float32], color: str, mark: str) -> None:
    axis.imshow(picture, cmap="gray_r" if picture.ndim == 2 else None, vmin=0, vmax=1, interpolation="nearest")
    axis.set(xticks=[], yticks=[])
    for spine in axis.spines.values():
        spine.set(visible=True, color=color, linewidth=2.6 if mark else 1.2)
    if mark:
        # Colour alone would leave out one reader in twelve.
        axis.text(
            0.96,
            0.05,
            mark,
            transform=axis.transAxes,
            ha="right",
            va="bottom",
            size=8,
            weight="bold",
            color="white",
            bbox={"boxstyle": "round,pad=0.18", "fc": color, "ec": "none"},
        )


def _caption(axis: Axes, text: str) -> None:
    axis.set_xlabel(text if len(text) <= 12 else f"{text[:11]}…", size=7.5, labelpad=2)


def _as_pictures(value: Any, name: str) -> NDArray[np.float32]:
    tensor = as_tensor(value, name).detach().cpu()
    if tensor.ndim == 4 and tensor.shape[1] in (1, 3) and tensor.shape[3] not in (1, 3):
        tensor = tensor.permute(0, 2, 3, 1)
    if tensor.ndim == 4 and tensor.shape[3] == 1:
        tensor = tensor[..., 0]
    if tensor.ndim not in (3, 4) or (tensor.ndim == 4 and tensor.shape[3] != 3) or 0 in tensor.shape:
        raise ShapeError(
            f"`{name}` must have shape (n, h, w), (n, h, w, 3) or (n, 3, h, w), got {tuple(tensor.shape)}. "
            f"Reshape rows of pixels first."
        )
    check_finite(tensor, name)
    whole = not tensor.is_floating_point()
    pixels = tensor.numpy().astype(np.float32)
    if whole and pixels.min() >= 0 and 1 < pixels.max() <= 255:
        return np.asarray(pixels / 255, dtype=np.float32)
    if pixels.min() >= 0 and pixels.max() <= 1:
        return pixels
    axes = tuple(range(1, pixels.ndim))
    low, high = pixels.min(axis=axes, keepdims=True), pixels.max(axis=axes, keepdims=True)
    return np.asarray((pixels - low) / np.maximum(high - low, 1e-12), dtype=np.float32)


def _as_rows(value: Any, name: str, rank: int, count: int, of: str) -> NDArray[np.int64]:
    tensor = as_tensor(value, name).cpu()
    if tensor.ndim != rank or tensor.is_floating_point():
        shape = "(q,)" if rank == 1 else "(q, k)"
        raise ShapeError(
            f"`{name}` must be row numbers of shape {shape}, got {tensor.dtype} {tuple(tensor.shape)}."
        )
    rows = tensor.numpy().astype(np.int64)
    if rows.size and (rows.min() < 0 or rows.max() >= count):
        raise ParameterError(
            f"`{name}` must be rows of `{of}`, which has {count}, got {int(rows.min())} to {int(rows.max())}."
        )
    return rows
