"""How to search embeddings: an `Index` with ids and metadata, exact unless told otherwise.

`Exact()` compares with everything and is always right; `HNSW(...)` and `IVF(...)` look at a part, and the index
measures and reports how much they find. An index is saved as a folder of safetensors and JSON.
"""

from nearer._border import attach as _attach

__getattr__, __dir__, __all__ = _attach(__name__, __file__)
