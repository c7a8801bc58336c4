"""The seven steps of "Add a loss" in CONTRIBUTING.md, followed word for word."""

from __future__ import annotations

import importlib.util
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor

from contributing import code, copy_of_the_package, run_on_the_copy, steps
from every_loss import batch, value_and_gradient
from nearer.losses import PairLoss
from nearer.mining import VTHM
from nearer.pairwise import Rule
from nearer.pairwise._panels import tile_size


def loaded(path: Path) -> ModuleType:
    """A file as a module of its own name."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


contract = loaded(Path(__file__).with_name("test_contract.py"))
TITLE = "Add a loss"
STAGES = {"formula": [1], "weights by hand": [1, 4], "statistic": [1, 4, 5]}


@pytest.fixture(params=STAGES.values(), ids=STAGES.keys())
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> type[PairLoss]:
    """The loss as far as the steps say, from a file of its own."""
    path = tmp_path / "_soft_margin.py"
    path.write_text("\n".join(code(TITLE, step) for step in request.param), encoding="utf-8")
    return loaded(path).SoftMarginLoss  # type: ignore[no-any-return]


def test_there_are_seven() -> None:
    assert len(steps(TITLE)) == 7
    assert textwrap.dedent(code(TITLE, 4)) != code(TITLE, 4), "what follows the first step is a method of the class"


def test_a_step_adds_what_it_says(kind: type[PairLoss], request: pytest.FixtureRequest) -> None:
    stage = STAGES[re.search(r"\[(.*)\]", request.node.name).group(1)]  # type: ignore[union-attr]
    assert ("weigh" in vars(kind)) == (4 in stage)
    assert ("statistic" in vars(kind)) == (5 in stage)
    assert kind.weigh is not Rule.weigh or 4 not in stage  # type: ignore[attr-defined]


def test_its_value_is_the_printed_one(kind: type[PairLoss]) -> None:
    x, y = batch(20, 5)
    z = torch.nn.functional.normalize(x, dim=1)
    terms = []
    for i in range(20):
        same = (y == y[i]) & (torch.arange(20) != i)
        if same.any():
            s = z @ z[i]
            terms.append((1 - s[same]).mean() + 0.1 * (1 + (s[y != y[i]] / 0.1).exp().sum()).log())
    torch.testing.assert_close(kind()(x, y), torch.stack(terms).mean())


@pytest.mark.parametrize("even", [False, True], ids=["ragged", "even"])
@pytest.mark.parametrize("tile", [None, 1, 5, 12])
def test_the_contract_of_values(kind: type[PairLoss], tile: int | None, even: bool) -> None:
    contract.test_streaming_equals_dense(kind, tile, even)
    contract.test_streaming_equals_dense(lambda: kind(reduction="sum"), tile, even)


@pytest.mark.parametrize(
    "check",
    [
        contract.test_weights_are_the_derivative_of_the_formula,
        contract.test_frozen_weights_give_the_true_gradient,
        contract.test_gradcheck,
        contract.test_order_of_the_batch_does_not_matter,
        contract.test_twice_the_same_bits_and_input_untouched,
    ],
    ids=lambda check: check.__name__,
)
def test_the_contract(kind: type[PairLoss], check: Callable[..., None]) -> None:
    check(kind)


def test_the_contract_of_edge_cases(kind: type[PairLoss]) -> None:
    for case in contract._edge_cases():
        for tile in (None, 2):
            contract.test_edge_cases_are_finite_and_on_the_graph(kind, case, tile)
    for dtype in (torch.float16, torch.bfloat16):
        contract.test_half_precision_under_autocast(kind, dtype)


@pytest.fixture
def listed(kind: type[PairLoss], monkeypatch: pytest.MonkeyPatch) -> type[PairLoss]:
    """The loss among the cases of the contract suite."""
    monkeypatch.setitem(contract.CASES, f"{kind.__name__}()", kind)
    return kind


def test_the_contract_of_databases_relations_and_bad_input(listed: type[PairLoss]) -> None:
    contract.test_against_a_database(listed)
    contract.test_tiles_without_weight_change_nothing(listed)
    contract.test_an_extremely_skewed_batch(listed)
    contract.test_bad_input(listed)
    for name in ("partial", "multilabel", "distribution", "pairs"):
        contract.test_any_relation(listed, name)


def test_it_takes_a_miner(kind: type[PairLoss]) -> None:
    x, y = batch(40, 11)
    loss = kind(miner=VTHM())  # type: ignore[call-arg]
    expected = value_and_gradient(loss.dense, x, y)
    for tile in (6, 1000):
        with tile_size(tile):
            found: tuple[Tensor, Tensor] = value_and_gradient(loss, x, y)
        torch.testing.assert_close(found[0], expected[0], rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(found[1], expected[1], rtol=1e-8, atol=1e-11)


def test_it_shows_its_settings(kind: type[PairLoss]) -> None:
    assert repr(kind()) == "SoftMarginLoss(temperature=0.1, reduction='active', miner=None)"


def test_written_and_exported_it_comes_under_the_contract_by_itself(tmp_path: Path) -> None:
    copy_of_the_package(tmp_path, TITLE, written=[1, 4, 5], exported=3)
    passed = run_on_the_copy(
        tmp_path,
        str(Path(__file__).with_name("test_contract.py")),
        str(Path(__file__).parents[1] / "test_docstrings.py"),
        str(Path(__file__).parents[1] / "test_exports.py"),
        "-k",
        "SoftMarginLoss or test_every_loss_is_public or (test_the_stub_imports and losses) or _soft_margin",
    )
    assert passed > 50
