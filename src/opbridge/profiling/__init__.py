"""The time of an ONNX file by operator, module and source line, beside eager PyTorch's.

entry_point   `opbridge.profile`
file_graph    the nodes of a file with their modules and lines
running       the file in ONNX Runtime with its profiler, in a process of its own
worker        that process
trace         what the profiler wrote, added up for each run
origins       which nodes of the file a node of the runtime stands for
kinds         what a node is that the file does not have
inputs        the inputs that a file is profiled on
beside        the PyTorch model on the same inputs
eager         the time of eager PyTorch by operator, module and line
data, grouping, code, report    the times, added up, with the text of the lines
page          the document of the page with the flame graph

In: an ONNX file, and the PyTorch model that it was exported from, if it is there.
Out: `Profile`.
May import: verification, rules, side_by_side, runtimes, reports, pages, base.
"""

from __future__ import annotations

from opbridge.profiling.data import Kernel, TorchCall, TorchTimes
from opbridge.profiling.entry_point import profile
from opbridge.profiling.grouping import Row
from opbridge.profiling.report import Own, Profile

__all__ = ["Kernel", "Own", "Profile", "Row", "TorchCall", "TorchTimes", "profile"]
