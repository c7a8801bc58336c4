"""Losses that come with parts of their own: heads, generators, cascades, two streams.

The losses are in `nearer.losses`; the parts that go with them are here.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
