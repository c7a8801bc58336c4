"""Tiled and dense forms where rows are equal and similarities tie, with every miner and with listed pairs.

The contract suite compares them on rows in general position. Here a hinge may be exactly 0 and a maximum may have
two places. Where products are exact the two forms must agree, but for `ONE_OF_EQUALS`; there, and on other rows
where rounding decides a tie, the tiled form must be what the dense form is at rows next to these.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from every_loss import CASES, MINERS, ONE_SET_ONLY, batch, drawn, value_and_gradient
from nearer.losses import AngularTripletLoss, ContrastiveLoss, PairLoss, PairSemiHardTripletLoss
from nearer.pairwise._indices import ListedPairs
from nearer.pairwise._panels import tile_size
from nearer.relations import Pairs, Triplets
from nearer_papers.systems import ClassTree, HierarchicalTripletLoss, RankRange, TwoTermQuadrupletLoss
from random_cases import TOTAL

COUNT = 350 * TOTAL // 500
# Histograms share a pair between two nodes: on a node the slope is that of the bin above, by their docstrings.
# Medoids of equal value are found in the order of the class numbers, which the dense form does not know.
ONE_OF_EQUALS = ("FacilityLocationLoss", "FastAPLoss", "HistogramLoss")
CLASSES_ONLY = ("FacilityLocationLoss", "NPairsLoss", "TwoTermQuadrupletLoss")
EXACT = {
    "one-hot": lambda n, g: torch.eye(6)[torch.randint(6, (n,), generator=g)],
    "signs": lambda n, g: 2.0 * torch.randint(2, (n, 4), generator=g) - 1,
    "all equal": lambda n, g: torch.ones(n, 4),
}
ROUNDED = {
    "equal rows": lambda n, g: torch.randn(3, 5, generator=g)[torch.randint(3, (n,), generator=g)],
    "some equal": lambda n, g: torch.randn(n, 5, generator=g)[torch.randint(n, (n,), generator=g)],
    "grid": lambda n, g: torch.randint(-2, 3, (n, 3), generator=g).float(),
}
KINDS: dict[str, Callable[[int, torch.Generator], Tensor]] = {**EXACT, **ROUNDED}
Call = Callable[[PairLoss, Tensor, bool], Tensor]
Make = Callable[..., PairLoss]


def all_triplets(x: Tensor, y: Tensor, chance: random.Random) -> list[tuple[int, int, int]]:
    """Triplets of the labels, some of them twice, with the nearest negatives."""

    def build(rows: Tensor) -> Any:
        return lambda queries, k: torch.cdist(queries, rows).argsort(dim=1, stable=True)[:, :k]

    ranks = RankRange(build, low=0, high=3)
    ranks.update(x, y)
    found = [
        (a, p, n)
        for a in range(len(y))
        for p in range(len(y))
        for n in ranks.table[a].tolist()
        if a != p and y[a] == y[p] and n >= 0
    ]
    return chance.choices(found, k=min(12, 2 * len(found))) if found else []


def drawn_case(number: int) -> tuple[str, str, Make, Tensor, Call]:
    """The case of this number: its name, the kind of rows, the loss, the rows, and how the loss is called."""
    chance, generator = random.Random(number), torch.Generator().manual_seed(number)
    name, kind = chance.choice(sorted(CASES)), chance.choice(sorted(KINDS))
    n = chance.choice([2, 5, 9, 16, 24])
    x = KINDS[kind](n, generator).double()
    y = torch.randint(chance.choice([2, 3, 8]), (n,), generator=generator)
    mineable, single = CASES[name]().mineable, name.partition("(")[0]
    way = chance.choice(["labels", "miner", "miner", "tuple", "pairs", "triplets", "database"])
    miner = chance.choice(sorted(MINERS)) if way == "miner" and mineable else None

    def make(*, held: bool = False) -> PairLoss:
        if "tree=" in name:  # the tree of these very rows
            tree = ClassTree(levels=5)
            tree.update(x, y)
            made: PairLoss = HierarchicalTripletLoss(tree=tree).double()
        else:
            made = CASES[name]().double()
        made.miner = None if miner is None else MINERS[miner]()
        if held and made.miner is not None:
            made.miner = ListedPairs(made.miner(x, y))
        return made

    triplets = all_triplets(x, y, chance) if way in ("tuple", "triplets") else []
    columns = tuple(torch.tensor(triplets).T) if triplets else None
    relation: Any = y
    classes = single in CLASSES_ONLY or "n_classes" in name or "tree=" in name
    if way == "triplets" and triplets and not classes:
        relation = Triplets(n, triplets)
    elif way == "pairs" and not classes:
        i, j = torch.triu_indices(n, n, 1)
        kept, same = torch.rand(len(i), generator=generator) < 0.6, y[i] == y[j]
        both = torch.stack([i, j], 1)
        relation = Pairs(n, positive=both[kept & same].tolist(), negative=both[kept & ~same].tolist())

    def call(loss: PairLoss, embeddings: Tensor, dense: bool) -> Tensor:
        form = loss.dense if dense else loss
        if way == "tuple" and mineable and columns is not None:
            return form(embeddings, y, columns)
        if way == "database" and single not in ONE_SET_ONLY:
            return form(embeddings, y, database=x.flip(0), database_labels=y.flip(0))
        return form(embeddings, relation)

    return f"{number}: {name}, {kind} ({n}), {miner or way}", kind, make, x, call


def close(found: Tensor, expected: Tensor, n: int) -> Tensor:
    """Equal up to the rounding of sums over the n² pairs."""
    size = expected.abs().max().clamp(min=1.0)
    return (found - expected).abs() <= 64 * n * n * torch.finfo(torch.float64).eps * size


def nearby(make: Make, x: Tensor, call: Call, towards: Tensor) -> list[tuple[Tensor, Tensor]]:
    """The dense form at rows 1e-7 away, also along the gradient, where every hinge that is 0 goes one way.

    With the pairs that a miner takes there, and with those that it takes here: it keeps what ties with the last.
    """
    random_steps = [torch.randn(x.shape, generator=drawn().manual_seed(seed), dtype=x.dtype) for seed in range(24)]
    steps = [*random_steps, towards, -towards]
    return [
        value_and_gradient(lambda e: call(make(held=held), e, True), x + 1e-7 * step / step.norm().clamp(min=1e-9))  # noqa: B023
        for held in ([False] if make().miner is None else [False, True])
        for step in steps
    ]


def is_a_choice(found: Tensor, choices: list[Tensor]) -> bool:
    """Whether each entry lies where the choices do, widened by as much as they differ there."""
    every = torch.stack(choices)
    low, high = every.amin(0), every.amax(0)
    slack = (high - low) + 1e-4 * every.abs().max().clamp(min=1.0)
    return bool(((found >= low - slack) & (found <= high + slack)).all())


def judge(number: int, tally: Counter[str]) -> str | None:
    """None if the two forms agree, or the tie is broken in a way that is one of the dense form's."""
    name, kind, make, x, call = drawn_case(number)
    expected = value_and_gradient(lambda e: call(make(), e, True), x)
    with tile_size(random.Random(number).choice([None, 1, 3, 7, 1000])):
        found = value_and_gradient(lambda e: call(make(), e, False), x)
    if not (found[0].isfinite() and found[1].isfinite().all()):
        return f"{name}: not finite"
    if close(found[0], expected[0], len(x)) and close(found[1], expected[1], len(x)).all():
        tally["equal"] += 1
        return None
    if kind in EXACT and not any(word in name for word in ONE_OF_EQUALS):
        return f"{name}: {float(found[0])} is not {float(expected[0])}, or their gradients differ"
    choices = nearby(make, x, call, expected[1])
    tally["tie"] += 1
    if not is_a_choice(found[0], [expected[0], *(value for value, _ in choices)]):
        return f"{name}: {float(found[0])} is not {float(expected[0])}, nor a value beside it"
    if not is_a_choice(found[1], [expected[1], *(gradient for _, gradient in choices)]):
        return f"{name}: the gradient is none of the dense form's"
    return None


def test_tiled_is_dense_where_rows_tie() -> None:
    tally: Counter[str] = Counter()
    wrong = [said for number in range(COUNT) if (said := judge(number, tally)) is not None]
    assert wrong == []
    # A tie is the exception: a judge that excused everything would not pass.
    assert tally["equal"] > 0.9 * COUNT


def test_a_wrong_tiled_form_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = PairLoss._stream
    monkeypatch.setattr(PairLoss, "_stream", lambda *given: 1.001 * right(*given))
    said = [judge(number, Counter()) for number in range(40)]
    assert sum(one is not None for one in said) > 15  # the others are 0, or listed triplets


def test_listed_triplets_are_not_crossed_by_the_dense_form() -> None:
    x, y = batch(8, 2, even=True)
    triplets = [(0, 2, 1), (0, 4, 3), (0, 4, 3), (1, 3, 0)]
    columns = tuple(torch.tensor(triplets).T)
    z = torch.nn.functional.normalize(x, dim=1)
    for cost in ("softplus", "hinge"):
        loss = AngularTripletLoss(cost=cost, angle=40.0)
        expected = value_and_gradient(loss, x, Triplets(8, triplets))
        for given in ((Triplets(8, triplets),), (y, columns)):
            found = value_and_gradient(loss.dense, x, *given)
            torch.testing.assert_close(found[0], expected[0], rtol=1e-12, atol=1e-14)
            torch.testing.assert_close(found[1], expected[1], rtol=1e-10, atol=1e-12)
        s = (z @ z.T).requires_grad_()
        a, p, n = columns
        m = loss.push * (s[a, n] + s[p, n]) - loss.pull * s[a, p] + loss.shift
        (by_hand,) = torch.autograd.grad((m.relu() if cost == "hinge" else m.exp().log1p()).mean(), s)
        torch.testing.assert_close(loss.weights(z @ z.T, Triplets(8, triplets)), by_hand)


def test_a_quadruplet_term_without_quadruplets_is_zero() -> None:
    """Two classes: what was left of sums that cancel came to 8 % of the gradient in single precision."""
    generator = torch.Generator().manual_seed(2)
    x, y = torch.randn(64, 8, generator=generator), torch.randint(2, (64,), generator=generator)
    expected = value_and_gradient(TwoTermQuadrupletLoss().dense, x.double(), y)
    found = value_and_gradient(TwoTermQuadrupletLoss(), x, y)
    torch.testing.assert_close(found[1].double(), expected[1], rtol=1e-4, atol=1e-7)


def test_a_hinge_that_is_zero_has_no_weight_in_either_form() -> None:
    x, y = torch.tensor([[1.0, 1, 1, 1], [1, 1, 1, -1]]), torch.tensor([0, 1])  # s = 0.5, the threshold
    for form in (ContrastiveLoss(), ContrastiveLoss().dense):
        assert value_and_gradient(form, x, y)[1].abs().max() == 0


def test_a_negative_that_equals_the_positive_is_not_below_it() -> None:
    """Parallel rows: their similarities to an anchor are equal up to rounding, in every tile."""
    x = torch.tensor([[1.0, 2, 3], [1, 1, 1], [3, 3, 3], [-1, 0, 1]]).double()
    y = torch.tensor([0, 0, 1, 1])
    values = []
    for scale in (1.0, 3.0, 7.0, 0.1):
        x[2] = scale
        for form in (PairSemiHardTripletLoss(), PairSemiHardTripletLoss().dense):
            values.append(float(form(x, y)))
    assert max(values) - min(values) < 1e-12
