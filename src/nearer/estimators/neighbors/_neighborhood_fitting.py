"""What the two estimators of the k-NN vote share: the scale of the start, the held-out rows, when to stop."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor

from nearer._checks import check_choice, check_int, check_number
from nearer.estimators._matrices import Array
from nearer.estimators._optimize import report
from nearer.estimators.neighbors._near import nearest_rows
from nearer.estimators.neighbors._neighborhood_training import BothSides, VotePlan, held_out_loss
from nearer.exceptions import NearerWarning, ShapeError
from nearer.losses import NeighborhoodLoss
from nearer.losses._shared import RegularizerName

Descend = Callable[
    [Tensor, Tensor | None, BothSides, VotePlan, torch.Generator], Iterator[tuple[Tensor, Tensor, float]]
]

# Both maps to start from (None: one for both sides), of the rows with these numbers.
Start = Callable[[Array], tuple[Array, Array | None]]

Maps = tuple[Tensor, Tensor | None]

_PATIENCE = 10
# Held-out rows whose votes say enough about an epoch.
_ENOUGH = 200
_SAMPLE = 2000


class FittedMaps(NamedTuple):
    """Maps (p, d) and (p', d) in double precision, epochs, mean loss of the last one, held-out error after it."""

    queries: Array
    database: Array
    epochs: int
    loss: float
    held_out_error: float


def scale_to_margin(
    left: Array, right: Array, codes: Array, k: int, margin: float, rng: np.random.RandomState
) -> float:
    """The factor for both maps that makes the k-th neighbour of the own class typically lie at `1/margin`, squared.

    >>> rows = np.array([[0.0], [2.0], [9.0], [11.0]])
    >>> scale_to_margin(rows, rows, np.array([0, 0, 1, 1]), 1, 4.0, np.random.RandomState(0))
    0.25
    """
    n = len(codes)
    chosen = np.arange(n) if n <= _SAMPLE else np.sort(rng.permutation(n)[:_SAMPLE])
    distances = []
    for code in np.unique(codes[chosen]):
        members = np.flatnonzero(codes == code)
        mine = chosen[codes[chosen] == code]
        if len(members) < 2:
            continue
        own = np.searchsorted(members, mine)
        near = nearest_rows(left[mine], right[members], min(k, len(members) - 1), own=own)
        distances.append(np.square(left[mine] - right[members[near[:, -1]]]).sum(axis=1))
    typical = float(np.median(np.concatenate(distances))) if distances else 0.0
    return float(1 / np.sqrt(margin * typical)) if typical > 0 else 1.0


def hold_out(codes: Array, share: float, rng: np.random.RandomState) -> Array:
    """Which rows are held out, (n,) booleans: a share of every class that leaves it two rows or more.

    >>> hold_out(np.array([0, 0, 0, 0, 1, 1]), 0.5, np.random.RandomState(0)).sum().item()
    2
    """
    chosen = np.zeros(len(codes), dtype=bool)
    for code in np.unique(codes):
        members = np.flatnonzero(codes == code)
        take = min(int(share * len(members)), max(len(members) - 2, 0))
        chosen[rng.permutation(members)[:take]] = True
    return chosen


def check_settings(estimator: Any, n: int, n_classes: int, regularizer: RegularizerName = "squared_w") -> VotePlan:
    """The settings that both estimators share, for n rows of so many classes; k is cut to n − 1, with a warning."""
    k = check_int(estimator.n_neighbors, "n_neighbors")
    if k > n - 1:
        warnings.warn(f"k = {k} is cut to the {n - 1} other rows there are.", NearerWarning, stacklevel=4)
    check_choice(regularizer, "regularizer", get_args(RegularizerName))
    inference = check_choice(estimator.inference, "inference", ["exact", "greedy"])
    table: Tensor | None = None
    if estimator.task_loss is not None:
        # The loss of the same name knows what may be in it.
        checked = NeighborhoodLoss(task_loss=np.asarray(estimator.task_loss, dtype=np.float64)).task_loss
        table = torch.as_tensor(checked)
        if len(table) != n_classes:
            raise ShapeError(
                f"`task_loss` must have a row and a column for each of the {n_classes} classes, in the order of "
                f"`classes_`, got {tuple(table.shape)}."
            )
    return VotePlan(
        k=min(k, n - 1),
        epochs=check_int(estimator.max_iter, "max_iter"),
        rate=check_number(estimator.lr, "lr", above=0),
        regularization=check_number(estimator.regularization, "regularization", minimum=0),
        regularizer=regularizer,
        task_loss=table,
        inference="exact" if inference == "exact" else "greedy",
    )


def fit_maps(
    descend: Descend,
    starts: Sequence[Start],
    views: tuple[Array, Array],
    codes: Array,
    schedule: VotePlan,
    *,
    validation: float,
    rng: np.random.RandomState,
    verbose: int = 0,
) -> FittedMaps:
    """Find the best start and number of epochs on held-out rows, then descend on all rows for as long.

    The best epoch has the fewest wrong held-out votes, then the least held-out loss. A start sees no held-out row
    either. Too few rows to hold out ten, or `validation=0`: the first start and all epochs.
    """
    order = np.argsort(codes, kind="stable")
    queries = _tensor(views[0][order])
    database = queries if views[1] is views[0] else _tensor(views[1][order])
    rows = BothSides(queries, database, torch.from_numpy(codes[order].astype(np.int64)))
    seed = int(rng.randint(2**31 - 1))
    ways = [lambda numbers, start=start: _maps(start(order[numbers])) for start in starts]
    way, epochs, error = _best_epoch(descend, ways, rows, schedule, validation, seed, rng, verbose)
    U, V = way(np.arange(len(codes)))
    kept = (U, U if V is None else V, float("nan"))
    if epochs:
        descent = descend(U, V, rows, schedule, torch.Generator().manual_seed(seed))
        for epoch, kept in enumerate(descent, start=1):
            report(verbose, "all rows", epoch, kept[2], most=epochs)
            if epoch == epochs:
                break
    left, right, loss = kept
    return FittedMaps(left.numpy().astype(np.float64), right.numpy().astype(np.float64), epochs, loss, error)


def _best_epoch(
    descend: Descend,
    ways: Sequence[Callable[[Array], Maps]],
    rows: BothSides,
    schedule: VotePlan,
    validation: float,
    seed: int,
    rng: np.random.RandomState,
    verbose: int,
) -> tuple[Callable[[Array], Maps], int, float]:
    """The start and the epoch after which held-out votes are best, and their error.

    Few rows are drawn anew up to five times.
    """
    codes = rows.codes.numpy()
    held = int(hold_out(codes, validation, np.random.RandomState(0)).sum())
    if held < 10 or len(codes) - held <= schedule.k + 1:
        return ways[0], schedule.epochs, float("nan")
    masks = [hold_out(codes, validation, rng) for _ in range(min(5, -(-_ENOUGH // held)))]
    parts = [
        (BothSides(*(side[mask] for side in rows)), BothSides(*(side[~mask] for side in rows)))
        for mask in map(torch.from_numpy, masks)
    ]
    starts = [[way(np.flatnonzero(~mask)) for mask in masks] for way in ways]
    scores = [
        _mean(
            [
                held_out_loss(U, U if V is None else V, *part, schedule)
                for (U, V), part in zip(maps, parts, strict=True)
            ]
        )
        for maps in starts
    ]
    chosen = min(range(len(ways)), key=scores.__getitem__)
    descents = [
        descend(*maps, inside, schedule, torch.Generator().manual_seed(seed))
        for maps, (_, inside) in zip(starts[chosen], parts, strict=True)
    ]
    best, best_epoch = scores[chosen], 0
    for epoch, state in enumerate(zip(*descents, strict=True), start=1):
        score = _mean([held_out_loss(U, V, *part, schedule) for (U, V, _), part in zip(state, parts, strict=True)])
        report(verbose, "held out", epoch, score[0], most=schedule.epochs)
        if score < best:
            best, best_epoch = score, epoch
        if epoch - best_epoch >= _PATIENCE or all(loss == 0 for *_, loss in state):
            break
    return ways[chosen], best_epoch, best[0]


def _mean(scores: list[tuple[float, float]]) -> tuple[float, float]:
    error, loss = np.mean(scores, axis=0).tolist()
    return error, loss


def _maps(start: tuple[Array, Array | None]) -> Maps:
    return _tensor(start[0]), None if start[1] is None else _tensor(start[1])


def _tensor(array: Array) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))
