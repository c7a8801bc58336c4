"""Hartigan's rule: move a point when that lowers the cost, the change of both centres included.

Moving x from cluster a to b changes Σ‖x − c‖² by

    n_b/(n_b + 1) · ‖x − c_b‖²  −  n_a/(n_a − 1) · ‖x − c_a‖².

Lloyd's steps compare the distances alone and stop too early when clusters are small, because a point pulls the
centre it belongs to towards itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nearer.evaluation._points import Points, blocks, means

__all__ = ["hartigan"]

Array = NDArray[Any]

# With more clusters than this, most rounds look at the nearest few of each point only.
LISTED = 500
LIST = 8


def hartigan(points: Points, labels: Array, k: int) -> Array:
    """Move points, many at a time, as long as the cost falls; returns the assignments, (n,).

    Each gain supposes that nothing else moves. When all moves together do not pay, fewer of the best may.
    """
    if k == 1:
        return labels
    energy = float(points.squares.sum(dtype=np.float64))
    centers, count = means(points, labels, k)
    cost = _cost(energy, centers, count)
    near: Array | None = None
    rounds, stale = 0, 0
    while rounds < 30:
        rounds += 1
        if near is None or stale == 6:
            target, gain, near = _all_moves(points, labels, centers, count)
            stale = 0
        else:
            target, gain = _listed_moves(points, labels, centers, count, near)
            stale += 1
        movers = np.flatnonzero(gain > 1e-6 * energy / len(points))
        movers = movers[np.argsort(-gain[movers], kind="stable")]
        moved, centers_, count_, cost_ = labels, centers, count, cost
        while len(movers):
            moved = labels.copy()
            moved[movers] = target[movers]
            centers_, count_ = means(points, moved, k)
            cost_ = _cost(energy, centers_, count_)
            if cost_ < cost:
                break
            movers = movers[: len(movers) // 4]
        fall = cost - cost_ if len(movers) else 0.0
        if fall > 0:
            labels, centers, count, cost = moved, centers_, count_, cost_
        if fall <= 1e-5 * cost:
            # The lists are used up; look at everything once more, unless that was just done.
            if stale == 0:
                break
            near = None
    return labels


def _weights(count: Array) -> tuple[Array, Array]:
    """n/(n+1) for joining a cluster, and what turns that into n/(n−1) for leaving it; a last point stays."""
    join = (count / (count + 1)).astype(np.float32)
    return join, np.where(count > 1, (count + 1) / np.maximum(count - 1, 1), 0).astype(np.float32)


def _all_moves(points: Points, labels: Array, centers: Array, count: Array) -> tuple[Array, Array, Array | None]:
    """The best cluster to move each point to, what is gained, and with many clusters the nearest few of each."""
    k = len(centers)
    target, gain = np.empty(len(points), dtype=np.int64), np.empty(len(points), dtype=np.float32)
    near = np.empty((len(points), LIST), dtype=np.int64) if k > LISTED else None
    # n/(n+1) · ‖x − c‖² = n/(n+1) · ‖x‖² − 2 n/(n+1) · x·c + n/(n+1) · ‖c‖²: one matrix product.
    join, leave = _weights(count)
    flat, weight, squares = torch.from_numpy(centers), torch.from_numpy(join), torch.from_numpy(points.squares)
    scaled, offset = -2 * weight[:, None] * flat, weight * (flat * flat).sum(dim=1)

    def block(start: int, stop: int, room: Array) -> None:
        table = torch.addmm(offset, points.tensor[start:stop], scaled.T, out=torch.from_numpy(room))
        values = table.addr_(squares[start:stop], weight).numpy()
        rows, own = np.arange(stop - start), labels[start:stop]
        stay = values[rows, own] * leave[own]
        values[rows, own] = np.inf
        target[start:stop] = place = values.argmin(axis=1)
        gain[start:stop] = stay - values[rows, place]
        if near is not None:
            near[start:stop] = torch.topk(table, LIST, dim=1, largest=False, sorted=False)[1].numpy()

    blocks(points, k, block)
    return target, gain, near


def _listed_moves(points: Points, labels: Array, centers: Array, count: Array, near: Array) -> tuple[Array, Array]:
    """The same among the listed clusters of each point."""
    target, gain = np.empty(len(points), dtype=np.int64), np.empty(len(points), dtype=np.float32)
    join, leave = _weights(count)
    squares = np.einsum("ij,ij->i", centers, centers)

    def block(start: int, stop: int, room: Array) -> None:
        listed, own = near[start:stop], labels[start:stop]
        x = points.rows[start:stop]
        values = np.einsum("nd,nmd->nm", x, centers[listed], out=room)
        values *= -2
        values += points.squares[start:stop, None]
        values += squares[listed]
        stay = points.squares[start:stop] + squares[own] - 2 * np.einsum("nd,nd->n", x, centers[own])
        values *= join[listed]
        values[listed == own[:, None]] = np.inf
        place = values.argmin(axis=1)
        rows = np.arange(stop - start)
        target[start:stop] = listed[rows, place]
        gain[start:stop] = stay * join[own] * leave[own] - values[rows, place]

    blocks(points, near.shape[1], block, size=1024)
    return target, gain


def _cost(energy: float, centers: Array, count: Array) -> float:
    """Σ‖x‖² − Σ_c n_c‖c‖², the inertia of clusters around their means."""
    return energy - float(count @ np.einsum("ij,ij->i", centers, centers, dtype=np.float64))
