"""Do the thresholds of `nearer.judging` keep their level on classes never seen, and how much do they cost?

A hundred splits of the classes of a data set into m that calibrate and the others, which are all new. The rules
take a threshold from the first; the share of false matches is counted among the new classes (for "average" between
new and calibration classes, which is what it promises), the share of true matches beside that of the oracle, the
threshold at which the new classes themselves reach the level. "plug-in" is the threshold of pooled pairs.

BANKING77 questions are frozen MiniLM features under the cosine. The metric of Cars-196 (EfficientNet features) is
the closed form that `nearer fit` learns on the first 98 classes, that of Omniglot a small network learned on 300
characters: other classes than those that calibrate and test. Nothing was chosen on these splits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nearer._checks import check_choice
from nearer.datasets import load
from nearer.estimators import WithinClass
from nearer.geometry import embed
from nearer.geometry._encoders import DigitsCNN
from nearer.judging._class_losses import (
    CONFIDENCE,
    Calibration,
    Floats,
    bets,
    distances,
    fewest_classes,
    mean_bound,
    pair_bound,
    thresholds,
)
from nearer.losses import RAWLoss
from nearer.mining import VTHM
from nearer.reports._page import Section, Table
from nearer.training import ClassSampler, EncoderStep, TensorBatches, cosine, train
from nearer_papers._recipe import Measured, Outcome, Request

__all__ = ["KEY", "RULES", "measure", "omniglot_features", "present", "result_file"]

KEY = ("data", "classes", "error", "rule")
RULES = ("plug-in", "estimated", "average", "high-probability", "database", "search")
SIZES = {"banking77": (20, 37), "cars196_features": (20, 40), "omniglot": (20, 40, 80, 200, 400)}
ERRORS = (0.05, 0.01)
SPLITS = 100
MATCHINGS = 8
# Classes that stand for the database of the last two rules, and their items.
KNOWN, EACH = 100, 5


@dataclass(frozen=True, eq=False)
class Classes:
    """What every rule needs, for all pairs of classes at once: `h` (C, C, t) and `missed` (C, t)."""

    data: Calibration
    grid: Floats
    h: NDArray[np.float32]
    missed: Floats
    fingerprint: str


def classes_of(name: str, *, quick: bool = False) -> Classes:
    """The features of a data set and its losses on a grid of distances."""
    rows, y, fingerprint = _features(name, quick=quick)
    data = Calibration.of(rows / np.linalg.norm(rows, axis=1, keepdims=True), y)
    # A coarser grid where there are many classes: all pairs of them are held at once.
    grid = thresholds(data)[:: 1 if data.m < 200 else 3]
    groups = [data.rows[data.codes == code] for code in range(data.m)]
    h = np.zeros((data.m, data.m, len(grid)), dtype=np.float32)
    missed = np.zeros((data.m, len(grid)))
    for a, mine in enumerate(groups):
        apart = np.sort(distances(mine, mine)[np.triu_indices(len(mine), 1)])
        missed[a] = 1 - np.searchsorted(apart, grid, side="right") / len(apart)
        for b in range(a):
            apart = np.sort(distances(mine, groups[b]).reshape(-1))
            h[a, b] = h[b, a] = np.searchsorted(apart, grid, side="right") / len(apart)
    return Classes(data, grid, h, missed, fingerprint)


def _features(name: str, *, quick: bool) -> tuple[NDArray[np.float32], NDArray[np.int64], str]:
    data = load(name)
    if name == "banking77":
        return data["test"].matrix(), data["test"].y, data.fingerprint()
    if name == "cars196_features":
        rows, y = data.all.matrix(), data.all.y
        learner = WithinClass(new_classes=True, random_state=0).fit(rows[y < 98], y[y < 98])
        return learner.transform(rows[y >= 98]), y[y >= 98], data.fingerprint()
    return *omniglot_features(data, epochs=1 if quick else 12), data.fingerprint()


def omniglot_features(data: Any, *, epochs: int = 12) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Features of the characters from 300 on by a small network that was trained on the others; their classes."""
    images, y = torch.from_numpy(data.all.images()), data.all.y
    first = y < 300
    encoder = DigitsCNN(64, batch_norm=True, generator=torch.Generator().manual_seed(0))
    sampler = ClassSampler(y[first], n_classes=32, per_class=4, seed=0)
    adam = torch.optim.Adam(encoder.parameters(), lr=1e-3)
    batches = TensorBatches(images[first], torch.from_numpy(y[first]))
    step = EncoderStep(encoder, RAWLoss(miner=VTHM()), adam, batches, schedule=cosine(epochs * len(sampler)))
    torch.manual_seed(0)
    train(step, sampler, epochs=epochs)
    return embed(encoder, images[~first]).numpy(), y[~first]


def result_file(row: Mapping[str, Any]) -> str:
    """All in one file."""
    return "decisions"


def measure(request: Request) -> Iterator[Measured]:
    """Rows of the data sets and rules that `only` names; the quick form is twenty splits of BANKING77."""
    for name in request.only:
        check_choice(name, "only", [*SIZES, *RULES])
    sets = [name for name in SIZES if name in request.only] or (["banking77"] if request.quick else list(SIZES))
    rules = [rule for rule in RULES if rule in request.only] or list(RULES)
    plan = [
        (name, m, error, rule)
        for name in sets
        for m in SIZES[name]
        for error in ERRORS
        for rule in rules
        if (name, m, error, rule) not in request.done and (rule not in ("database", "search") or name == "omniglot")
    ]
    held = ""
    for number, (name, m, error, rule) in enumerate(plan):
        request.progress(f"{name}, {m} classes, {error:g}: {rule}", number / len(plan))
        if held != name:
            found, held = classes_of(name, quick=request.quick), name
        row = _row(found, m, error, rule, splits=20 if request.quick else SPLITS)
        yield Measured({"data": name, "classes": m, "error": error, "rule": rule, **row}, found.fingerprint)


def _row(found: Classes, m: int, error: float, rule: str, *, splits: int) -> dict[str, Any]:
    needed = 0
    if rule != "plug-in":
        kind = rule if rule in ("estimated", "average", "high-probability") else "average"
        needed = fewest_classes(error, kind, pairs=rule in ("average", "high-probability"))  # type: ignore[arg-type]
    if rule != "estimated" and m < needed:
        return {"needs": needed, "splits": 0}
    rates, shares = [], []
    for split in range(splits):
        order = np.random.default_rng(split).permutation(found.data.m)
        if rule in ("database", "search"):
            held, order = order[:KNOWN], order[KNOWN:]
        calibration, new = order[:m], order[m:]
        if rule in ("database", "search"):
            losses = _against(found, held, order, any_match=rule == "search")
            holds = mean_bound(losses[:m], "average") <= error
            rate = losses[m:].mean(axis=0)
        else:
            h = found.h[np.ix_(calibration, calibration)]
            holds = _holds(h, error, rule, seed=split)
            among = found.h[np.ix_(new, calibration if rule == "average" else new)]
            rate = among.sum(axis=(0, 1)) / (len(new) * (m if rule == "average" else len(new) - 1))
        place = _last(holds)
        best = _last(rate <= error)
        true = _found(found, held) if rule == "search" else 1 - found.missed[new].mean(axis=0)
        rates.append(float(rate[place]) if place >= 0 else 0.0)
        shares.append(float(true[place] / true[best]) if place >= 0 and true[best] > 0 else 0.0)
    above = np.array(rates)
    return {
        "splits": splits,
        "false matches": float(above.mean()),
        "above": float((above > error).mean()),
        "above by .01": float((above > error + 0.01).mean()),
        "of the oracle": float(np.mean(shares)),
        "oracle": float(true[best]),
    }


def _holds(h: NDArray[np.float32], error: float, rule: str, *, seed: int) -> NDArray[np.bool_]:
    m = len(h)
    sums = h.sum(axis=1, dtype=np.float64)
    if rule == "plug-in":
        plain: NDArray[np.bool_] = sums.sum(axis=0) / (m * (m - 1)) <= error
        return plain
    if rule != "high-probability":
        return pair_bound(sums, rule) <= error  # type: ignore[arg-type]
    rng = np.random.default_rng(seed)
    values = []
    for _ in range(MATCHINGS):
        pairs = rng.permutation(m)[: 2 * (m // 2)].reshape(-1, 2)
        values.append(bets(h[pairs[:, 0], pairs[:, 1]].astype(np.float64), error))
    held: NDArray[np.bool_] = np.mean(values, axis=0) >= 1 / (1 - CONFIDENCE)
    return held


def _against(found: Classes, held: Any, order: Any, *, any_match: bool) -> Floats:
    """Losses of the classes `order` with a database of a few items of each class in `held`, (len(order), t)."""
    data = found.data
    database = np.concatenate([data.rows[data.codes == code][:EACH] for code in held])
    losses = np.zeros((len(order), len(found.grid)))
    for place, code in enumerate(order):
        apart = distances(data.rows[data.codes == code], database)
        apart = np.sort((apart.min(axis=1) if any_match else apart).reshape(-1))
        losses[place] = np.searchsorted(apart, found.grid, side="right") / len(apart)
    return losses


def _found(found: Classes, held: Any) -> Floats:
    """The share of items of known classes that have an item of their class in the database within t, (t,)."""
    shares = []
    for code in held:
        rows = found.data.rows[found.data.codes == code]
        nearest = np.sort(distances(rows[EACH:], rows[:EACH]).min(axis=1))
        shares.append(np.searchsorted(nearest, found.grid, side="right") / len(nearest))
    mean: Floats = np.mean(shares, axis=0)
    return mean


def _last(holds: NDArray[np.bool_]) -> int:
    """The last threshold up to which all hold; −1 where the first does not."""
    wrong = np.flatnonzero(~holds)
    return int(wrong[0]) - 1 if len(wrong) else len(holds) - 1


def lines(rows: Sequence[Mapping[str, Any]]) -> list[tuple[object, ...]]:
    """One line for each row, as pages and documents show them."""
    shown: list[tuple[object, ...]] = []
    for row in rows:
        head = (row["data"], row["classes"], f"{row['error']:g}", row["rule"])
        if not row["splits"]:
            shown.append((*head, f"needs {row['needs']} classes", "", "", ""))
            continue
        shown.append(
            (
                *head,
                f"{row['false matches']:.4f}",
                f"{row['above']:.2f}",
                f"{row['above by .01']:.2f}",
                f"{row['of the oracle']:.3f} of {row['oracle']:.3f}",
            )
        )
    return shown


HEADER = ("data", "classes", "level", "rule", "false matches", "splits above", "above by .01", "true matches")


def present(rows: Sequence[dict[str, Any]], request: Request) -> Outcome:
    """One table."""
    text = (
        "Mean share of false matches on classes never seen over the splits, the share of splits above the level, "
        "and true matches as a share of those at the threshold that an oracle would take."
    )
    return Outcome(
        "Same or not, on classes never seen", [Section("Levels", [text, Table(HEADER, lines(rows))])], {}
    )
