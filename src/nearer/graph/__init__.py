"""What neighbours say: graphs of nearest neighbours, and what a few labels mean for everyone else.

`nearest_neighbors` builds the graph, `propagate` gives the affinity of every edge, `believe_labels` a class for
every item, `find_modes` the peaks of the graph. No array of items × items is made above 15,000 items.
"""

from nearer.graph._believing import believe_labels
from nearer.graph._density import find_modes, parzen_density, stationary_distribution
from nearer.graph._entries import Certificate
from nearer.graph._knn import Neighbors, nearest_neighbors
from nearer.graph._propagation import Propagation, label_reach, propagate, two_sided_affinity
from nearer.graph._transition import Transition

__all__ = [
    "Certificate",
    "Neighbors",
    "Propagation",
    "Transition",
    "believe_labels",
    "find_modes",
    "label_reach",
    "nearest_neighbors",
    "parzen_density",
    "propagate",
    "stationary_distribution",
    "two_sided_affinity",
]
