"""What a person looks at: maps of embeddings, grids of retrieved images, training curves, weights of pairs, and
pages of them.

Pictures are matplotlib figures that no window knows about, in one house style for light and for dark screens;
`html_report` puts them, tables and text into one self-contained file.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
