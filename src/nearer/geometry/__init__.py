"""How near two items are: similarities and distances, learnable linear geometries, and encoders in front of them.

Similarities go up when items are closer, distances go down. A geometry has `transform` (rows in, rows out; a
Euclidean distance after it is the learned one) and `distance`. Everything with parameters is a torch module with
`save(path)`, and `load(path)` brings it back without pickle.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
