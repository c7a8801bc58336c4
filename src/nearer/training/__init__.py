"""How the geometry moves: one small loop, samplers, schedules, checkpoints, logs, many processes.

`train(step, sampler, epochs=...)` repeats a step over the batches that a sampler names. `EncoderStep` is the usual
step: encode, take the loss, move the parameters. Everything can be killed and resumed to the same last bit.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
