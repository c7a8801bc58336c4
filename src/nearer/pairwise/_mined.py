"""A miner called as pytorch-metric-learning calls its own: embeddings and labels in, index tuples out."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nearer._validation import as_matrix
from nearer.exceptions import ParameterError
from nearer.pairwise._function import normalize_rows
from nearer.pairwise._panels import iterate_panels
from nearer.pairwise._rule import Miner, Pairing
from nearer.relations._shared import relate


@torch.no_grad()
def mined_pairs(
    miner: Miner, embeddings: Any, labels: Any, database: Any = None, database_labels: Any = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(a1, p, a2, n) of the pairs that a miner keeps, panel by panel, on the device of the embeddings."""
    if (database is None) != (database_labels is None):
        raise ParameterError("`ref_emb` and `ref_labels` must be given together.")
    queries = normalize_rows(as_matrix(embeddings, "embeddings", minimum_rows=0))[0]
    others = None
    if database is not None:
        others = as_matrix(database, "ref_emb", columns=queries.shape[1], minimum_rows=0)
        others = normalize_rows(others, "ref_emb")[0]
    n_database = None if others is None else len(others)
    relation = relate(labels, database_labels, n=len(queries), n_database=n_database, device=queries.device)
    parts: list[list[Tensor]] = [[], [], [], []]
    for share, layer in relation.layers():
        if share != 1:
            raise ParameterError(
                f"`labels` must be classes or plain pairs for mined tuples, got {type(relation).__name__}."
            )
        if not len(queries) or (others is not None and not len(others)):
            continue
        pairing = Pairing(
            queries, queries if others is None else others, layer, 0 if others is None else None, True
        )
        for panel in iterate_panels(pairing, select=miner.prepare(pairing)):
            for side, mask in ((0, panel.positive), (2, panel.negative)):
                anchors, partners = mask.nonzero(as_tuple=True)
                parts[side].append(anchors + panel.anchors.start)
                parts[side + 1].append(partners)
    a1, p, a2, n = (torch.cat(part) if part else queries.new_empty(0, dtype=torch.int64) for part in parts)
    return a1, p, a2, n
