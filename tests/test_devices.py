"""Nothing is made on the wrong device and nothing is moved without a word, so that CUDA works by construction.

Every loss, miner, relation, geometry, memory, sampler and step runs twice: on the host, and on a device that is
not there (tests/pretend_device.py says what that proves and what it cannot). Both must give the same numbers and
gradients, the results must be on the device, and the only copies between the two are listed here with a reason.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchgen
import yaml
from torch import Tensor, nn

import nearer.evaluation
import nearer.geometry
import nearer.graph
import nearer.index
import nearer.judging
import nearer.losses
import nearer.mining
import nearer.neighbors
import nearer.training
import nearer_papers.systems
import pretend_device
from every_loss import CASES, LEFT_OUT, MINERS, ONE_SET_ONLY, OTHERS, REBUILT, batch, drawn, plain
from nearer.evaluation import evaluate, kmeans, map_at_r, nmi, recall_at_k
from nearer.geometry import MLP, AsymmetricMap, Mahalanobis, OrthogonalMap, embed
from nearer.losses import ContrastiveLoss, PairLoss, RAWLoss
from nearer.mining import VTHM
from nearer.relations import LabelDistributions, MultiLabels, Numbers, Pairs, PartialLabels, Soft, Tree, Triplets
from nearer.training import (
    ClassSampler,
    EncoderStep,
    NeighborhoodAngular,
    Plan,
    PseudoLabelAngular,
    RiemannianAdam,
    TensorBatches,
    alternate,
    backward_in_chunks,
)
from nearer.training._photo_batches import jiggled
from nearer_papers.systems import BoostedHeads, ClassTree, DeepAPIT, DeepLRML
from nearer_papers.systems._views import exemplar_views
from pretend_device import DEVICE, Remote, here, pretend, there

# Every operation that ran on the device, for the last test of this file.
OPERATIONS: set[str] = set()

# Copies that are meant, by the file that makes them.
MEANT = {
    "systems/_class_tree.py": "the tree is built on the host, of one mean per class",
    "systems/_spanning_tree.py": "Kruskal's algorithm is a loop over sorted edges",
    "mining/_hardest_fraction.py": "a histogram of a few thousand counts",
    "systems/_hdml.py": "drawn on the host, so that a seed gives the same triplets everywhere",
    "systems/_energy_confusion.py": "drawn on the host, so that a seed gives the same pairs everywhere",
}

X, Y = batch(48, 8, even=True)
MANY, OF_MANY = batch(400, 20, even=True)  # enough for tiles


def unexpected(moves: Iterable[str], meant: Sequence[str] = ()) -> list[str]:
    """Copies that no line of `MEANT` explains."""
    return [move for move in sorted(set(moves)) if not any(file in move for file in (*MEANT, *meant))]


def placed(value: Any, put: Callable[[Tensor], Tensor]) -> Any:
    """A fresh leaf for every tensor; those that can have a gradient ask for one."""
    if isinstance(value, list | tuple):
        return type(value)(placed(one, put) for one in value)
    if not isinstance(value, Tensor):
        return value
    leaf = put(value.detach().clone())
    return leaf.requires_grad_() if leaf.is_floating_point() else leaf


def leaves(value: Any) -> list[Tensor]:
    """The tensors inside that ask for a gradient."""
    if isinstance(value, list | tuple):
        return [leaf for one in value for leaf in leaves(one)]
    return [value] if isinstance(value, Tensor) and value.requires_grad else []


def _apart(module: Any) -> Any:
    """A loss with a tree of its own: the cases of every_loss.py share one."""
    return copy.deepcopy(module) if isinstance(module, PairLoss) else module


def on_both(
    make: Callable[[], Any],
    call: Callable[..., Any],
    *inputs: Any,
    meant: Sequence[str] = (),
    host: Sequence[int] = (),
) -> None:
    """`call(make(), *inputs)` and its gradients, on the host and on the device; inputs in `host` stay there."""
    torch.manual_seed(0)
    module, given = make(), placed(inputs, lambda one: one)
    expected = call(module, *given)
    if expected.requires_grad:
        expected.sum().backward()
    with pretend() as device:
        torch.manual_seed(0)
        twin = _apart(make())
        twin = twin.to(DEVICE) if isinstance(twin, nn.Module) else twin
        device.moves.clear()
        sent = tuple(
            placed(one, (lambda tensor: tensor) if number in host else there) for number, one in enumerate(inputs)
        )
        result = call(twin, *sent)
        if result.requires_grad:
            result.sum().backward()
        OPERATIONS.update(device.operations)
        assert unexpected(device.moves, meant) == []
        torch.testing.assert_close(here(result), expected.detach(), rtol=1e-5, atol=1e-8)
        theirs = leaves(given) + (list(module.parameters()) if isinstance(module, nn.Module) else [])
        ours = leaves(sent) + (list(twin.parameters()) if isinstance(twin, nn.Module) else [])
        for one, other in zip(ours, theirs, strict=True):
            if other.grad is not None:
                assert one.grad is not None
                # Of the size of the largest: the device adds up another way, and small entries are what is left.
                atol = 1e-8 + 1e-6 * float(other.grad.abs().max())
                torch.testing.assert_close(here(one.grad), other.grad, rtol=1e-5, atol=atol)


def test_the_device_refuses_what_cuda_refuses() -> None:
    with pretend() as device:
        x = there(torch.ones(3))
        with pytest.raises(RuntimeError, match="of the host"):
            x + torch.ones(3)
        with pytest.raises(RuntimeError, match="of the host"):
            torch.arange(3)[there(torch.tensor([0]))]
        with pytest.raises(RuntimeError, match="of the host"):
            x[[0, 1]]  # CUDA takes it, and copies the list
        with pytest.raises(RuntimeError, match="generator of the host"):
            torch.rand(3, device=x.device, generator=torch.Generator())
        with pytest.raises(RuntimeError, match="numpy"):
            x.numpy()
        assert not device.moves
        assert here(x + torch.tensor(1.0)).tolist() == [2.0, 2.0, 2.0]  # a number is welcome
        assert x.tolist() == [1.0, 1.0, 1.0]
        assert here(torch.tensor([4.0], device=x.device)).tolist() == here(x.new_tensor([4.0])).tolist() == [4.0]
        assert isinstance(torch.zeros(2, device=x.device), Remote)
        x.cpu().to(x.device)
        assert [move.split(":")[0] for move in device.moves] == ["to host", "to device"]


@pytest.mark.parametrize("folder", ["nearer", "torch"])
def test_a_clone_in_a_folder_named_like_a_package_is_not_that_package(folder: str) -> None:
    names: dict[str, Any] = {"line": pretend_device._line}
    exec(compile("def ask():\n    return line()", f"/clones/{folder}/tests/helper.py", "exec"), names)
    assert names["ask"]().startswith("tests/test_devices.py")


@pytest.mark.parametrize("name", CASES)
def test_a_pair_loss_stays_on_its_device(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make = CASES[name]
    on_both(make, plain, X, Y)  # the whole matrix at once
    monkeypatch.setattr("nearer._tracing.ENTRIES", 0)
    on_both(make, plain, X, Y)  # what is too large for that
    if make().mineable:
        on_both(make, lambda loss, x, y: loss.dense(x, y), X, Y)
    if make().rowwise and name.endswith("()"):
        on_both(make, plain, MANY, OF_MANY)


@pytest.mark.parametrize("make", CASES.values(), ids=CASES.keys())
def test_labels_that_stay_on_the_host_are_brought_once(make: Callable[[], PairLoss]) -> None:
    on_both(make, lambda loss, x, y: loss(x, y), X, Y, host=[1], meant=["relations/_relate.py"])


@pytest.mark.parametrize("make", CASES.values(), ids=CASES.keys())
def test_databases_tuples_and_weights(make: Callable[[], PairLoss]) -> None:
    loss = make()
    if type(loss).__name__ not in ONE_SET_ONLY:
        on_both(
            make, lambda one, x, y, d, z: one(x, y, database=d, database_labels=z), X[:20], Y[:20], X[20:], Y[20:]
        )
    if loss.mineable:
        tuples = (torch.tensor([0, 1, 2]), torch.tensor([8, 9, 10]), torch.tensor([1, 2, 3]))
        on_both(make, lambda one, x, y, i: one(x, y, i), X, Y, tuples)
    unit = torch.nn.functional.normalize(X)
    on_both(make, lambda one, s, y: one.weights(s, y), unit @ unit.T, Y)


def test_every_exported_loss_is_run() -> None:
    # By the name of the class: an alias is the class that is run.
    exported = {
        getattr(package, name).__name__: getattr(package, name)
        for package in (nearer.losses, nearer_papers.systems)
        for name in package.__all__
        if inspect.isclass(getattr(package, name))
        and (package is nearer.losses or name.endswith(("Loss", "Penalty")))
        and name != "SyntheticLoss"
    }
    pairs = {name for name, kind in exported.items() if issubclass(kind, PairLoss)}
    assert set(exported) - pairs - LEFT_OUT == set(OTHERS)


@pytest.mark.parametrize("name", OTHERS)
def test_other_losses_stay_on_their_device(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, call = OTHERS[name]
    on_both(make, call, X, Y)
    monkeypatch.setattr("nearer._tracing.ENTRIES", 0)
    on_both(make, call, X, Y)
    on_both(make, call, X, Y, host=[1], meant=_LABELS)


# Where labels that came on the host are brought to the embeddings.
_LABELS = [
    "relations/_relation.py",
    '"labels"',
    "labels.to(",
    "y.to(x.device)",
    ".to(self.labels",
    "classes.to(batch.device)",
]


@pytest.mark.parametrize("name", sorted(set(nearer.mining.__all__) - REBUILT))
def test_miners_stay_on_their_device(name: str) -> None:
    make = MINERS[name]
    for x, y in ((X, Y), (MANY, OF_MANY)):
        on_both(lambda: RAWLoss(miner=make()), plain, x, y)
    on_both(make, lambda miner, x, y: torch.cat([column[:200] for column in miner(x, y)]), X, Y)


def test_trees_and_tables_are_built_where_the_module_is() -> None:
    def ask(tree: ClassTree, x: Tensor, y: Tensor) -> Tensor:
        tree.update(x, y)
        return tree.margins(y, y) + tree.nearest(y, count=3).sum()

    on_both(ClassTree, ask, X, Y)
    ranks = lambda: nearer_papers.systems.RankRange(lambda x: lambda q, k: torch.cdist(q, x).argsort(1)[:, :k])  # noqa: E731

    def look_up(miner: Any, x: Tensor, y: Tensor) -> Tensor:
        miner.update(x, y)
        found: Tensor = miner.negatives(torch.arange(5), 2, np.random.default_rng(0))
        return found

    on_both(ranks, look_up, X, Y, meant=["systems/_rank_range.py"])


RELATIONS: dict[str, Callable[[Tensor], Any]] = {
    "PartialLabels": lambda y: PartialLabels(torch.where(y % 3 == 0, -1, y)),
    "MultiLabels": lambda y: MultiLabels(torch.stack([(y >> bit) & 1 for bit in range(3)], 1)),
    "LabelDistributions": lambda y: LabelDistributions(torch.softmax(y[:, None] * torch.ones_like(y)[:4], 1)),
    "Numbers": lambda y: Numbers(y.double()),
    "Pairs": lambda y: Pairs(
        len(y), positive=(y[:, None] == y).triu(1).nonzero(), negative=(y[:, None] == y + 1).triu(1).nonzero()
    ),
    "Triplets": lambda y: Triplets(len(y), torch.stack([y, y + 8, (y + 1) % 8], 1).unique(dim=0)),
    "Tree": lambda y: Tree(torch.stack([y // 4, y], 1)),
    "Soft": lambda y: Soft(Numbers(y.double())),
}


@pytest.mark.parametrize("name", RELATIONS)
def test_relations_stay_on_their_device(name: str) -> None:
    relate = RELATIONS[name]
    if name == "LabelDistributions":
        relate = lambda y: LabelDistributions(torch.nn.functional.one_hot(y, 8) * 0.5 + 1 / 16)  # noqa: E731
    for loss in (RAWLoss, ContrastiveLoss) if name != "Soft" else (RAWLoss,):
        on_both(loss, lambda one, x, y: one(x, relate(y)), X, Y)
        # A relation on the host goes to the embeddings, once.
        on_both(loss, lambda one, x, y: one(x, relate(y)), X, Y, host=[1], meant=["relations/_relation.py"])


ROWS = X.float()
IMAGES = torch.rand(4, 1, 28, 28, generator=torch.Generator().manual_seed(0))
COLORS = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
GEOMETRY: dict[str, tuple[Callable[[], Any], Callable[..., Any], Tensor]] = {
    "AsymmetricMap": (lambda: AsymmetricMap(8, 3), lambda m, x: m(x, x.flip(0)), ROWS),
    "AttentionHeads": (
        lambda: nearer_papers.systems.AttentionHeads(3, (2, 2), generator=drawn()),
        lambda m, x: m(x),
        COLORS,
    ),
    "BoostedHeads": (lambda: BoostedHeads(8, (2, 3), generator=drawn()), lambda m, x: m(x), ROWS),
    "Chain": (
        lambda: nearer.geometry.Chain(MLP(8, 4, generator=drawn()), Mahalanobis(4)),
        lambda m, x: m(x),
        ROWS,
    ),
    "ColorCNN": (lambda: nearer.geometry._encoders.ColorCNN(generator=drawn()), lambda m, x: m(x), COLORS),
    "DecoupledEncoder": (
        lambda: nearer_papers.systems.DecoupledEncoder(nn.Conv2d(3, 4, 3), 4, embedding_dim=18, generator=drawn()),
        lambda m, x: m(x),
        COLORS,
    ),
    "DigitsCNN": (lambda: nearer.geometry._encoders.DigitsCNN(16, generator=drawn()), lambda m, x: m(x), IMAGES),
    "MLP": (lambda: MLP(8, 4, generator=drawn()), lambda m, x: m(x), ROWS),
    "Mahalanobis": (lambda: Mahalanobis(8, 4), lambda m, x: m(x), ROWS),
    "OrthogonalMap": (lambda: OrthogonalMap(8, 4, generator=drawn()), lambda m, x: m(x), ROWS),
    "Standardize": (lambda: nearer.geometry._standardize.Standardize(8), lambda m, x: m(x), ROWS),
    "TwoEncoders": (
        lambda: nearer.geometry.TwoEncoders(MLP(8, 4, generator=drawn()), MLP(8, 4, generator=drawn())),
        lambda m, x: m(x, x.flip(0)),
        ROWS,
    ),
    "UnitLength": (nearer.geometry.UnitLength, lambda m, x: m(x), ROWS),
    "cosine_similarity": (lambda: None, lambda _, x: nearer.geometry.cosine_similarity(x), ROWS),
    "embed": (lambda: MLP(8, 4, generator=drawn()), lambda m, x: embed(m, x, batch_size=20), ROWS),
    "euclidean_distance": (lambda: None, lambda _, x: nearer.geometry.euclidean_distance(x), ROWS),
    "itq": (lambda: None, lambda _, x: nearer.geometry.itq(x, 4)(x.detach()), ROWS),
    "normalize": (lambda: None, lambda _, x: nearer.geometry.normalize(x), ROWS),
    "rmac": (lambda: None, lambda _, x: nearer_papers.systems.rmac(x), COLORS),
}


@pytest.mark.parametrize("name", sorted(set(nearer.geometry.__all__) - {"load"}))
def test_geometry_stays_on_its_device(name: str) -> None:
    make, call, x = GEOMETRY[name]
    on_both(make, call, x, meant=["geometry/_itq.py"])  # its first rotation is drawn on the host


def test_a_step_brings_a_batch_at_a_time_and_moves_the_network() -> None:
    def trained(put: Callable[[Tensor], Tensor], data: Callable[[Tensor], Tensor], **settings: Any) -> list[Tensor]:
        torch.manual_seed(0)
        encoder = nn.Sequential(MLP(8, 6, generator=drawn()), OrthogonalMap(6, 3, generator=drawn()))
        encoder = encoder.to(DEVICE) if put is there else encoder
        adam = torch.optim.Adam(encoder[0].parameters(), lr=0.01)
        step = EncoderStep(encoder, RAWLoss(miner=VTHM()), adam, TensorBatches(data(ROWS), data(Y)), **settings)
        riemannian = RiemannianAdam(encoder[1].parameters(), lr=0.01)
        for rows in ClassSampler(Y, n_classes=4, per_class=4, batches=3, seed=0):
            step(torch.as_tensor(rows))
            riemannian.step()
        return [one.detach() for one in encoder.parameters()]

    expected = {chunk: trained(lambda one: one, lambda one: one, chunk=chunk) for chunk in (None, 6)}
    for chunk, numbers in expected.items():
        with pretend() as device:
            found = trained(there, there, chunk=chunk, max_norm=None)
            # Row numbers come from a sampler, on the host.
            assert unexpected(device.moves, ["training/_step.py", "encoder.to(DEVICE)"]) == []
            device.moves.clear()
            from_host = trained(there, lambda one: one, chunk=chunk)
            meant = ["training/_step.py", "relations/_relate.py", "encoder.to(DEVICE)"]
            assert unexpected(device.moves, meant) == []
            for one, other, same in zip(found, numbers, from_host, strict=True):
                torch.testing.assert_close(here(one), other, rtol=1e-4, atol=1e-6)
                torch.testing.assert_close(here(same), other, rtol=1e-4, atol=1e-6)


ALTERNATING: dict[str, Callable[[], Any]] = {
    "NeighborhoodAngular": lambda: NeighborhoodAngular(6, 3, k=6, generator=drawn()),
    "PseudoLabelAngular": lambda: PseudoLabelAngular(6, 3, k=6, generator=drawn()),
    "DeepLRML": lambda: DeepLRML(6),
    "DeepAPIT": lambda: DeepAPIT(6),
}


@pytest.mark.parametrize("name", ALTERNATING)
def test_the_loop_in_turns_learns_where_the_encoder_is(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # On CUDA a parameter that moves stays the same object, and an optimiser keeps it; here it takes this setting.
    monkeypatch.setattr(torch.__future__, "_swap_module_params_on_conversion", True)
    labels = torch.where(torch.arange(48) < 24, Y, -1)
    plan = Plan(partitions=2, epochs=1, unlabeled=20, batch_size=18)

    def learned(*, device: bool) -> list[Tensor]:
        torch.manual_seed(0)
        encoder, learner = MLP(8, 6, hidden=(16,), generator=drawn()), ALTERNATING[name]()
        encoder = encoder.to(DEVICE) if device else encoder
        alternate(encoder, learner, torch.optim.SGD(encoder.parameters(), lr=0.05), ROWS, labels, plan=plan)
        return [one.detach() for one in (*encoder.parameters(), *learner.module.parameters())]

    expected = learned(device=False)
    with pretend() as device:
        found = learned(device=True)
        meant = [
            "training/_alternating.py",
            "geometry/_encoders.py",
            "systems/_deep_pairs.py",
            "encoder.to(DEVICE)",
        ]
        assert unexpected(device.moves, [*meant, "mining/_neighborhood.py"]) == []
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(here(one), other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("view", [jiggled, exemplar_views])
def test_views_of_images_stay_on_their_device(view: Callable[..., Tensor]) -> None:
    on_both(
        drawn,
        lambda generator, x: view(x, generator=generator),
        COLORS,
        meant=["training/_photo_batches.py", "systems/_views.py"],
    )


def test_chunks_of_a_batch() -> None:
    def in_chunks(encoder: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        parts = [lambda part=part: part for part in x.detach().split(20)]
        return backward_in_chunks(encoder, parts, lambda z: RAWLoss()(z, y))

    on_both(lambda: MLP(8, 4, generator=drawn()), in_chunks, ROWS, Y)


def test_every_operation_has_a_kernel_for_cuda() -> None:
    """By the table that torch is built from: an operation of the host alone would end in NotImplementedError."""
    table = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native" / "native_functions.yaml"
    for name in (
        "RAWLoss()",
        "TripletLoss()",
        "HistogramLoss()",
        "AngularLoss()",
    ):  # alone, or with all of the above
        on_both(CASES[name], plain, X, Y)
    keys: dict[str, str] = {}
    delegates: dict[str, str] = {}
    for entry in yaml.load(table.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        name = entry["func"].split("(")[0]
        delegate = entry.get("structured_delegate")  # a structured operation shares the kernels of another
        keys[name] = str(entry.get("dispatch") or ("" if delegate else "Composite"))
        delegates[name] = delegate or ""
    checked = 0
    for operation in sorted(OPERATIONS):
        _, name, overload = operation.split(".")
        full = name if overload == "default" else f"{name}.{overload}"
        if full in keys:
            checked += 1
            where = keys[full] + keys.get(delegates[full], "")
            assert "CUDA" in where or "Composite" in where, f"{operation}: {where}"
    assert checked > 30


def _numbers(value: Any) -> Any:
    """What came out, as plain numbers."""
    if isinstance(value, Tensor):
        return value.tolist()
    if hasattr(value, "tolist"):
        return value.tolist()
    return {name: _numbers(one) for name, one in value.items()} if isinstance(value, dict) else value


def _graph(x: Tensor) -> Any:
    return nearer.graph.nearest_neighbors(x, k=5)


def _partly(y: Tensor) -> Tensor:
    return torch.where(y < 4, y, -1)


def _searched(x: Tensor) -> Any:
    index = nearer.index.Index(8)
    index.add(x)
    return index.search(x[:5], k=3).ids


# What works on the host, by what it does with embeddings (48, 8) and labels.
ON_THE_HOST: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "evaluate": lambda x, y: dict(evaluate(x, y).scores),
    "evaluate against others": lambda x, y: dict(
        evaluate(x[:20], y[:20], x[20:], y[20:], scores=["precision@3", "r-precision", "mrr"]).scores
    ),
    "evaluate_multilabel": lambda x, y: dict(nearer.evaluation.evaluate_multilabel(x, (x > 0).int()).scores),
    "evaluate_distribution": lambda x, y: dict(
        nearer.evaluation.evaluate_distribution(x.softmax(1), x.square().softmax(1)).scores
    ),
    "evaluate_tree": lambda x, y: dict(nearer.evaluation.evaluate_tree(x, torch.stack([y // 4, y], 1)).scores),
    "evaluate_unlabeled": lambda x, y: dict(nearer.evaluation.evaluate_unlabeled(x, x[:, :3], k=3).scores),
    "map_at_r": map_at_r,
    "recall_at_k": lambda x, y: recall_at_k(x, y, k=3),
    "kmeans": lambda x, y: kmeans(x, 8).assignments,
    "nmi": lambda x, y: nmi(y, y // 2),
    "ami": lambda x, y: nearer.evaluation.ami(y, y // 2),
    "ari": lambda x, y: nearer.evaluation.ari(y, y // 2),
    "purity": lambda x, y: nearer.evaluation.purity(y, y // 2),
    "pairwise_f1": lambda x, y: nearer.evaluation.pairwise_f1(y, y // 2),
    "nn_discrepancy": lambda x, y: nearer_papers.systems.nn_discrepancy(x[:20], x[20:]),
    "nn_lambda": lambda x, y: nearer_papers.systems.nn_lambda(x[:24], y[:24], x[24:], y[24:] + 8),
    "nearest_neighbors": lambda x, y: _graph(x).indices,
    "class_shares": lambda x, y: nearer.graph.class_shares(_graph(x), _partly(y)).shares,
    "propagate": lambda x, y: nearer.graph.propagate(_graph(x), _partly(y)).edges,
    "search": lambda x, y: nearer.neighbors.search(x, k=3).indices,
    "Index": lambda x, y: _searched(x),
    "find_duplicates": lambda x, y: nearer.index.find_duplicates(x, threshold=0.5).groups,
    "find_issues": lambda x, y: nearer.judging.find_issues(x, y).quality,
    "suggest_items": lambda x, y: nearer.judging.suggest_items(None, x, _partly(y), n=3),
    "SamePair": lambda x, y: nearer.judging.SamePair(error=0.4).calibrate(x, y).decide(x[:5], x[5:10]),
    "ClassSampler": lambda x, y: list(ClassSampler(y, n_classes=4, per_class=3, batches=2, seed=0)),
    "NPairSampler": lambda x, y: list(nearer_papers.systems.NPairSampler(y, pairs=4, batches=2, seed=0)),
    "HierarchicalSampler": lambda x, y: list(
        nearer.training.HierarchicalSampler(y, y // 4, groups_per_batch=2, n_classes=2, per_class=2, batches=2)
    ),
}


def test_every_score_is_run() -> None:
    exported = {name for name in nearer.evaluation.__all__ if name[0].islower()} - {"compare"}
    assert exported <= set(ON_THE_HOST)
    assert {name for name in nearer.graph.__all__ if name[0].islower()} <= set(ON_THE_HOST)


@pytest.mark.parametrize("name", ON_THE_HOST)
def test_what_works_on_the_host_takes_tensors_of_a_device(name: str) -> None:
    """faiss, numpy and scipy are there: one explicit copy, and the same numbers."""
    expected = _numbers(ON_THE_HOST[name](ROWS, Y))
    with pretend():
        found = ON_THE_HOST[name](there(ROWS), there(Y))
        assert not isinstance(found, Remote)
        assert _numbers(found) == expected
