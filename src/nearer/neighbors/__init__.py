"""Who is nearest: one search, one tie rule, one vote.

`search` gives the k nearest rows of a database for every query, exactly or by cells; equal distances are ordered by
the number of the row, whatever the method. `vote` is what the classes of those neighbors say. Everything in the
library that needs a list of neighbors calls these two; only the evaluation, which needs none, sweeps by itself.
"""

from nearer._border import attach as _attach

__getattr__, __dir__, __all__ = _attach(__name__, __file__)
