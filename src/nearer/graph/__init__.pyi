from ._knn import nearest_neighbors as nearest_neighbors
from ._propagation import class_shares as class_shares
from ._propagation import propagate as propagate
