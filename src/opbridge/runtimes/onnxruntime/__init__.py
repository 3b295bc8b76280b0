"""ONNX Runtime: sessions, and the kernels that the installed release has.

onnxruntime_private     the private interface of onnxruntime: tables of kernels and operators, types of errors
kernel_table            the kernels and opsets of the installed release
model_file              what a file says without being loaded: the kernels that it needs, whether it is complete
kernel_libraries        the kernel libraries that a session needs
refusals                why ONNX Runtime refused a model, and what to do
loading                 a model -> a session
isolated                a session in a process of its own, with limits
isolated_worker         that process
sheltered               a session of this process beside one of those, for the runs that may end a process
opening                 a session of either kind
"""

from __future__ import annotations

from opbridge.runtimes.limits import Limits
from opbridge.runtimes.onnxruntime.isolated import IsolatedSession, isolated_session
from opbridge.runtimes.onnxruntime.kernel_table import Kernel, cpu_kernels, has_schema, newest_opset
from opbridge.runtimes.onnxruntime.loaded import DOMAINS, INSTALL, ISOLATED, KERNELS, NAME, TITLE, load, version
from opbridge.runtimes.onnxruntime.loading import session
from opbridge.runtimes.onnxruntime.opening import open_session

__all__ = [
    "DOMAINS",
    "INSTALL",
    "ISOLATED",
    "KERNELS",
    "NAME",
    "TITLE",
    "IsolatedSession",
    "Kernel",
    "Limits",
    "cpu_kernels",
    "has_schema",
    "isolated_session",
    "load",
    "newest_opset",
    "open_session",
    "session",
    "version",
]
