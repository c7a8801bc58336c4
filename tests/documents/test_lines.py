"""What the pages of docs/lines say of results in words is what the result files say."""

from __future__ import annotations

import json
import re
import statistics
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from nearer_papers.asymmetric._two_views import KINDS, METHODS, ONE, OURS, TWO

ROOT = Path(__file__).resolve().parents[2]


def means(file: str, score: str) -> dict[str, float]:
    rows: list[dict[str, Any]] = json.loads((ROOT / "papers" / "results" / f"{file}.json").read_text())["rows"]
    names = dict.fromkeys(row["row"] for row in rows)
    return {
        name: statistics.mean(row["scores"][score] for row in rows if row["row"] == name and score in row["scores"])
        for name in names
        if any(row["row"] == name and score in row["scores"] for row in rows)
    }


def test_pair_weighting() -> None:
    omniglot, cars = means("unseen_omniglot", "recall@1"), means("unseen_cars196_features", "recall@1")
    assert omniglot["RAW"] > omniglot["Binomial"] + 5, "RAW instead of binomial helps on Omniglot"
    assert omniglot["RAW"] > omniglot["RAW+VTHM"], "VTHM on top is not first on Omniglot"
    assert omniglot["Binomial+VTHM"] > omniglot["Binomial"] + 5
    for data in ("cifar10", "fashion"):
        found = means(f"unseen_{data}", "recall@1")
        assert found["Binomial, scaled"] > found["RAW"] - 1, "not behind"
    rows = ("Binomial", "RAW", "VTHM", "Binomial+VTHM", "RAW+DW", "RAW+SemiHard", "RAW+VTHM")
    assert max(cars[row] for row in rows) - min(cars[row] for row in rows) < 1.5, "the rows lie together"


def test_joint_representations() -> None:
    omniglot, cars = means("unseen_omniglot", "recall@1"), means("unseen_cars196_features", "recall@1")
    assert omniglot["JRD"] > omniglot["AMSoftmax"] + 1
    assert cars["JRD"] == pytest.approx(cars["AMSoftmax"], abs=0.5), "does nothing on frozen features"
    for data in ("cifar10", "fashion"):
        found = means(f"unseen_{data}", "recall@1")
        assert found["JRD"] == pytest.approx(found["AMSoftmax"], abs=1.5), "no difference shows"
    rest = [omniglot[name] for name in ("MRD", "JRD-C", "JRD-Pooling", "JMMD")]
    assert max(rest) > omniglot["JRD"] > min(rest), "neither claim of the paper comes out"
    assert max(omniglot["MGF"], omniglot["poly-5"]) < omniglot["AMSoftmax"], "kernels without bound"


def test_the_words_of_the_tables() -> None:
    """The prose of three pages leans on these words of their generated tables."""
    asymmetric = (ROOT / "docs" / "lines" / "asymmetric.md").read_text()
    views = [line for line in asymmetric.splitlines() if "| two views |" in line]
    assert len(views) == 3
    assert not any(line.endswith("| hurts |") for line in views), "ours are ahead, or no difference shows"
    record = json.loads((ROOT / "papers" / "results" / "asymmetric_views.json").read_text())["rows"]
    errors = {
        kind: min(
            statistics.mean(row["error"] for row in record if (row["method"], row["problem"]) == (name, "halves"))
            for name, method in METHODS.items()
            if method.kind == kind
        )
        for kind in KINDS
    }
    assert errors[OURS] < errors[TWO] < errors[ONE] / 2, "the best metric with one map is far behind"
    few = (ROOT / "docs" / "lines" / "semi-supervised.md").read_text()
    told = [line for line in few.splitlines() if line.startswith("| cifar10 | R@1")]
    assert "no difference" in told[0], "the words under the table say that it does not help there"
    relations = (ROOT / "docs" / "lines" / "relation-alignment.md").read_text()
    told = [line for line in relations.splitlines() if line.startswith("| flags | average precision")]
    assert "hurts" in told[0], "the words under the table say that the raw features are ahead"


def test_the_commands_name_recipes_and_what_they_know() -> None:
    """`nearer reproduce NAME --only WHAT` of the pages: the recipe exists, and its sources know the word."""
    from nearer_papers._catalog import RECIPES

    known = {recipe.name for recipe in RECIPES}
    sources = "\n".join(path.read_text() for path in (ROOT / "papers" / "nearer_papers").rglob("*.py"))
    asked = 0
    for page in (ROOT / "docs" / "lines").glob("*.md"):
        for block in re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
            for line in re.findall(r"nearer reproduce ([^#\n]*)", block):
                name, *rest = line.split()
                assert name in known, f"{page.name}: {name}"
                for flag, what in pairwise(rest):
                    if flag == "--only":
                        asked += 1
                        assert f'"{what}"' in sources, f"{page.name}: {what}"
    assert asked > 8
