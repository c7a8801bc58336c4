"""What a loss does where no value can be read: while torch.compile traces, and on an accelerator.

The only place that knows. A branch on values asks `readable` first; a check of values becomes `require`; what needs
values to go on says so by `leave_to_eager`.
"""

from __future__ import annotations

import torch
from torch import Tensor

# What an accelerator holds at once: 256 MB in single precision, several times.
ENTRIES = 1 << 26


def readable(tensor: Tensor) -> bool:
    """Whether a decision may depend on the values of a tensor.

    Not while torch.compile traces, which knows no values, and not on an accelerator, which would have to be waited
    for in every step of a training.

    >>> readable(torch.ones(2))
    True
    """
    return not torch.compiler.is_compiling() and tensor.device.type == "cpu"


def at_once(tensor: Tensor, entries: int) -> bool:
    """Whether to compute all of so many entries by operations that look at no value, instead of in tiles.

    Always while torch.compile traces; on an accelerator where they fit; never on a CPU, where a look is free.

    >>> at_once(torch.ones(2), 4)
    False
    """
    return not readable(tensor) and (torch.compiler.is_compiling() or entries <= ENTRIES)


def require(name: str, what: str, holds: Tensor) -> None:
    """A check of values that nobody waits for: RuntimeError, once they are there, unless all of `holds` is true.

    >>> require("labels", "be whole", torch.tensor([True]))
    """
    torch._assert_async(holds.all(), f"`{name}` must {what}. On a CPU, without torch.compile, the error says more.")


def leave_to_eager(reason: str) -> None:
    """While torch.compile traces: end the graph here, and with `fullgraph=True` refuse, for this reason.

    >>> leave_to_eager("It sorts.")  # nothing: nobody traces
    """
    if torch.compiler.is_compiling():
        from torch._dynamo import graph_break  # it is there while it traces, and slow to load otherwise

        graph_break(msg=reason)
