"""`nearer demo`: a metric for digits from ten labels per class, by functions that anyone can call.

30 % of the digits are held out and used for nothing but the scores. Of the others ten per class keep their label.
The labels are spread over a graph of neighbors, the surest are taken, and a small network is trained with them
on digits with a little noise. Digits are compared by their embedding beside their raw pixels: one that the network
puts into a wrong class is still near what it looks like. Nothing is chosen during a run; the last epoch is taken.
The size of the noise was chosen by the scores of seeds 0 and 1, so other seeds are the fair ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from torch import Tensor

from nearer.app.cli._output import check_drawable, check_writable, print_json, say
from nearer.app.cli._pages import evaluation_page
from nearer.app.cli._screen import comparison_table, screen
from nearer.datasets import Split, few_labels, load, stratified_split
from nearer.evaluation import Comparison, compare, evaluate
from nearer.geometry import MLP, embed, normalize
from nearer.graph import class_shares, nearest_neighbors
from nearer.losses import RAWLoss
from nearer.mining import VTHM
from nearer.neighbors import search
from nearer.reports import embedding_map, retrieval_grid, training_curve
from nearer.reports._page import Picture, Section
from nearer.training import ClassSampler, EncoderStep, ProgressBar, TensorBatches, cosine, train

SCORES = ("recall@1", "recall@2", "recall@4", "recall@8", "map@r", "nmi")
LABELS, HELD_OUT, TAKEN, NOISE = 10, 0.3, 0.95, 0.1
RETRIEVED = 8


@dataclass(frozen=True, eq=False)
class DemoRun:
    """Raw pixels beside the learned metric on held-out digits, and how it came about."""

    comparison: Comparison
    test: Split
    embeddings: Tensor  # (n, d + p) of the held-out digits
    story: str
    losses: list[float]


def run_demo(report: Path, *, seed: int, epochs: int, quiet: bool, as_json: bool) -> None:
    """Learn, print and write the report."""
    check_writable(report, "--report")
    check_drawable(report)
    console = screen(stderr=True, quiet=quiet)
    begin = time.perf_counter()
    bar = [ProgressBar(console)] if console.is_terminal and not quiet else []
    learned = learn_digits(seed=seed, epochs=epochs, callbacks=bar)
    seconds = time.perf_counter() - begin
    comparison, rows = learned.comparison, len(learned.test)
    pictures = digits_pictures(learned, seed)
    page = evaluation_page(comparison, report, data="digits", rows=rows, notes=[learned.story], more=pictures)
    if as_json:
        settings = {"seed": seed, "epochs": epochs, "labels_per_class": LABELS}
        print_json(
            {**comparison.to_dict(), "settings": settings, "seconds": round(seconds, 2), "report": str(page)}
        )
        return
    if not quiet:
        say(f"{learned.story} Learned in {seconds:.0f} s.")
    screen().print(comparison_table(comparison, title=f"{rows} held-out digits"))
    say(f"The {comparison.verdict}")
    if not quiet:
        say(f"Report with pictures: {report} (open it in a browser)")


def learn_digits(*, seed: int, epochs: int, callbacks: Sequence[Callable[..., Any]] = ()) -> DemoRun:
    """Learn a metric from a few labels per class and score it on digits it never saw.

    The same seed gives the same result on the same machine.

    >>> learn_digits(seed=0, epochs=1).story
    '1,258 digits to train on, 100 of them with a label, 539 held out; 1,095 more got one by label spreading.'
    """
    digits = load("digits").all
    train_rows, test_rows = stratified_split(digits.y, test=HELD_OUT, seed=seed)
    items, test = digits.take(train_rows), digits.take(test_rows)
    given = few_labels(items.y, per_class=LABELS, seed=seed)
    # One thread: the batches are small. The random numbers of whoever calls this stay as they are.
    with threadpool_limits(1), torch.random.fork_rng():
        torch.manual_seed(seed)
        near = nearest_neighbors(items.matrix(), k=6)
        shares = class_shares(near, given, gamma=0.9)
        lead = shares.lead.numpy()
        taken = (given >= 0) | (lead >= np.quantile(lead, 1 - TAKEN))
        labels = np.where(taken, shares.pseudo_labels.numpy(), -1)
        encoder = MLP(64, 64, hidden=(512,))
        sampler = ClassSampler(labels, n_classes=10, per_class=12, seed=seed)
        step = EncoderStep(
            encoder,
            RAWLoss(miner=VTHM()),
            torch.optim.Adam(encoder.parameters(), lr=1e-3),
            TensorBatches(items.matrix(), labels, transform=lambda rows: rows + NOISE * torch.randn_like(rows)),
            schedule=cosine(epochs * len(sampler)),
        )
        history = train(step, sampler, epochs=epochs, callbacks=callbacks)
        pixels = test.matrix()
        embeddings = torch.cat([embed(encoder, pixels), normalize(torch.from_numpy(pixels))], dim=1)
        raw, learned = (
            evaluate(features, test.y, scores=SCORES, similarity="euclidean", effort="thorough")
            for features in (pixels, embeddings)
        )
    story = (
        f"{len(items):,} digits to train on, {LABELS * 10} of them with a label, {len(test)} held out; "
        f"{int((labels >= 0).sum()) - LABELS * 10:,} more got one by label spreading."
    )
    comparison = compare(raw, learned, names=("raw features", "learned metric"))
    return DemoRun(comparison, test, embeddings, story, [float(epoch["loss"]) for epoch in history.epochs])


def digits_pictures(learned: DemoRun, seed: int) -> list[Section]:
    """The map of the held-out digits, the nearest ones of one digit per class, and the loss."""
    test, pixels = learned.test, torch.from_numpy(learned.test.matrix())
    queries = np.unique(test.y, return_index=True)[1]
    parts: list[Any] = ["The first held-out digit of every class. Right ones are framed green, wrong ones red."]
    for name, features in (("Raw features", pixels), ("Learned metric", learned.embeddings)):
        # The nearest of a digit is the digit itself.
        nearest = search(features[queries], features, RETRIEVED + 1).indices.numpy()[:, 1:]
        right = test.y[nearest] == test.y[queries][:, None]
        figure = retrieval_grid(test.images(), queries, nearest, right, title=name)
        parts.append(Picture(figure, f"{name}: ten digits and their nearest."))
    figure = embedding_map(pixels, learned.embeddings, test.y, seed=seed)
    return [
        Section("Map of the held-out digits", [Picture(figure, "Raw features and learned metric.")]),
        Section("Retrieval", parts),
        Section("Training", [Picture(training_curve({"loss": learned.losses}), "The loss of every epoch.")]),
    ]
