"""The last stage: an ONNX model against eager PyTorch, output by output; and the first operator that differs.

In: a Program, or a file with the PyTorch model that it was made from, and example inputs.
Out: a Verification.
May import: runtimes, plan, capture, and what these stand on.

(Not called `verify`: a folder of that name would take the place of the function `opbridge.verify`.)
"""

from __future__ import annotations

from opbridge.verification.entry_points import verify, verify_program
from opbridge.verification.report import OutputReport, Run, Verification

__all__ = ["OutputReport", "Run", "Verification", "verify", "verify_program"]
