"""An ONNX model against eager PyTorch, output by output; and the first operator that differs."""

from __future__ import annotations

from opbridge.verification.report import OutputReport, Run, Verification, verify, verify_program

__all__ = ["OutputReport", "Run", "Verification", "verify", "verify_program"]
