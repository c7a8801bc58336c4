"""Items in the plane: principal components at once, t-SNE in steps, each map turned towards the last one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import linalg
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from nearer._plain import Array
from nearer.neighbors import search

LANDMARKS, ITERATIONS = 4_000, 250
# Fewer items are seen well on their principal components.
LEAST_PLACED = 10
# From the beginning, and from the map of the metric before.
STEPS, WARM_STEPS = 4, 2
# The map of n items has this spread times the root of n before it is scaled into view.
SPREAD = 0.65


def principal_axes(rows: Array, most: int, *, sample: int = 10_000) -> tuple[Array, Array]:
    """The mean (p,) and the first principal axes (p, q) of rows (n, p), from a sample of them.

    >>> mean, axes = principal_axes(np.array([[0.0, 1], [2, 1], [4, 1]]), 1)
    >>> mean.tolist(), np.abs(axes).round(3).ravel().tolist()
    ([2.0, 1.0], [1.0, 0.0])
    """
    some = rows
    if len(rows) > sample:
        some = rows[np.sort(np.random.default_rng(0).permutation(len(rows))[:sample])]
    mean = some.mean(axis=0, dtype=np.float64).astype(np.float32)
    centered = (some - mean).astype(np.float32)
    wide = some.shape[1] > len(some)
    # Double precision where it is quick; single precision has seven digits, and a map needs three.
    kind = np.float64 if min(some.shape) <= 256 else np.float32
    gram = (centered @ centered.T if wide else centered.T @ centered).astype(kind)
    keep = min(most, *some.shape)
    # One thread: on a busy machine several wait for each other for seconds.
    with threadpool_limits(limits=1):
        values, axes = linalg.eigh(gram, subset_by_index=[len(gram) - keep, len(gram) - 1])
    values, axes = values[::-1], axes[:, ::-1]
    if wide:
        axes = centered.T @ axes / np.sqrt(np.maximum(values, 1e-30))
    # A sign that does not depend on the linear algebra library.
    signs = np.where(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])] < 0, -1.0, 1.0)
    return mean, (axes * signs).astype(np.float32)


def principal_map(rows: Array) -> Array:
    """The two first principal components of rows (n, d), within the square of ±1: (n, 2) float32.

    >>> principal_map(np.array([[0.0, 0], [1, 0], [2, 0]])).shape
    (3, 2)
    """
    _, axes = principal_axes(rows, 2, sample=5_000)
    return flat_map(rows @ axes)


def flat_map(points: Array) -> Array:
    """The first two columns of points (n, q) that are ordered by their spread, as a map."""
    return within_view(np.pad(points[:, :2], ((0, 0), (0, max(0, 2 - points.shape[1])))))


def within_view(points: Array) -> Array:
    """Points (n, 2) within the square of ±1; those far out come nearer by the logarithm, and none pile up.

    >>> float(within_view(np.array([[0.0, 0], [1, 0], [0, 1], [1000, 0]])).max()) <= 1
    True
    """
    centered = points - np.median(points, axis=0)
    radius = np.linalg.norm(centered, axis=1)
    usual = max(float(np.quantile(radius, 0.9)), 1e-12)
    far = radius > usual
    scale = np.ones(len(points))
    # The slope begins at one, so that there is no ring where it begins.
    scale[far] = usual * (1 + np.log(radius[far] / usual)) / radius[far]
    inside = centered * scale[:, None]
    # The middle of what is drawn is that of the square: the items need not lie evenly around their own.
    inside = inside - (inside.max(axis=0) + inside.min(axis=0)) / 2
    most = max(float(np.abs(inside).max()), 1e-12)
    return np.ascontiguousarray(0.95 * inside / most, dtype=np.float32)


def turn_towards(points: Array, target: Array) -> Array:
    """A map rotated or mirrored to lie as near as possible to another one (Procrustes), within the square.

    >>> turned = turn_towards(np.array([[1.0, 0], [-1, 0], [0, 0.5]]), np.array([[0.0, 1], [0, -1], [0.5, 0]]))
    >>> bool(turned[0, 0] < 0.2)
    True
    """
    u, _, vt = np.linalg.svd(points.T.astype(np.float64) @ target.astype(np.float64))
    turned = points @ (u @ vt)
    return np.ascontiguousarray(0.95 * turned / max(float(np.abs(turned).max()), 1e-12), dtype=np.float32)


def tsne_maps(rows: Array, start: Array, *, warm: bool = False, seed: int = 0) -> Iterator[tuple[float, Array]]:
    """Better and better maps of rows (n, d) from a map `start` (n, 2): the share that is done, and positions.

    `warm` says that `start` is such a map already, of another metric: items then move from where they are. Above
    4,000 items t-SNE places that many and the others stand where their nearest ones are.
    """
    from sklearn.manifold import TSNE

    n = len(rows)
    chosen = np.sort(np.random.default_rng(seed).permutation(n)[:LANDMARKS])
    mean, axes = principal_axes(rows, 50)
    flat = (rows - mean) @ axes
    spread = SPREAD * len(chosen) ** 0.5 if warm else 1e-4
    spots = spread * start[chosen] / max(float(start[chosen].std()), 1e-12)
    steps = WARM_STEPS if warm else STEPS
    others = None
    if len(chosen) < n:
        near = search(flat, flat[chosen], 3)
        weight = 1 / np.maximum(near.distances.numpy(), 1e-9)
        others = near.indices.numpy(), (weight / weight.sum(axis=1, keepdims=True))[:, :, None]
    for step in range(steps):
        tsne = TSNE(
            init=spots.astype(np.float32),
            perplexity=min(30.0, (len(chosen) - 1) / 3),
            early_exaggeration=12.0 if step == 0 and not warm else 1.0,
            max_iter=ITERATIONS,
            random_state=seed,
            learning_rate="auto" if step == 0 and not warm else max(len(chosen) / 4, 50.0),
        )
        with threadpool_limits(limits=1):
            spots = np.asarray(tsne.fit_transform(flat[chosen]), dtype=np.float64)
        if others is None:
            found = spots
        else:
            found = (spots[others[0]] * others[1]).sum(axis=1)
            # Items between the same three would lie on each other.
            found += np.random.default_rng(seed).normal(scale=0.004 * float(spots.std()), size=found.shape)
            found[chosen] = spots
        yield (step + 1) / steps, within_view(found)
