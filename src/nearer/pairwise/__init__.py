"""S in tiles, never as a whole: how a pair loss is computed.

A contributor meets six things. A `Rule` makes `Terms` of a `Panel` (some anchors against everything), which is
enough for every relation, miner, database and process. Where a loss is a function of Σ e(s) over the negatives and
of the positives, a `Statistic` says so, with a head that sees `Far` and `Near`, and the loss runs over tiles.
Everything else, from sorting to the gradient (G + Gᵀ) Z, belongs to the engine.
"""

from nearer._border import attach as _attach

__getattr__, __dir__, __all__ = _attach(__name__, __file__)
