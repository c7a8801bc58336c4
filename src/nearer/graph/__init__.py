"""What neighbours say: graphs of nearest neighbours, and what a few labels mean for everyone else.

`nearest_neighbors` builds the graph, `propagate` gives the affinity of every edge, `class_shares` how much of
every item belongs to which class, `believe_labels` the class itself, `find_modes` the peaks of the graph. No array
of items × items is made above 15,000 items.
"""

from nearer.graph._believing import ClassShares, believe_labels, class_shares
from nearer.graph._density import find_modes, parzen_density, stationary_distribution
from nearer.graph._entries import Certificate
from nearer.graph._knn import Neighbors, nearest_neighbors
from nearer.graph._propagation import Propagation, label_reach, propagate, two_sided_affinity
from nearer.graph._transition import Transition

__all__ = [
    "Certificate",
    "ClassShares",
    "Neighbors",
    "Propagation",
    "Transition",
    "believe_labels",
    "class_shares",
    "find_modes",
    "label_reach",
    "nearest_neighbors",
    "parzen_density",
    "propagate",
    "stationary_distribution",
    "two_sided_affinity",
]
