"""The tables of the published experiments, from the rows that `nearer reproduce NAME --record` wrote."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from page import load, markdown, measured, source, table


def _relation_rows(kind: str) -> tuple[list[dict[str, Any]], list[list[dict[str, Any]]]]:
    """The summaries of all data sets of one kind that have been measured, and their records."""
    from nearer_papers.relation_alignment._relation_alignment import summary
    from nearer_papers.relation_alignment._relation_data import SETS

    lines, records = [], []
    for name, data in SETS.items():
        file = "relation_alignment_" + name.replace("-", "_")
        if data.kind == kind and measured(file):
            records.append(load(file))
            lines += summary(records[-1])
            lines += [
                {"dataset": name, "method": method, "printed": values} for method, values in data.printed.items()
            ]
            lines.append({"dataset": name, "method": "", "differs": data.differs})
    return lines, records


def _relation_table(kind: str) -> str:
    from nearer_papers.relation_alignment._relation_alignment import SCORES

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
    return markdown(header, rows) + source(row for record in records for row in record)


@table("decisions")
def decisions() -> str:
    from nearer_papers.ours._decisions import HEADER, lines

    rows = load("decisions")
    return markdown(HEADER, lines(rows)) + source(rows)


@table("questions")
def questions() -> str:
    from nearer_papers.ours._questions import HEADER, lines

    rows = load("questions")
    return markdown(HEADER, lines(rows)) + source(rows)


@table("codes")
def codes() -> str:
    from nearer_papers.ours._codes import HEADER, lines

    rows = load("codes")
    return markdown(HEADER, lines(rows)) + source(rows)


@table("codes-speed")
def codes_speed() -> str:
    rows = load("codes_speed")
    shown = [
        (
            f"{row['rows']:,} × {row['dimension']}",
            f"{row['megabytes of floats']:.0f} MB",
            f"{row['megabytes of bits']:.0f} MB",
            f"{row['floats: cpu ms a query']:.1f} ms",
            f"{row['bits: cpu ms a query']:.1f} ms",
            f"{row['recall against all bits']:.3f}",
        )
        for row in rows
    ]
    header = (
        "rows",
        "floats",
        "bits",
        "exact search of floats",
        "search of bits",
        "recall@10 of comparing all bits",
    )
    return markdown(header, shown) + source(rows)


@table("new-classes")
def new_classes() -> str:
    from nearer_papers.ours._new_classes import HEADER, lines

    rows = load("new_classes")
    return markdown(HEADER, lines(rows)) + source(rows)


@table("relation-alignment-classes")
def relation_alignment_classes() -> str:
    return _relation_table("classes")


@table("relation-alignment-sets")
def relation_alignment_sets() -> str:
    return _relation_table("sets")


@table("relation-alignment-distributions")
def relation_alignment_distributions() -> str:
    return _relation_table("distributions")


@table("audit")
def audit() -> str:
    from nearer_papers.ours._audit import SCORES, summary

    if not measured("audit"):
        return "Not measured yet.\n"
    record = load("audit")
    rows = [
        (
            line["set"],
            line["flips"],
            *(f"{line[score]:.4f}" for score in SCORES),
            f"{line['gain']:+.4f}",
            line["runs"],
        )
        for line in summary(record)
    ]
    return markdown(("data", "flips", *SCORES, "gain", "runs"), rows) + source(record)


@table("gestures")
def gestures() -> str:
    from nearer_papers.ours._gestures import summary

    if not measured("gestures"):
        return "Not measured yet.\n"
    record = load("gestures")
    rows = [
        (line["way"], f"{line['labelled']:,.0f}", f"{line['wrong']:.1%}", f"{line['map@r']:.4f}",
         f"{line['recall@1']:.4f}", f"{line['better']} of {line['runs']}")
        for line in summary(record)
    ]  # fmt: skip
    header = ("what was said", "items labelled", "of them wrong", "map@r", "recall@1", "seeds above random labels")
    return markdown(header, rows) + source(record)


@table("explorer")
def explorer() -> str:
    if not measured("explorer"):
        return "Not measured yet.\n"
    record = load("explorer")
    columns = {
        "load": "load",
        "first_picture_seconds": "first picture, s",
        "lasso_to_moved_seconds": "lasso → refit → moved, s",
        "refit_cpu_seconds": "of it CPU of the server, s",
        "undo_seconds": "undo, s",
        "script_ms": "pan: script, ms a step",
        "main_thread_ms": "pan: main thread, ms a step",
        "page_megabytes": "page, MB",
        "page_heap_megabytes": "its heap, MB",
    }
    rows = [
        (f"{row['items']:,}", *(f"{row[name]:.2f}" if name in row else "–" for name in columns)) for row in record
    ]
    names = ", ".join(dict.fromkeys(row["renderer"] for row in record))
    told = f"\nRenderer: {names}."
    if measured("explorer_memory"):
        used = load("explorer_memory")[0]
        first, last = used["heap_first_third_megabytes"], used["heap_last_third_megabytes"]
        told += (
            f" {used['minutes_of_use']:.0f} minutes of scripted use at {used['items']:,} items with thumbnails: "
            f"the heap had {first:.1f} MB in the first third and {last:.1f} MB in the last, the process "
            f"{used['resident_after_use_megabytes']:.0f} MB at the end."
        )
    return markdown(("items", *columns.values()), rows) + told + "\n" + source(record)


def _errors(result: str) -> str:
    """Mean and deviation of the error of every method over the seeds, one column per problem."""
    if not measured(result):
        return "Not measured yet.\n"
    record = load(result)
    names = list(dict.fromkeys(row["problem"] for row in record))
    methods = list(dict.fromkeys(row["method"] for row in record))

    def cell(method: str, name: str) -> str:
        errors = [row["error"] for row in record if row["method"] == method and row["problem"] == name]
        if not errors:
            return "–"
        mean = sum(errors) / len(errors)
        spread = (sum((one - mean) ** 2 for one in errors) / len(errors)) ** 0.5
        few = f" ({len(errors)} seed{'s' if len(errors) > 1 else ''})" if len(errors) < 5 else ""
        return f"{100 * mean:.2f} ± {100 * spread:.2f} %{few}"

    rows = [[method, *(cell(method, name) for name in names)] for method in methods]
    return markdown(["metric", *names], rows) + source(record)


@table("asymmetric-views")
def asymmetric_views() -> str:
    return _errors("asymmetric_views")


@table("asymmetric-small")
def asymmetric_small() -> str:
    return _errors("asymmetric_small")


SHOWN = ("nmi", "recall@1", "recall@2", "recall@4", "recall@8")
SHOWN_AS = ("NMI", "R@1", "R@2", "R@4", "R@8", "seeds")


def _few_label_line(rows: Sequence[dict[str, Any]]) -> list[object]:
    cells: list[object] = []
    for score in SHOWN:
        values = [row["scores"][score] for row in rows]
        spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
        cells.append(f"{statistics.mean(values):.1f}{spread}")
    return [*cells, len(rows)]


@table("semi-supervised")
def semi_supervised() -> str:
    """All methods of the tables of the paper; the ablation has a table of its own."""
    from nearer_papers.semi_supervised import _semi_supervised as recipe

    record = recipe.of_the_tables(load("semi_supervised"))
    ablation = set(recipe.TABLES["ablation"]) - set(recipe.TABLES["table-4"])
    rows: list[tuple[object, ...]] = []
    for data, own in recipe.PRINTED_ROWS.items():
        if data not in {row["data"] for row in record}:
            continue
        mine = [row for row in record if row["data"] == data]
        order = [one for some in recipe.TABLES.values() for one in some if one not in ablation]
        for method in dict.fromkeys(order):
            found = [row for row in mine if row["method"] == method]
            if found:
                rows.append((data, method, *_few_label_line(found), *own.get(method, ("", ""))))
        if data in recipe.PRINTED:
            rows.append((data, "*best of all rows*", *[""] * len(SHOWN_AS), *recipe.PRINTED[data]))
    return markdown(("data", "method", *SHOWN_AS, "NMI, printed", "R@1, printed"), rows) + source(record)


@table("semi-supervised-ablation")
def semi_supervised_ablation() -> str:
    """Ours without each of its changes to the paper, on the seeds that every one of its rows has."""
    from nearer_papers.semi_supervised import _semi_supervised as recipe

    methods = recipe.TABLES["ablation"]
    record = [row for row in recipe.of_the_tables(load("semi_supervised")) if row["method"] in methods]
    rows = []
    for data in dict.fromkeys(row["data"] for row in record):
        mine = {
            method: {row["seed"]: row for row in record if (row["data"], row["method"]) == (data, method)}
            for method in methods
        }
        if not all(mine.values()):
            continue
        seeds = set.intersection(*(set(found) for found in mine.values()))
        rows += [
            (data, name, *_few_label_line([found[seed] for seed in sorted(seeds)])) for name, found in mine.items()
        ]
    return markdown(("data", "method", *SHOWN_AS), rows) + source(record)


@table("photographs")
def photographs() -> str:
    """A table for each set of photos: frozen, closed form and the whole network trained, and what is printed."""
    from nearer_papers.unified_view._photographs import HEADER, LOADERS, TABLES, lines

    parts = []
    for name in LOADERS:
        if measured(f"photographs_{name}"):
            rows = [row for row in load(f"photographs_{name}") if row["row"] not in TABLES["peer"]]
            parts.append(markdown((name, *HEADER[1:]), lines(rows)) + source(rows))
    return "\n".join(parts)


@table("photographs-peer")
def photographs_peer() -> str:
    """The same loss in both libraries: scores of the same seeds, and CPU milliseconds of the loss alone."""
    from nearer_papers.unified_view._photograph_peers import OURS
    from nearer_papers.unified_view._photographs import LOADERS

    found, record = [], []
    for data in LOADERS:
        rows = load(f"photographs_{data}") if measured(f"photographs_{data}") else []
        by = {(row["row"], row["network"], row["pixels"], row["seed"]): row for row in rows}
        for theirs, ours in OURS.items():
            pairs = [
                (by[ours, *key[1:]], row) for key, row in by.items() if key[0] == theirs and (ours, *key[1:]) in by
            ]
            if not pairs:
                continue
            record += [row for pair in pairs for row in pair]
            scores = [
                " / ".join(
                    f"{statistics.fmean(pair[side]['scores'][name] for pair in pairs):.1f}" for side in (0, 1)
                )
                for name in ("recall@1", "map@r", "nmi")
            ]
            spent = [
                statistics.fmean(pair[1]["loss, CPU ms"][side] for pair in pairs) for side in ("ours", "theirs")
            ]
            found.append((data, ours, *scores, f"{spent[0]:.1f} / {spent[1]:.1f}", len(pairs)))
    if not found:
        return "Not measured yet.\n"
    header = ("data", "loss", "R@1", "MAP@R", "NMI", "loss alone, CPU ms", "seeds")
    return markdown(header, found) + source(record)


UNSEEN = {
    "omniglot": "Omniglot",
    "cars196_features": "Cars-196 features",
    "fashion": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
}


def _unseen_rows(data: str, tables: Sequence[str]) -> list[dict[str, Any]]:
    """The lines of one data set in the order of the recipes' tables."""
    from nearer_papers.joint_representations import _jrd as jrd
    from nearer_papers.unified_view import _unified_view as unified_view
    from nearer_papers.unified_view._unseen_class_report import START
    from nearer_papers.unified_view._unseen_classes import summarize

    known = {"unified": unified_view.TABLES, "jrd": jrd.TABLES}
    wanted = [START]
    for place in tables:
        recipe, _, name = place.partition("/")
        wanted += [row.name for row in known[recipe][name]]
    lines = {line["row"]: line for line in summarize(load(f"unseen_{data}"))}
    return [lines[name] for name in dict.fromkeys(wanted) if name in lines]


def _unseen(*tables: str, data: Sequence[str] = tuple(UNSEEN), measures: bool = False) -> str:
    """Mean ± standard error of every row, for each data set that was measured."""
    known = {**{f"recall@{k}": f"R@{k}" for k in (1, 2, 4, 8, 16, 32)}, "map@r": "MAP@R"}
    known |= {"lambda": "λ", "discrepancy": "d̂"} if measures else {}
    parts = []
    for name in data:
        lines = _unseen_rows(name, tables) if measured(f"unseen_{name}") else []
        if len(lines) < 2:
            continue
        scores = {key: label for key, label in known.items() if any(key in line for line in lines)}

        def cell(line: dict[str, Any], key: str) -> str:
            if key not in line:
                return "–"
            digits = 2 if key == "discrepancy" else 1
            spread = f" ± {line[f'{key} error']:.{digits}f}" if line["seeds"] > 1 else ""
            return f"{line[key]:.{digits}f}{spread}"

        rows = [(line["row"], *(cell(line, key) for key in scores), line["seeds"]) for line in lines]
        body = markdown((UNSEEN[name], *scores.values(), "seeds"), rows)
        record = load(f"unseen_{name}")
        shown = {line["row"] for line in lines}
        parts.append(body + source(row for row in record if row["row"] in shown))
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


@table("unseen-regularizers")
def unseen_regularizers() -> str:
    return _unseen("jrd/regularizers", "jrd/penalty", measures=True)


@table("unseen-rates")
def unseen_rates() -> str:
    """Recall@1 on validation classes for the factors on the learning rate that were tried."""
    rows: list[tuple[object, ...]] = []
    sources = ""
    for name, title in UNSEEN.items():
        if not measured(f"unseen_tuning_{name}"):
            continue
        record = load(f"unseen_tuning_{name}")
        sources += source(record)
        for method in dict.fromkeys(row["row"] for row in record):
            mine = [row for row in record if row["row"] == method]
            tried = "; ".join(
                f"{row['rate']:g}{'' if row['constant'] is None else ', ' + format(row['constant'], 'g')}: "
                f"{row['validation']:.1f}"
                for row in mine
            )
            rows.append((title, method, tried))
    return markdown(("data", "row", "factor, constant: R@1 on validation classes"), rows) + sources if rows else ""


@table("demo")
def demo() -> str:
    from nearer_papers.ours._digits import summary

    record = load("demo")
    rows = [
        (
            line["score"],
            f"{line['raw']:.4f} ± {line['raw spread']:.4f}",
            f"{line['learned']:.4f} ± {line['learned spread']:.4f}",
            f"{line['learned'] - line['raw']:+.4f}",
            f"{line['better']} of {line['splits']}",
        )
        for line in summary(record)
    ]
    return markdown(("score", "raw features", "learned metric", "difference", "splits better"), rows) + source(
        record
    )


@table("partial-labels-summary")
def partial_labels_summary() -> str:
    """Every semi-supervised linear learner over all rows: gain over the features, worst, losses of a point."""
    from nearer_papers.semi_supervised._linear import summary

    if not measured("partial_labels"):
        return ""
    record = load("partial_labels")
    lines = []
    for line in summary(record):
        cells: list[object] = []
        for key in ("learned recall@1", "learned 1-nn"):
            cells += [f"{line[key]['mean']:+.2f}", f"{line[key]['worst']:+.2f}", line[key]["lost"]]
        published = line["published recall@1"]
        lines.append(
            (
                f"`{line['learner']}`",
                line["runs"],
                *cells,
                f"{published['mean']:+.2f}",
                f"{published['worst']:+.2f}",
            )
        )
    header = ("learner", "runs", "R@1", "worst", "below −1", "1-NN", "worst", "below −1", "`blend=0`: R@1", "worst")
    return markdown(header, lines) + source(record)


@table("partial-labels")
def partial_labels() -> str:
    """R@1 of the features, and of every learner at its default and as published, mean over the seeds."""
    if not measured("partial_labels"):
        return ""
    rows = load("partial_labels")
    learners = list(dict.fromkeys(row["learner"] for row in rows))
    lines = []
    for name, per_class in dict.fromkeys((row["set"], row["labels_per_class"]) for row in rows):
        here = [row for row in rows if (row["set"], row["labels_per_class"]) == (name, per_class)]
        cells = []
        for learner in learners:
            mine = [row for row in here if row["learner"] == learner]
            sides = (
                100 * statistics.mean(row[side]["recall@1"] for row in mine) for side in ("learned", "published")
            )
            cells.append(" / ".join(f"{value:.1f}" for value in sides) if mine else "")
        raw = 100 * statistics.mean(row["raw"]["recall@1"] for row in here)
        seeds = len({row["seed"] for row in here})
        lines.append((name.replace("_", "-"), per_class, seeds, f"{raw:.1f}", *cells))
    header = ("data", "labels per class", "seeds", "features", *(f"`{learner}`" for learner in learners))
    return markdown(header, lines) + source(rows)


@table("migrating")
def migrating() -> str:
    """What moving an index keeps of embedding everything again, mean ± deviation over the draws of pairs."""
    if not measured("migrating"):
        return ""
    from nearer_papers.ours._migrating import HEADER, summary

    rows = load("migrating")
    return markdown(HEADER, summary(rows)) + source(rows)


@table("adapting")
def adapting() -> str:
    """What a map of the queries gains in front of a database that stays, means over the draws."""
    if not measured("adapting"):
        return ""
    from nearer_papers.ours._adapting import HEADER, summary

    rows = load("adapting")
    return markdown(HEADER, summary(rows)) + source(rows)


@table("taxonomy")
def taxonomy() -> str:
    """How severe the mistakes are with a taxonomy and without, means over the draws."""
    if not measured("taxonomy"):
        return ""
    from nearer_papers.ours._taxonomy import HEADER, summary

    rows = load("taxonomy")
    return markdown(HEADER, summary(rows)) + source(rows)


@table("thresholds")
def without_labels() -> str:
    """The share of random pairs within thresholds that were found without labels, beside what was asked for."""
    if not measured("thresholds"):
        return ""
    from nearer_papers.ours._thresholds import HEADER, summary

    rows = load("thresholds")
    return markdown(HEADER, summary(rows)) + source(rows)


@table("encoders")
def encoders() -> str:
    """Features of an encoder → the metric learned on them, mean ± deviation over the seeds."""
    if not measured("encoders"):
        return ""
    from nearer_papers.ours._encoders import SCORES, cells, summary

    rows = load("encoders")
    lines = [
        (line["set"], line["encoder"], f"{line['train']:,}", f"{line['held_out']:,}", *cells(line), line["runs"])
        for line in summary(rows)
    ]
    return markdown(("data", "encoder", "train", "held out", *SCORES, "runs"), lines) + source(rows)
