"""The picture of the front page: held-out wines, raw and under the learned metric."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA

import nearer

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "figures"))
from style import palette, plt, save  # noqa: E402

frame = load_wine(as_frame=True).frame
fitted = nearer.fit(frame, "target").fitted
asked = fitted.problem.held_out  # rows that taught it nothing
raw, learned = fitted.raw(fitted.problem.items[asked]), fitted.learned(fitted.problem.items[asked])
labels = frame["target"].to_numpy()[asked]
sides = (("raw columns", raw, fitted.comparison.first), ("learned", learned, fitted.comparison.second))

with palette() as ink:
    figure, axes = plt.subplots(ncols=2, figsize=(7.2, 2.6), layout="constrained")
    for axis, (name, points, scores) in zip(axes, sides, strict=True):
        flat = PCA(2).fit_transform(np.asarray(points))
        for kind, marker in enumerate("os^"):
            axis.plot(*flat[labels == kind].T, marker, color=ink.cycle[kind], markersize=6, label=f"class {kind}")
        axis.set(title=f"{name}: MAP@R {scores['map@r']:.2f}", xticks=[], yticks=[])
    axes[1].legend(fontsize=8, loc="best")
    save(figure, ROOT / "docs" / "images" / "front.svg")
