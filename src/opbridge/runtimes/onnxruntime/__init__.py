"""ONNX Runtime: sessions, and the kernels that the installed release has.

onnxruntime_private     the private interface of onnxruntime: tables of kernels and operators, types of errors
kernel_table            the kernels and opsets of the installed release
model_file              what a file says without being loaded: the kernels that it needs, whether it is complete
kernel_libraries        the kernel libraries that a session needs
refusals                why ONNX Runtime refused a model, and what to do
loading                 a model -> a session
"""

from __future__ import annotations

from opbridge.runtimes.onnxruntime.kernel_table import Kernel, cpu_kernels, has_schema, newest_opset
from opbridge.runtimes.onnxruntime.loading import session

__all__ = ["Kernel", "cpu_kernels", "has_schema", "newest_opset", "session"]
