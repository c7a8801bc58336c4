"""Images of which few have a label: a network and an orthogonal map, learned in turn on labels that spread.

The method of Dutta, Harandi and Sekhar (2021) in the form of `PseudoLabelAngular`: the given labels alone first,
then partitions of labelled and unlabelled images whose class shares come from the graph of their embeddings.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import torch

from nearer.geometry import Chain
from nearer.models._learning import Learned, Watch
from nearer.models._networks import encoder_for
from nearer.models._problem import Problem
from nearer.models._settings import FitSettings
from nearer.training import Plan, PseudoLabelAngular, alternate, cosine
from nearer.training._shared import jiggled

# From the experiments with ten labels per class (`nearer reproduce semi-supervised`).
START_STEPS, PARTITIONS, SEEN, UNLABELED = 150, 3, 54_000, 9_000
RATE, DECAY = 1e-3, 5e-4


def train_few_labels(problem: Problem, settings: FitSettings, watch: Watch) -> Learned:
    """Train on all training rows, labelled or not; the last epoch is taken: few labels leave none to choose by."""
    torch.manual_seed(settings.seed)
    encoder = encoder_for(problem, settings)
    rows = problem.train
    items, labels = torch.from_numpy(problem.items[rows]), torch.from_numpy(problem.labels[rows])
    labeled = int((labels >= 0).sum())
    with torch.no_grad():
        width = int(encoder.eval()(items[:2]).shape[1])
    generator = torch.Generator().manual_seed(settings.seed)
    learner = PseudoLabelAngular(width, max(2, width // 2), generator=generator)
    moved = partial(jiggled, shift=items.shape[-1] / 14, turn=0.1)
    rate = settings.lr if "lr" in settings.given else RATE
    adam = torch.optim.Adam(encoder.parameters(), lr=rate, weight_decay=DECAY)
    batch = min(settings.batch_size, labeled)
    first = Plan(
        1, max(1, START_STEPS // math.ceil(labeled / batch)), unlabeled=0, batch_size=batch, seed=settings.seed
    )
    alternate(encoder, learner, adam, items, labels, plan=first, transform=moved)
    size = labeled + min(UNLABELED, len(rows) - labeled)
    epochs = settings.epochs if "epochs" in settings.given else int(np.clip(SEEN / (PARTITIONS * size), 2, 20))
    plan = Plan(
        PARTITIONS, max(1, epochs), UNLABELED, batch_size=min(settings.batch_size, size), seed=settings.seed
    )
    history = alternate(
        encoder,
        learner,
        torch.optim.Adam(encoder.parameters(), lr=rate, weight_decay=DECAY),
        items,
        labels,
        plan=plan,
        transform=moved,
        schedule=cosine(plan.total * math.ceil(size / plan.batch_size)),
        callbacks=watch.callbacks,
        checkpoints=watch.checkpoints(),
    )
    return Learned(Chain(encoder, learner.module).eval(), history)
