"""What to ask next: the items or pairs whose answer would teach the metric most."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
