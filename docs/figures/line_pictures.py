"""Draw docs/images/line-*.svg: one small picture for each published line of work, from real computations.

python docs/figures/line_pictures.py

Each file follows the reader's light or dark setting by itself (a style inside the picture), has its own ground,
so that it can be read on either page, and uses the colours of `nearer.reports`.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits, make_moons
from sklearn.decomposition import PCA

from nearer.estimators import RAMLKRR
from nearer.graph import class_shares, nearest_neighbors
from nearer.losses import BinomialDevianceLoss, ContrastiveLoss, GeneralizedLiftedLoss, RAWLoss
from nearer.losses.layers._layer_kernels import Gaussian
from nearer.losses.pairs._neighborhood_inference import choose_sets, nearest_by_class
from nearer.reports._style import ACCENT, DARK, FAINT, INK, MUTED, PAPER, TEN

PLACE = Path(__file__).resolve().parents[1] / "images"
WIDE, HIGH = 360, 220
NAMES = {"ink": INK, "muted": MUTED, "faint": FAINT, "paper": PAPER, "accent": ACCENT}
NAMES |= {"a": TEN[0], "b": TEN[1], "c": TEN[3], "d": TEN[2]}


def svg(title: str, parts: list[str]) -> str:
    """A whole picture: colours as classes, which a dark page changes."""
    rules = [f".f-{k}{{fill:{v}}}.s-{k}{{stroke:{v}}}" for k, v in NAMES.items()]
    dark = [f".f-{k}{{fill:{DARK[v]}}}.s-{k}{{stroke:{DARK[v]}}}" for k, v in NAMES.items()]
    style = "text{font:13px system-ui,'DejaVu Sans',sans-serif}.n{fill:none}.w{stroke-width:2}" + "".join(rules)
    style += f"@media(prefers-color-scheme:dark){{{''.join(dark)}}}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {HIGH}" width="{WIDE}" height="{HIGH}" '
        'role="img">'
        f"<title>{escape(title)}</title><style>{style}</style>"
        f'<rect width="{WIDE}" height="{HIGH}" rx="10" class="f-paper"/>' + "".join(parts) + "</svg>\n"
    )


def text(x: float, y: float, words: str, color: str = "muted", anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="f-{color}" text-anchor="{anchor}">{escape(words)}</text>'


def dot(x: float, y: float, r: float, kind: str, more: str = "") -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r:g}" class="{kind}"{more}/>'


def line(points: np.ndarray, kind: str, more: str = "") -> str:
    path = "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<path d="{path}" class="n w {kind}"{more} stroke-linejoin="round" stroke-linecap="round"/>'


def asymmetric() -> str:
    """A query, the nearest set of five that votes rightly, and the set that a wrong vote prefers."""
    points = np.array(
        [
            *([-0.62, 0.42], [-0.95, -0.05], [-0.42, -0.55], [-1.25, 0.55], [-1.3, -0.5]),
            *([0.3, 0.42], [0.62, 0.02], [0.66, 0.62], [1.05, 0.35], [1.3, 0.75]),
            *([0.28, -0.5], [0.72, -0.72], [1.1, -0.45], [-0.1, -1.0]),
        ]
    )
    classes = np.array([0] * 5 + [1] * 5 + [2] * 4)
    query = np.array([-0.08, 0.0])
    distances = torch.from_numpy(np.square(points - query).sum(1))[None]
    near = nearest_by_class(distances, torch.from_numpy(classes), 3, 5)
    sets = choose_sets(near, torch.tensor([[0.0, 1.0, 1.0]]))
    right, wrong = (set(one[0].tolist()) for one in (sets.targeted, sets.augmented))
    place = lambda p: (180 + 118 * p[0], 84 - 72 * p[1])  # noqa: E731
    parts = []
    qx, qy = place(query)
    for i, point in enumerate(points):
        x, y = place(point)
        if i in right:
            parts.append(line(np.array([[qx, qy], [x, y]]), "s-a", ' stroke-opacity=".55"'))
        if i in wrong:
            parts.append(dot(x, y, 11.5, "n w s-d", ' stroke-dasharray="3 3"'))
        parts.append(dot(x, y, 6, "f-" + "abc"[classes[i]]))
        if i in right:
            parts.append(dot(x, y, 8.8, "n w s-a"))
    parts.append(
        f'<rect x="{qx - 6:.1f}" y="{qy - 6:.1f}" width="12" height="12" class="f-ink" '
        f'transform="rotate(45 {qx:.1f} {qy:.1f})"/>'
    )
    parts += [dot(20, 186, 6.5, "n w s-a"), text(33, 190, "nearest five that vote rightly", "ink")]
    parts += [
        dot(20, 206, 6.5, "n w s-d", ' stroke-dasharray="3 3"'),
        text(33, 210, "the five that a wrong vote prefers", "ink"),
    ]
    return svg(
        "A query, the nearest set of neighbours that votes rightly, and the set that a wrong vote prefers", parts
    )


def pair_weighting() -> str:
    """The weight of one pair of an anchor as its similarity moves, the other pairs staying where they are."""
    losses = (
        ("contrastive", ContrastiveLoss(), "muted"),
        ("lifted", GeneralizedLiftedLoss(), "b"),
        ("binomial", BinomialDevianceLoss(), "c"),
        ("RAW", RAWLoss(), "a"),
    )
    fixed = torch.tensor(
        [1.0, 0.8, 0.55, 0.6, 0.35, 0.1], dtype=torch.float64
    )  # itself, two positives, three negatives
    labels = torch.tensor([0, 0, 0, 1, 2, 3, 0, 4])
    grid = np.linspace(0, 1, 61)
    parts = []
    for panel, (moved, name) in enumerate(((6, "positive pair"), (7, "negative pair"))):
        left = 24 + 172 * panel
        x = left + 140 * grid
        parts += [line(np.array([[left, 150.0], [left + 140, 150]]), "s-faint"), text(left, 24, name, "ink")]
        parts += [text(left, 167, "0"), text(left + 140, 167, "1", anchor="end")]
        parts.append(text(left + 70, 167, "similarity", anchor="middle"))
        for label, loss, color in losses:
            found = []
            for s in grid:
                row = torch.cat([fixed, torch.tensor([s, 0.2] if moved == 6 else [0.7, s])])
                similarity = torch.eye(8, dtype=torch.float64)
                similarity[0], similarity[:, 0] = row, row
                found.append(abs(float(loss.weights(similarity, labels)[0, moved])))
            values = np.array(found) / max(found)
            dash = ' stroke-dasharray="6 4"' if label == "contrastive" else ""
            parts.append(line(np.column_stack([x, 150 - 108 * values]), f"s-{color}", dash))
    for i, (label, _, color) in enumerate(losses):
        x = (18, 122, 200, 288)[i]
        parts += [line(np.array([[x, 200.0], [x + 16, 200]]), f"s-{color}"), text(x + 21, 204, label, "ink")]
    return svg("Weight of a pair against its similarity for four losses, each divided by its maximum", parts)


def semi_supervised() -> str:
    """Two moons, one label each: the class shares of every point after propagation."""
    X, y = make_moons(200, noise=0.07, random_state=2)
    labels = np.full(len(y), -1)
    for c, end in ((0, -1.0), (1, 2.0)):
        own = np.flatnonzero(y == c)
        labels[own[np.argmin(abs(X[own, 0] - end))]] = c
    shares = class_shares(nearest_neighbors(X, k=8, normalized=False), labels, gamma=0.99)
    predicted = shares.shares.argmax(1).numpy()
    assert (predicted == y).mean() > 0.97, "the picture is to show a graph that carries the classes along"
    lead = (shares.shares[:, 0] - shares.shares[:, 1]).numpy()
    place = np.column_stack([40 + 280 * (X[:, 0] + 1.1) / 3.2, 150 - 118 * (X[:, 1] + 0.6) / 1.7])
    parts = []
    for (x, h), value in zip(place, lead, strict=True):
        strength = 0.25 + 0.75 * abs(value)
        parts.append(dot(x, h, 4.6, "f-a" if value > 0 else "f-b", f' fill-opacity="{strength:.2f}"'))
    for i in np.flatnonzero(labels >= 0):
        parts.append(dot(*place[i], 9, "n w s-ink"))
    parts += [dot(22, 199, 7, "n w s-ink"), text(36, 203, "two labels; the graph colours the rest", "ink")]
    return svg("Two moons with two labels: the graph of neighbours carries the classes along", parts)


def relation_alignment() -> str:
    """Label sets: the mean squared distance of pairs against the number of labels that differ, raw and learned."""
    random = np.random.default_rng(0)
    X = random.normal(size=(400, 10))
    X[:, 2:] *= 3
    Y = np.column_stack([X[:, 0] > 0, X[:, 1] > 0, X[:, 0] > X[:, 1], X[:, 0] + X[:, 1] > 0]).astype(int)
    learned = RAMLKRR(blend=0.0, random_state=0).fit(X[:200], Y[:200]).transform(X[200:])
    differ = np.abs(Y[200:, None] - Y[None, 200:]).sum(-1)
    upper = np.triu(np.ones_like(differ, dtype=bool), 1)
    parts = [text(24, 24, "mean squared distance of two items", "ink")]
    for name, Z, color, dash in (
        ("raw", X[200:], "muted", ' stroke-dasharray="6 4"'),
        ("learned", learned, "a", ""),
    ):
        squares = np.square(Z[:, None] - Z[None]).sum(-1)
        steps = np.unique(differ[upper])
        means = np.array([squares[upper & (differ == step)].mean() for step in steps])
        means /= means.max()
        points = np.column_stack([40 + 250 * steps / steps.max(), 165 - 118 * means])
        parts.append(line(points, f"s-{color}", dash))
        parts += [dot(x, h, 4.5, f"f-{color}") for x, h in points]
        parts.append(text(42, points[0, 1] + 19, name, color if color == "muted" else "accent"))
    parts.append(line(np.array([[34, 170.0], [326, 170]]), "s-faint"))
    parts += [text(40 + 250 * s / steps.max(), 187, f"{s}", anchor="middle") for s in steps]
    parts.append(text(180, 206, "labels that differ", "ink", "middle"))
    return svg("Distances that follow how many labels two items share, raw and learned", parts)


def joint_representations() -> str:
    """Kernels of three layers of a small network on digits, and their product: alike in all layers at once."""
    digits = load_digits()
    rows = np.concatenate([np.flatnonzero(digits.target == c)[:4] for c in (3, 5, 8, 9)])
    pixels = digits.data[rows] / 16
    embedding = PCA(6).fit(digits.data / 16).transform(pixels)
    embedding /= np.linalg.norm(embedding, axis=1, keepdims=True)
    centers = np.stack([embedding[4 * c : 4 * c + 4].mean(0) for c in range(4)])
    cosines = embedding @ (centers / np.linalg.norm(centers, axis=1, keepdims=True)).T
    layers = [torch.from_numpy(one) for one in (pixels, embedding, cosines)]
    whole = slice(0, len(rows))
    kernels = []
    for layer, components in zip(layers, (3, 3, 1), strict=True):
        tile = Gaussian(components=components).fitted(layer).tile(whole, whole)
        kernels.append((tile.value * tile.constant).numpy())
    kernels.append(kernels[0] * kernels[1] * kernels[2])
    parts = []
    side, gap = 70, 17
    for place, (name, kernel) in enumerate(
        zip(("features", "embedding", "classes", "joint"), kernels, strict=True)
    ):
        left, cell = 13 + place * (side + gap), side / len(rows)
        parts.append(f'<rect x="{left}" y="60" width="{side}" height="{side}" class="f-faint" fill-opacity=".35"/>')
        for i in range(len(rows)):
            for j in range(len(rows)):
                same = i // 4 == j // 4
                value = kernel[i, j] / kernel.max()
                if value < 0.04:
                    continue
                parts.append(
                    f'<rect x="{left + j * cell:.1f}" y="{60 + i * cell:.1f}" '
                    f'width="{cell:.1f}" height="{cell:.1f}" '
                    f'class="{"f-muted" if same else "f-d"}" fill-opacity="{value:.2f}"/>'
                )
        parts.append(text(left + side / 2, 50, name, "ink", "middle"))
        if place < 3:
            parts.append(text(left + side + gap / 2, 100, "×" if place < 2 else "=", "ink", "middle"))
    parts += [
        '<rect x="16" y="158" width="12" height="12" class="f-d"/>',
        text(36, 169, "alike and of different classes: pushed apart", "ink"),
        '<rect x="16" y="182" width="12" height="12" class="f-muted"/>',
        text(36, 193, "of one class: not touched", "ink"),
    ]
    return svg("Kernels of three layers and their product: pairs that look alike in all layers at once", parts)


PICTURES = {
    "asymmetric": asymmetric,
    "pair-weighting": pair_weighting,
    "semi-supervised": semi_supervised,
    "relation-alignment": relation_alignment,
    "joint-representations": joint_representations,
}


def main() -> None:
    for name, draw in PICTURES.items():
        file = PLACE / f"line-{name}.svg"
        file.write_text(draw())
        print(file.name, f"{file.stat().st_size / 1024:.0f} kB")


if __name__ == "__main__":
    main()
