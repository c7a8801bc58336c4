"""How to search embeddings: an `Index` with ids and metadata, exact unless told otherwise.

`Exact()` compares with everything and is always right; `HNSW(...)` and `IVF(...)` look at a part, and the index
measures and reports how much they find. An index is saved as a folder of safetensors and JSON.
"""

from nearer.index._index import Hit, Index, SearchResult
from nearer.index._kinds import HNSW, IVF, Exact, Recall

__all__ = ["HNSW", "IVF", "Exact", "Hit", "Index", "Recall", "SearchResult"]
