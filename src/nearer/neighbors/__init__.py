"""Who is nearest: one search, one tie rule, one vote.

`search` gives the k nearest rows of a database for every query, exactly or by cells; equal distances are ordered by
the number of the row, whatever the method. `vote` is what the classes of those neighbors say. Everything in the
library that needs a list of neighbors calls these two; only the evaluation, which needs none, sweeps by itself.
"""

from nearer.neighbors._search import Method, Neighbors, search
from nearer.neighbors._votes import vote

__all__ = ["Method", "Neighbors", "search", "vote"]
