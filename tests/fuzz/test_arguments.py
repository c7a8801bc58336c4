"""Arguments of any kind for every public name: an answer or an error of ours, and no other end.

The calls and what counts as raw are in tests/any_arguments.py. The long form (`make fuzz`) makes them in processes
of their own, so that a crash or a hang is seen and named.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import any_arguments
import nearer
import nearer_papers.systems
from nearer._border import explained
from nearer.estimators import KISSME
from nearer.exceptions import NearerError, ParameterError
from nearer.losses import ContrastiveLoss
from nearer.reports import weight_matrix
from random_cases import LONG, OUTCOMES, TOTAL

SHORT, CHUNK = 250, 500


def test_every_package_is_called() -> None:
    packages = {path.parent.name for path in Path(nearer.__file__).parent.glob("*/__init__.py")}
    # The commands and the folder format have tests of their own; losses are written in
    # what pairwise exports.
    left_out = {"_storage", "app", "pairwise"}
    assert packages - left_out == {name.split(".")[1] for name in any_arguments.PACKAGES if "." in name} - {
        "app",
        "systems",
    }
    assert len(any_arguments.NAMES) > 200


def test_arguments_of_any_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    raw = {}
    for number in range(SHORT):
        kind, what, name = any_arguments.outcome(number)
        if kind == "raw":
            raw[number] = f"{name}: {what}"
    assert raw == {}


@pytest.mark.skipif(not LONG, reason="minutes: NEARER_FUZZ=100000, `make fuzz`")
def test_arguments_of_any_kind_in_processes_of_their_own() -> None:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        lines = [line for chunk in pool.map(_calls, range(0, TOTAL, CHUNK)) for line in chunk]
    for line in lines:
        for kind, count in line.get("counts", {}).items():
            OUTCOMES["arguments", kind] += count
    raw = [line for line in lines if "raw" in line]
    assert not raw, "\n".join(map(str, raw))


def _calls(place: int) -> list[dict[str, Any]]:
    """What one chunk of calls printed; goes on behind a call that ends its process."""
    printed: list[dict[str, Any]] = []
    end = min(TOTAL, place + CHUNK)
    while place < end:
        command = [sys.executable, any_arguments.__file__, str(place), str(end)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=CHUNK * any_arguments.SECONDS)
            output, code = done.stdout, done.returncode
        except subprocess.TimeoutExpired as error:
            output, code = bytes(error.stdout or b"").decode(), -9
        lines = [json.loads(line) for line in output.splitlines()]
        printed += lines
        begun = max((line["begun"] for line in lines if "begun" in line), default=place)
        if code:
            printed.append({"number": begun, "raw": f"the process ended with {code}"})
        place = begun + 1 if code else end
    return printed


def test_a_raw_exception_is_seen() -> None:
    """The judge itself: numpy's words are raw, ours and those of scikit-learn's checks are not."""

    def judged(call: object) -> str | None:
        with pytest.raises(Exception) as caught:
            call()  # type: ignore[operator]
        return any_arguments.judged(caught.value)

    assert "ZeroDivisionError" in str(judged(lambda: 1 // 0))
    assert "RuntimeError" in str(judged(lambda: torch.ones(2) @ torch.ones(3)))
    assert judged(lambda: KISSME().fit("a", "b")) is None
    assert judged(lambda: nearer.evaluate("a", "b")) is None


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: nearer.load({}), "`path` must be a string or a path, got a dict: {}"),
        (lambda: nearer_papers.systems.ABIERLoss(3), "`heads` must be of the kind BoostedHeads, got a int: 3"),
        (lambda: nearer.graph.propagate("a", [0]), "`neighbors` must be of the kind Neighbors, got a str: 'a'"),
        (
            lambda: nearer.geometry.MLP(3, 2, hidden=3),
            "must be a list of which each is an integer, got a int: 3",
        ),
        (lambda: nearer.losses.NestedLoss(3, widths=[2])([[1.0, 2.0]], [1]), "`loss` must be of the kind Module"),
    ],
)
def test_the_argument_of_a_wrong_kind_is_named(call: object, words: str) -> None:
    with pytest.raises(ParameterError, match=words.replace("{", r"\{").replace("}", r"\}")) as caught:
        call()  # type: ignore[operator]
    assert not isinstance(caught.value.__cause__, NearerError)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: nearer.fit([[0.0], [1.0]], encoder=np.eye(2)), "Leave `encoder` out for features"),
        (lambda: nearer.fit([[0.0], [1.0]], y=torch.nn.Linear(3, 2)), "`y` must have one entry .* got one Linear"),
        (lambda: nearer.neighbors.search([[0.0], [1.0]], own=[[1.0, 2.0], [3.0]]), "`own` must be a rectangular"),
        (
            lambda: nearer_papers.systems.SyntheticLoss(2, 1)(torch.eye(2), [[0.0, 1.0, 1.0]]),
            r"`triplets` must be integer row numbers of shape \(m, 3\)",
        ),
        (lambda: nearer_papers.systems.ClassTree().update_from(iter([3])), "`parts` must be pairs .*, got a int"),
        (lambda: batches().labels(torch.tensor([0.5])), "`rows` must be whole numbers, got fractions"),
        (lambda: batches().items(torch.tensor([1, 4])), r"`rows` must lie in 0\.\.3, got 1 to 4"),
        (lambda: nearer_papers.systems.AttentionHeads(3, [2])(ValueError("no")), "`maps` must hold numbers"),
        (lambda: nearer_papers.systems.DecoupledEncoder({"a": 1}, 3), "`trunk` must be a torch module, got a dict"),
        (lambda: nearer_papers.systems.JMMDLoss()(0.5, [0]), "`layers` must be a list of tensors, .* got a float"),
        (
            lambda: nearer.losses.SentenceTransformersLoss(torch.nn.Linear(3, 2), ContrastiveLoss())({"a": 1}),
            "`sentence_features` must be a list of which each is a dictionary",
        ),
        (
            lambda: nearer.index.find_duplicates([[0.0], [1.0]], pairs=[[1.0, 2.0], [3.0]]),
            "`pairs` must be a rectangular array",
        ),
        (lambda: nearer.index.find_duplicates([[0.0], [1.0]], seed=-1), "`seed` must be at least 0, got -1"),
        (lambda: nearer.geometry.itq(torch.eye(3), 2, seed=10**30), "`seed` must be an integer of 64 bits"),
        (lambda: nearer.relations.Tree(torch.eye(3).to_sparse()), "`labels` must be dense"),
        (lambda: weight_matrix(ContrastiveLoss(), torch.eye(3), []), "one entry for each of the 3 rows, got 0"),
    ],
)
def test_what_the_fuzz_found_raw_is_named(call: object, words: str) -> None:
    with pytest.raises(NearerError, match=words):
        call()  # type: ignore[operator]


def test_a_torch_module_is_a_metric_of_questions() -> None:
    X, y = torch.randn(8, 3, generator=torch.Generator().manual_seed(0)).numpy(), [0, 1] * 3 + [-1, -1]
    assert len(nearer.judging.suggest_items(torch.nn.Linear(3, 2), X, y, n=1)) == 1


def batches() -> nearer.training.TensorBatches:
    return nearer.training.TensorBatches(torch.eye(4), torch.arange(4))


def test_a_sparse_tensor_is_no_list() -> None:
    def first(x: list[int]) -> int:
        return x[0] + "a"  # type: ignore[operator]

    first.__module__ = "nearer.example"
    with pytest.raises(ParameterError, match="`x` must be a list of which each is an integer, got a Tensor"):
        explained(first)(torch.ones(3).to_sparse())


def test_a_fault_of_ours_stays_as_it_is() -> None:
    def broken(x: int) -> int:
        return x // 0

    broken.__module__ = "nearer.example"
    with pytest.raises(ZeroDivisionError):
        explained(broken)(3)
