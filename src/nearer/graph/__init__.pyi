from ._believing import believe_labels as believe_labels
from ._believing import class_shares as class_shares
from ._density import find_modes as find_modes
from ._knn import nearest_neighbors as nearest_neighbors
from ._propagation import propagate as propagate

__all__ = [
    "believe_labels",
    "class_shares",
    "find_modes",
    "nearest_neighbors",
    "propagate",
]
