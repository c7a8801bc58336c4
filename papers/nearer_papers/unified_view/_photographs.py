"""Photographs, the whole network trained behind its closed form: `nearer reproduce photographs`.

CUB-200-2011 and Cars-196, learned from the first half of the classes and scored on the other half. Every row of a
table has the same network, pixels, batches, optimiser and length; the frozen features and their closed form, which
is where all rows start, stand in the same table. The rate of a row is chosen among a few on the last fifth of the
training classes, half an epoch each, and what was tried is in the row; the number of epochs is the same for all.

Decoded photos, frozen features and checkpoints lie in the cache (`$NEARER_CACHE`, see docs/photos-and-texts.md) and
can be made again. A run that is stopped goes on at its last epoch.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nearer._checks import check_choice
from nearer._storage import write_file
from nearer.datasets._image_files import Photo, photo_bytes
from nearer.evaluation import evaluate
from nearer.losses._shared import ProxyLoss
from nearer.models._encoders import LITE, RESNET50, frozen
from nearer.models._feature_cache import cache_folder
from nearer.models._tuned import TunedNetwork, untuned_network
from nearer.models._whole_network import Recipe, WithFeatures, closed_form, start_class_vectors, train_whole
from nearer.reports._page import Section, Table
from nearer.training import Checkpoints, ClassSampler, PhotoBatches, UniformSampler
from nearer.training._shared import Sampler, pages_kept
from nearer.training._step import Precision
from nearer_papers._recipe import Measured, Outcome, Request
from nearer_papers._results import trees
from nearer_papers.data._cars196 import load_cars196
from nearer_papers.data._cub200 import load_cub200
from nearer_papers.joint_representations._jrd import BASELINES as JOINT_BASELINES
from nearer_papers.joint_representations._jrd import VARIANTS
from nearer_papers.unified_view._photograph_peers import OURS, PEER_ROWS, loss_cost, pair_of, same_start_as_ours
from nearer_papers.unified_view._unified_view import ABLATION, BASELINES
from nearer_papers.unified_view._unseen_classes import Row, Setting, Steps, summarize

__all__ = ["HEADER", "KEY", "TABLES", "lines", "measure", "present", "result_file"]

KEY = ("data", "network", "pixels", "row", "seed", "rate")
FROZEN, CLOSED = "frozen", "closed form"
LOADERS = {"cub200": load_cub200, "cars196": load_cars196}
# The side that photos are stretched to, the middle of it that is seen, and the pixels that the network gets of
# that.
VIEWS = {"160px": (256, 227, 160), "224px": (256, 227, 224), "256px": (256, 240, 256)}
NETWORK, PIXELS = "efficientnet-lite0", "160px"
NETWORKS = (*LITE, RESNET50)
# Half precision where it was measured to be faster on a processor that has it: convolutions that see all channels.
PRECISION: dict[str, Precision] = {RESNET50: "bfloat16"}
DIMENSION, EPOCHS = 512, 4
# Factors on the rate that are tried, and the share of an epoch that each has.
FACTORS, TUNING = (0.5, 1.0, 2.0), 0.5
HELD_OUT = 0.2
SCORES = ("recall@1", "recall@2", "recall@4", "recall@8", "map@r", "nmi")
VERSION = 1
HEADER = (
    "row", "network", "pixels", "epochs", *(name.upper().replace("RECALL", "R") for name in SCORES), "seeds",
    "printed R@1",
)  # fmt: skip
ABOUT = (
    f"Unseen classes, {DIMENSION} dimensions; mean ± standard error over seeds. Printed numbers are those of the "
    "papers, with larger networks, pixels and lengths."
)


def _rows() -> dict[str, Row]:
    """The losses of both papers by name; systems with networks or samplers of their own are not among them."""
    known = {row.name: row for row in (*ABLATION, *BASELINES, *VARIANTS, *JOINT_BASELINES)}
    # The main table of the joint-representation paper, not its ablation.
    known["JRD"] = next(row for row in JOINT_BASELINES if row.name == "JRD")
    plain = ("classes", "uniform")
    found = {name: row for name, row in known.items() if row.loss and not row.build and row.sampler in plain}
    return found | {row.name: row for row in PEER_ROWS}


ROWS = _rows()
TABLES: dict[str, tuple[str, ...]] = {
    "headline": ("RAW+VTHM", "AMSoftmax", "RAW", "JRD"),
    "ablation": tuple(row.name for row in ABLATION if row.name in ROWS),
    "variants": tuple(row.name for row in VARIANTS if row.name in ROWS),
    "baselines": tuple(row.name for row in (*BASELINES, *JOINT_BASELINES) if row.name in ROWS),
    "peer": tuple(row.name for row in PEER_ROWS),
}


def result_file(row: Mapping[str, Any]) -> str:
    """A file for each data set."""
    return f"photographs_{row['data']}"


@dataclass(frozen=True, eq=False)
class Photographs:
    """The photos of one set as one network sees them, and the frozen features of its training classes."""

    name: str
    network: str
    view: str
    train: PhotoBatches
    test: PhotoBatches
    labels: NDArray[np.int64]
    unseen: NDArray[np.int64]
    frozen_train: NDArray[np.float32]
    frozen_test: NDArray[np.float32]
    work: Path
    fingerprint: str
    note: str
    heads: dict[int, Any] = field(default_factory=dict)

    def head(self, rows: NDArray[np.int64]) -> tuple[nn.Module, str]:
        """The closed form of the frozen features of some rows, the same one for every row of a table."""
        if len(rows) not in self.heads:
            labels = self.labels[rows]
            self.heads[len(rows)] = closed_form(
                self.frozen_train[rows], labels, new_classes=True, n_components=DIMENSION
            )
        head, learner = self.heads[len(rows)]
        return copy.deepcopy(head), str(learner.form_)


def measure(request: Request) -> Iterator[Measured]:
    """Run the rows; `only` may name sets ("cub200"), tables ("headline"), rows, networks and sizes ("224px")."""
    sets, rows, network, view = _asked(request)
    seeds = 1 if request.quick else request.seeds
    plan = [(name, seed, row) for seed in range(seeds) for name in sets for row in (FROZEN, CLOSED, *rows)]
    # Nothing is drawn in the frozen rows: they have one seed.
    plan = [one for one in plan if one[1] == 0 or one[2] not in (FROZEN, CLOSED)]
    held: Photographs | None = None
    with pages_kept():
        for number, (name, seed, row) in enumerate(plan):
            if (name, network, view, row, seed, None) in request.done:
                continue
            request.progress(f"{name}, seed {seed}: {row}", number / len(plan))
            if held is None or held.name != name:
                held = prepare(name, network, view, allow_missing=request.allow_missing, quick=request.quick)
            begin = time.perf_counter()
            found = run(held, row, seed, epochs=1 if request.quick else EPOCHS)
            about = {"data": name, "network": network, "pixels": view, "row": row, "seed": seed, "rate": None}
            seconds = {"seconds": round(time.perf_counter() - begin, 1), "note": held.note}
            yield Measured({**about, **found, **seconds}, held.fingerprint)


def _asked(request: Request) -> tuple[list[str], list[str], str, str]:
    for name in request.only:
        check_choice(name, "only", [*LOADERS, *TABLES, *ROWS, FROZEN, CLOSED, *NETWORKS, *VIEWS])
    sets = [name for name in LOADERS if name in request.only] or list(LOADERS)
    rows = [name for name in ROWS if name in request.only]
    tables = [name for name in TABLES if name in request.only] or ([] if rows else ["headline"])
    wanted = list(dict.fromkeys([*(row for table in tables for row in TABLES[table]), *rows]))
    if any(name in request.only for name in (FROZEN, CLOSED)) and not rows and not set(TABLES) & set(request.only):
        wanted = []
    network = next((name for name in NETWORKS if name in request.only), NETWORK)
    return sets, wanted, network, next((view for view in VIEWS if view in request.only), PIXELS)


def prepare(name: str, network: str, view: str, *, allow_missing: bool = False, quick: bool = False) -> Photographs:
    """Photos from the cache, or decoded into it, and the frozen features of all of them."""
    side, middle, size = VIEWS[view]
    data = LOADERS[name](allow_missing=allow_missing)
    encoder = frozen(network, "photos")
    fingerprint = data.fingerprint()
    work = cache_folder().parent / "photographs" / f"{name}-{fingerprint[:12]}"
    work.mkdir(parents=True, exist_ok=True)
    batches = []
    for part in ("train", "test"):
        split = data[part]
        if quick:
            split = split.take(np.arange(0, len(split), 10))
        root = split.root or Path()
        photos = _kept([root / str(one) for one in split.x], side, work / f"{part}-{side}-{quick}.u8")
        colors = {name: encoder.settings[name] for name in ("mean", "std", "colors")}
        batches.append(PhotoBatches(photos, split.y - split.y.min(), size=size, view=middle, **colors))
    labels, unseen = (batch.labels(torch.arange(len(batch))).numpy() for batch in batches)
    trunk, _ = untuned_network(encoder)
    features = []
    for part, batch in zip(("train", "test"), batches, strict=True):
        file = work / f"{part}-{network}-{view}-{quick}-{VERSION}.npy"
        if not file.exists():
            rows = embedded(trunk, batch)
            with file.with_suffix(".new").open("wb") as out:
                np.save(out, rows)
            file.with_suffix(".new").rename(file)
        features.append(np.load(file))
    train, test = batches
    return Photographs(
        name, network, view, train, test, labels, unseen, features[0], features[1], work, fingerprint, data.note
    )


def _kept(paths: Sequence[Path], side: int, file: Path) -> list[Photo]:
    """Squares of bytes in a file of the cache, mapped; decoded when it is not there yet."""
    shape = (len(paths), side, side, 3)
    if not file.exists() or file.stat().st_size != int(np.prod(shape)):
        rough = photo_bytes(paths, side, squash=True, most=0, folder=file.parent)
        with file.with_suffix(".new").open("wb") as out:
            for photo in rough:
                out.write(np.ascontiguousarray(photo).data)
        file.with_suffix(".new").rename(file)
    return list(np.memmap(file, dtype=np.uint8, mode="r", shape=shape))


@torch.no_grad()
def embedded(network: nn.Module, batches: PhotoBatches, rows: Any = None) -> NDArray[np.float32]:
    """The rows (n, d) of the middles of all photos, or of some."""
    network.eval()
    chosen = torch.arange(len(batches)) if rows is None else torch.as_tensor(rows)
    parts = [network(batches.middles(part)) for part in torch.split(chosen, 64)]
    found: NDArray[np.float32] = torch.cat(parts).numpy()
    return found


def run(data: Photographs, name: str, seed: int, *, epochs: int) -> dict[str, Any]:
    """One row: its scores on unseen classes, and how it came about."""
    if name == FROZEN:
        return {"scores": scored(data.frozen_test, data.unseen)}
    every = np.arange(len(data.labels))
    head, chosen = data.head(every)
    form = {"form": chosen, "dimension": DIMENSION}
    if name == CLOSED:
        return {"scores": scored(head(torch.from_numpy(data.frozen_test)).numpy(), data.unseen), **form}
    # The peer has the rates of our row: two equal losses are compared, not two choices.
    factor, tried = chosen_rate(data, OURS.get(name, name))
    history, network = trained(data, name, seed, every, head, factor=factor, epochs=epochs)
    recipe = dataclasses.replace(Recipe(), rate=factor * Recipe().rate)
    return {
        "scores": scored(embedded(network, data.test), data.unseen),
        **form,
        "epochs": epochs,
        "loss": history,
        **({"loss, CPU ms": _loss_cost(data, name)} if name in TABLES["peer"] else {}),
        "recipe": {**dataclasses.asdict(recipe), "precision": PRECISION.get(data.network, "float32")},
        "tried": tried,
    }


def _loss_cost(data: Photographs, name: str) -> dict[str, float]:
    recipe, classes = Recipe(), len(np.unique(data.labels))
    labels = torch.arange(min(recipe.classes, classes)).repeat_interleave(recipe.per_class)
    return loss_cost(name, Setting(classes, DIMENSION, 0, 0, ROWS[name].usual), labels)


def chosen_rate(data: Photographs, name: str) -> tuple[float, dict[str, Any]]:
    """The factor on the rate that was best after half an epoch on the last fifth of the training classes, by the
    mean of Recall@1 and MAP@R, and the scores of all that were tried; kept in the cache for further seeds.
    """
    classes = np.unique(data.labels)
    border = classes[round((1 - HELD_OUT) * len(classes))]
    learnt, asked = np.flatnonzero(data.labels < border), np.flatnonzero(data.labels >= border)
    head, _ = data.head(learnt)
    file = _place(data, name, "tried.json")
    tried: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    start = head(torch.from_numpy(data.frozen_train[asked])).numpy()
    if "start" not in tried:
        tried["start"] = scored(start, data.labels[asked], ("recall@1", "map@r"))
    for factor in FACTORS:
        if f"{factor:g}" not in tried:
            _, network = trained(data, name, 0, learnt, head, factor=factor, epochs=1, share=TUNING)
            embeddings = embedded(network, data.train, asked)
            tried[f"{factor:g}"] = scored(embeddings, data.labels[asked], ("recall@1", "map@r"))
            write_file(file, json.dumps(tried).encode())
    best = max(FACTORS, key=lambda factor: sum(tried[f"{factor:g}"].values()))
    return best, {"epochs": TUNING, "seed": 0, "validation": "the last fifth of the training classes", **tried}


def _place(data: Photographs, *parts: object) -> Path:
    """A place in the cache for these sources and this setting."""
    about = [dict(trees()), data.fingerprint, data.network, data.view, *map(str, parts)]
    folder = data.work / hashlib.sha256(json.dumps(about).encode()).hexdigest()[:24]
    folder.parent.mkdir(parents=True, exist_ok=True)
    return folder


def trained(
    data: Photographs,
    name: str,
    seed: int,
    rows: NDArray[np.int64],
    head: nn.Module,
    *,
    factor: float,
    epochs: int,
    share: float = 1.0,
) -> tuple[list[float | None], TunedNetwork]:
    """The network after so many epochs on these rows of the training classes; its checkpoints go when it is "
    "done."""
    row = ROWS[name]
    assert row.loss is not None
    torch.manual_seed(seed)
    trunk, _ = untuned_network(frozen(data.network, "photos"))
    network = TunedNetwork(trunk, head)
    labels = torch.unique(torch.from_numpy(data.labels[rows]), return_inverse=True)[1]
    rest = data.frozen_train.shape[1]
    setting = Setting(int(labels.max()) + 1, DIMENSION, rest, seed, row.usual)
    ours, loss = pair_of(name, setting) if name in OURS else (row.loss(setting),) * 2
    if name in TABLES["peer"]:
        # Making one more loss has drawn numbers: both rows of a pair see the same parts of the photos.
        torch.manual_seed(seed)
    if any(isinstance(module, ProxyLoss) for module in ours.modules()):
        start_class_vectors(ours, head(torch.from_numpy(data.frozen_train[rows])), labels)
    if name in OURS:
        same_start_as_ours(loss, ours)
    recipe = dataclasses.replace(Recipe(), rate=factor * Recipe().rate)
    batches = _Some(data.train, torch.from_numpy(rows), labels)
    folder = _place(data, name, seed, factor, epochs, share, "checkpoints")
    encoder: nn.Module = WithFeatures(network) if row.features else network
    history = train_whole(
        encoder,
        loss,
        batches,
        _sampler(row, labels, recipe, seed, share),
        recipe=recipe,
        epochs=epochs,
        validate=None,
        precision=PRECISION.get(data.network, "float32"),
        checkpoints=Checkpoints(folder, keep=1),
    )
    shutil.rmtree(folder, ignore_errors=True)
    return history.series("loss"), network


@dataclass(frozen=True, eq=False)
class _Some:
    """Some photos of a set, with classes of their own."""

    batches: PhotoBatches
    rows: Tensor
    codes: Tensor

    def items(self, rows: Tensor) -> Tensor:
        return self.batches.items(self.rows[rows])

    def labels(self, rows: Tensor) -> Tensor:
        return self.codes[rows]


def _sampler(row: Row, labels: Tensor, recipe: Recipe, seed: int, share: float) -> Sampler:
    size = recipe.classes * recipe.per_class
    every: Sampler
    if row.sampler == "uniform":
        every = UniformSampler(len(labels), batch_size=min(size, len(labels)), drop_last=True, seed=seed)
    else:
        every = ClassSampler(labels, n_classes=recipe.classes, per_class=recipe.per_class, seed=seed)
    return every if share == 1 else Steps(every, max(1, round(share * len(every))))


def scored(embeddings: NDArray[np.float32], labels: Any, names: Sequence[str] = SCORES) -> dict[str, float]:
    """Scores in percent by cosine."""
    found = evaluate(embeddings, labels, scores=names, similarity="cosine", effort="thorough")
    return {name: 100 * found[name] for name in names}


def present(rows: Sequence[dict[str, Any]], request: Request) -> Outcome:
    """A table for every set, network and size that was asked for."""
    sets, _, network, view = _asked(request)
    mine = [row for row in rows if row["data"] in sets and row["network"] == network and row["pixels"] == view]
    sections = []
    for name in sets:
        body = lines([row for row in mine if row["data"] == name])
        if body:
            sections.append(Section(f"{name}: {network}, {view}", [ABOUT, Table(list(HEADER), body)]))
    return Outcome("Photographs, the whole network", sections, {"summary": summarize(mine)})


def lines(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """The lines of a table of one set: what each row is, its scores, its seeds and what the papers print for it."""
    order = [FROZEN, CLOSED, *ROWS]
    found = []
    for network, view in dict.fromkeys((row["network"], row["pixels"]) for row in rows):
        mine = [row for row in rows if (row["network"], row["pixels"]) == (network, view)]
        for line in sorted(summarize(mine), key=lambda line: order.index(line["row"])):
            name = line["row"]
            epochs = {int(row["epochs"]) for row in mine if row["row"] == name and "epochs" in row}
            printed = (ROWS[name].printed or {}) if name in ROWS else {}
            cells = [
                f"{line[key]:.1f}" + (f" ± {line[f'{key} error']:.1f}" if line["seeds"] > 1 else "")
                for key in SCORES
            ]
            shown = f"{printed[line['data']]:g}" if line["data"] in printed else "–"
            length = ", ".join(map(str, sorted(epochs))) or "–"
            found.append([name, network, view, length, *cells, str(line["seeds"]), shown])
    return found
