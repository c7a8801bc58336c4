"""A client for `nearer serve`: embed, search, add and remove over HTTP, with retries."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
