"""Figures of scores: how much nearer, for whom, and where not."""

from __future__ import annotations

from typing import Any

from style import Ink, box, dumbbells, figure, load, mean


@figure("learners", "estimators", ncols=2, sharey=True, figsize=(8.4, 3.8))
def learners(axes: Any, ink: Ink) -> None:
    rows = load("estimators")
    sets = {"5k": ink.yellow, "20k": ink.blue}
    gains: dict[str, dict[str, float]] = {}
    seconds: dict[str, dict[str, float]] = {}
    for data in sets:
        mine = [row for row in rows if row["dataset"] == data]
        base = mean(row["accuracy"] for row in mine if row["estimator"] == "Euclidean")
        for name in dict.fromkeys(row["estimator"] for row in mine if row["estimator"] != "Euclidean"):
            some = [row for row in mine if row["estimator"] == name]
            gains.setdefault(name, {})[data] = mean(row["accuracy"] for row in some) - base
            seconds.setdefault(name, {})[data] = mean(row["seconds"] for row in some)
    order = sorted(gains, key=lambda name: gains[name].get("20k", gains[name]["5k"]))
    for data, colour in sets.items():
        size = next(f"{row['rows']:,} × {row['columns']}" for row in rows if row["dataset"] == data)
        for axis, values in zip(axes, (gains, seconds), strict=True):
            known = [(values[name][data], place) for place, name in enumerate(order) if data in values[name]]
            axis.plot(*zip(*known, strict=True), "o", color=colour, label=f"{size} rows")
    axes[0].axvline(0, color=ink.text, linewidth=1)
    axes[0].set_yticks(range(len(order)), order)
    axes[0].set(xlabel="3-NN accuracy gained on Euclidean")
    axes[1].set(xscale="log", xlabel="CPU seconds of fit")
    axes[1].legend(fontsize=7, loc="lower right")


@figure("unseen", "unseen_cars196_features", "unseen_omniglot", ncols=2, figsize=(8.4, 6.4))
def unseen(axes: Any, ink: Ink) -> None:
    for axis, data, title in zip(
        axes, ("cars196_features", "omniglot"), ("Cars-196, frozen features", "Omniglot"), strict=True
    ):
        rows = load(f"unseen_{data}")
        names = dict.fromkeys(row["row"] for row in rows if "α" not in row["row"] and "poly" not in row["row"])
        values = {name: mean(row["scores"]["recall@1"] for row in rows if row["row"] == name) for name in names}
        ranked(axis, ink, values, [name for name in names if "RAW" in name or "JRD" in name], "untrained")
        axis.set(xlabel="Recall@1 on classes never seen", title=title)


def ranked(axis: Any, ink: Ink, values: dict[str, float], ours: list[str], start: str) -> None:
    """A mark for each name, the best on top; ours and the untrained start have colours of their own."""
    order = sorted(values, key=values.__getitem__)
    for place, name in enumerate(order):
        colour = ink.red if name == start else ink.blue if name in ours else ink.grey
        axis.plot([values[name]], [place], "o", color=colour)
    axis.set_yticks(range(len(order)), order, fontsize=7)


@figure("few-labels", "partial_labels", figsize=(7.2, 3.0))
def few_labels(axis: Any, ink: Ink) -> None:
    rows = load("partial_labels")
    names = list(dict.fromkeys(row["learner"] for row in rows))
    for key, colour, shift, label in (
        ("published", ink.yellow, 0.16, "as published (blend = 0)"),
        ("learned", ink.blue, -0.16, "default: blended with the features"),
    ):
        groups = [
            (
                name,
                [100 * (row[key]["recall@1"] - row["raw"]["recall@1"]) for row in rows if row["learner"] == name],
            )
            for name in names
        ]
        box(axis, ink, groups, colour, shift)
        axis.plot([], [], "o", color=colour, label=label)
    axis.axvline(0, color=ink.text, linewidth=1)
    axis.set(xscale="symlog", xlabel="points of Recall@1 gained on the features, a mark for each run")
    axis.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)


@figure("networks-few-labels", "semi_supervised", nrows=2, ncols=2, figsize=(8.4, 6.4))
def networks_few_labels(axes: Any, ink: Ink) -> None:
    rows = load("semi_supervised")
    for axis, data in zip(axes.flat, dict.fromkeys(row["data"] for row in rows), strict=True):
        # The curve over angles has one partition, the tables have more where there is a choice.
        most = max(row["partitions"] for row in rows if row["data"] == data)
        found: dict[str, list[float]] = {}
        for row in rows:
            if (row["data"], row["partitions"]) == (data, most):
                found.setdefault(row["method"], []).append(row["scores"]["recall@1"])
        ranked(axis, ink, {name: mean(some) for name, some in found.items()}, ["ours"], "Initial")
        axis.set(xlabel="Recall@1", title=data)


RELATION = {
    "classes": ("accuracy", ("uspst", "mnist_3495", "binary_alphadigits", "mpeg7", "news20", "isolet")),
    "sets": ("average precision", ("emotions", "flags", "scene", "corel5k")),
    "distributions": ("cosine", ("natural_scene", "sjaffe", "sbu_3dfe", "movie")),
}


@figure(
    "relations",
    *(f"relation_alignment_{name}" for _, names in RELATION.values() for name in names),
    ncols=3,
    figsize=(9.0, 2.8),
)
def relations(axes: Any, ink: Ink) -> None:
    ours = ("RAML-SVR", "RAML-KRR", "HRAML")
    for axis, (kind, (score, names)) in zip(axes, RELATION.items(), strict=True):
        lines = []
        for name in names:
            rows = load(f"relation_alignment_{name}")
            raw = [row[score] for row in rows if row["method"] == "raw features"]
            found = {
                method: mean(row[score] for row in rows if row["method"] == method)
                for method in ours
                if any(row["method"] == method for row in rows)
            }
            if raw and found:
                best = max(found, key=lambda method: found[method])
                lines.append((f"{name.replace('_', ' ')}\n{best}", mean(raw), found[best]))
        dumbbells(axis, ink, lines, "raw features", "best of RAML and HRAML")
        axis.set(title=f"{kind}: {score}")
        axis.tick_params(axis="y", labelsize=7)
    axes[0].legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)


@figure("views", "asymmetric_views", figsize=(7.2, 2.6))
def views(axis: Any, ink: Ink) -> None:
    rows = load("asymmetric_views")
    problems = list(dict.fromkeys(row["problem"] for row in rows))
    two = {"KernelAsymmetricKNN": ink.blue, "AsymmetricKNN": ink.green, "kernel CCA": ink.yellow}
    from nearer_papers.asymmetric._two_views import METHODS, ONE

    shown = [name for name, method in METHODS.items() if method.kind == ONE or name in two]
    for method in [name for name in shown if any(row["method"] == name for row in rows)]:
        found = [
            (
                100 * mean(row["error"] for row in rows if (row["problem"], row["method"]) == (problem, method)),
                problem,
            )
            for problem in problems
        ]
        colour = two.get(method, ink.red if method == "Euclidean" else ink.grey)
        size = 8 if method in two else 6
        axis.plot(*zip(*found, strict=True), "o", color=colour, markersize=size, alpha=1 if method in two else 0.7)
    for label, colour in (*two.items(), ("Euclidean", ink.red), ("one map for both sides", ink.grey)):
        axis.plot([], [], "o", color=colour, label=label)
    axis.set(xlabel="3-NN error, %; queries and database look different")
    axis.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    axis.grid(axis="y", visible=False)


@figure("decisions", "decisions", figsize=(7.2, 2.6))
def decisions(axis: Any, ink: Ink) -> None:
    rows = [row for row in load("decisions") if "above" in row]
    names = list(dict.fromkeys(row["rule"] for row in rows))
    box(axis, ink, [(name, [row["above"] for row in rows if row["rule"] == name]) for name in names], ink.blue)
    for place, name in enumerate(names):
        share = mean(row["of the oracle"] for row in rows if row["rule"] == name)
        axis.text(1.01, place, f"finds {share:.2f} of the oracle's", fontsize=7, va="center")
    axis.set(xlabel="share of splits whose error on new classes is above the level", xlim=(-0.02, 1.0))


@figure("questions", "questions", ncols=4, figsize=(9.0, 2.5))
def questions(axes: Any, ink: Ink) -> None:
    rows = load("questions")
    colours = {
        "random": ink.grey,
        "margin": ink.yellow,
        "influence": ink.blue,
        "random pairs": ink.pink,
        "suggested pairs": ink.green,
    }
    for axis, data in zip(axes, dict.fromkeys(row["data"] for row in rows), strict=True):
        for strategy, colour in colours.items():
            some = [row["map@r"] for row in rows if (row["data"], row["strategy"]) == (data, strategy)]
            counts = sorted(set.intersection(*(set(map(int, one)) for one in some)))
            axis.plot(
                counts, [mean(one[str(count)] for one in some) for count in counts], color=colour, label=strategy
            )
        axis.set(title=data, xlabel="answers")
    axes[0].set_ylabel("MAP@R, held out")
    axes[0].figure.legend(*axes[0].get_legend_handles_labels(), fontsize=7, ncols=5, loc="outside lower center")


@figure("audit", "audit", figsize=(7.2, 2.8))
def audit(axis: Any, ink: Ink) -> None:
    rows = load("audit")
    methods = [key for key in rows[0] if key in ("nearer", "knn", "logistic") or key.startswith("cleanlab")]
    cases = list(dict.fromkeys(f"{row['set']}, {row['flips']}" for row in rows))
    markers = dict(zip(methods, "o^sDv", strict=False))
    for place, method in enumerate(methods):
        values = [mean(row[method] for row in rows if f"{row['set']}, {row['flips']}" == case) for case in cases]
        colour = ink.blue if method == "nearer" else ink.cycle[1 + place % 5]
        axis.plot(values, cases, markers[method], color=colour, label=method, zorder=3 if method == "nearer" else 2)
    axis.set(xlabel="average precision of the list of suspects")
    axis.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    axis.grid(axis="y", visible=False)


@figure("codes", "codes", ncols=2, sharey=True, figsize=(8.4, 2.8))
def codes(axes: Any, ink: Ink) -> None:
    rows = load("codes")
    bits = {"ITQ", "bits", "bits, float query", "sign of floats", "sign of the features"}
    colours = {
        name: ink.cycle[place % 6] for place, name in enumerate(dict.fromkeys(row["method"] for row in rows))
    }
    for axis, split in zip(axes, ("seen", "unseen"), strict=True):
        mine = [row for row in rows if row["split"] == split]
        for method, colour in colours.items():
            widths = sorted({row["width"] for row in mine if row["method"] == method})
            size = [width / 8 if method in bits else width * 4 for width in widths]
            score = [
                mean(row["recall@1"] for row in mine if (row["method"], row["width"]) == (method, width))
                for width in widths
            ]
            style = "o-" if method in bits else "s--"
            axis.plot(size, score, style, color=colour, label=method, markersize=4)
        axis.set(xscale="log", xlabel="bytes for each item", title=f"classes {split}")
    axes[0].set_ylabel("Recall@1")
    axes[1].legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))


@figure("encoders", "encoders", "new_classes", ncols=2, figsize=(8.4, 2.4))
def encoders(axes: Any, ink: Ink) -> None:
    rows = load("encoders")
    for axis, score in zip(axes, ("recall@1", "map@r"), strict=True):
        lines = [
            (
                name,
                mean(row["raw"][score] for row in rows if row["set"] == name),
                mean(row["learned"][score] for row in rows if row["set"] == name),
            )
            for name in dict.fromkeys(row["set"] for row in rows)
        ]
        dumbbells(axis, ink, lines, "features of the encoder", "metric learned on them")
        axis.set(title=score)
    axes[0].legend(fontsize=7, loc="lower left")


@figure("gestures", "gestures", figsize=(7.2, 1.8))
def gestures(axis: Any, ink: Ink) -> None:
    rows = load("gestures")
    names = list(dict.fromkeys(row["way"] for row in rows))
    box(axis, ink, [(name, [row["map@r"] for row in rows if row["way"] == name]) for name in names], ink.blue)
    axis.set(xlabel="MAP@R on held-out items")
    axis.invert_yaxis()


@figure("robustness", "fuzz", figsize=(7.2, 4.8))
def robustness(axis: Any, ink: Ink) -> None:
    rows = load("fuzz")
    names = [row["family"] for row in rows]
    answered = [row["answered"] for row in rows]
    axis.barh(names, answered, color=ink.blue, height=0.6, label="answered")
    axis.barh(
        names,
        [row["refused"] for row in rows],
        left=answered,
        color=ink.yellow,
        height=0.6,
        label="refused with a reason",
    )
    axis.set(xlabel="random cases")
    axis.invert_yaxis()
    axis.legend(fontsize=7)
    axis.grid(axis="y", visible=False)
