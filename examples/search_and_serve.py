"""From a table to an answer over HTTP: fit, index, search in this process, then ask a service.

Run: python examples/search_and_serve.py        (needs the extra `serve`)
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import nearer
from nearer.app.client import Client
from nearer.index import open_index

# %% A metric for digits, and an index that lives in a folder
X, y = load_digits(return_X_y=True)
train, new = np.arange(1500), np.arange(1500, len(y))
model = nearer.fit(X[train], y[train], method="lfda")
folder = Path(tempfile.mkdtemp())
model.save(folder / "model")
with open_index(
    folder / "index", dimension=model.transform(X[:1]).shape[1], fingerprint=model.fingerprint
) as index:
    index.add(model.transform(X[train]), metadata=[{"digit": int(digit)} for digit in y[train]])
    index.sync()

# %% Search here
with open_index(folder / "index", fingerprint=model.fingerprint) as index:
    hits = index.search(model.transform(X[new]), k=1)
    here = np.array([hit[0].metadata["digit"] for hit in hits])
print(f"the nearest of 1,500 stored digits is right for {np.mean(here == y[new]):.1%} of {len(new)} new ones")

# %% Search there: the same model and folder behind HTTP
command = [
    sys.executable,
    "-m",
    "nearer",
    "serve",
    folder / "model",
    folder / "index",
    "--port",
    "0",
    "--log",
    "none",
]
with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
    address = process.stdout.readline().split()[2]  # Listening on http://127.0.0.1:...
    with Client(address) as client:
        answers = client.search(X[new].tolist(), k=1)
        (kept,) = client.add(X[new[:1]].tolist(), metadata=[{"digit": int(y[new[0]])}])  # on disk when this returns
        found = client.search(X[new[:1]].tolist(), k=1)[0][0]
    process.terminate()  # finishes what was begun
there = np.array([hit[0].metadata["digit"] for hit in answers])
print(f"the service gives the same digit for {np.mean(here == there):.1%} of them; the new row is {found.id}")
assert process.returncode == 0
assert (here == there).all()
assert found.id == kept
assert np.mean(here == y[new]) > 0.9
