"""Approximate search goes on working after another library has loaded faiss.contrib.torch_utils."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CODE = """
import sys
import faiss.contrib.torch_utils
import numpy as np
from nearer.index import HNSW, IVF, Index
rows = np.random.default_rng(0).normal(size=(3000, 8)).astype(np.float32)
for kind in (HNSW(), IVF()):
    index = Index(8, similarity="euclidean", kind=kind)
    index.add(rows)
    assert (index.search(rows[:5], k=1).ids[:, 0] == np.arange(5)).all()
    again = Index.load(index.save(f"{sys.argv[1]}/{type(kind).__name__}"))
    assert (again.search(rows[:5], k=3).ids == index.search(rows[:5], k=3).ids).all()
"""


def test_after_the_patch_of_another_library(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", CODE, str(tmp_path)], check=True)
