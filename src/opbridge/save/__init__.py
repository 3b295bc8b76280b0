"""The fifth stage: an ONNX model is written to a file, atomically and without a copy of its weights.

In: an onnx_ir.Model.
Out: files.
May import: onnx, base.
"""
