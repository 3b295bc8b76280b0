"""The fourth stage: a model is rewritten for the runtime that is to run it.

In: an onnx_ir.Model, its Plan, a Target.
Out: the same model, rewritten in place, and the operators that the target cannot run.
May import: plan, runtimes, and what these stand on; not translate.
"""
