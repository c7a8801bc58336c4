"""A model and an index behind HTTP: embed, search, add, remove, compare; `nearer serve MODEL INDEX`.

Requests are gathered into small batches, writes are on disk before they are answered, and tokens, limits and logs
are those of a service that may face a network. Needs the extra `serve` (uvicorn, msgspec).
"""

from nearer._border import attach as _attach

__getattr__, __dir__, __all__ = _attach(__name__, __file__)
