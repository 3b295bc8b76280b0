"""The fifth stage: an ONNX model becomes a file, whole or not at all, without a copy of its weights.

In: an onnx_ir.Model.
Out: files.
May import: onnx, base.
"""
