"""What other packages of nearer may use beside the public names: the parts of miners that losses and loops call.

Listed in `_shared.pyi`; a name is loaded when it is first asked for.
"""

from nearer._border import share as _share

__getattr__ = _share(__package__, __file__)
