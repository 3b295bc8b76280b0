"""An ONNX model becomes a file, whole or not at all, without a copy of its weights.

Nothing is imported here: the runtimes use `wire` on machines that have no onnx_ir.
"""
