"""BANKING77: questions of bank customers, sorted by what they want."""

from __future__ import annotations

import os

import numpy as np

from nearer.datasets._dataset import DataFile, Dataset, Source, Split
from nearer_papers.data._obtain import open_npz

__all__ = ["BANKING77", "load_banking77"]

BANKING77 = Source(
    name="banking77",
    title="BANKING77 customer questions, MiniLM embeddings",
    citation="Casanueva, Temcinas, Gerz, Henderson, Vulic 2020, NLP4ConvAI",
    license="CC BY 4.0 (texts); Apache-2.0 (encoder of the embeddings)",
    address="https://github.com/PolyAI-LDN/task-specific-datasets",
    files=(DataFile("banking77.npz", "13d6b6a6faa9c3cceb0f3026d30c04b747b1f2aee720dc20b2489264f03213bf"),),
)


def load_banking77(*, folder: str | os.PathLike[str] | None = None, verify: bool = True) -> Dataset:
    """`train` 10,003 and `test` 3,080 sentence embeddings of 384 numbers, 77 intents, as published.

    `extra["text"]` holds the questions. For the open-set protocol (intents 0-38 seen, 39-76 new) use
    `class_disjoint_split(data.all.y, train_classes=39)`.
    """
    keys = [f"{key}_{part}" for part in ("train", "test") for key in ("emb", "emb_scale", "y", "text")]
    stored = open_npz(BANKING77, folder, [*keys, "class_names"], verify=verify)
    parts = {
        part: Split(
            stored[f"emb_{part}"] * stored[f"emb_scale_{part}"].astype(np.float32),
            stored[f"y_{part}"].astype(np.int64),
            {"text": stored[f"text_{part}"]},
        )
        for part in ("train", "test")
    }
    return Dataset(BANKING77, parts, tuple(map(str, stored["class_names"])))
