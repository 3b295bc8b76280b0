"""The routes by which an operator becomes a part of an ONNX model, in the order of preference.

standard        standard ONNX operators, inline
function        a call of an ONNX function whose body is standard operators
kernel          one node in a domain of opbridge or the user, run by a kernel
aten            one node that names the PyTorch operator, run by libtorch
fallthrough     one node in the domain of the operator's namespace, for a kernel that the user provides
"""

from __future__ import annotations

__all__ = ["ALLOWED_BY_DEFAULT", "ROUTES"]

ROUTES = ("standard", "function", "kernel", "aten", "fallthrough")


ALLOWED_BY_DEFAULT = ("standard", "function", "kernel")
