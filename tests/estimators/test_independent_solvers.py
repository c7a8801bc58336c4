"""Every iterative learner against a solver that shares no line with it, on problems small enough for one.

The objectives are written down here again, from the papers, as functions of M in float64 torch; scipy minimises
them (BFGS in a factor of M, SLSQP where there are constraints). A learner must come as near to that optimum as it
says.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from scipy import optimize
from sklearn.datasets import load_wine
from torch import Tensor
from torch.nn.functional import softplus

from nearer import estimators as E
from nearer.estimators.linear._triplet_svm import triplet_svm
from nearer.estimators.partial._apllr import near_prior
from nearer.estimators.relation._raml_svr import svr_by_features, svr_by_kernel
from nearer.exceptions import StoppedEarlyWarning
from nearer_papers.systems import DMLEig
from nearer_papers.systems._doublet_svm import doublet_svm

Array = np.ndarray
P = 3


class Found(NamedTuple):
    """What the learner reached, what the other solver reached (lower is better), and how far apart they may be."""

    ours: float
    other: float
    within: float
    learner: Any = None


def rows(n: int = 36, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.RandomState(seed)
    y = np.arange(n) % 3
    X = rng.standard_normal((n, P)) * [1.0, 2.0, 0.5]
    X[:, 0] += 1.2 * y
    return X, y


def pairs_of(y: Array, m: int, seed: int = 1) -> tuple[Array, Array]:
    rng = np.random.RandomState(seed)
    both = np.array(list(itertools.combinations(range(len(y)), 2)))
    both = both[rng.permutation(len(both))[:m]]
    return both, y[both[:, 0]] == y[both[:, 1]]


def squares(M: Tensor, delta: Tensor) -> Tensor:
    return torch.einsum("mi,ij,mj->m", delta, M, delta)


def as_tensor(value: Any) -> Tensor:
    return torch.as_tensor(np.asarray(value, dtype=np.float64))


def least(value: Callable[[Tensor, Tensor], Tensor], *, extra: int = 0, starts: int = 3, p: int = P) -> float:
    """The smallest `value(M, others)` over M = AᵀA and `extra` free numbers, by BFGS from several starts."""
    rng = np.random.RandomState(7)

    def flat(x: Array) -> tuple[float, Array]:
        point = torch.tensor(x, requires_grad=True)
        A = point[: p * p].reshape(p, p)
        found = value(A.T @ A, point[p * p :])
        (slope,) = torch.autograd.grad(found, point)
        return float(found.detach()), slope.numpy()

    first = [np.eye(p)] + [np.eye(p) + 0.3 * rng.standard_normal((p, p)) for _ in range(starts - 1)]
    results = [
        optimize.minimize(flat, np.append(A, np.ones(extra)), jac=True, method="BFGS", options={"maxiter": 2000})
        for A in first
    ]
    return min(float(one.fun) for one in results)


def value_at(value: Callable[[Tensor, Tensor], Tensor], M: Array, *others: float) -> float:
    return float(value(as_tensor(M), as_tensor(others)))


def differences(X: Array, pairs: Array) -> Array:
    return X[pairs[:, 0]] - X[pairs[:, 1]]


def itml(gamma: float) -> Found:
    X, y = rows()
    pairs, similar = pairs_of(y, 80)
    learner = E.ITML(gamma=gamma, bounds=(1.0, 6.0), blend=0.0).fit_pairs(X, pairs, similar)
    delta, near = as_tensor(differences(X, pairs)), torch.as_tensor(similar)
    bound = as_tensor(np.where(similar, 1.0, 6.0))

    def value(M: Tensor, _: Tensor) -> Tensor:
        ratio = squares(M, delta) / bound
        broken = torch.where(near, ratio > 1, ratio < 1)
        return M.trace() - torch.logdet(M) - P + gamma * ((ratio - ratio.log() - 1) * broken).sum()

    ours = value_at(value, learner.mahalanobis_matrix())
    assert learner.objective_ == pytest.approx(ours, rel=1e-6)
    return Found(ours, least(value), 2e-3, learner)


def ldml() -> Found:
    X, y = rows()
    pairs, similar = pairs_of(y, 120)
    learner = E.LDML(ridge=1e-2, blend=0.0).fit_pairs(X, pairs, similar)
    unit = float(np.square(differences(X, pairs)).sum(axis=1).mean())
    delta, near = as_tensor(differences(X, pairs) / unit**0.5), torch.as_tensor(similar)

    def value(M: Tensor, others: Tensor) -> Tensor:
        logit = others[0] - squares(M, delta)
        likely = (softplus(-logit[near]).mean() + softplus(logit[~near]).mean()) / 2
        return likely + 1e-2 * M.trace()

    return Found(
        value_at(value, learner.mahalanobis_matrix() * unit, learner.bias_), least(value, extra=1), 1e-4, learner
    )


def of_fixed_total(learner: Any, gain: Callable[[Array], float], within: float, *, corners: bool) -> Found:
    """Learners that maximise over dissimilar pairs while `Σ vᵀMv` of the similar ones is 1; SLSQP does it again."""
    X, y = rows()
    pairs, similar = pairs_of(y, 120)
    learner.fit_pairs(X, pairs, similar)
    S = differences(X, pairs[similar]).T @ differences(X, pairs[similar])
    delta = differences(X, pairs[~similar])
    M = learner.mahalanobis_matrix()
    ours = gain(np.einsum("mi,ij,mj->m", delta, M / np.sum(S * M), delta))

    def matrix(x: Array) -> Array:
        A = x[: P * P].reshape(P, P)
        result: Array = A.T @ A
        return result

    def far(x: Array) -> Array:
        result: Array = np.einsum("mi,ij,mj->m", delta, matrix(x), delta)
        return result

    total: dict[str, Any] = {"type": "eq", "fun": lambda x: np.sum(S * matrix(x)) - 1}
    best = 0.0
    for seed in range(4):
        A = np.linalg.inv(np.linalg.cholesky(S)).ravel() / P**0.5
        A = A * (1 + 0.2 * np.random.RandomState(seed).standard_normal(A.size))
        if corners:  # max t, every distance at least t; in units in which t is about 1
            start = np.append(A, 1.0)
            constraints = [total, {"type": "ineq", "fun": lambda x: far(x) / ours - x[-1]}]
            found = optimize.minimize(
                lambda x: -x[-1], start, method="SLSQP", constraints=constraints, options={"maxiter": 1000}
            )
        else:
            found = optimize.minimize(
                lambda x: -gain(far(x)) / ours, A, method="SLSQP", constraints=[total], options={"maxiter": 1000}
            )
        feasible = matrix(found.x) / np.sum(S * matrix(found.x))
        best = max(best, gain(np.einsum("mi,ij,mj->m", delta, feasible, delta)))
    return Found(-ours, -best, within, learner)


def mmc() -> Found:
    return of_fixed_total(
        E.MMC(ridge=1e-12, blend=0.0), lambda far: float(np.sqrt(far).mean()), 1e-3, corners=False
    )


def dml_eig() -> Found:
    return of_fixed_total(DMLEig(ridge=1e-12, blend=0.0), lambda far: float(far.min()), 2.1e-2, corners=True)


def margin_program(features: Array, signs: Array, *, C: float, bias: bool) -> float:
    """The least `½‖w‖² + CΣξ`, `s(w·f + b) ≥ 1 − ξ`, ξ ≥ 0, as a quadratic program for SLSQP."""
    m, q = features.shape
    parts = [signs[:, None] * features, signs[:, None] if bias else np.zeros((m, 1)), np.eye(m)]
    table = np.column_stack(parts)

    def value(x: Array) -> tuple[float, Array]:
        return float(x[:q] @ x[:q] / 2 + C * x[q + 1 :].sum()), np.concatenate([x[:q], [0.0], np.full(m, C)])

    found = optimize.minimize(
        value,
        np.concatenate([np.zeros(q + 1), np.ones(m)]),
        jac=True,
        method="SLSQP",
        bounds=[(None, None)] * (q + 1) + [(0, None)] * m,
        constraints=[{"type": "ineq", "fun": lambda x: table @ x - 1, "jac": lambda x: table}],
        options={"maxiter": 1000, "ftol": 1e-12},
    )
    assert found.success
    return float(found.fun)


def outer(delta: Array) -> Array:
    return np.einsum("mi,mj->mij", delta, delta).reshape(len(delta), -1)


def doublets() -> Found:
    X, y = rows()
    pairs, similar = pairs_of(y, 50)
    delta = differences(X, pairs) / 3
    M, b = doublet_svm(delta, similar)
    signs = np.where(similar, -1.0, 1.0)
    hinge = np.maximum(1 - signs * (outer(delta) @ M.ravel() + b), 0)
    return Found(np.sum(M**2) / 2 + hinge.sum(), margin_program(outer(delta), signs, C=1.0, bias=True), 1e-3)


def triplets() -> Found:
    X, y = rows()
    rng = np.random.RandomState(0)
    others = [np.flatnonzero((y == y[i]) & (np.arange(36) != i)) for i in range(36)]
    chosen = np.array([[i, rng.choice(others[i]), rng.choice(np.flatnonzero(y != y[i]))] for i in range(36)])
    near, far = differences(X, chosen[:, :2]) / 3, differences(X, chosen[:, [0, 2]]) / 3
    M, _, converged = triplet_svm(near, far)
    assert converged
    features = outer(far) - outer(near)
    hinge = np.maximum(1 - features @ M.ravel(), 0)
    return Found(np.sum(M**2) / 2 + hinge.sum(), margin_program(features, np.ones(36), C=1.0, bias=False), 1e-3)


def lsml() -> Found:
    X, _ = rows()
    rng = np.random.RandomState(3)
    quadruplets = rng.randint(0, 36, (80, 4))
    quadruplets = quadruplets[(quadruplets[:, 0] != quadruplets[:, 1]) & (quadruplets[:, 2] != quadruplets[:, 3])]
    learner = E.LSML(prior_weight=0.05, blend=0.0).fit_quadruplets(X, quadruplets)
    both = np.concatenate([differences(X, quadruplets[:, :2]), differences(X, quadruplets[:, 2:])])
    unit = float(np.square(both).sum(axis=1).mean())
    near, far = (as_tensor(one) for one in np.split(both / unit**0.5, 2))

    def value(M: Tensor, _: Tensor) -> Tensor:
        excess = (squares(M, near).sqrt() - squares(M, far).sqrt()).clamp_min(0)
        return excess.square().mean() + 0.05 * (M.trace() - torch.logdet(M))

    return Found(value_at(value, learner.mahalanobis_matrix() * unit), least(value), 1e-3, learner)


def lmnn() -> Found:
    X, y = rows(30)
    learner = E.LMNN(n_neighbors=2, tol=1e-4).fit(X, y)
    gaps = np.square(X[:, None] - X[None]).sum(axis=2)
    np.fill_diagonal(gaps, np.inf)
    targets = [(i, int(j)) for i in range(30) for j in np.argsort(np.where(y == y[i], gaps[i], np.inf))[:2]]
    target = np.array(targets)
    triples = np.array([(i, j, l) for i, j in targets for l in np.flatnonzero(y != y[i])])
    pulled = as_tensor(differences(X, target))
    near, far = as_tensor(differences(X, triples[:, :2])), as_tensor(differences(X, triples[:, [0, 2]]))

    def smoothed(sharp: float) -> Callable[[Tensor, Tensor], Tensor]:
        def value(M: Tensor, _: Tensor) -> Tensor:
            gap = 1 + squares(M, near) - squares(M, far)
            return squares(M, pulled).sum() / 2 + (softplus(gap, beta=sharp, threshold=1e9)).sum() / 2

        return value

    def exact(M: Tensor, _: Tensor) -> Tensor:
        gap = 1 + squares(M, near) - squares(M, far)
        return (squares(M, pulled).sum() + gap.clamp_min(0).sum()) / 2

    ours = value_at(exact, learner.mahalanobis_matrix())
    assert learner.objective_ == pytest.approx(ours, rel=1e-6)
    # A smoothed hinge is above the hinge by at most log 2 / sharp for every triple.
    other = least(smoothed(200.0), starts=1) - np.log(2) / 200 * len(triples) / 2
    return Found(ours, other, 2e-2, learner)


def below(value: Callable[[Tensor], Tensor], start: Array) -> float:
    """How much lower another descent gets from `start`: objectives with several valleys have no one optimum."""

    def flat(x: Array) -> tuple[float, Array]:
        A = torch.tensor(x.reshape(P, P), requires_grad=True)
        found = value(A)
        (slope,) = torch.autograd.grad(found, A)
        return float(found.detach()), slope.numpy().ravel()

    found = optimize.minimize(flat, start.astype(np.float64).ravel(), jac=True, method="BFGS")
    return float(found.fun)


def soft_neighbors(A: Tensor, X: Tensor) -> Tensor:
    Z = X @ A.T
    logits = -(Z[:, None] - Z[None]).square().sum(dim=2)
    return torch.softmax(logits.masked_fill(torch.eye(len(X), dtype=torch.bool), -torch.inf), dim=1)


def nca() -> Found:
    X, y = rows()
    # Of 36 rows one more right answer is a step of a staircase: at the default tolerance a landing is an end.
    learner = E.NCA(max_iter=300, tol=1e-7).fit(X, y)
    same = torch.as_tensor(y[:, None] == y[None])

    def value(A: Tensor) -> Tensor:
        return -(soft_neighbors(A, as_tensor(X)) * same).sum() / len(X)

    ours = float(value(as_tensor(learner.components_)))
    assert -learner.objective_ == pytest.approx(ours, rel=1e-4)
    return Found(ours, below(value, learner.components_), 1e-2, learner)


def mlkr() -> Found:
    X, _ = rows()
    y = np.sin(X[:, 0]) + 0.3 * X[:, 1]
    learner = E.MLKR(ridge=1e-2, max_iter=300).fit(X, y)
    target = as_tensor((y - y.mean()) / y.std())

    def value(A: Tensor) -> Tensor:
        error = (soft_neighbors(A, as_tensor(X)) @ target - target).square().mean()
        # In units of the mean square of the entries of the first map, the identity.
        return error + 1e-2 * (A - torch.eye(P)).square().mean() / (1 / P)

    ours = float(value(as_tensor(learner.components_)))
    assert learner.objective_ == pytest.approx(ours, rel=1e-3)
    return Found(ours, below(value, learner.components_), 1e-2, learner)


def seraph(mu: float) -> Found:
    X, y = rows()
    known = np.where(np.arange(36) < 24, y, -1)
    learner = E.SERAPH(mu=mu, trace_weight=0.5, blend=0.0, random_state=0).fit(X, known)
    pairs = np.array(list(itertools.combinations(range(36), 2)))
    labeled = (known[pairs] >= 0).all(axis=1)
    delta = differences(X, pairs)
    unit = float(np.median(np.square(np.concatenate([delta[labeled], delta[~labeled]])).sum(axis=1)))
    fixed, free = as_tensor(delta[labeled] / unit**0.5), as_tensor(delta[~labeled] / unit**0.5)
    similar = torch.as_tensor(known[pairs[labeled, 0]] == known[pairs[labeled, 1]])
    weight = mu * len(fixed) / len(free)

    def value(M: Tensor, _: Tensor) -> Tensor:
        u, v = 1 - squares(M, fixed), 1 - squares(M, free)
        p = torch.sigmoid(v)
        entropy = p * softplus(-v) + (1 - p) * softplus(v)
        return torch.where(similar, softplus(-u), softplus(u)).sum() + weight * entropy.sum() + 0.5 * M.trace()

    ours = value_at(value, learner.mahalanobis_matrix() * unit)
    assert learner.objective_ == pytest.approx(ours, rel=1e-6)
    return Found(ours, least(value), 1e-3, learner)


def apllr() -> Found:
    rng = np.random.RandomState(0)
    prior, graph = (root @ root.T for root in rng.standard_normal((2, P, P)))
    M = near_prior(prior, graph, 0.7)
    start, edges = as_tensor(np.linalg.inv(prior)), as_tensor(graph)

    def value(M: Tensor, _: Tensor) -> Tensor:
        near = (M @ start).trace() - torch.logdet(M) - torch.logdet(start) - P
        return near + 0.7 * (M @ edges).trace()

    return Found(value_at(value, M), least(value), 1e-6)


def tube(solver: Callable[..., Any], within: float) -> Found:
    X, _ = rows()
    pairs, _ = pairs_of(np.zeros(36), 40)
    delta = differences(X, pairs) / 3
    g = np.abs(differences(X, pairs)[:, 0])
    M, b = solver(delta, g, C=1.0, epsilon=0.1, tol=1e-6)[:2]
    features = outer(delta)
    m, q = features.shape
    excess = np.maximum(np.abs(features @ M.ravel() + b - g) - 0.1, 0)
    table = np.column_stack([features, np.ones(m)])

    def value(x: Array) -> tuple[float, Array]:
        return float(x[:q] @ x[:q] / 2 + x[q + 1 :].sum()), np.concatenate([x[:q], [0.0], np.ones(m)])

    both = np.block([[table, np.eye(m)], [-table, np.eye(m)]])
    found = optimize.minimize(
        value,
        np.concatenate([np.zeros(q + 1), g]),
        jac=True,
        method="SLSQP",
        bounds=[(None, None)] * (q + 1) + [(0, None)] * m,
        constraints=[
            {"type": "ineq", "fun": lambda x: both @ x - np.concatenate([g, -g]) + 0.1, "jac": lambda x: both}
        ],
        options={"maxiter": 1000, "ftol": 1e-12},
    )
    assert found.success
    return Found(np.sum(M**2) / 2 + excess.sum(), float(found.fun), within)


CASES: dict[str, Callable[[], Found]] = {
    "ITML, gamma 1": lambda: itml(1.0),
    "ITML, gamma 10": lambda: itml(10.0),
    "ITML, gamma 100": lambda: itml(100.0),
    "LDML": ldml,
    "MMC": mmc,
    "DMLEig": dml_eig,
    "DoubletSVM": doublets,
    "TripletSVM": triplets,
    "LSML": lsml,
    "LMNN": lmnn,
    "NCA": nca,
    "MLKR": mlkr,
    "SERAPH, mu 0": lambda: seraph(0.0),
    "SERAPH, mu 0.5": lambda: seraph(0.5),
    "SERAPH, mu 2": lambda: seraph(2.0),
    "APLLR": apllr,
    "RAML-SVR, kernel": lambda: tube(svr_by_kernel, 1e-3),
    "RAML-SVR, features": lambda: tube(partial(svr_by_features, max_iter=10**6), 1e-2),
}


@pytest.mark.parametrize("name", CASES)
def test_a_learner_reaches_what_another_solver_reaches(name: str) -> None:
    found = CASES[name]()
    size = max(abs(found.other), 1e-9)
    # Below: the other solver would be the one that stopped early, and the comparison would say nothing.
    assert -0.01 * size <= found.ours - found.other <= found.within * size, found
    if found.learner is not None:
        assert found.learner.converged_
        assert 1 <= found.learner.n_iter_ <= found.learner.max_iter


@pytest.mark.parametrize("learner", [E.ITML(max_iter=2), DMLEig(max_iter=2), E.LDML(max_iter=2)], ids=str)
def test_a_learner_that_was_stopped_says_so(learner: Any) -> None:
    X, y = rows()
    with pytest.warns(StoppedEarlyWarning, match="stopped before it converged, after 2 iterations"):
        learner.fit(X, y)
    assert not learner.converged_
    assert learner.n_iter_ == 2


def test_what_a_stopped_learner_advises_is_a_setting_of_it() -> None:
    """SERAPH has no `tol` to raise."""
    X, y = rows()
    with pytest.warns(
        StoppedEarlyWarning, match="^SERAPH stopped .* Raise `max_iter`, or standardise the features"
    ):
        E.SERAPH(max_iter=1, blend=0.0).fit(X, y)


@pytest.mark.parametrize(("gamma", "optimum"), [(1.0, 30.963), (10.0, 191.81), (100.0, 1660.4)])
def test_itml_on_wine_within_a_thousandth(gamma: float, optimum: float) -> None:
    """Cyclic projections stopped at 32.4, 949 and 55,736 here and called it converged."""
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    learner = E.ITML(gamma=gamma, blend=0.0, random_state=0).fit(X, y)
    assert optimum * 0.9999 <= learner.objective_ <= optimum * 1.001
    assert learner.converged_
