"""How the geometry moves: one small loop, samplers, schedules, checkpoints, logs, many processes.

`train(step, sampler, epochs=...)` repeats a step over the batches that a sampler names. `EncoderStep` is the usual
step: encode, take the loss, move the parameters. Everything can be killed and resumed to the same last bit.
"""

from nearer._border import attach as _attach

__getattr__, __dir__, __all__ = _attach(__name__, __file__)
