"""What neighbours say: graphs of nearest neighbours, and what a few labels mean for everyone else.

`nearest_neighbours` builds the graph, `propagate` gives the affinity of every edge, `believe_labels` a class for
every item, `find_modes` the peaks of the graph. No array of items × items is made above 15,000 items.
"""

from nearer.graph.believing import believe_labels
from nearer.graph.density import find_modes, parzen_density, stationary_distribution
from nearer.graph.entries import Certificate
from nearer.graph.knn import Neighbours, nearest_neighbours
from nearer.graph.propagation import Propagation, label_reach, propagate, two_sided_affinity
from nearer.graph.transition import Transition

__all__ = [
    "Certificate",
    "Neighbours",
    "Propagation",
    "Transition",
    "believe_labels",
    "find_modes",
    "label_reach",
    "nearest_neighbours",
    "parzen_density",
    "propagate",
    "stationary_distribution",
    "two_sided_affinity",
]
