"""The versions of ONNX's file format."""

from __future__ import annotations

__all__ = ["ir_version"]

# The last opset of each version of ONNX's file format, by the table of versions of the onnx package.
_IR_VERSIONS = {9: 4, 10: 5, 11: 6, 14: 7, 18: 8, 20: 9, 22: 10, 23: 11, 24: 12, 27: 13}


def ir_version(opset: int, *, functions: bool = False) -> int:
    """The oldest ONNX file format that an opset is part of, so that the file loads wherever the opset does.

    A file can hold functions since version 8.
    """
    version = next((version for last, version in _IR_VERSIONS.items() if opset <= last), 14)
    return max(version, 8) if functions else version
