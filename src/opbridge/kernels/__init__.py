"""Operators of one's own: a C++ file becomes a library that PyTorch and ONNX Runtime both load."""
