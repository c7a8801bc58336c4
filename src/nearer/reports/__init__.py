"""What a person looks at: maps of embeddings, grids of retrieved images, training curves, weights of pairs, and
pages of them.

Pictures are matplotlib figures that no window knows about, in one house style for light and for dark screens;
`html_report` puts them, tables and text into one self-contained file.
"""

from nearer._border import attach as _attach

__getattr__, __dir__, __all__ = _attach(__name__, __file__)
