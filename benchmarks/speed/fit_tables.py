"""What `nearer.fit` knows of real tables beside what five lines give: python benchmarks/speed/fit_tables.py FOLDER

FOLDER holds tables (*.csv.gz) and labels.txt, in each line the name of a table, its label column and columns to
leave out. Of at most 3,000 rows 70 % are learned from. `--new-classes` gives half of the classes to learning and
scores the rows of the others among each other, on tables of twenty classes or more. `--withheld` asks on tables of
two classes what is left inside a class: a number is kept from learning, and predicted by the mean of the five
nearest rows of the class, for the numbers that raw explains best on the rows that are learned from.

raw: median, one scale, one-hot. lda, nca: scikit-learn's on raw (NCA: 1,200 rows, 50 steps). proba: class
probabilities of boosted trees on raw, squared, to unit length. boosting: their accuracy. For every rival the row of
nearer has the mean lead in each score and its standard error over the rows that are asked.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import nearer
from nearer.evaluation._paired import per_query_scores
from nearer.neighbors import search, vote
from record import save

ROWS, SHARE, MANY_CLASSES = 3_000, 0.3, 20
NEAR = 5
# Numbers that are withheld at most, of those that raw explains by more than this share.
WITHHELD, LEAST_SHARE = 5, 0.1


def read(file: Path, label: str, left_out: list[str], seed: int) -> pd.DataFrame:
    """The rows that have a label, at most 3,000, of classes with at least four rows."""
    table = pd.read_csv(file)
    table = table.drop(columns=[name for name in ("rownames", *left_out) if name in table])
    table = table[table[label].notna()]
    if len(table) > ROWS:
        table = table.sample(ROWS, random_state=seed)
    counts = table[label].value_counts()
    return table[table[label].isin(counts[counts >= 4].index)].reset_index(drop=True)


def as_numbers(train: pd.DataFrame, test: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """What people do to a table: holes filled, one scale, words as 0/1 columns, free text left out."""
    is_number = {name: pd.api.types.is_numeric_dtype(train[name]) for name in train}
    numbers = [name for name, yes in is_number.items() if yes and train[name].nunique() > 1]
    few = [not (train[name].nunique() > 20 and 2 * train[name].nunique() > len(train)) for name in train]
    words = [name for name, short in zip(train, few, strict=True) if short and not is_number[name]]
    train, test = (
        part.astype(dict.fromkeys(numbers, float)).assign(
            **{name: part[name].astype(object).where(part[name].notna(), "NA").astype(str) for name in words}
        )
        for part in (train, test)
    )
    one_hot = OneHotEncoder(max_categories=20, handle_unknown="infrequent_if_exist", sparse_output=False)
    scaled = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    columns = ColumnTransformer([("numbers", scaled, numbers), ("words", one_hot, words)])
    return columns.fit_transform(train).astype(float), columns.transform(test).astype(float)


def scores(known: Any, codes: np.ndarray, asked: Any, truth: np.ndarray, *, new: bool) -> dict[str, np.ndarray]:
    """1-NN and 5-NN by the rows that were learned from (by the others asked, where classes are new), and MAP@R."""
    known, asked = np.asarray(known, dtype=float), np.asarray(asked, dtype=float)
    among = per_query_scores(asked, truth)
    if new:
        return {"1-NN": among["recall@1"], "MAP@R": among["map@r"]}
    near = codes[np.asarray(search(asked, known, k=min(NEAR, len(known))).indices)]
    return {"1-NN": (near[:, 0] == truth) * 1.0, "5-NN": (vote(near) == truth) * 1.0, "MAP@R": among["map@r"]}


def parts(table: pd.DataFrame, label: str, seed: int, *, new: bool) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows to learn from and rows to ask."""
    if new:
        names = np.random.RandomState(seed).permutation(np.sort(table[label].astype(str).unique()))
        inside = table[label].astype(str).isin(names[: len(names) // 2])
        return table[inside].reset_index(drop=True), table[~inside].reset_index(drop=True)
    train, test = train_test_split(table, test_size=SHARE, random_state=seed, stratify=table[label])
    return train.reset_index(drop=True), test.reset_index(drop=True)


def one(table: pd.DataFrame, label: str, seed: int, *, new: bool) -> list[dict[str, Any]]:
    """A row for every method."""
    train, test = parts(table, label, seed, new=new)
    names = np.unique(table[label].astype(str))
    ya, yb = (np.searchsorted(names, part[label].astype(str)) for part in (train, test))
    a, b = as_numbers(train.drop(columns=label), test.drop(columns=label))
    found = {"raw": scores(a, ya, b, yb, new=new)}
    lda = LinearDiscriminantAnalysis().fit(a, ya)
    found["lda"] = scores(lda.transform(a), ya, lda.transform(b), yb, new=new)
    some = np.random.RandomState(seed).permutation(len(a))[:1200]
    nca = NeighborhoodComponentsAnalysis(random_state=seed, max_iter=50).fit(a[some], ya[some])
    found["nca"] = scores(nca.transform(a), ya, nca.transform(b), yb, new=new)
    rounds = 100 if len(names) <= 10 else max(40, 1000 // len(names))
    trees = HistGradientBoostingClassifier(
        max_iter=rounds, max_leaf_nodes=15, min_samples_leaf=10, l2_regularization=1.0, random_state=seed
    ).fit(a, ya)
    shares = [p / np.linalg.norm(p, axis=1, keepdims=True) for p in (trees.predict_proba(x) ** 2 for x in (a, b))]
    found["proba"] = scores(shares[0], ya, shares[1], yb, new=new)
    rows: list[dict[str, Any]] = []
    if not new:
        rows.append({"method": "boosting", "accuracy": float((trees.predict(b) == yb).mean())})
    begin = time.process_time()
    model = nearer.fit(train, label, seed=seed, split="classes" if new else "stratified")
    seconds = time.process_time() - begin
    mine = scores(model.transform(train), ya, model.transform(test), yb, new=new)
    rows += [{"method": name, **means(each)} for name, each in found.items()]
    leads = {
        name: {score: [float(np.mean(gap)), float(np.std(gap) / np.sqrt(len(gap)))] for score, gap in gaps.items()}
        for name, gaps in ((name, {s: mine[s] - each[s] for s in mine}) for name, each in found.items())
    }
    told = {"method": "nearer", **means(mine), "leads": leads, "took": model.method, "cpu_seconds": seconds}
    if not new:
        told["accuracy"] = model.score(test, label)
    sizes = {"rows": len(train), "asked": len(test), "classes": len(names), "features": a.shape[1]}
    return [{**row, **sizes} for row in [*rows, told]]


def explained(known: Any, asked: Any, number: list[np.ndarray], codes: list[np.ndarray]) -> np.ndarray:
    """Of a number, by class, the squared error of the mean of the nearest and its squares around its mean."""
    found = []
    for c in np.unique(codes[0]):
        inside, own = codes[0] == c, codes[1] == c
        itself = np.arange(inside.sum()) if asked is known else None
        x, queries = (np.asarray(part, dtype=float) for part in (known[inside], asked[own]))
        near = np.asarray(search(queries, x, k=min(NEAR, len(x) - 1), own=itself).indices)
        error = number[0][inside][near].mean(axis=1) - number[1][own]
        found.append([np.square(error).sum(), np.square(number[1][own] - number[1][own].mean()).sum()])
    return np.array(found)


def withheld(table: pd.DataFrame, label: str, seed: int) -> list[dict[str, Any]]:
    """For each number that raw explains by more than a tenth what is explained by raw and by nearer."""
    train, test = parts(table, label, seed, new=False)
    best: list[tuple[float, str]] = []
    numbers = [name for name in train if name != label and pd.api.types.is_numeric_dtype(train[name])]
    for name in numbers:
        if train[name].nunique() > 2:
            rows = train[train[name].notna()]
            x = as_numbers(rows.drop(columns=[label, name]), rows.drop(columns=[label, name]))[0]
            y, value = rows[label].astype(str).to_numpy(), rows[name].to_numpy(float)
            error, whole = explained(x, x, [value, value], [y, y]).sum(axis=0)
            best.append((1 - error / max(whole, 1e-30), name))
    shares: dict[str, list[np.ndarray]] = {"raw": [], "nearer": []}
    used = [name for share, name in sorted(best, reverse=True)[:WITHHELD] if share > LEAST_SHARE]
    for name in used:
        known, asked = (part[part[name].notna()].reset_index(drop=True) for part in (train, test))
        value, y = ([one[column].to_numpy() for one in (known, asked)] for column in (name, label))
        model = nearer.fit(known.drop(columns=name), label, seed=seed, split="stratified")
        maps = {
            "raw": as_numbers(*(one.drop(columns=[name, label]) for one in (known, asked))),
            "nearer": tuple(np.asarray(model.transform(one.drop(columns=name))) for one in (known, asked)),
        }
        for method, (a, b) in maps.items():
            shares[method].append(explained(a, b, value, y))
    return [
        {"method": method, "numbers": used, **told(np.array(found))} for method, found in shares.items() if found
    ]


def told(found: np.ndarray) -> dict[str, float]:
    """The mean share that is explained, of all rows and of those of the rarer class, from (number, class, 2)."""
    error, whole = found.sum(axis=1).T
    rare = found[:, found[:, :, 1].sum(axis=0).argmin()]
    return {
        "explained": float((1 - error / whole).mean()),
        "explained in the rarer class": float(np.mean(1 - rare[:, 0].sum() / rare[:, 1].sum())),
    }


def means(each: dict[str, np.ndarray]) -> dict[str, float]:
    """The mean over the rows that were asked."""
    return {name: float(np.mean(values)) for name, values in each.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--new-classes", action="store_true")
    parser.add_argument("--withheld", action="store_true")
    parser.add_argument("--try", dest="trial", action="store_true", help="print, and keep no rows")
    chosen = parser.parse_args()
    warnings.filterwarnings("ignore")
    lines = [line.split() for line in (chosen.folder / "labels.txt").read_text().splitlines() if line.strip()]
    for seed in range(chosen.seeds):
        for name, label, *left_out in lines:
            if chosen.only and name not in chosen.only:
                continue
            table = read(chosen.folder / f"{name}.csv.gz", label, left_out, seed)
            if chosen.new_classes and table[label].nunique() < MANY_CLASSES:
                continue
            if chosen.withheld and table[label].nunique() != 2:
                continue
            split = "new classes" if chosen.new_classes else "withheld" if chosen.withheld else "known classes"
            head = {"table": name, "split": split, "seed": seed}
            made = (
                withheld(table, label, seed) if chosen.withheld else one(table, label, seed, new=chosen.new_classes)
            )
            rows = [{**head, **row} for row in made]
            for row in rows:
                shown = "  ".join(f"{k} {v:.3f}" for k, v in row.items() if isinstance(v, float))
                print(f"{name}/{seed} {row['method']:9} {shown}", flush=True)
            if not chosen.trial:
                save("fit_tables", rows, key=["table", "split", "seed", "method"])


if __name__ == "__main__":
    main()
