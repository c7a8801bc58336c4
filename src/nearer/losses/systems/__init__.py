"""Losses that come with parts of their own: heads, generators, cascades, two streams.

The losses are in `nearer.losses`; the parts that go with them are here.
"""

from nearer._border import attach as _attach

__getattr__, __dir__, __all__ = _attach(__name__, __file__)
