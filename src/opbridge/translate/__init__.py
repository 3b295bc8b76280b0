"""The third stage: the captured graph becomes ONNX nodes.

In: a Capture and its Plan.
Out: an onnx_ir.Model, and the plan as it turned out.
May import: plan, capture, and what these stand on; not fit, save, verification.
"""
