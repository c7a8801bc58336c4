"""A map for queries alone in front of a model, learned from what people clicked; the index stays as it is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearer.estimators import QueryMap
from nearer.exceptions import MissingDataError, ParameterError
from nearer.geometry import Chain, Mahalanobis, TwoEncoders, UnitLength
from nearer.index import open_index
from nearer.models._migrating import rows_of
from nearer.models._model import Model, derived

# Rows of the index that the choice looks at, at most.
MOST_SEARCHED = 20_000


@dataclass(frozen=True, eq=False)
class Adaptation:
    """What a map of the queries gains on pairs that did not teach it, and the model that has it."""

    model: Model
    """Its queries are mapped, its items are those of the index; the model as it was where nothing was gained."""
    query_map: QueryMap
    pairs: int
    """How many of the clicked items were in the index."""

    @property
    def verdict(self) -> str:
        """Whether to search with the map, in one sentence."""
        learned = self.query_map
        raw = learned.scores_[0.0]
        told = (
            f"On {self.pairs:,} pairs, each asked of a map that it did not teach, the item that belongs to the "
            f"query has a mean of Recall@1, 2, 4 and 8 of {raw:.4f} by the raw queries"
        )
        if not learned.power_:
            return f"{told}, and no map is better. Keep the queries as they are."
        gain = f"{learned.gain_:+.4f} ± {learned.gain_error_:.4f}"
        return f"{told} and of {raw + learned.gain_:.4f} by the mapped ones ({gain}). The index stays as it is."


def adapt(model: Model, where: str | os.PathLike[str], queries: Any, documents: Sequence[Any]) -> Adaptation:
    """Learn a map of the queries of `model` from pairs of a query and the id of the item that belongs to it."""
    given = model.inputs.read(queries)
    names = list(documents)
    if len(names) != len(given.all):
        raise ParameterError(
            f"`documents` must name one item for each of the {len(given.all)} queries, got {len(names)}.",
            argument="documents",
        )
    with open_index(where, fingerprint=model.fingerprint, read_only="://" not in str(where)) as index:
        there, clicked = rows_of(index, names, f"the `documents` must be in `{os.fspath(where)}`")
        ids = index.ids
        drawn = np.sort(np.random.default_rng(0).permutation(len(ids))[:MOST_SEARCHED])
        others = index.embeddings([ids[row] for row in drawn]).numpy()
    rows = model.inputs.of(given)[there]
    learned = QueryMap(random_state=0).fit(model.transform(rows), clicked, database=others)
    if not learned.scores_:
        raise MissingDataError("The `documents` must name at least two different items, got one alone.")
    if not learned.power_:
        return Adaptation(model, learned, int(there.sum()))
    sides = model.encoder if isinstance(model.encoder, TwoEncoders) else TwoEncoders(model.encoder, model.encoder)
    step = Mahalanobis.from_factor(learned.components_.astype(np.float32))
    after = [UnitLength()] if learned.unit_ else []
    encoder = TwoEncoders(Chain(sides.query_encoder, step, *after), sides.database_encoder).eval()
    mapped = derived(model, encoder, {"query_map": {"power": learned.power_, "pairs": len(rows)}}, rows)
    adapted = Adaptation(mapped, learned, len(rows))
    mapped.summary = f"{model.summary}\n\nQueries are mapped. {adapted.verdict}".lstrip()
    return adapted
