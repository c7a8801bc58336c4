"""Who should be near: class labels, partial labels, label sets, distributions, numbers, listed pairs and triplets.

Each answers for one tile of pairs at a time: a degree in [0, 1] and whether it is known (`degrees`), or the
positive and the negative pairs (`masks`). `relate` makes one from whatever a user passes as labels; two sets
of labels make a relation between queries and a database. `kind_of` says in one word (`Kind`) what labels are, for
everything in the library, and `Soft` lets degrees weigh pairs in any loss.
"""

from nearer._border import attach as _attach

__getattr__, __dir__, __all__ = _attach(__name__, __file__)
