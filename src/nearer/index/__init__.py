"""How to search embeddings: an `Index` with ids and metadata, exact unless told otherwise.

`Exact()` compares with everything and is always right; `HNSW(...)` and `IVF(...)` look at a part, and the index
measures and reports how much they find. An index is saved as a folder of safetensors and JSON.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
