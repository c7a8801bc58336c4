from ._curves import training_curve as training_curve
from ._errors import error_curves as error_curves
from ._grids import retrieval_grid as retrieval_grid
from ._maps import embedding_map as embedding_map
from ._page import Code as Code
from ._page import Picture as Picture
from ._page import Section as Section
from ._page import Table as Table
from ._page import html_report as html_report
from ._weights import weight_curves as weight_curves
from ._weights import weight_matrix as weight_matrix

__all__ = [
    "Code",
    "Picture",
    "Section",
    "Table",
    "embedding_map",
    "error_curves",
    "html_report",
    "retrieval_grid",
    "training_curve",
    "weight_curves",
    "weight_matrix",
]
