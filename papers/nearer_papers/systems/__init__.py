"""Systems that the papers compare with and nobody but a reproducer uses: losses with heads, generators, cascades or
streams of their own, and their miners, samplers and measures.
"""

from nearer._border import attach as _attach

__getattr__, __dir__, __all__ = _attach(__name__, __file__)
