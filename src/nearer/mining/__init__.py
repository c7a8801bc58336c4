"""Which pairs count: miners give a pair the weight zero, in any pair loss (`loss = RAWLoss(miner=VTHM())`).

A miner is prepared once per batch and then chooses in every row panel; its choice never depends on how the batch is
cut. The row-wise rules are also plain functions from masks to masks (`mine_*`).
"""

from nearer._border import attach as _attach

__getattr__, __dir__, __all__ = _attach(__name__, __file__)
