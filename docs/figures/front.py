"""Draw the picture of the front page: held-out wines, raw and under the learned metric. `python docs/figures/front.py`"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

import nearer

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "figures"))
from style import palette, plt  # noqa: E402

frame = load_wine(as_frame=True).frame
model = nearer.fit(frame, "target")
held_out = np.asarray(model.held_out)
rows = frame.drop(columns="target")
raw = StandardScaler().fit(np.delete(rows.to_numpy(), held_out, axis=0)).transform(rows.to_numpy()[held_out])
learned = model.transform(frame)[held_out]
score = model.fitted.comparison

for scheme in ("light", "dark"):
    with palette(scheme) as ink:
        figure, axes = plt.subplots(ncols=2, figsize=(7.2, 2.6), layout="constrained")
        for axis, points, name, side in zip(axes, (raw, learned), ("raw columns", "learned"), (0, 1), strict=True):
            flat = PCA(2).fit_transform(points)
            for place, (kind, marker) in enumerate(zip(range(3), "os^", strict=True)):
                mine = frame["target"].to_numpy()[held_out] == kind
                axis.plot(*flat[mine].T, marker, color=ink.cycle[place], markersize=5, label=f"cultivar {kind}")
            value = (score.first if side == 0 else score.second)["map@r"]
            axis.set(title=f"{name}: MAP@R {value:.2f}", xticks=[], yticks=[])
        axes[1].legend(fontsize=7, loc="best")
        figure.savefig(
            ROOT / "docs" / "images" / f"front-{scheme}.svg", transparent=True, metadata={"Date": None, "Creator": None}
        )
        plt.close(figure)
