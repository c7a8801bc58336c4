"""A client for `nearer serve`: embed, search, add and remove over HTTP, with retries."""

from nearer._border import attach as _attach

__getattr__, __dir__, __all__ = _attach(__name__, __file__)
