"""A model and an index behind HTTP: embed, search, add, remove, compare; `nearer serve MODEL INDEX`.

Requests are gathered into small batches, writes are on disk before they are answered, and tokens, limits and logs
are those of a service that may face a network. Needs the extra `serve` (FastAPI, uvicorn, msgspec).
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
