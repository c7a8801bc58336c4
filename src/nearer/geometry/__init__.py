"""How near two items are: similarities and distances, learnable linear geometries, and encoders in front of them.

Similarities go up when items are closer, distances go down. A geometry has `transform` (rows in, rows out; a
Euclidean distance after it is the learned one) and `distance`. Everything with parameters is a torch module with
`save(path)`, and `load(path)` brings it back without pickle.
"""

from nearer._border import attach as _attach

__getattr__, __dir__, __all__ = _attach(__name__, __file__)
