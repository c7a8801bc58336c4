"""The faces: command line, service, its client, and the explorer; they may use every folder, and none uses them."""

from nearer._border import attach as _attach

__getattr__, __dir__, __all__ = _attach(__name__, __file__)
