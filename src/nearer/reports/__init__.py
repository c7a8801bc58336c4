"""What a person looks at: maps of embeddings, grids of retrieved images, training curves, weights of pairs, and
pages of them.

Pictures are matplotlib figures that no window knows about, in one house style for light and for dark screens;
`html_report` puts them, tables and text into one self-contained file.
"""

from nearer.reports._curves import training_curve
from nearer.reports._grids import retrieval_grid
from nearer.reports._maps import embedding_map, map_to_plane
from nearer.reports._page import Code, Picture, Section, Table, html_report
from nearer.reports._style import as_png, class_colors
from nearer.reports._weights import pair_weights, weight_curves, weight_matrix

__all__ = [
    "Code",
    "Picture",
    "Section",
    "Table",
    "as_png",
    "class_colors",
    "embedding_map",
    "html_report",
    "map_to_plane",
    "pair_weights",
    "retrieval_grid",
    "training_curve",
    "weight_curves",
    "weight_matrix",
]
