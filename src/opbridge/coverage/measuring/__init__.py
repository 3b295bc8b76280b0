"""What a runtime really takes: ONNX's node tests and forms of them, run on it, and the facts that follow.

cases           the tests, each with its forms: with constants, in other types, of other opsets
kernel_lists    a runtime that lists its kernels: what they take, without a run
own_models      models that the tests lack
work            one case on the runtime, as the engine's workers try it
learning        facts that tell what fails from what does not
measure         the whole of it, and the file that it writes

In: the name of a runtime that is installed.
Out: `Measured`, and the target's file of measured facts.
"""

from opbridge.coverage.measuring.measure import Measured, measure, tried

__all__ = ["Measured", "measure", "tried"]
