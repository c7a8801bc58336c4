"""The file of an approximate structure: a cache beside the database, believed only if it fits to the last bit.

It names the database by its own random name and the generation of its rows (closing gaps begins a new one). Rows
that came later are put in when the index is opened; anything else that does not fit makes it worthless, and the
structure is built again.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nearer._checks import check_int
from nearer._limits import size_on_disk
from nearer._plain import Floats
from nearer._storage._disk import write_bytes
from nearer._storage._tensors import tensor_bytes, tensors_of
from nearer.index._approximate import Structure, restore
from nearer.index._database import STRUCTURE
from nearer.index._kinds import Approximate, Exact, Recall, kind_from, kind_to
from nearer.neighbors._shared import Similarity


def save_structure(folder: Path, structure: Structure, name: str, generation: int) -> bool:
    """Write the cache; False where that is not possible, which costs nothing but time at the next opening."""
    about = {
        "index": name,
        "generation": generation,
        "rows": len(structure.positions),
        "trained_on": structure.trained_on,
        "recall": None if structure.recall is None else asdict(structure.recall),
        **kind_to(structure.kind),
    }
    head = torch.frombuffer(bytearray(json.dumps(about).encode()), dtype=torch.uint8)
    pieces = list(tensor_bytes({"about": head, **structure.tensors()}))
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    fresh = folder / f"{STRUCTURE}.new"
    try:
        with suppress(FileNotFoundError):
            os.unlink(fresh)  # a link would be followed
        write_bytes(fresh, [*pieces, digest.digest()])
        os.replace(fresh, folder / STRUCTURE)
    except OSError:
        with suppress(OSError):
            os.unlink(fresh)
        return False
    return True


def load_structure(
    folder: Path, vectors: Floats, *, kind: Approximate, similarity: Similarity, name: str, generation: int
) -> tuple[Structure, int] | None:
    """The structure of a cache that fits, rows that came later put in, and how many it had; None without one."""
    try:
        status = os.stat(folder / STRUCTURE)
        if size_on_disk(status) < status.st_size:
            return None  # a file with holes claims more than it has
        data = np.fromfile(folder / STRUCTURE, dtype=np.uint8)
        body, digest = data[:-32], data[-32:].tobytes()
        if len(data) < 32 or hashlib.sha256(body.data).digest() != digest:
            return None
        tensors = tensors_of(body, f"`{folder / STRUCTURE}`")
        about: dict[str, Any] = json.loads(tensors.pop("about").numpy().tobytes())
        covered = check_int(about["rows"], "rows", maximum=len(vectors))
        saved = kind_from(about)
        # The number of probes may have been chosen when the structure was built; nothing else may differ.
        same = type(saved) is type(kind) and asdict(saved) | {"probes": 0} == asdict(kind) | {"probes": 0}
        if isinstance(saved, Exact) or not same or (about["index"], about["generation"]) != (name, generation):
            return None
        structure = restore(
            saved,
            vectors[:covered],
            tensors,
            similarity=similarity,
            trained_on=check_int(about["trained_on"], "trained_on", minimum=0),
        )
        structure.recall = Recall.read(about["recall"])
    except (OSError, ValueError, LookupError, TypeError, OverflowError, RuntimeError, MemoryError):
        return None
    if covered < len(vectors):
        structure.add(vectors, np.arange(covered, len(vectors)), measure=False)
    return structure, covered
