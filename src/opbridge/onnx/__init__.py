"""Building ONNX: nodes, values, constants, schemas by opset, calls rewritten for older opsets.

In: calls of ONNX operators, as translations make them.
Out: onnx_ir nodes, values and tensors.
May import: base.
"""
