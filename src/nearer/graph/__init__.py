"""What neighbours say: graphs of nearest neighbours, and what a few labels say of all other items.

`nearest_neighbors` builds the graph, `propagate` gives the affinity of every edge, `class_shares` how much of
every item belongs to which class, and the class itself. No array of items × items is made above 15,000 items.
"""

from nearer._border import attach as _attach

__getattr__, __dir__, __all__ = _attach(__name__, __file__)
