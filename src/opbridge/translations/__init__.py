"""Translations: for each operator, the Python function that builds its ONNX nodes.

In: an operator's arguments, as values of the ONNX graph and as Python values.
Out: the registry, which a plan asks; the nodes that a translation builds.
May import: onnx, base. A family imports the registry's decorator, `lib` and onnxscript, and nothing of a capture.
"""
