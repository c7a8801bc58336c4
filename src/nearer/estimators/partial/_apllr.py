"""APLLR and APIT: near the metric of the labels, and smooth where propagated affinities are large."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import linalg

from nearer._checks import check_choice, check_int, check_number
from nearer.estimators._matrices import Array, factor_psd, project_psd, symmetric
from nearer.estimators._scatter import label_scatters
from nearer.estimators.linear._itml import ITML
from nearer.estimators.linear._kissme import kissme_matrix
from nearer.estimators.partial._partly_labeled import EdgeList, PartlyLabeledLearner, edge_scatter
from nearer.exceptions import NearerWarning, ParameterError
from nearer.graph import nearest_neighbors, propagate


def affinity_edges(X: Array, codes: Array, *, k: int, gamma: float, clipped: bool = True) -> EdgeList:
    """The edges of the k nearest neighbours with their propagated affinity; negative ones become 0 when clipped.

    >>> affinity_edges(np.array([[0.0], [1.0]]), np.array([0, -1]), k=1, gamma=0.5).weight.round(4)
    array([0.3333, 0.3333])
    """
    near = nearest_neighbors(X, k=k, normalized=False)
    with warnings.catch_warnings():
        # That there are no labels has been said already.
        warnings.simplefilter("ignore", NearerWarning)
        weight = propagate(near, codes, gamma=gamma).edges.numpy().reshape(-1)
    left, right = np.repeat(np.arange(near.n), near.k), near.indices.numpy().reshape(-1)
    return EdgeList(left, right, weight.clip(min=0) if clipped else weight)


def near_prior(prior: Array, graph: Array, strength: float, *, form: str = "logdet") -> Array:
    """`argmin D(M, M₀) + β Tr(MG)`: `M = K(I + βKᵀGK)⁻¹Kᵀ` with `M₀ = KKᵀ` for the LogDet divergence D, (p, p).

    That is `(M₀⁻¹ + βG)⁻¹`, and its limit when M₀ is singular. form="frobenius" is `PSD(M₀ − βG/2)`. A G with
    negative eigenvalues has an answer only for a small β; a larger one is refused.

    >>> near_prior(np.eye(2), np.diag([1.0, 0.0]), 1.0)
    array([[0.5, 0. ],
           [0. , 1. ]])
    """
    check_choice(form, "form", ["logdet", "frobenius"])
    if form == "frobenius":
        return project_psd(prior - strength / 2 * graph)
    K = factor_psd(prior).T
    inner = np.eye(K.shape[1]) + strength * symmetric(K.T @ graph @ K)
    try:
        lower = linalg.cholesky(inner, lower=True)
    except linalg.LinAlgError as error:
        bound = -1 / float(linalg.eigvalsh(symmetric(K.T @ graph @ K))[0])
        raise ParameterError(
            f"`strength` must be below {bound:.3g} for this graph, got {strength}: the objective has no minimum. "
            f"Clip negative affinities, or lower it."
        ) from error
    half = linalg.solve_triangular(lower, K.T, lower=True)
    return symmetric(half.T @ half)


@dataclass(kw_only=True, eq=False, repr=False)
class _NearPrior(PartlyLabeledLearner):
    """What APLLR and APIT share: a prior from the labels, then the graph."""

    n_neighbors: int = 10
    gamma: float = 0.99
    strength: float = 1.0
    form: Literal["logdet", "frobenius"] = "logdet"

    def _prior(self, X: Array, codes: Array, rng: np.random.RandomState) -> Array:
        raise NotImplementedError

    def _learn(self, X: Array, codes: Array, rng: np.random.RandomState) -> Array:
        strength = check_number(self.strength, "strength", minimum=0)
        counts = np.bincount(codes[codes >= 0], minlength=1)
        prior = np.eye(X.shape[1])
        if (counts > 0).sum() > 1 and counts.max() > 1:
            prior = self._prior(X[codes >= 0], codes[codes >= 0], rng)
        elif counts.any():
            warnings.warn(
                f"`y` should hold two classes, one of them with two rows, got {counts[counts > 0].tolist()} rows "
                f"per class: the prior of {type(self).__name__} is the Euclidean distance.",
                NearerWarning,
                stacklevel=4,
            )
        graph = edge_scatter(
            X, affinity_edges(X, codes, k=check_int(self.n_neighbors, "n_neighbors"), gamma=self.gamma)
        )
        # In units in which prior and graph weigh the same, so that `strength` means the same for all data.
        unit = float(np.einsum("ij,ji->", prior, graph)) / X.shape[1]
        return near_prior(prior, graph, strength / unit if unit > 0 else 0.0, form=self.form)


@dataclass(kw_only=True, eq=False, repr=False)
class APLLR(_NearPrior):
    """Affinity propagation with the log-likelihood-ratio prior: LogDet-near to KISSME, smooth on the graph.

    X (n, p) and y (n,) with −1 for unlabelled rows -> (n, d). `M = (M₀⁻¹ + βXᵀ𝓛_WX)⁻¹`, M₀ from KISSME on the
    labelled rows and W the propagated affinities, clipped at 0. `strength` β is relative: 1 weighs both alike, 0
    gives the prior. With fewer labelled rows than features the scatters are singular; `ridge` shrinks them. `blend`
    mixes M with the identity: "auto" takes what agrees best with labels spread over the graph of the rows, 0.0 is
    the published method.

    Reference: Dutta, Sekhar (2018), of which the LogDet form is a reconstruction.

    >>> rng = np.random.default_rng(0)
    >>> X = np.r_[rng.normal(size=(20, 2)), rng.normal(size=(20, 2)) + [6, 0]]
    >>> M = APLLR(n_neighbors=3).fit(X, [0, 0, 0] + [-1] * 17 + [1, 1, 1] + [-1] * 17).mahalanobis_matrix()
    >>> M.shape
    (2, 2)

    Args:
        n_components: dimensions to keep; None keeps all columns.
        n_neighbors: how many neighbors of a row count.
        gamma: probability of going on along an edge of the graph.
        strength: weight of the graph relative to the prior; 0 gives the prior.
        form: "logdet" or "frobenius": what holds the metric near the identity.
        ridge: share of the identity added to a scatter before it is inverted.
        blend: share of the identity in the metric; 0 is the published method, "auto" chooses it without test
            labels.
        random_state: seed or generator for everything that is drawn; None takes numpy's own.

    Attributes:
        components_: A (d, p), the learned map: distances are those of `XAᵀ`.
        blend_: share of the identity in the metric, as given or as chosen.
        classes_: the classes of y, (c,), sorted.
        n_features_in_: columns of the X it was fitted on.
    """

    ridge: float = 1e-2

    def _prior(self, X: Array, codes: Array, rng: np.random.RandomState) -> Array:
        scatters = label_scatters(X, np.unique(codes, return_inverse=True)[1])
        prior = kissme_matrix(scatters, ridge=check_number(self.ridge, "ridge", minimum=0))
        # Labels that separate nothing leave nothing of the prior.
        return prior if np.any(prior) else np.eye(X.shape[1])


@dataclass(kw_only=True, eq=False, repr=False)
class APIT(_NearPrior):
    """Affinity propagation with the information-theoretic prior: LogDet-near to ITML, smooth on the graph.

    X (n, p) and y (n,) with −1 for unlabelled rows -> (n, d). As `APLLR`, `blend` included, with M₀ from ITML on
    the labelled rows, whose `n_iter_` and `converged_` are passed on.

    Reference: Dutta, Sekhar (2018), of which the LogDet form is a reconstruction.

    >>> rng = np.random.default_rng(0)
    >>> X = np.r_[rng.normal(size=(20, 2)), rng.normal(size=(20, 2)) + [6, 0]]
    >>> y = [0] * 5 + [-1] * 15 + [1] * 5 + [-1] * 15
    >>> APIT(random_state=0).fit(X, y).mahalanobis_matrix().shape
    (2, 2)

    Args:
        n_components: dimensions to keep; None keeps all columns.
        n_neighbors: how many neighbors of a row count.
        gamma: probability of going on along an edge of the graph.
        strength: weight of the graph relative to the prior; 0 gives the prior.
        form: "logdet" or "frobenius": what holds the metric near the identity.
        max_iter: the most iterations; a warning says when they did not suffice.
        blend: share of the identity in the metric; 0 is the published method, "auto" chooses it without test
            labels.
        random_state: seed or generator for everything that is drawn; None takes numpy's own.

    Attributes:
        components_: A (d, p), the learned map: distances are those of `XAᵀ`.
        blend_: share of the identity in the metric, as given or as chosen.
        n_iter_: iterations of ITML.
        converged_: whether ITML converged.
        classes_: the classes of y, (c,), sorted.
        n_features_in_: columns of the X it was fitted on.
    """

    max_iter: int = 500

    def _prior(self, X: Array, codes: Array, rng: np.random.RandomState) -> Array:
        learner = ITML(max_iter=self.max_iter, blend=0.0, random_state=rng).fit(X, codes)
        self.n_iter_, self.converged_ = learner.n_iter_, learner.converged_
        return learner.mahalanobis_matrix()

    def _learn(self, X: Array, codes: Array, rng: np.random.RandomState) -> Array:
        self.n_iter_, self.converged_ = 1, True
        return super()._learn(X, codes, rng)
