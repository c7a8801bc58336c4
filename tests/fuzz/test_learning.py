"""Losses, miners, scores, estimators and relations: the number of a plain computation, or an error of ours."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import nearer.estimators
import nearer.evaluation
import nearer.losses
import nearer.mining
import nearer.relations
from nearer.exceptions import NearerError
from random_cases import family, is_finite, labels, matrices, outcome, public, required

CLASSES = 5
# Empty batches of pair losses are point 3 of issue 20; 0 as soon as that is done.
FEWEST = 0
# What a required argument means, whoever asks for it.
MEANING: dict[str, Any] = {
    "classes": lambda d: CLASSES,
    "n_classes": lambda d: CLASSES,
    "dimension": lambda d: d,
    "embedding_dim": lambda d: d,
    "in_features": lambda d: d,
    "size": lambda d: 8,
    "loss": lambda d: nearer.losses.ContrastiveLoss(),
    "first": lambda d: 2,
    "fraction": lambda d: 0.5,
}


def built(kind: type, d: int) -> Any:
    """An object with its required arguments filled in by their meaning, and few iterations."""
    asked = required(kind)
    settings: dict[str, Any] = {name: MEANING[name](d) for name in asked}
    listed = inspect.signature(kind).parameters
    for name, value in {"max_iter": 3, "epochs": 1, "n_landmarks": 5, "networks": 1, "random_state": 0}.items():
        if name in listed:
            settings[name] = value
    if "generator" in listed:
        settings["generator"] = torch.Generator().manual_seed(0)
    return kind(**settings)


def _is_whole(kind: Any) -> bool:
    """Whether a class is a loss itself, and not what others are derived from."""
    try:
        built(kind, 2)(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), torch.tensor([0, 0, 1]))
    except NotImplementedError:
        return False
    except NearerError:
        return True
    return True


def _takes_labels(kind: Any) -> bool:
    return (
        inspect.isclass(kind)
        and issubclass(kind, nn.Module)
        and not inspect.isabstract(kind)
        and set(required(kind)) <= set(MEANING)
        and required(kind.forward) in (["embeddings"], ["embeddings", "labels"])
        and "labels" in inspect.signature(kind.forward).parameters
        and not kind.__name__.startswith("Sharded")  # forms for several processes; tests/pairwise has them
        and _is_whole(kind)
    )


LOSSES = sorted(name for name, kind in public(nearer.losses).items() if _takes_labels(kind))
MINERS = sorted(
    name
    for name, kind in public(nearer.mining).items()
    if inspect.isclass(kind) and hasattr(kind, "prepare") and set(required(kind)) <= set(MEANING)
)
# The pure functions below the miners are nobody's import, but everybody's numbers.
MINING = {
    name: function
    for module in pkgutil.iter_modules(nearer.mining.__path__, "nearer.mining.")
    for name, function in vars(importlib.import_module(module.name)).items()
    if name.startswith("mine_")
}
CHOICES = sorted(
    name
    for name, function in MINING.items()
    if inspect.isfunction(function) and required(function) == ["similarity", "positive", "negative"]
)
LABELED = sorted(
    name
    for name, function in public(nearer.relations).items()
    if inspect.isfunction(function) and required(function)[:1] == ["labels"]
)
SCORES = sorted(name for name, score in public(nearer.evaluation).items() if inspect.isfunction(score))
ESTIMATORS = sorted(
    name
    for name, kind in public(nearer.estimators).items()
    if inspect.isclass(kind) and hasattr(kind, "fit") and not required(kind) and not inspect.isabstract(kind)
)
RELATIONS = sorted(
    name
    for name, kind in public(nearer.relations).items()
    if inspect.isclass(kind) and hasattr(kind, "degrees") and required(kind) in (["labels"], ["values"])
)


def test_the_families_are_found() -> None:
    assert len(LOSSES) > 35
    assert len(MINERS) >= 7
    assert len(CHOICES) >= 3
    assert LABELED == ["kind_of"]
    assert len(SCORES) >= 12
    assert len(ESTIMATORS) > 25
    assert len(RELATIONS) >= 5


@family("losses")
@given(st.data())
def test_losses(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(LOSSES))
    plain = data.draw(st.booleans())
    x = data.draw(matrices(plain=plain, fewest=FEWEST))
    n, d = len(x), np.shape(x)[1] if np.ndim(x) == 2 else 1
    y = data.draw(labels(n, plain=plain))
    loss = built(getattr(nearer.losses, name), d)
    if plain:
        loss = loss.to(torch.as_tensor(x).dtype)
    value = outcome("losses", lambda: loss(x, y))
    if value is None:
        return
    assert value.shape == () or value.shape == (n,), name
    assert is_finite(value.detach()), name
    if plain and hasattr(loss, "dense") and n and "generator" not in inspect.signature(type(loss)).parameters:
        wide = torch.as_tensor(np.asarray(x)).double()
        again = built(getattr(nearer.losses, name), d).double()
        expected = again.dense(wide, torch.as_tensor(np.asarray(y)))
        exact = again(wide, torch.as_tensor(np.asarray(y)))
        same = bool(torch.isclose(exact, expected, rtol=1e-6, atol=1e-8).all())
        assert same or jumps_to(again, wide, y, exact), f"{name}: {exact} where the formula gives {expected}"


def jumps_to(loss: Any, x: torch.Tensor, y: Any, value: torch.Tensor) -> bool:
    """Whether the formula takes this value too when the rows move by their last digits.

    Where a distance equals a margin to the last digit, rounding decides which terms a mean counts. Unit rows are
    rounded too: those of one column are 1 and -1, and only rounding tells them apart.
    """
    random, codes = torch.Generator().manual_seed(0), torch.as_tensor(np.asarray(y))
    moved = [x * (1 + 1e-9 * torch.randn(x.shape, generator=random, dtype=x.dtype)) for _ in range(100)]
    moved += [torch.nn.functional.normalize(x).round(decimals=9)]
    return any(bool(torch.isclose(loss.dense(rows, codes), value, rtol=1e-6, atol=1e-7).all()) for rows in moved)


@family("miners")
@given(st.data())
def test_miners(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(MINERS))
    x = data.draw(matrices(plain=data.draw(st.booleans()), fewest=FEWEST))
    y = data.draw(labels(len(x), plain=data.draw(st.booleans())))
    kind = data.draw(st.sampled_from(["ContrastiveLoss", "BinomialDevianceLoss", "TripletLoss", "RAWLoss"]))

    def mined() -> Any:
        return getattr(nearer.losses, kind)(miner=built(getattr(nearer.mining, name), 3))(x, y)

    value = outcome("miners", mined)
    assert value is None or is_finite(value.detach()), name


@family("choices")
@given(st.data())
def test_functions_that_choose_pairs(data: st.DataObject) -> None:
    """A chosen pair is one that could be chosen."""
    name = data.draw(st.sampled_from(CHOICES))
    q, n = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 7))
    random = torch.Generator().manual_seed(data.draw(st.integers(0, 2**20)))
    # A grid of values, so that there are ties.
    similarity = (
        torch.randint(-3, 4, (q, n), generator=random).to(
            data.draw(st.sampled_from([torch.float32, torch.float64]))
        )
        / 3
    )
    kinds = torch.randint(0, 3, (q, n), generator=random)
    positive, negative = kinds == 0, kinds == 1
    chosen = outcome("choices", lambda: MINING[name](similarity, positive, negative))
    if chosen is not None:
        for picked, allowed in zip(chosen, (positive, negative), strict=True):
            assert not bool((picked.bool() & ~allowed).any()), name


def bounds_of_recall(x: np.ndarray, y: np.ndarray) -> tuple[float, float] | None:
    """The share of rows whose nearest other row has the same label: least and most, as ties may fall."""
    hits = []
    for i in range(len(x)):
        others = [j for j in range(len(x)) if j != i]
        if any(y[j] == y[i] for j in others):
            apart = {j: float(np.square(x[i] - x[j]).sum()) for j in others}
            near = min(apart.values()) * (1 + 1e-5) + 1e-6 * float(np.square(x).max())
            same = [bool(y[j] == y[i]) for j in others if apart[j] <= near]
            hits.append((all(same), any(same)))
    return tuple(np.mean(hits, axis=0).tolist()) if hits else None


@family("scores")
@given(st.data())
def test_scores(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(SCORES))
    plain = data.draw(st.booleans())
    score = getattr(nearer.evaluation, name)
    x = data.draw(matrices(plain=plain))
    y = data.draw(labels(len(x), plain=plain))
    given_names = required(score)
    values = {
        "embeddings": x,
        "labels": y,
        "clusters": data.draw(labels(len(x), plain=plain)),
        "k": data.draw(st.integers(0, 6)),
        "seen": x,
        "unseen": data.draw(matrices(plain=plain)),
        "seen_labels": y,
        "unseen_labels": data.draw(labels(3, plain=plain)),
        "predicted": x,
        "scores": x,
        "targets": y,
        "first": x,
        "second": x,
    }
    if name == "compare" or not set(given_names) <= set(values):
        return
    value = outcome("scores", lambda: score(**{one: values[one] for one in given_names}))
    if isinstance(value, float):
        assert is_finite(value), name
    if name == "recall_at_k" and plain and value is not None:
        wide = np.asarray(x, dtype=np.float64)
        least, most = bounds_of_recall(wide, np.asarray(y)) or (np.nan, np.nan)
        assert least - 1e-9 <= value <= most + 1e-9
    if name in ("nmi", "ami") and plain and value is not None:
        from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score

        judge = normalized_mutual_info_score if name == "nmi" else adjusted_mutual_info_score
        truth, groups = np.asarray(y), np.asarray(values["clusters"])
        if len(np.unique(truth)) > 1 and len(np.unique(groups)) > 1:
            np.testing.assert_allclose(value, judge(truth, groups), atol=1e-9)


@family("estimators")
@given(st.data())
def test_estimators(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(ESTIMATORS))
    plain = data.draw(st.booleans())
    x = data.draw(matrices(plain=plain))
    y = data.draw(labels(len(x), plain=plain))
    estimator = built(getattr(nearer.estimators, name), 3)

    def fitted() -> Any:
        estimator.fit(np.asarray(x) if plain else x, None if y is None else np.asarray(y))
        return getattr(estimator, "transform", getattr(estimator, "predict", None))(x)

    value = outcome("estimators", fitted, allowed=("sklearn",))
    if value is not None and np.asarray(value).dtype.kind == "f":
        assert len(value) == len(x), name
        assert is_finite(np.asarray(value)), name


@family("relations")
@given(st.data())
def test_relations(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(RELATIONS))
    n = data.draw(st.integers(0, 12))
    y = data.draw(labels(n))

    def degrees() -> Any:
        return getattr(nearer.relations, name)(y).degrees()

    value = outcome("relations", degrees)
    if value is not None:
        degree, known = value
        assert degree.shape == known.shape, name
        assert is_finite(degree), name
        assert bool(((degree >= 0) & (degree <= 1 + 1e-6)).all()), name


@family("labeled")
@given(st.data())
def test_functions_of_labels(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(LABELED))
    n = data.draw(st.integers(0, 12))
    y = data.draw(labels(n))
    function = getattr(nearer.relations, name)
    settings = {"n": n} if "n" in required(function) else {}
    outcome("labeled", lambda: function(y, **settings))


def test_an_error_of_ours_is_a_value_error() -> None:
    assert issubclass(NearerError, ValueError)
