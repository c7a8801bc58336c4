"""What a pair costs: every pair-based loss of the field as a weight on pairs.

Each is a module, `XLoss(...)(embeddings, labels)`. Each can be asked for its `weights` on a matrix of similarities,
computes itself in tiles, has a `dense` twin by the printed formula, takes a miner, a database of other items, any
relation, and (in `ShardedLoss`) the joint batch of many processes.
"""

from nearer._border import attach as _attach

__getattr__, __dir__, __all__ = _attach(__name__, __file__)
