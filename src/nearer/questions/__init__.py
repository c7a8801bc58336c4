"""What to ask next: the items or pairs whose answer would teach the metric most."""

from nearer._border import attach as _attach

__getattr__, __dir__, __all__ = _attach(__name__, __file__)
