"""Write the tables of the documents from the result files.

A page holds `<!-- table: NAME -->` … `<!-- end -->`; what stands between is replaced by the function of that
name below, which reads `benchmarks/results/*.json`. With --check nothing is written: a stale table is an error.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MARK = re.compile(r"(<!-- table: (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def load(name: str) -> dict[str, Any]:
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())


def markdown(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def source(record: dict[str, Any]) -> str:
    """The line under a table that says how to make it again."""
    return f"\nMade by `{record['command']}` at {record['commit']}, torch {record['versions']['torch']}.\n"


TABLES: dict[str, Callable[[], str]] = {}


def table(name: str) -> Callable[[Callable[[], str]], Callable[[], str]]:
    def register(function: Callable[[], str]) -> Callable[[], str]:
        TABLES[name] = function
        return function

    return register


@table("losses")
def losses() -> str:
    record = load("losses")

    def closeness(row: dict[str, Any]) -> float:
        return min(row.get("faster_than_peer", 1e9), row.get("faster_than_dense", 1e9))

    def times(row: dict[str, Any], key: str) -> str:
        return f"{row[key]:.1f}×" if key in row else "–"

    rows = [
        (
            row["loss"],
            row["batch"],
            row["dimension"],
            f"{1 / (1 + row['noise'] ** 2):.1f}",
            f"{row['nearer_ms']:.2f}",
            f"{row['times_limit']:.2f}×",
            times(row, "faster_than_peer"),
            times(row, "faster_than_dense"),
        )
        for row in sorted(record["rows"], key=closeness)
    ]
    header = ("loss", "B", "D", "positive cosine", "ms", "of the limit", "faster than peer", "than dense")
    return markdown(header, rows) + source(record)


@table("losses-memory")
def losses_memory() -> str:
    record = load("losses_memory")
    # Seconds are in the file, but on a shared machine a single time means nothing.
    rows = [(row["loss"], f"{row['batch']:,}", f"{row['extra_megabytes']:.0f} MB") for row in record["rows"]]
    return markdown(("loss", "B", "extra memory"), rows) + source(record)


@table("estimators")
def estimators() -> str:
    """Mean accuracy over the seeds, what it gains on Euclidean, CPU seconds; newer runs replace older rows."""
    results = ROOT / "benchmarks" / "results"
    names = [
        name
        for name in ("estimators", "estimators_again", "estimators_quadratic")
        if (results / f"{name}.json").exists()
    ]
    cells: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for name in names:
        fresh: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for row in load(name)["rows"]:
            fresh.setdefault((row["estimator"], row["dataset"]), []).append(row)
        cells |= fresh
    plain = {
        (row["dataset"], row["seed"]): row["accuracy"]
        for row in load("estimators")["rows"]
        if row["estimator"] == "Euclidean"
    }

    def mean(values: list[float]) -> float:
        return sum(values) / len(values)

    def cell(learner: str, dataset: str) -> str:
        rows = cells.get((learner, dataset))
        if not rows:
            return "–"
        gain = mean([row["accuracy"] - plain[row["dataset"], row["seed"]] for row in rows])
        seconds = mean([row["seconds"] for row in rows])
        seeds = "" if len(rows) > 1 else ", one seed"
        shown = f"{mean([row['accuracy'] for row in rows]):.3f}"
        return shown if learner == "Euclidean" else f"{shown} ({gain:+.3f}) {seconds:.2g} s{seeds}"

    sizes = {
        row["dataset"]: f"{row['dataset']} {row['rows']}×{row['columns']}" for row in load("estimators")["rows"]
    }
    learners = list(dict.fromkeys(learner for learner, _ in cells))
    table_rows = [[f"`{learner}`", *(cell(learner, dataset) for dataset in sizes)] for learner in learners]
    return markdown(["learner", *sizes.values()], table_rows) + "".join(source(load(name)) for name in names)


@table("estimators-nca")
def estimators_nca() -> str:
    record = load("estimators_nca")
    rows = [
        (
            row["dataset"],
            row["estimator"],
            f"{row['seconds']:.2f} s",
            f"{row['megabytes']:.0f} MB",
            f"{row['objective']:.4f}",
            f"{row['accuracy']:.3f}",
        )
        for row in record["rows"]
    ]
    return markdown(("data", "NCA of", "CPU", "extra memory", "objective", "3-NN accuracy"), rows) + source(record)


@table("estimators-large")
def estimators_large() -> str:
    record = load("estimators_large")
    rows = []
    for row in record["rows"]:
        limited = ", ".join(f"{key} = {value}" for key, value in row.get("limited", {}).items())
        rows.append((f"`{row['estimator']}`", f"{row['megabytes']:.0f} MB", f"{row['seconds']:.1f} s", limited))
    return markdown(("learner", "extra memory", "CPU", "limited to"), rows) + source(record)


@table("peer-learners")
def peer_learners() -> str:
    if not measured("peer_learners"):
        return "Not measured yet."
    record = load("peer_learners")
    rows = []
    for row in record["rows"]:

        def cell(side: str, row: dict[str, Any] = row) -> str:
            if f"{side} failed" in row:
                return str(row[f"{side} failed"])
            return f"{row[f'{side} seconds']:.2f} s / {row[f'{side} accuracy']:.3f}"

        faster = f"{row['faster']:.1f}×" if "faster" in row else ""
        rows.append((f"`{row['ours']}`", row["dataset"], cell("ours"), row["peer"], cell("peer"), faster))
    return markdown(("learner", "data", "nearer", "peer", "", "faster"), rows) + source(record)


@table("demo")
def demo() -> str:
    record = load("demo")
    seeds = len(record["settings"]["seeds"])

    def cell(side: dict[str, Any]) -> str:
        return f"{side['mean']:.4f} ± {side['spread']:.4f}"

    rows = [
        (
            row["score"],
            cell(row["raw"]),
            cell(row["learned"]),
            f"{row['learned']['mean'] - row['raw']['mean']:+.4f}",
            f"{row['seeds_better']} of {seeds}",
        )
        for row in record["rows"]
    ]
    return markdown(("score", "raw features", "learned metric", "difference", "splits better"), rows) + source(
        record
    )


@table("startup")
def startup() -> str:
    record = load("startup")
    rows = [
        (f"`{row['command']}`", f"{row['median_seconds']:.2f} s", f"{row['best_seconds']:.2f} s")
        for row in record["rows"]
    ]
    return markdown(("a fresh process", "median", "best"), rows) + source(record)


def measured(name: str) -> bool:
    return (ROOT / "benchmarks" / "results" / f"{name}.json").exists()


@table("evaluation")
def evaluation() -> str:
    """Its four parts are measured apart; what has not been measured is not shown."""
    parts = {
        "evaluation": _evaluation_product,
        "evaluation_memory": _evaluation_memory,
        "evaluation_peer": _evaluation_peer,
        "evaluation_kmeans": _evaluation_kmeans,
    }
    found = [part(load(name)) + source(load(name)) for name, part in parts.items() if measured(name)]
    return "\n".join(found)


def _evaluation_product(record: dict[str, Any]) -> str:
    header = ("classes", "Recall@1", "MAP@R", "Recall@1,2,4,8", "with MAP@R and R-precision")
    rows = [
        (
            f"{row['classes']:,}",
            f"{row['recall_at_1']:.3f}",
            f"{row['map_at_r']:.3f}",
            f"{row['recall_of_product']:.2f}×",
            f"{row['lists_of_product']:.2f}×",
        )
        for row in record["rows"]
    ]
    intro = "Exact scores of 60,000 × 128, as a share of the time of the full 60,000 × 60,000 matrix product:\n\n"
    return intro + markdown(header, rows)


def _evaluation_memory(record: dict[str, Any]) -> str:
    rows = [(f"{row['classes']:,}", f"{row['extra_megabytes']:.0f} MB") for row in record["rows"]]
    intro = "Peak memory beyond the data, all of these scores and MRR together:\n\n"
    return intro + markdown(("classes", "extra memory"), rows)


def _evaluation_peer(record: dict[str, Any]) -> str:
    version = record["versions"]["pytorch-metric-learning"]
    rows = [
        (
            f"{row['n']:,}",
            f"{row['classes']:,}",
            row["k"],
            ", ".join(row["scores"]),
            f"{row['largest_difference']:.0e}",
            f"{row['times_faster']:.1f}×",
        )
        for row in record["rows"]
    ]
    intro = f"The same scores by AccuracyCalculator of pytorch-metric-learning {version}:\n\n"
    return intro + markdown(("n", "classes", "k", "scores", "largest difference", "times faster"), rows)


def _evaluation_kmeans(record: dict[str, Any]) -> str:
    version, seeds = record["versions"]["scikit-learn"], len(record["settings"]["seeds"])
    rows = [
        (
            row["data"],
            f"{row['n']:,}",
            row["dimension"],
            row["k"],
            f"{row['of_their_time']:.2f}×",
            f"{100 * (row['inertia'] / row['their_inertia'] - 1):+.2f} %",
            f"{row['nmi']:.3f}",
            f"{row['their_nmi']:.3f}",
        )
        for row in record["rows"]
    ]
    intro = f"k-means against the best of ten runs of scikit-learn {version}, means over {seeds} seeds:\n\n"
    return intro + markdown(("data", "n", "d", "k", "of their time", "inertia", "NMI", "their NMI"), rows)


def _relation_rows(kind: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The summaries of all data sets of one kind that have been measured, and their records."""
    from nearer.recipes.relation_alignment._relation_alignment import summary
    from nearer.recipes.relation_alignment._relation_data import SETS

    lines, records = [], []
    for name, data in SETS.items():
        file = "relation_alignment_" + name.replace("-", "_")
        if data.kind == kind and measured(file):
            records.append(load(file))
            lines += summary(records[-1]["rows"])
            lines += [
                {"dataset": name, "method": method, "printed": values} for method, values in data.printed.items()
            ]
            lines.append({"dataset": name, "method": "", "differs": data.differs})
    return lines, records


def _relation_table(kind: str) -> str:
    from nearer.recipes.relation_alignment._relation_alignment import SCORES

    lines, records = _relation_rows(kind)
    scores, rows = SCORES[kind], []
    for line in lines:
        if "differs" in line:
            rows.append((f"*{line['dataset']}*", f"*{line['differs']}*", *[""] * (len(scores) + 2)))
        elif "printed" in line:
            cells = [f"{line['printed'][score]:.4f}" if score in line["printed"] else "" for score in scores]
            rows.append((line["dataset"], line["method"], *cells, "", ""))
        else:
            cells = [
                f"{line[score]:.4f}" + (f" ± {line[score + ' error']:.4f}" if line["runs"] > 1 else "")
                for score in scores
            ]
            behind = ", ".join(line.get("worse than raw", ()))
            rows.append((line["dataset"], line["method"], *cells, line["runs"], behind))
    header = ("data", "method", *scores, "runs", "not better than raw in")
    commits = ", ".join(dict.fromkeys(one["commit"].removesuffix("-dirty") for one in records))
    made = f"Made by `python benchmarks/quality/relation_alignment.py DATA`, fold by fold, last at {commits}.\n"
    return markdown(header, rows) + "\n" + made


@table("relation-alignment-classes")
def relation_alignment_classes() -> str:
    return _relation_table("classes")


@table("relation-alignment-sets")
def relation_alignment_sets() -> str:
    return _relation_table("sets")


@table("relation-alignment-distributions")
def relation_alignment_distributions() -> str:
    return _relation_table("distributions")


@table("raml-speed")
def raml_speed() -> str:
    record = load("raml_speed")
    rows = [
        (
            f"{row['pairs']:,}",
            f"{row['rows']:,} × {row['columns']}",
            f"{row['seconds']:.0f} s",
            f"{row['peak_megabytes']:.0f} MB",
            f"{row['data_megabytes']:.0f} MB",
            row["iterations"],
            f"{row['correlation_with_the_planted_distances']:.3f}",
        )
        for row in record["rows"]
    ]
    header = ("pairs", "rows", "time", "peak memory", "of that data", "iterations", "correlation with the planted")
    return markdown(header, rows) + source(record)


@table("neighborhood-speed")
def neighborhood_speed() -> str:
    if not measured("neighborhood_speed"):
        return "Not measured yet.\n"
    record = load("neighborhood_speed")
    size = record["settings"]
    rows = [(row["kind"], f"{row['of_sorting']:.2f}×") for row in record["rows"]]
    head = f"{size['queries']:,} × {size['items']:,}, {size['classes']} classes, k = {size['k']}"
    return markdown(("inference", head), rows) + source(record)


@table("neighborhood-large")
def neighborhood_large() -> str:
    if not measured("neighborhood_large"):
        return "Not measured yet.\n"
    record = load("neighborhood_large")
    rows = [
        (f"`{row['estimator']}`", row["epochs"], f"{row['megabytes']:.0f} MB", f"{row['seconds']:.0f} s")
        for row in record["rows"]
    ]
    return markdown(("estimator", "epochs", "extra memory", "CPU"), rows) + source(record)


def _errors(result: str, column: str) -> str:
    """Mean and deviation of the error of every method over the seeds, one column per problem."""
    if not measured(result):
        return "Not measured yet.\n"
    record = load(result)
    names = list(dict.fromkeys(row[column] for row in record["rows"]))
    methods = list(dict.fromkeys(row["method"] for row in record["rows"]))

    def cell(method: str, name: str) -> str:
        errors = [row["error"] for row in record["rows"] if row["method"] == method and row[column] == name]
        if not errors:
            return "–"
        mean = sum(errors) / len(errors)
        spread = (sum((one - mean) ** 2 for one in errors) / len(errors)) ** 0.5
        few = f" ({len(errors)} seeds)" if len(errors) < 5 else ""
        return f"{100 * mean:.2f} ± {100 * spread:.2f} %{few}"

    rows = [[method, *(cell(method, name) for name in names)] for method in methods]
    return markdown(["metric", *names], rows) + source(record)


@table("proxies")
def proxies() -> str:
    if not measured("proxies"):
        return "Not measured yet.\n"
    record = load("proxies")
    softmax = [row for row in record["rows"] if row["what"] != "jrs"]
    (jrs,) = (row for row in record["rows"] if row["what"] == "jrs")
    rows = [
        (
            row["what"],
            f"{row['faster']:.1f}×",
            f"{row['extra MB']['ours']:.0f} MB",
            f"{row['extra MB']['peer']:.0f} MB",
        )
        for row in softmax
    ]
    told = (
        f"\nJRS of layers of 1,024, 512 and 512 dimensions, with its gradient: {jrs['ratio']:.2f}× the time of the "
        f"three Gram products at B = 1,024; {jrs['extra MB']:.0f} MB more at B = 8,192.\n"
    )
    header = ("loss", "faster than pytorch-metric-learning", "extra memory", "of the peer")
    return markdown(header, rows) + told + source(record)


@table("training")
def training() -> str:
    if not measured("training"):
        return "Not measured yet.\n"
    record = load("training")
    found = {row["what"]: row for row in record["rows"]}
    loop, two, cached, fit = (found[name] for name in ("loop", "processes", "caching", "fit"))
    rows = [
        ("the loop beside encoder and loss alone, batch 300", f"{loop['overhead']:+.1%} time"),
        ("images/s of two processes beside one, one thread each", f"{two['ratio']:.2f}×"),
        ("batch 8,192 in chunks of 512, time beside the plain step", f"{cached['time ratio']:.2f}×"),
        (
            "the same, extra memory",
            f"{cached['cached']['extra MB']:.0f} MB; plain {cached['plain']['extra MB']:.0f} MB; "
            f"a plain batch of 512 {cached['small']['extra MB']:.0f} MB",
        ),
        (
            "`nearer fit`, 100,000 × 128, `kissme`, from file to folder",
            f"{fit['seconds']:.1f} s, {fit['CPU seconds']:.1f} s of CPU, {fit['peak MB']:.0f} MB",
        ),
    ]
    return markdown(("what", "measured"), rows) + source(record)


@table("asymmetric-views")
def asymmetric_views() -> str:
    return _errors("asymmetric_views", "problem")


@table("asymmetric-small")
def asymmetric_small() -> str:
    return _errors("asymmetric_small", "dataset")


@table("propagation")
def propagation() -> str:
    parts = []
    if measured("propagation"):
        record = load("propagation")
        rows = [
            (
                f"{row['nodes']:,}",
                row["mode"],
                f"{row['times_faster']:.1f}×",
                f"{row['halves_equal']:.2%}",
                row["certificate"],
            )
            for row in record["rows"]
        ]
        header = ("items", "mode", "faster than the inverse", "halves equal", "certificate")
        parts.append(markdown(header, rows) + source(record))
    if measured("propagation_large"):
        record = load("propagation_large")
        rows = [
            (
                f"{row['nodes']:,}",
                row["mode"],
                f"{row['graph_seconds']:.0f} s",
                f"{row['propagation_seconds']:.0f} s",
                f"{row['megabytes'] / 1024:.1f} GB",
                row["certificate"],
            )
            for row in record["rows"]
        ]
        header = ("items", "mode", "graph", "propagation", "peak memory", "certificate")
        parts.append(markdown(header, rows) + source(record))
    return "\n".join(parts)


@table("semi-supervised")
def semi_supervised() -> str:
    if not measured("semi_supervised"):
        return ""
    record = load("semi_supervised")
    printed = {"mnist": (48.3, 93.9), "fashion": (53.2, 77.6), "cifar10": (25.3, 41.4)}
    shown = ("nmi", "recall@1", "recall@2", "recall@4", "recall@8")
    rows: list[tuple[object, ...]] = []
    for data, (nmi, first) in printed.items():
        mine = [row for row in record["rows"] if row["data"] == data and row["alpha"] == 40.0]
        for method in dict.fromkeys(row["method"] for row in mine):
            found = [row["scores"] for row in mine if row["method"] == method]
            cells = []
            for score in shown:
                values = [one[score] for one in found]
                mean = sum(values) / len(values)
                spread = (sum((value - mean) ** 2 for value in values) / max(1, len(values) - 1)) ** 0.5
                cells.append(f"{mean:.1f}" + (f" ± {spread:.1f}" if len(values) > 1 else ""))
            rows.append((data, method, *cells, len(found)))
        rows.append((data, "*best printed*", nmi, first, "", "", "", ""))
    return markdown(("data", "method", "NMI", "R@1", "R@2", "R@4", "R@8", "seeds"), rows) + source(record)


UNSEEN = {
    "omniglot": "Omniglot",
    "cars196_features": "Cars-196 features",
    "coil20": "COIL-20",
    "fashion": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
}


def _unseen_rows(data: str, tables: Sequence[str]) -> list[dict[str, Any]]:
    """The lines of one data set in the order of the recipes' tables."""
    from nearer.recipes.joint_representations import _jrd as jrd
    from nearer.recipes.unified_view import _unified_view as unified_view
    from nearer.recipes.unified_view._unseen_class_report import START
    from nearer.recipes.unified_view._unseen_classes import summarize

    known = {"unified": unified_view.TABLES, "jrd": jrd.TABLES}
    wanted = [START]
    for place in tables:
        recipe, _, name = place.partition("/")
        wanted += [row.name for row in known[recipe][name]]
    lines = {line["row"]: line for line in summarize(load(f"unseen_{data}")["rows"])}
    return [lines[name] for name in dict.fromkeys(wanted) if name in lines]


def _unseen(*tables: str, data: Sequence[str] = tuple(UNSEEN), measures: bool = False) -> str:
    """Mean ± standard error of every row, for each data set that was measured."""
    scores = {"recall@1": "R@1", "recall@2": "R@2", "recall@4": "R@4", "recall@8": "R@8", "map@r": "MAP@R"}
    scores |= {"lambda": "λ", "discrepancy": "d̂"} if measures else {}
    parts = []
    for name in data:
        lines = _unseen_rows(name, tables) if measured(f"unseen_{name}") else []
        if len(lines) < 2:
            continue

        def cell(line: dict[str, Any], key: str) -> str:
            digits = 2 if key == "discrepancy" else 1
            spread = f" ± {line[f'{key} error']:.{digits}f}" if line["seeds"] > 1 else ""
            return f"{line[key]:.{digits}f}{spread}"

        rows = [(line["row"], *(cell(line, key) for key in scores), line["seeds"]) for line in lines]
        body = markdown((UNSEEN[name], *scores.values(), "seeds"), rows)
        record = load(f"unseen_{name}")
        # The file grows run by run; what it names is the command that makes all that is missing.
        made = f"python benchmarks/quality/unseen_classes.py --data {name}"
        parts.append(body + source({**record, "command": made}))
    return "\n".join(parts)


@table("unseen-ablation")
def unseen_ablation() -> str:
    return _unseen("unified/ablation")


@table("unseen-baselines")
def unseen_baselines() -> str:
    return _unseen("unified/baselines", "jrd/baselines")


@table("unseen-jrd")
def unseen_jrd() -> str:
    return _unseen("jrd/variants", measures=True)


@table("unseen-kernels")
def unseen_kernels() -> str:
    return _unseen("jrd/kernels", "jrd/alpha")


@table("unseen-rates")
def unseen_rates() -> str:
    """Recall@1 on validation classes for the factors on the learning rate that were tried."""
    rows: list[tuple[object, ...]] = []
    sources = ""
    for name, title in UNSEEN.items():
        if not measured(f"unseen_rates_{name}"):
            continue
        record = load(f"unseen_rates_{name}")
        sources += source(record)
        for method in dict.fromkeys(row["row"] for row in record["rows"]):
            mine = [row for row in record["rows"] if row["row"] == method]
            tried = ", ".join(f"{row['rate']:g}: {row['validation']:.1f}" for row in mine)
            rows.append((title, method, tried))
    return markdown(("data", "row", "factor: R@1 on validation classes"), rows) + sources if rows else ""


@table("limits")
def limits() -> str:
    from nearer._limits import LIMITS

    rows = [(f"`{name}`", f"{default:,}", about) for name, (default, about) in LIMITS.items()]
    return markdown(("variable", "default", "what it bounds"), rows)


@table("faults")
def faults() -> str:
    record = load("faults")
    rows = [(row["what"], f"{row['count']:,}") for row in record["rows"]]
    found = ", ".join(f"{name.replace('_', ' ')} {number}" for name, number in record["settings"].items())
    return markdown(("what `make faults` did", "times"), rows) + f"\nOf all these: {found}.\n" + source(record)


@table("fuzz")
def fuzz() -> str:
    record = load("fuzz")
    rows = [(row["family"], f"{row['answered']:,}", f"{row['refused']:,}") for row in record["rows"]]
    found = record["settings"]
    told = f"\n{found['examples']:,} cases; a defect was found in {found['failed_tests']} of the families.\n"
    return (
        markdown(("what `make fuzz` called", "answered", "refused with an error of ours"), rows)
        + told
        + source(record)
    )


def fill(text: str) -> str:
    return MARK.sub(lambda match: match.group(1) + TABLES[match["name"]]() + match.group(3), text)


def main() -> int:
    stale = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        old = page.read_text()
        new = fill(old)
        if new != old:
            stale.append(str(page.relative_to(ROOT)))
            if "--check" not in sys.argv:
                page.write_text(new)
    print("\n".join(stale) or "all tables are up to date")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
