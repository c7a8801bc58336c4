from ._curves import training_curve as training_curve
from ._grids import retrieval_grid as retrieval_grid
from ._maps import embedding_map as embedding_map
from ._weights import weight_curves as weight_curves
from ._weights import weight_matrix as weight_matrix
