"""What a loss pays attention to: the weight of a pair against its similarity, and the weights of one batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nearer._validation import as_labels, as_matrix
from nearer.exceptions import ParameterError
from nearer.losses import (
    BinomialDevianceLoss,
    ContrastiveLoss,
    GeneralizedLiftedLoss,
    PairLoss,
    RAWLoss,
    TripletLoss,
)
from nearer.pairwise._shared import normalize_rows
from nearer.relations import ClassLabels
from nearer.reports._style import MUTED, TEN, house_style, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def pair_weights(
    loss: PairLoss,
    similarity: Tensor,
    *,
    positives: Sequence[float] = (0.5, 0.7),
    negatives: Sequence[float] = (0.1, 0.3, 0.5),
    side: str = "negative",
) -> Tensor:
    """|weight| of one more pair of an anchor at each `similarity` (m,), beside fixed other pairs.

    >>> s = torch.tensor([0.2, 0.8])
    >>> pair_weights(ContrastiveLoss(threshold=0.5, reduction="sum"), s)
    tensor([0., 1.])
    """
    if side not in ("positive", "negative"):
        raise ParameterError(f"`side` must be 'positive' or 'negative', got {side!r}.")
    rows = torch.cat(
        [
            similarity[:, None],
            torch.tensor([*positives, *negatives], dtype=similarity.dtype).expand(len(similarity), -1),
        ],
        dim=1,
    )
    own = 0 if side == "positive" else 1
    labels = torch.tensor([own] + [0] * len(positives) + [1] * len(negatives))
    anchors = torch.zeros(len(similarity), dtype=torch.int64)
    return loss.weights(rows, ClassLabels(anchors, labels))[:, 0].abs()


def _usual() -> dict[str, PairLoss]:
    """The losses of the paper's figure, with RAW beside them; sums, so that nothing depends on the batch."""
    return {
        "contrastive": ContrastiveLoss(threshold=0.5, reduction="sum"),
        "triplet, margin 0.1": TripletLoss(margin=0.1, reduction="sum"),
        "generalised lifted": GeneralizedLiftedLoss(margin=1.0, reduction="sum"),
        "binomial deviance": BinomialDevianceLoss(reduction="sum"),
        "RAW": RAWLoss(reduction="sum"),
    }


def weight_curves(
    losses: Mapping[str, PairLoss] | None = None,
    *,
    positives: Sequence[float] = (0.5, 0.7),
    negatives: Sequence[float] = (0.1, 0.3, 0.5),
) -> Figure:
    """Weight against similarity, one line per loss, for a positive pair (left) and a negative pair (right).

    The anchor's other pairs stay at the given similarities, marked below the curves. Each curve is divided by its
    greatest value: the shapes are what differs. By default Figure 1 of the pair-weighting paper, and RAW.

    >>> len(weight_curves().axes)
    2

    Args:
        losses: losses by name; those of the paper if None.
        positives: similarities of the other positives.
        negatives: similarities of the other negatives.
    """
    chosen = _usual() if losses is None else dict(losses)
    if not chosen:
        raise ParameterError("`losses` must name at least one loss.")
    s = torch.linspace(-1, 1, 801, dtype=torch.float64)
    with house_style():
        figure = new_figure(10.0, 4.0)
        left, right = figure.subplots(1, 2, sharey=True)
        for axis, side in ((left, "positive"), (right, "negative")):
            for number, (name, loss) in enumerate(chosen.items()):
                weight = pair_weights(loss.double(), s, positives=positives, negatives=negatives, side=side)
                _draw(axis, s, weight, name, number, last=number == len(chosen) - 1)
            for others, marker, height in ((positives, "^", -0.05), (negatives, "v", -0.09)):
                label = "other positives" if marker == "^" else "other negatives"
                axis.plot(others, [height] * len(others), marker, color=MUTED, markersize=5, label=label)
            axis.set_title(f"a {side} pair", loc="left")
            axis.set_xlabel("similarity of the pair")
            axis.set_ylim(-0.12, 1.06)
        left.set_ylabel("weight, relative to its maximum")
        handles, names = left.get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=4, frameon=False)
    return figure


def _draw(axis: Axes, s: Tensor, weight: Tensor, name: str, number: int, *, last: bool) -> None:
    top = float(weight.max())
    scaled = weight / top if top > 0 else weight
    # The last loss is the one compared with the others: a heavier line.
    axis.plot(s.numpy(), scaled.numpy(), color=TEN[number % len(TEN)], linewidth=2.6 if last else 1.6, label=name)


def weight_matrix(loss: PairLoss, embeddings: Any, labels: Any, *, title: str = "") -> Figure:
    """The weight of every pair of one batch, sorted by class: red pushes apart, blue pulls together.

    The colour is the square root of the weight, signed, so that small weights can be seen beside large ones.
    For a batch of a few hundred at most: the picture is of all n × n pairs.

    >>> from nearer.losses import RAWLoss
    >>> len(weight_matrix(RAWLoss(), [[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]], [0, 0, 1]).axes) >= 1
    True

    Args:
        loss: a pair loss.
        embeddings: the batch, (n, d).
        labels: classes (n,).
        title: of the figure.
    """
    z = normalize_rows(as_matrix(embeddings, "embeddings").detach().double())[0]
    relation = ClassLabels(as_labels(labels, "labels", n=len(z)))
    if len(z) > 1000:
        raise ParameterError(f"`embeddings` must have at most 1000 rows to be drawn, got {len(z)}. Pass a sample.")
    order = relation.queries.argsort(stable=True)
    weight = loss.double().weights(z[order] @ z[order].T, relation.queries[order])
    shown = weight.sign() * weight.abs().sqrt()
    limit = float(shown.abs().max()) or 1.0
    edges = relation.queries[order].diff().nonzero()[:, 0] + 0.5
    with house_style():
        figure = new_figure(6.0, 5.2)
        axis = figure.subplots()
        image = axis.imshow(shown.numpy(), cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest")
        for edge in edges.tolist() if len(edges) <= 40 else []:
            axis.axhline(edge, color="0.6", linewidth=0.4)
            axis.axvline(edge, color="0.6", linewidth=0.4)
        axis.grid(visible=False)
        axis.set_xlabel("item, sorted by class")
        axis.set_ylabel("anchor")
        active = float((weight != 0).double().mean())
        name = title or type(loss).__name__
        axis.set_title(f"{name}: {100 * active:.1f} % of the pairs have a weight", loc="left")
        bar = figure.colorbar(image, ax=axis, shrink=0.85)
        bar.set_ticks([-limit, 0, limit], labels=["pull", "0", "push"])
    return figure
