"""A folder of photos: features by an encoder of your own, a metric on them, and the nearest photos of a new one.

The photos are drawn here: rings, squares, triangles and crosses in any color, size and place, so that color says
nothing. With `pip install 'nearer[photos]'` leave `encoder=` out, and a trained network takes the place of `edges`.

Run: python examples/photos.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

import nearer

# %% Draw a folder with one sub-folder for each class
rng = np.random.default_rng(0)
SHAPES = ("cross", "ring", "square", "triangle")


def draw(shape: str) -> Image.Image:
    """A photo of one thing: anywhere, of any size, in any two colors."""
    back, front = (tuple(int(c) for c in rng.integers(0, 256, 3)) for _ in range(2))
    image = Image.new("RGB", (48, 48), back)
    pen, size = ImageDraw.Draw(image), int(rng.integers(12, 22))
    left, top = (int(value) for value in rng.integers(0, 48 - size, 2))
    box = (left, top, left + size, top + size)
    if shape == "ring":
        pen.ellipse(box, outline=front, width=4)
    elif shape == "square":
        pen.rectangle(box, outline=front, width=4)
    elif shape == "triangle":
        pen.polygon([(left, top + size), (left + size, top + size), (left + size // 2, top)], fill=front)
    else:
        middle = size // 2
        pen.line((left, top + middle, left + size, top + middle), fill=front, width=4)
        pen.line((left + middle, top, left + middle, top + size), fill=front, width=4)
    return image


folder = Path(tempfile.mkdtemp()) / "photos"
for shape in SHAPES:
    (folder / shape).mkdir(parents=True)
    for number in range(60):
        draw(shape).save(folder / shape / f"{number:02}.png")

# %% An encoder: a list of photos (h, w, 3) in, rows out


def edges(photos) -> np.ndarray:
    """The colors, how often edges run in which of 16 directions, and how far the edges are spread."""
    rows = []
    for photo in photos:
        # Of the three colors the one with most contrast.
        light = max((photo[:, :, c].astype(float) for c in range(3)), key=np.ptp)
        down, right = np.gradient(light / max(np.ptp(light), 1.0))
        strength, angle = np.hypot(down, right), np.arctan2(down, right)
        bins = ((angle + np.pi) / (2 * np.pi) * 16).astype(int) % 16
        counts = np.bincount(bins.ravel(), strength.ravel(), 16)
        y, x = np.nonzero(strength > 0.2)
        spread = [np.std(x), np.std(y), np.std(x + y), np.std(x - y)] if len(x) else [0.0] * 4
        rows.append([*photo.mean((0, 1)) / 25, *photo.std((0, 1)) / 25, *np.sqrt(counts), *spread])
    return np.array(rows)


# %% Learn, and look for the neighbors of a photo that is new
model = nearer.fit(folder, encoder=edges)
print(model)
new = Path(tempfile.mkdtemp()) / "new.png"
draw("triangle").save(new)
hits = model.neighbors([new], k=5)[0]
print("nearest to a new triangle:", [hit.metadata.get("label") for hit in hits])

gain = model.fitted.comparison.gains["map@r"]
assert gain > 0.05
