"""The tables of the pair-weighting paper on classes that were never seen: `nearer reproduce unified-view`.

The ablation: binomial deviance, RAW and equal weights, each with and without valid-triplet hard mining (VTHM), and
RAW with two other miners. Beside it the losses and systems that the paper compares with, all under one protocol.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from nearer.losses import (
    AngularLoss,
    BinomialDevianceLoss,
    ContrastiveLoss,
    GeneralizedLiftedLoss,
    HistogramLoss,
    LiftedStructureLoss,
    MarginLoss,
    NPairsLoss,
    ProxyNCALoss,
    RAWLoss,
    TripletLoss,
)
from nearer.mining import VTHM, DistanceWeighted, SemiHard
from nearer.mining._shared import mine_valid_triplets
from nearer.pairwise._shared import normalize_rows
from nearer.relations import ClassLabels
from nearer.reports import weight_curves, weight_matrix
from nearer.reports._page import Picture, Section
from nearer.reports._style import ACCENT, MUTED, WRONG, house_style, new_figure
from nearer_papers._recipe import Measured, Outcome, Request
from nearer_papers.systems import (
    EqualWeightLoss,
    FacilityLocationLoss,
    PDDMLoss,
    QuadrupletLoss,
    RandomTripletLoss,
)
from nearer_papers.unified_view._unseen_class_data import pair_weighting_protocol
from nearer_papers.unified_view._unseen_class_report import KEY, measure_tables, present_tables, result_file
from nearer_papers.unified_view._unseen_class_settings import Constant
from nearer_papers.unified_view._unseen_class_systems import abier, bier, hdc, htl, smart_mining
from nearer_papers.unified_view._unseen_classes import LENGTH, Row

__all__ = ["FIGURES", "KEY", "TABLES", "measure", "present", "result_file"]


def printed(
    cub: float, cars: float | None = None, sop: float | None = None, inshop: float | None = None
) -> dict[str, float]:
    """Recall@1 of the paper's tables."""
    values = {"cub200": cub, "cars196": cars, "sop": sop, "inshop": inshop}
    return {name: value for name, value in values.items() if value is not None}


GAMMA = Constant("gamma", 0.5, (0.3, 0.4, 0.6))
MINED = Constant("margin of VTHM", 0.1, (0.05, 0.2, 0.3))
MARGIN = Constant("margin", 0.1, (0.05, 0.2, 0.3))
HINGE = Constant("margin", 1.0, (0.25, 0.5, 2.0))
COST = Constant("cost of a negative", 25.0, (5.0, 10.0, 50.0))


ABLATION = (
    Row(
        "Binomial",
        lambda one: BinomialDevianceLoss(gamma=one.constant),
        constant=GAMMA,
        printed=printed(64.45, 80.78, 73.4, 84.78),
    ),
    Row("RAW", lambda one: RAWLoss(gamma=one.constant), constant=GAMMA, printed=printed(65.06, 81.27, 77.0, 88.38)),
    Row(
        "VTHM",
        lambda one: EqualWeightLoss(miner=VTHM(margin=one.constant)),
        constant=MINED,
        printed=printed(61.55, 76.61, 76.82, 88.72),
    ),
    # The authors' code divides by α and β where it mines and only there; both scalings of both, so that what mining
    # does and what scaling does can be told apart. Printed are the rows as the code runs them.
    Row(
        "Binomial, scaled",
        lambda one: BinomialDevianceLoss(gamma=one.constant, normalize_by_scale=True),
        constant=GAMMA,
    ),
    Row(
        "Binomial+VTHM, unscaled",
        lambda one: BinomialDevianceLoss(miner=VTHM(margin=one.constant)),
        constant=MINED,
    ),
    Row(
        "Binomial+VTHM",
        lambda one: BinomialDevianceLoss(normalize_by_scale=True, miner=VTHM(margin=one.constant)),
        constant=MINED,
        printed=printed(65.34, 81.48, 77.22, 88.87),
    ),
    Row(
        "RAW+DW",
        lambda one: RAWLoss(gamma=one.constant, miner=DistanceWeighted(generator=one.generator())),
        constant=GAMMA,
        printed=printed(65.67, 80.70, 77.39, 88.79),
    ),
    Row(
        "RAW+SemiHard",
        lambda one: RAWLoss(gamma=one.constant, miner=SemiHard()),
        constant=GAMMA,
        printed=printed(64.97, 80.48, 77.12, 88.66),
    ),
    # A wider margin keeps more pairs, for networks that soon have no violated triplet left.
    Row(
        "RAW+VTHM",
        lambda one: RAWLoss(miner=VTHM(margin=one.constant)),
        constant=MINED,
        printed=printed(66.85, 83.69, 78.18, 89.64),
    ),
)
BASELINES = (
    Row(
        "Contrastive",
        lambda one: ContrastiveLoss(threshold=one.constant),
        constant=Constant("threshold", 0.5, (0.3, 0.4, 0.6)),
    ),
    Row("Triplet", lambda one: TripletLoss(margin=one.constant), constant=MARGIN),
    Row(
        "Triplet, one random negative",
        lambda one: RandomTripletLoss(margin=one.constant, generator=one.generator()),
        constant=MARGIN,
    ),
    Row("Lifted", lambda one: LiftedStructureLoss(margin=one.constant, normalize=True), constant=HINGE),
    Row("Lifted, generalized", lambda one: GeneralizedLiftedLoss(margin=one.constant), constant=HINGE),
    Row(
        "N-pairs",
        lambda one: NPairsLoss(scale=one.constant, l2=0.0, normalize=True),
        sampler="pairs",
        constant=Constant("scale", 10.0, (5.0, 20.0, 40.0)),
    ),
    Row(
        "Histogram",
        lambda one: HistogramLoss(bins=int(one.constant)),
        constant=Constant("bins", 101, (26, 51, 201)),
    ),
    Row(
        "Angular", lambda one: AngularLoss(angle=one.constant), constant=Constant("angle", 45.0, (36.0, 40.0, 50.0))
    ),
    Row("Quadruplet", lambda one: QuadrupletLoss(margin=one.constant), constant=MARGIN),
    # The score network learns at the rate of networks, for which that of class vectors is too large.
    Row(
        "PDDM",
        lambda one: PDDMLoss(one.dimension, quadruplets=int(one.constant), generator=one.generator()),
        proxy_rate=0.05,
        constant=Constant("quadruplets of a batch", 1, (5, 20, 50)),
    ),
    Row(
        "Margin",
        lambda one: MarginLoss(
            beta=one.constant, n_classes=one.classes, miner=DistanceWeighted(generator=one.generator())
        ),
        constant=Constant("beta", 1.2, (0.8, 1.0, 1.4)),
        printed=printed(63.6, 79.6, 72.7),
    ),
    Row(
        "Proxy-NCA",
        lambda one: ProxyNCALoss(one.classes, one.dimension, scale=one.constant, generator=one.generator()),
        sampler="uniform",
        constant=Constant("scale", 8.0, (4.0, 16.0, 32.0)),
        printed=printed(49.2, 73.2, 73.7),
    ),
    Row(
        "HTL", build=htl, constant=Constant("beta", 0.1, (0.05, 0.2, 0.3)), printed=printed(57.1, 81.4, 74.8, 80.9)
    ),
    Row(
        "Clustering",
        lambda one: FacilityLocationLoss(gamma=one.constant, reduction="mean"),
        constant=Constant("gamma", 1.0, (0.25, 0.5, 2.0)),
        printed=printed(48.2, 58.1, 67.0),
    ),
    Row(
        "Smart Mining",
        build=smart_mining,
        constant=Constant("margin of triplets", 0.01, (0.05, 0.1, 0.2)),
        printed=printed(49.8, 64.7),
    ),
    Row(
        "HDC",
        build=hdc,
        constant=Constant("weight of negatives", 10.0, (0.3, 1.0, 3.0)),
        printed=printed(53.6, 73.7, 69.5, 62.1),
    ),
    Row("BIER", build=bier, constant=COST),
    Row("ABIER", build=abier, proxy_rate=0.05, constant=COST, printed=printed(57.5, 82.0, 74.2, 83.1)),
)
# How much is speed: until twice the steps bring less than half a point on validation classes.
LENGTHS = (16, 32, 64)
LONGER = tuple(
    replace(row, name=f"{row.name}{LENGTH}{epochs}", epochs=epochs, printed=None)
    for row in (*ABLATION, *BASELINES)
    if row.name in ("RAW", "RAW+VTHM", "Binomial", "Contrastive", "Proxy-NCA")
    for epochs in LENGTHS
)
TABLES = {"ablation": ABLATION, "baselines": BASELINES, "length": LONGER}
TITLES = {
    "ablation": "Which part does what: weights and mining",
    "baselines": "The losses and systems of the comparison",
    "length": "The same for longer",
}


# Figures of the paper, beside the tables: they need no run.
FIGURES = ("weights", "mining")


def measure(request: Request) -> Iterator[Measured]:
    """Run the tables; `only` may name data sets ("omniglot"), tables ("ablation"), rows ("RAW+VTHM") and figures.

    The photos of "cub200", "cars196", "sop" and "inshop" are read from your data folder and need a `backbone`.
    """
    rest = _without_figures(request)
    return iter(()) if rest is None else measure_tables(TABLES, rest, paper=pair_weighting_protocol)


def present(rows: Sequence[dict[str, Any]], request: Request) -> Outcome:
    """The tables of the rows that were asked for, after the two figures of the paper."""
    rest = _without_figures(request)
    asked = [name for name in FIGURES if name in request.only] or ([] if request.only else list(FIGURES))
    sections = [FIGURE_SECTIONS[name]() for name in asked]
    title = "Pair weighting on unseen classes"
    if rest is None:
        return Outcome(title, sections, {"summary": []})
    found = present_tables(title, TABLES, TITLES, rows, rest)
    return Outcome(title, [*sections, *found.sections], found.record)


def _without_figures(request: Request) -> Request | None:
    """The request as the tables understand it; None when it is for figures alone."""
    only = [name for name in request.only if name not in FIGURES]
    return None if request.only and not only else replace(request, only=only)


def _weights() -> Section:
    text = "Figure 1 of the paper: what each loss gives a pair, beside fixed other pairs of its anchor; and RAW."
    return Section("The weight of a pair", [text, Picture(weight_curves(), "Weight against similarity, by loss.")])


def _mining() -> Section:
    """Figure 2: one anchor, who is valid, who is hard, and the weights of a batch with and without mining."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(8).repeat_interleave(5)
    centers = torch.randn(8, 16, generator=generator)
    batch = centers[labels] + 0.9 * torch.randn(40, 16, generator=generator)
    drawn = [
        Picture(_valid_pairs(batch, labels), "The pairs of one anchor by similarity: kept and left out."),
        Picture(weight_matrix(RAWLoss(), batch, labels, title="RAW"), "All pairs of a batch have a weight."),
        Picture(
            weight_matrix(RAWLoss(miner=VTHM()), batch, labels, title="RAW+VTHM"), "Only mined pairs have one."
        ),
    ]
    text = (
        "Figure 2 of the paper: an anchor has valid triplets where a negative is nearer than a positive, less the "
        "margin. A positive is kept if some negative is nearer, a negative if some positive is farther."
    )
    return Section("Which pairs are mined", [text, *drawn])


FIGURE_SECTIONS = {"weights": _weights, "mining": _mining}


def _valid_pairs(embeddings: Any, labels: Any, *, margin: float = 0.1) -> Any:
    """The pairs of one anchor on the axis of similarity, and which of them occur in a violated triplet.

    Positives below max_N s + λ and negatives above min_P s − λ are kept (filled), the others are left out (hollow).
    Of the batch the anchor is drawn whose kept and left-out pairs are nearest to equal in number.
    """
    z = normalize_rows(torch.as_tensor(embeddings).detach().double())[0]
    relation = ClassLabels(labels)
    similarity = z @ z.T
    same = relation.queries[:, None] == relation.queries[None, :]
    positive, negative = same & ~torch.eye(len(z), dtype=torch.bool), ~same
    kept = mine_valid_triplets(similarity, positive, negative, margin=margin)
    # An anchor that keeps some and leaves out some of both kinds shows both edges.
    shares = [
        (mined.sum(1) / side.sum(1).clamp_min(1)) for mined, side in zip(kept, (positive, negative), strict=True)
    ]
    anchor = int(((shares[0] - 0.5).abs() + (shares[1] - 0.5).abs()).argmin())
    s = similarity[anchor]
    with house_style():
        figure = new_figure(8.0, 2.6)
        axis = figure.subplots()
        for height, side, chosen, color in ((1, positive, kept[0], ACCENT), (0, negative, kept[1], WRONG)):
            for filled in (True, False):
                rows = side[anchor] & (chosen[anchor] == filled)
                face = color if filled else "none"
                axis.scatter(s[rows], [height] * int(rows.sum()), s=42, facecolors=face, edgecolors=color)
        low, high = float(s[positive[anchor]].min()), float(s[negative[anchor]].max())
        for edge, name in ((low - margin, "least positive − λ"), (high + margin, "largest negative + λ")):
            axis.axvline(edge, color=MUTED, linestyle="--", linewidth=1)
            axis.annotate(name, (edge, 0.5), xytext=(4, 0), textcoords="offset points", color=MUTED, size=8)
        axis.set_yticks([0, 1], ["negatives", "positives"])
        axis.set_ylim(-0.6, 1.6)
        axis.set_xlabel("similarity to the anchor; filled: mined, hollow: left out")
        axis.set_title(
            f"{int(kept[0][anchor].sum())} of {int(positive[anchor].sum())} positives and "
            f"{int(kept[1][anchor].sum())} of {int(negative[anchor].sum())} negatives are mined",
            loc="left",
        )
    return figure
