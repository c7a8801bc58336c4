"""A fitted estimator as a module that a model can keep: saved without pickle, run without scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from nearer.estimators import HRAML, AsymmetricKNN, ClassProbabilities, KernelLearner, WithinClass
from nearer.geometry import MLP, Chain, Mahalanobis, TwoEncoders, UnitLength
from nearer.geometry._shared import KernelMap, SideBySide, SignedRoot, Standardize


def as_module(learner: Any) -> nn.Module:
    """The map of a fitted learner: linear, of a kernel, of networks, or two maps for queries and database.

    >>> from nearer.estimators import Euclidean
    >>> as_module(Euclidean().fit([[1.0], [2.0]])).factor
    Parameter containing:
    tensor([[1.]], requires_grad=True)
    """
    if isinstance(learner, KernelLearner):
        # k(x) @ map_ are the coordinates in which the inner learner is linear.
        factor = learner.map_ @ learner.learner_.components_.T
        settings = {"kernel": learner.kernel, "gamma": float(learner.gamma_), "degree": learner.degree}
        return KernelMap.from_parts(learner.landmarks_, factor, **settings)
    if isinstance(learner, ClassProbabilities):
        return learner.map_
    if isinstance(learner, HRAML):
        return Chain(_scaled(learner.mean_, learner.scale_), SideBySide(*map(_perceptron, learner.encoders_)))
    if isinstance(learner, WithinClass):
        form = learner.form_
        parts: list[nn.Module] = [SignedRoot()] if form.root else []
        if not form.is_raw or learner._n_features_out < learner.n_features_in_:
            parts += [_scaled(learner.mean_, None), _linear(learner.components_)]
        if form.unit:
            parts.append(UnitLength())
        return Chain(*parts) if parts else _linear(learner.components_)
    if isinstance(learner, AsymmetricKNN):
        sides = (
            (learner.query_mean_, learner.query_components_),
            (learner.database_mean_, learner.database_components_),
        )
        return TwoEncoders(*(Chain(_scaled(mean, None), _linear(components)) for mean, components in sides))
    return _linear(learner.components_)


def _linear(components: Any) -> Mahalanobis:
    return Mahalanobis.from_factor(np.ascontiguousarray(components.T, dtype=np.float32))


def _scaled(mean: Any, scale: Any) -> Standardize:
    part = Standardize(len(mean))
    part.mean = torch.as_tensor(mean, dtype=torch.float32)
    if scale is not None:
        part.scale = torch.as_tensor(scale, dtype=torch.float32)
    return part


def _perceptron(network: Any) -> MLP:
    """An alignment network without its dropout, which is silent once it has learned."""
    linear = [layer for layer in network.layers if isinstance(layer, nn.Linear)]
    widths = [layer.out_features for layer in linear]
    bounded = isinstance(network.layers[-1], nn.Tanh)
    made = MLP(linear[0].in_features, widths[-1], hidden=widths[:-1], activation="tanh", bounded=bounded)
    for mine, theirs in zip(made.layers, linear, strict=True):
        mine.load_state_dict(theirs.state_dict())
    return made
