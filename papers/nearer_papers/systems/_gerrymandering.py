"""Neighbourhood gerrymandering: one metric for both sides, trained for the k-NN vote itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, Self

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import Tensor

from nearer._checks import check_choice, check_number
from nearer.estimators._learner import MetricLearner
from nearer.estimators._starts import Init, start_components
from nearer.estimators.neighbors._neighborhood_fitting import check_settings, fit_maps, scale_to_margin
from nearer.estimators.neighbors._neighborhood_training import (
    RENEW,
    BothSides,
    CandidateLists,
    VotePlan,
    batches,
    choose_pairs,
    find_candidates,
    learn_maps,
)
from nearer.losses.pairs._neighborhood import Inference

__all__ = ["GerrymanderingMetric", "learn_matrix"]


def learn_matrix(
    U: Tensor, V: Tensor | None, rows: BothSides, schedule: VotePlan, generator: torch.Generator
) -> Iterator[tuple[Tensor, Tensor, float]]:
    """The full-matrix form of the reference work: `W ← Π((1 − ηρ)W − η δW)`, from `W = UUᵀ`; V must be None.

    `δW = mean_i [Σ_{j∈h*} − Σ_{j∈ĥ}] (x_i − x_j)(x_i − x_j)ᵀ`, Π clips negative eigenvalues. `δW` is scaled to the
    size of W, because its own size depends on the units of the features; η is `rate·10/√t`.
    """
    W = U @ U.T
    U = _project(W)[1]
    n = len(rows.codes)
    candidates: CandidateLists | None = None
    t = 0
    for epoch in range(schedule.epochs):
        if candidates is None or epoch % RENEW == 0:
            candidates = find_candidates(rows.queries @ U, rows.database @ U, rows.codes, schedule.k)
        total, count = 0.0, 0
        for batch in batches(n, generator):
            t += 1
            left = rows.queries[batch] @ U
            pairs = choose_pairs(left, U, rows, candidates, batch, schedule)
            apart = rows.queries[batch][pairs.rows] - rows.database[pairs.items]
            slope = (apart * pairs.weights[:, None]).T @ apart / len(batch)
            total += float(pairs.task_loss.sum()) + len(batch) * float((slope * W).sum())
            count += len(batch)
            size = float(slope.norm())
            eta = 10 * schedule.rate / t**0.5
            W = (1 - eta * schedule.regularization) * W
            if size > 0:
                W = W - eta * float(W.norm()) / size * slope
            W, U = _project(W)
        yield U.clone(), U.clone(), total / count


def _project(W: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest matrix without negative eigenvalues, and a factor of it."""
    values, vectors = torch.linalg.eigh((W + W.T) / 2)
    values = values.clamp(min=0)
    return (vectors * values) @ vectors.T, vectors * values.sqrt()


class GerrymanderingMetric(MetricLearner):
    """The Mahalanobis metric under which the best right neighbourhood beats every wrong one.

    Minimises the mean of `NeighborhoodLoss` (exact inference, leave-one-out) plus
    `regularization·‖W‖²/‖W_start‖²`. `margin` is the task loss in units of the typical squared distance to the k-th
    neighbour of the own class at the start: the larger, the more rows matter. A share `validation` of the rows is
    held out to find the number of epochs (at most `max_iter`), then all rows are fitted for as long. `n_iter_`
    says how long, `loss_` is the mean loss of the last epoch (NaN if the start was best), `validation_error_` the
    error of the held-out votes (NaN if none were). `solver` "factor" is Adam on A; "matrix" is projected
    sub-gradient descent on W as in the reference. `task_loss` (c, c), in the order of `classes_`, says what it
    costs to vote for the class of the column, 1 where it is wrong by default; `inference` "greedy" is the pass of
    the reference, which is not exact from three classes on. k is cut to n − 1.

    Reference: Trivedi, McAllester, Shakhnarovich (2014).

    >>> X = np.array([[0.0, 0], [0, 9], [1, 1], [1, 8], [0, 5], [1, 4]])
    >>> M = GerrymanderingMetric(n_neighbors=1, random_state=0).fit(X, [0, 0, 1, 1, 0, 1]).mahalanobis_matrix()
    >>> bool(M[0, 0] > 10 * M[1, 1])
    True

    Args:
        n_components: dimensions to keep; None keeps all columns.
        n_neighbors: how many neighbors of a row count.
        margin: the task loss, in units of the typical squared distance to the k-th neighbor of the own class.
        regularization: strength of the penalty on the maps.
        task_loss: what a wrong vote costs: 1, or a matrix of costs (c, c).
        inference: "exact" or "greedy" choice of neighbor sets.
        init: where to start: "auto", "identity", "pca", "lda" or a matrix.
        solver: which algorithm; the class text says what each is.
        max_iter: the most iterations; a warning says when they did not suffice.
        lr: learning rate.
        validation: share of the rows held out to choose the best epoch.
        random_state: seed or generator for everything that is drawn; None takes numpy's own.
        verbose: 1 prints the iterations.
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_neighbors: int = 3,
        margin: float = 3.0,
        regularization: float = 1e-2,
        task_loss: Any = None,
        inference: Inference = "exact",
        init: Init = "auto",
        solver: Literal["factor", "matrix"] = "factor",
        max_iter: int = 30,
        lr: float = 0.01,
        validation: float = 0.2,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.margin = margin
        self.regularization = regularization
        self.task_loss = task_loss
        self.inference = inference
        self.init = init
        self.solver = solver
        self.max_iter = max_iter
        self.lr = lr
        self.validation = validation
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from rows X (n, p) and their classes y (n,), of any type. One class leaves the start as it is."""
        X, codes = self._check_labeled(X, y)
        d = self._check_targets(X.shape[1])
        settings = check_settings(self, len(codes), len(self.classes_))
        solver = check_choice(self.solver, "solver", ["factor", "matrix"])
        rng = check_random_state(self.random_state)
        rows = np.asarray(X - X.mean(axis=0), dtype=np.float64)
        margin = check_number(self.margin, "margin", above=0)

        def start(chosen: Any) -> tuple[Any, None]:
            A = start_components(self.init, rows[chosen], codes[chosen], d, rng)
            mapped = rows[chosen] @ A.T
            return A.T * scale_to_margin(mapped, mapped, codes[chosen], settings.k, margin, rng), None

        fitted = fit_maps(
            learn_maps if solver == "factor" else learn_matrix,
            [start],
            (rows, rows),
            codes,
            settings,
            validation=check_number(self.validation, "validation", minimum=0, maximum=0.9),
            rng=rng,
            verbose=self.verbose,
        )
        self.n_iter_, self.loss_, self.validation_error_ = fitted.epochs, fitted.loss, fitted.held_out_error
        components = fitted.queries.T
        if len(components) > d:
            # The matrix form always gives p rows: the largest d are the nearest matrix of that rank.
            components = components[np.argsort(-np.square(components).sum(axis=1), kind="stable")[:d]]
        self.components_ = components.astype(X.dtype, copy=False)
        return self
