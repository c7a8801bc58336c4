"""One way to run L-BFGS and one way to say that an iterative method stopped before it converged."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from scipy import optimize

from nearer.estimators._matrices import Array
from nearer.exceptions import StoppedEarlyWarning

Follow = Callable[[str, int, int, float], None]
"""Called with the name of the method, the iteration, the most iterations there can be, and the value."""

_following: ContextVar[Follow | None] = ContextVar("following", default=None)


@contextmanager
def follow_iterations(follow: Follow | None) -> Iterator[None]:
    """Hear of every iteration of the learners that are fitted inside, whatever their `verbose` is.

    >>> heard = []
    >>> with follow_iterations(lambda *told: heard.append(told)):
    ...     report(0, "NCA", 3, 0.25, most=50)
    >>> heard
    [('NCA', 3, 50, 0.25)]
    """
    token = _following.set(follow)
    try:
        yield
    finally:
        _following.reset(token)


def warn_if_stopped_early(learner: Any, reason: str = "") -> None:
    """Tell the user where a learner stopped without meeting its tolerance, and after how many iterations."""
    if learner.converged_:
        return
    # SERAPH has no tolerance to raise.
    settings = "`max_iter` or `tol`" if hasattr(learner, "tol") else "`max_iter`"
    warnings.warn(
        f"{type(learner).__name__} stopped before it converged, after {learner.n_iter_} iterations{reason}. "
        f"Raise {settings}, or standardise the features.",
        StoppedEarlyWarning,
        stacklevel=4,
    )


def report(verbose: int, name: str, iteration: int, value: float, *, most: int) -> None:
    """Print one line of progress when `verbose` is on, and tell who follows; `most` is the limit of iterations.

    >>> report(1, "NCA", 3, 0.25, most=50)
    [NCA] iteration 3: 0.25
    """
    if verbose:
        print(f"[{name}] iteration {iteration}: {value:.6g}")
    follow = _following.get()
    if follow is not None:
        follow(name, iteration, most, value)


def minimize(
    loss_and_gradient: Callable[[Array], tuple[float, Array]],
    start: Array,
    *,
    max_iter: int,
    tol: float,
    verbose: int = 0,
    name: str = "L-BFGS",
    solved: Callable[[Array, float, Array], bool] | None = None,
    bounds: optimize.Bounds | None = None,
) -> tuple[Array, float, int, bool]:
    """Minimise from `start` (any shape) by L-BFGS, within `bounds` if there are any: the point, its value, the
    iterations, and whether it converged.

    Converged means that an iteration lowered the value by less than `tol` of itself, or that the largest entry
    of the gradient fell below `tol`, or that `solved`, asked after every iteration with the point, its value and
    its gradient, said so.

    >>> point, value, _, converged = minimize(
    ...     lambda x: (float((x**2).sum()), 2 * x), np.ones(2), max_iter=9, tol=1e-9)
    >>> bool(np.abs(point).max() < 1e-6), converged
    (True, True)
    """
    count = 0
    certified = False
    latest: tuple[Array, float, Array] = (start, np.inf, start)

    def flat(x: Array) -> tuple[float, Array]:
        nonlocal latest
        value, gradient = loss_and_gradient(x.reshape(start.shape))
        latest = x.copy().reshape(start.shape), value, gradient
        return value, np.asarray(gradient, dtype=np.float64).ravel()

    def step(x: Array) -> None:
        nonlocal count, certified
        count += 1
        report(verbose, name, count, latest[1], most=max_iter)
        if solved is not None:
            if not np.array_equal(x, latest[0].ravel()):
                flat(x)
            certified = solved(*latest)
            if certified:
                raise StopIteration

    result = optimize.minimize(
        flat,
        np.asarray(start, dtype=np.float64).ravel(),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        callback=step,
        options={"maxiter": max_iter, "ftol": tol, "gtol": tol, "maxfun": 20 * max_iter + 20},
    )
    # Status 2 is a line search that found nothing lower: at a kink of a hinge that is where descent ends.
    converged = certified or result.status in (0, 2)
    return result.x.reshape(start.shape), float(result.fun), max(int(result.nit), 1), converged
